//! `hermes exec --capture` without any right, and a pod's network that a node enters.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use hermes_lab::topology::Topology;
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, program};
use tempfile::TempDir;

use super::intercept::{SERVER, names, web};
use super::packets::{networks, start};
use super::{Running, command};

/// Makes a device file that every user may open, as most machines have, and becomes a user without any right.
/// Some programs run only for users that the machine knows: a file beside says who there is.
const ROOTLESS: &str = "mknod \"$0\" c 10 200 2>/dev/null; chmod 666 \"$0\" && mount --bind \"$0\" /dev/net/tun && \
                        { [ ! -e \"$0.passwd\" ] || mount --bind \"$0.passwd\" /etc/passwd; } && \
                        exec setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps=-all \"$@\"";

/// Connects to a host and a port by each of two ways of asking, and prints the number of the error, `open`, or `silent`.
const KNOCK: &str = "
import socket, sys
def knock(host, port):
    try:
        socket.create_connection((host, port), 2).close()
        return 'open'
    except TimeoutError:
        return 'silent'
    except OSError as error:
        return str(error.errno)
print(' '.join(knock(host, int(port)) for host, port in (at.rsplit(':', 1) for at in sys.argv[1:])))
";

/// A folder that every user can look into, with the program and the socket of a node.
pub(super) struct Place {
    pub(super) folder: TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        std::fs::copy(program::path(), folder.path().join("hermes")).unwrap();
        Self { folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("programs.sock")
    }

    /// A program of user 1000 in this namespace.
    fn rootless(&self, topology: &Topology, namespace: &str, words: &[&str]) -> Command {
        let mut command = command(topology, namespace, "unshare");
        command.args(["--mount", "--", "sh", "-c", ROOTLESS]);
        command.arg(self.folder.path().join("tun"));
        command.args(words);
        command
    }

    /// The same, captured.
    fn captured(&self, topology: &Topology, words: &[&str]) -> Command {
        self.captured_at(topology, "alice", words)
    }

    /// The same in this namespace.
    pub(super) fn captured_at(
        &self,
        topology: &Topology,
        namespace: &str,
        words: &[&str],
    ) -> Command {
        let hermes = self.folder.path().join("hermes");
        let hermes = hermes.to_str().unwrap();
        let mut all = vec![hermes, "exec", "--capture", "--socket"];
        let socket = self.socket();
        all.extend([socket.to_str().unwrap(), "--"]);
        all.extend(words);
        self.rootless(topology, namespace, &all)
    }

    /// The traffic of programs that ask at the socket of this place.
    pub(super) fn capture(&self) -> String {
        format!("exec: {}, users: [1000]", self.socket().display())
    }

    /// Has programs find themselves known as users of this machine.
    pub(super) fn know_users(&self) {
        let users = "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/tmp:/bin/sh\n";
        std::fs::write(self.folder.path().join("tun.passwd"), users).unwrap();
    }

    pub(super) fn run(&self, topology: &Topology, words: &[&str]) -> Output {
        self.captured(topology, words).output().unwrap()
    }
}

pub(super) fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&both).trim().to_owned()
}

/// Alice's node: it captures her programs, and another node has the network that they want to reach.
pub(super) fn alice(place: &Place) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ programs: {{ capture: {{ exec: {}, users: [1000] }}, user: alice }} }}
        log: {{ access: {{ file: access.json }} }}
        routes:
          - {{ match: {{ target: video.hermes }}, to: edge }}
          - {{ match: {{ kind: [connect, connect-udp] }}, to: edge }}
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], http: 2 }} }}
        ",
        place.socket().display()
    )
}

pub(super) const EDGE: &str = "
    listeners: { overlay: { http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] } }
    egress: { allow: [10.0.2.0/24, 10.0.3.0/24] }
    policy:
      default: allow
      rules: [ { name: no-gopher, match: { port: 70 }, deny: true } ]
    upstreams: { video: { endpoints: [10.0.2.2:8000] } }
    routes:
      - { match: { target: video.hermes }, terminate: video }
      - { match: { kind: [connect, connect-udp] }, terminate: true }
";

/// Programs that every user may run; those of `HERMES_PYTHON` and `HERMES_CURL` may lie in the home of another one.
const PYTHON: &str = "/usr/bin/python3";
const CURL: &str = "curl";

