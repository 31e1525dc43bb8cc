//! Devices that take the packets of some users and control groups only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hermes_lab::topology::{Namespace, Topology};
use hermes_tests::eventually::eventually_true;

use super::packets::{alice, edge, networks, start};

/// A user without rights, who may send echoes all the same.
const STRANGER: &str = "1";

/// What is asked for an echo.
const SERVER: &str = "10.0.2.2";

fn echo(from: &Namespace, by: &[&str]) -> bool {
    let ping = ["ping", "-c", "1", "-W", "1", SERVER];
    from.run(&[by, &ping].concat()).is_ok()
}

/// Runs what follows as that user.
fn as_stranger() -> [&'static str; 6] {
    [
        "setpriv",
        "--reuid",
        STRANGER,
        "--regid",
        STRANGER,
        "--clear-groups",
    ]
}

/// The networks, where users may send echoes.
fn with_echoes_for_all() -> Topology {
    let topology = networks();
    let network = topology.namespace("alice").unwrap();
    let all = "net.ipv4.ping_group_range=0 2147483647";
    network.run(&["sysctl", "-w", all]).unwrap();
    topology
}

#[test]
fn a_device_takes_the_packets_of_some_users_only() {
    let topology = with_echoes_for_all();
    let _edge = start(&topology, "edge", &edge(""));
    let device = |senders: &str| alice(&format!("{senders},"), "http: 2");
    let node = start(&topology, "alice", &device("only: { users: [1-99] }"));
    let network = topology.namespace("alice").unwrap();

    eventually_true("the stranger's packets cross", || {
        echo(network, &as_stranger())
    });
    assert!(!echo(network, &[]), "those of root have no way");
    let way = network.run(&["ip", "route", "get", SERVER, "uid", STRANGER]);
    assert!(way.unwrap().contains("dev hermes0"));

    // By name, and the other way around.
    let (status, said) = node.reload(&device("except: { users: daemon }"));
    assert_eq!(status, 200, "{said:#}");
    eventually_true("root's packets cross", || echo(network, &[]));
    assert!(!echo(network, &as_stranger()), "the stranger's have no way");
}

#[test]
fn a_user_whom_the_machine_does_not_know_keeps_a_device_from_being_made() {
    let topology = networks();
    let yaml = alice("only: { users: no-such-user },", "http: 2");
    let node = start(&topology, "alice", &yaml);

    eventually_true("it is said why", || {
        node.log()
            .contains("this machine has no user `no-such-user`")
    });
    let network = topology.namespace("alice").unwrap();
    let links = network.run(&["ip", "-o", "link"]).unwrap();
    assert!(!links.contains("hermes0"), "{links}");
}

/// Control groups (cgroup v2), mounted for one test.
struct Hierarchy {
    mounted: tempfile::TempDir,
    groups: Vec<PathBuf>,
}

impl Hierarchy {
    fn mount() -> Self {
        let mounted = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "cgroup2", "none"]).arg(mounted.path());
        assert!(mount.status().unwrap().success());
        Self {
            mounted,
            groups: Vec::new(),
        }
    }

    /// A new group, within another one or at the top.
    fn add(&mut self, within: Option<&Path>, name: &str) -> PathBuf {
        let name = format!("hermes-test-{}-{name}", std::process::id());
        let group = within.unwrap_or(self.mounted.path()).join(name);
        fs::create_dir(&group).unwrap();
        self.groups.push(group.clone());
        group
    }
}

impl Drop for Hierarchy {
    fn drop(&mut self) {
        for group in self.groups.iter().rev() {
            let _ = fs::remove_dir(group);
        }
        let mut unmount = Command::new("umount");
        let _ = unmount.arg(self.mounted.path()).status();
    }
}

/// Whether an echo comes back that is asked for in a group.
fn echo_in(from: &Namespace, group: &Path) -> bool {
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", group.display());
    echo(from, &["sh", "-c", &enter, "sh"])
}

#[test]
fn a_device_takes_the_packets_of_some_control_groups_only() {
    let mut hierarchy = Hierarchy::mount();
    let taken = hierarchy.add(None, "taken");
    let within = hierarchy.add(Some(&taken), "within");
    let passing = hierarchy.add(Some(&taken), "passing");
    let other = hierarchy.add(None, "other");

    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let senders = format!(
        "only: {{ cgroups: {} }}, except: {{ cgroups: [{}] }},",
        taken.display(),
        passing.display()
    );
    let node = start(&topology, "alice", &alice(&senders, "http: 2"));
    let network = topology.namespace("alice").unwrap();

    eventually_true("packets of the group cross", || echo_in(network, &taken));
    assert!(echo_in(network, &within), "and those of one within it");
    assert!(!echo_in(network, &passing), "but for one that is excepted");
    assert!(!echo_in(network, &other), "those of another have no way");
    assert!(!echo(network, &[]), "nor have others");

    // The program that marks goes with the node.
    drop(node);
    assert!(!echo_in(network, &taken));
    let neighbour = format!(
        "echo $$ > {}/cgroup.procs; ping -c 1 -W 1 10.0.1.2",
        taken.display()
    );
    network.run(&["sh", "-c", &neighbour]).unwrap();
}
