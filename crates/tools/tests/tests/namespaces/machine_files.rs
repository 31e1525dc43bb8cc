//! Files in which the machine says where names are and which users it has, and which change while a node runs: another network, a VPN, a
//! container whose files are written after its start.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, curl, origins, program};
use tempfile::TempDir;

use super::command;
use super::packets::{alice, edge, networks, start};

/// Files that stand in the place of those of the machine, for one process.
struct MachineFiles(TempDir);

impl MachineFiles {
    fn new(files: &[(&str, &str)]) -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            own.write(name, text);
        }
        own
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes one in its place, so that it stays the file that is mounted.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    /// Has a command, which is to run another one, run the program where these files are in `/etc`.
    fn mounted(&self, mut command: Command, names: &[&str]) -> Command {
        let mounts = names.iter().map(|name| {
            let file = self.at(name);
            format!("mount --bind {} /etc/{name} && ", file.display())
        });
        let script = format!("{}exec \"$@\"", mounts.collect::<String>());
        command.args(["--mount", "bash", "-c", &script, "bash"]);
        command.arg(program::path());
        command
    }
}

/// Without a name server a node starts, and needs no reload to find what the machine knows later: its servers, and collectors as well.
#[test]
fn names_of_origins_and_collectors_are_those_that_the_machine_has_at_the_time() {
    let collector = Node::start(
        "collector",
        "listeners: { web: { http: 127.0.0.1:0, gateway: true } }\nroutes: [ { respond: { status: 200 } } ]\n",
    );
    let origin = origins::http();
    let files = MachineFiles::new(&[("hosts", ""), ("resolv.conf", "")]);
    let node = Node::start_by(
        files.mounted(Command::new("unshare"), &["hosts", "resolv.conf"]),
        "edge",
        &format!(
            "
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: [\"origin.test:{}\"] }} }}
            trace: {{ otlp: \"http://collector.test:{}\", sample: 100% }}
            ",
            origin.address().port(),
            collector.address("web").port()
        ),
    );
    let ask = || curl(&["-x", &node.url("web"), "http://a/"]).status;
    assert_eq!(ask(), 502);
    assert_eq!(node.status()["dns"]["servers"], serde_json::json!([]));
    assert!(collector.access().is_empty());

    files.write("hosts", "127.0.0.1 origin.test collector.test\n");
    files.write("resolv.conf", "nameserver 192.0.2.53\n");
    eventually_true("the origin is found", || ask() == 200);
    eventually_true("spans come to the collector", || {
        ask();
        !collector.access().is_empty()
    });
    let servers = serde_json::json!(["192.0.2.53"]);
    assert_eq!(node.status()["dns"]["servers"], servers);
}

/// A user who gets another number, as one of a directory does, is followed by a reload.
#[test]
fn a_reload_sees_the_number_that_a_user_has_now() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let carol =
        |number: u16| format!("root:x:0:0::/:/bin/sh\ncarol:x:{number}:{number}::/:/bin/sh\n");
    let files = MachineFiles::new(&[("passwd", &carol(2001))]);
    let yaml = alice("only: { users: carol },", "http: 2");
    let by = files.mounted(command(&topology, "alice", "unshare"), &["passwd"]);
    let node = Node::start_by(by, "alice", &yaml);
    let network = topology.namespace("alice").unwrap();
    let takes = |number: u16| {
        let rules = network.run(&["ip", "rule"]).unwrap();
        rules.contains(&format!("uidrange {number}-{number}"))
    };
    eventually_true("packets of carol are taken", || takes(2001));

    files.write("passwd", &carol(2002));
    let (status, said) = node.reload(&yaml);
    assert_eq!(status, 200, "{said:#}");
    eventually_true("packets of the new number are taken", || takes(2002));
    assert!(!takes(2001));
}