#[test]
fn programs_of_a_user_without_rights_reach_hosts_and_names_of_the_overlay() {
    let topology = networks();
    let place = Place::new();
    let _web = web(&topology, place.folder.path());
    let _names = names(&topology);
    let _edge = start(&topology, "edge", EDGE);
    let node = start(&topology, "alice", &alice(&place));

    // A host by its address, and a name that no name server knows.
    let page = eventually("the page", || {
        let url = format!("http://{SERVER}:8000/hello");
        let page = place.run(&topology, &[CURL, "-sf", "-m", "10", &url]);
        page.status.success().then(|| said(&page))
    });
    assert_eq!(page, "hello from the other side");
    let url = "http://video.hermes:8000/hello";
    let page = place.run(&topology, &[CURL, "-sS", "-m", "10", url]);
    assert_eq!(said(&page), "hello from the other side");
    let record = node.record(|record| record["target"] == "10.0.2.2:8000");
    assert_eq!(record["source"], "unix:uid=1000", "{record:#}");
    assert_eq!(record["user"], "alice", "{record:#}");

    // Datagrams: a question to the server of names of the other network.
    let question = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); s.connect(('10.0.2.2', 53))
s.send(bytes.fromhex('12340100000100000000000005766964656f076578616d706c650000010001'))
print(s.recv(512)[-4:].hex())";
    let answer = eventually("an answer", || {
        let answer = place.run(&topology, &[PYTHON, "-c", question]);
        answer.status.success().then(|| said(&answer))
    });
    assert_eq!(answer, "c0000207");

    // It is the program itself: its exit code, its user, and pings without root.
    let seen = place.run(
        &topology,
        &["sh", "-c", "id -u; ping -c1 -W5 10.0.2.2 >&2; exit 7"],
    );
    assert_eq!(seen.status.code(), Some(7), "{}", said(&seen));
    assert!(said(&seen).starts_with("1000"), "{}", said(&seen));
    assert!(said(&seen).contains("1 received"), "{}", said(&seen));

    // Nothing is left once they have ended.
    eventually_true("no captured program", || {
        node.status().get("captures").is_none()
    });
}

#[test]
fn refusals_look_through_four_proxies_as_they_look_directly() {
    let topology = networks();
    let place = Place::new();
    let _web = web(&topology, place.folder.path());
    let edge = topology.namespace("edge").unwrap();
    // A network in which no one answers, and one to which no route leads.
    for words in [
        "ip link add hole type veth peer name bottom",
        "ip link set bottom up",
        "ip link set hole up arp off",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        edge.run(&words).unwrap();
    }
    edge.run(&["ip", "route", "add", "10.0.3.0/25", "dev", "hole"])
        .unwrap();
    edge.run(&["ip", "route", "add", "unreachable", "10.0.3.128/25"])
        .unwrap();

    let hop = |number: u16, http: &str| {
        format!(
            "
            listeners: {{ overlay: {{ http: 10.0.1.2:{number}, public: true, insecure_trust: [10.0.1.0/24] }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: [10.0.1.2:{}], http: {http} }} }}
            ",
            number + 1
        )
    };
    let last = EDGE.replace("8443", "8446");
    // Each has a name of its own: a proxy that is passed twice is a loop.
    let at_edge = |name, yaml: &str| {
        let hermes = program::path();
        let command = command(&topology, "edge", hermes.to_str().unwrap());
        Node::start_by(command, name, yaml)
    };
    let _nodes = [
        at_edge("fourth", &last),
        at_edge("third", &hop(8445, "1")),
        at_edge("second", &hop(8444, "2")),
        at_edge("first", &hop(8443, "1")),
    ];
    let yaml = format!(
        "{}\n        defaults: {{ timeouts: {{ connect: 30s }} }}",
        alice(&place)
    );
    let _node = start(&topology, "alice", &yaml);

    let targets = [
        "10.0.2.2:8000",
        "10.0.2.2:9",
        "10.0.3.200:80",
        "10.0.3.1:80",
    ];
    let mut words = vec![PYTHON, "-c", KNOCK];
    words.extend(targets);
    let direct = edge.run(&words).unwrap();
    assert_eq!(direct.trim(), "open 111 113 silent", "as it is directly");
    eventually("a way by four proxies", || {
        let page = [PYTHON, "-c", KNOCK, "10.0.2.2:8000"];
        (said(&place.run(&topology, &page)) == "open").then_some(())
    });
    assert_eq!(said(&place.run(&topology, &words)), direct.trim());
    // What a rule forbids is prohibited by a router on the way, and never open.
    let words = [PYTHON, "-c", KNOCK, "10.0.2.2:70"];
    assert_eq!(said(&place.run(&topology, &words)), "113");
}

#[test]
fn a_captured_program_reaches_neither_this_machine_nor_its_links_and_floods_cost_a_bounded_amount()
{
    let topology = networks();
    let place = Place::new();
    let _web = web(&topology, place.folder.path());
    let _edge = start(&topology, "edge", EDGE);
    // Refusals by the thousand are not to be written down.
    let yaml = alice(&place).replace("log: { access: { file: access.json } }", "");
    let node = start(&topology, "alice", &yaml);
    let alice = topology.namespace("alice").unwrap();
    let _own = Running(
        alice
            .command(PYTHON)
            .args(["-m", "http.server", "8000", "--bind", "0.0.0.0"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    eventually("the machine's own server", || {
        let seen = alice.run(&[PYTHON, "-c", KNOCK, "127.0.0.1:8000"]);
        seen.ok().filter(|seen| seen.trim() == "open")
    });
    // Of its own network, nothing listens on loopback; the machine's is not there.
    let targets = [
        "127.0.0.1:8000",
        "169.254.169.254:80",
        "::ffff:127.0.0.1:8000",
    ];
    let mut words = vec![PYTHON, "-c", KNOCK];
    words.extend(targets);
    assert_eq!(said(&place.run(&topology, &words)), "111 113 111");

    // Ten thousand first segments at once, to hosts that never answer.
    let before = node.peak();
    let flood = "import socket, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for number in range(10000):
    s = socket.socket(); s.setblocking(False)
    try: s.connect(('10.0.2.%d' % (3 + number % 200), 1000 + number % 60000))
    except BlockingIOError: held.append(s)
    except OSError: pass
    if len(held) >= 900: held.pop(0).close()
print('flooded')";
    let flooded = place.run(&topology, &[PYTHON, "-c", flood]);
    assert_eq!(said(&flooded), "flooded");
    let grown = node.peak().saturating_sub(before);
    assert!(grown < 128 << 20, "{grown} bytes more");
    eventually_true("no captured program", || {
        node.status().get("captures").is_none()
    });
    let words = [PYTHON, "-c", KNOCK, "10.0.2.2:8000"];
    eventually("the bystander", || {
        (said(&place.run(&topology, &words)) == "open").then_some(())
    });
}

#[test]
fn strangers_are_told_apart_by_the_kernel_and_descriptors_by_their_kind() {
    let topology = networks();
    let place = Place::new();
    let node = start(&topology, "alice", &alice(&place));

    // Another user.
    let yaml = alice(&place).replace("users: [1000]", "users: [1001]");
    assert_eq!(node.reload(&yaml).0, 200);
    let refused = place.run(&topology, &["true"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    assert!(
        said(&refused).contains("captures no programs of user 1000"),
        "{}",
        said(&refused)
    );
    assert!(said(&refused).contains("`users`"), "{}", said(&refused));
    assert_eq!(node.reload(&alice(&place)).0, 200);

    // A program that gives a file, nothing, several descriptors, or waits.
    let gives = |what: &str| {
        let socket = place.socket();
        let code = format!(
            "import socket, os, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect({:?})
s.recv(1000)
{what}
print(s.recv(1000).decode())",
            socket.display().to_string()
        );
        let output = place.rootless(&topology, "alice", &[PYTHON, "-c", &code]);
        said(&{ output }.output().unwrap())
    };
    let file = gives("socket.send_fds(s, [b'\\n'], [os.open('/dev/null', os.O_RDWR)])");
    assert!(file.contains("no TUN device"), "{file}");
    let fresh = gives("socket.send_fds(s, [b'\\n'], [os.open('/dev/net/tun', os.O_RDWR)])");
    assert!(fresh.contains("no TUN device"), "{fresh}");
    let none = gives("s.send(b'\\n')");
    assert!(none.contains("has not sent one descriptor"), "{none}");
    let many = gives("socket.send_fds(s, [b'\\n'], [0, 1, 2])");
    assert!(many.contains("has not sent one descriptor"), "{many}");
    eventually_true("no captured program", || {
        node.status().get("captures").is_none()
    });
}

#[test]
fn nothing_is_left_and_nothing_leaks_when_either_side_is_killed() {
    let topology = networks();
    let place = Place::new();
    let _web = web(&topology, place.folder.path());
    let _edge = start(&topology, "edge", EDGE);
    let mut node = start(&topology, "alice", &alice(&place));

    // The program is killed: its process has the number of the one that was started.
    let waits = || {
        let mut program = place.captured(&topology, &["sh", "-c", "echo in; exec sleep 1000"]);
        let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
        let mut byte = [0];
        std::io::Read::read_exact(program.stdout.as_mut().unwrap(), &mut byte).unwrap();
        Running(program)
    };
    let captured = waits();
    let seen = node.status()["captures"][0].clone();
    assert_eq!(seen["uid"], 1000, "{seen:#}");
    assert_eq!(seen["pid"], captured.0.id(), "{seen:#}");
    drop(captured);
    eventually_true("no captured program", || {
        node.status().get("captures").is_none()
    });

    // The node is killed: the network of the program leads nowhere then, and not past the overlay.
    let late = format!(
        "import time, socket, sys
print('in', flush=True)
sys.stdin.readline()
exec({KNOCK:?})"
    );
    let words = [PYTHON, "-c", &late, "10.0.2.2:8000"];
    let mut program = place.captured(&topology, &words);
    let mut program = program
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0; 3];
    std::io::Read::read_exact(program.stdout.as_mut().unwrap(), &mut byte).unwrap();
    node.kill();
    std::io::Write::write_all(program.stdin.as_mut().unwrap(), b"\n").unwrap();
    let output = program.wait_with_output().unwrap();
    assert_eq!(said(&output), "101", "the network is unreachable");
}

#[test]
fn a_node_enters_the_network_of_a_pod_and_the_next_one_at_its_path() {
    let mut topology = networks();
    topology.add("pod").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _web = web(&topology, folder.path());
    let _edge = start(&topology, "edge", EDGE);
    // The path of a pod's network: another one has it when the pod has been started again.
    let path = folder.path().join("pod");
    let lead = |to: &str| {
        let next = folder.path().join("next");
        std::os::unix::fs::symlink(to, &next).unwrap();
        std::fs::rename(&next, &path).unwrap();
    };
    lead(&topology.namespace("pod").unwrap().path());

    let yaml = format!(
        "
        identity: {{ user: pod }}
        listeners: {{ pod: {{ capture: {{ network: {} }} }} }}
        log: {{ access: {{ file: access.json }} }}
        routes: [ {{ match: {{ kind: [connect, connect-udp] }}, to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], http: 2 }} }}
        ",
        path.display()
    );
    let node = start(&topology, "alice", &yaml);
    let opens = |topology: &Topology, name: &str| {
        eventually("a connection of the pod", || {
            let pod = topology.namespace(name).unwrap();
            let seen = pod.run(&[PYTHON, "-c", KNOCK, "10.0.2.2:8000"]).ok()?;
            (seen.trim() == "open").then_some(())
        });
    };
    opens(&topology, "pod");
    let record = node.record(|record| record["target"] == "10.0.2.2:8000");
    assert!(
        record["source"]
            .as_str()
            .unwrap()
            .starts_with("198.18.0.1:"),
        "{record:#}"
    );
    let seen = node.status()["captures"][0].clone();
    assert_eq!(seen["network"], path.to_str().unwrap(), "{seen:#}");

    topology.add("again").unwrap();
    lead(&topology.namespace("again").unwrap().path());
    opens(&topology, "again");
}

#[test]
fn a_machine_without_namespaces_or_devices_says_what_it_lacks() {
    let topology = networks();
    let place = Place::new();
    let _node = start(&topology, "alice", &alice(&place));
    let run = |prepare: &str| -> String {
        let mut command = command(&topology, "alice", "unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "--",
            "sh",
            "-c",
            prepare,
        ]);
        command.arg(place.folder.path().join("hermes"));
        command.arg(place.socket());
        said(&command.output().unwrap())
    };
    let program = "exec \"$0\" exec --capture --socket \"$1\" -- true";
    let without_device = run(&format!("mount -t tmpfs none /dev/net && {program}"));
    assert!(without_device.contains("/dev/net/tun"), "{without_device}");
    assert!(without_device.contains("modprobe tun"), "{without_device}");
    let without_spaces = run(&format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && {program}"
    ));
    assert!(
        without_spaces.contains("max_user_namespaces"),
        "{without_spaces}"
    );
}
