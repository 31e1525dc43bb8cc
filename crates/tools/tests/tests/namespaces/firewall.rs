//! Rules of the machine that drop what a node sends: it is lost, and its session goes on.

use std::net::UdpSocket;
use std::time::Duration;

use hermes_lab::topology::{Namespace, Plug, Topology};
use hermes_tests::eventually::eventually_true;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, eventually, program};
use tempfile::TempDir;

use super::{command, within};

/// Where the client speaks to the node, and where the service is.
const VOICE: &str = "10.0.1.1:5004";
const SERVICE: &str = "10.0.1.2:7000";

fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["near", "far"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("near", "10.0.1.1/24"), plug("far", "10.0.1.2/24"))
        .unwrap();
    topology
}

/// A service that sends back what it gets.
fn serve(topology: &Topology) {
    let service = within(topology, "far", || UdpSocket::bind(SERVICE).unwrap());
    std::thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((length, client)) = service.recv_from(&mut room) {
            drop(service.send_to(&room[..length], client));
        }
    });
}

/// A client in the other network.
fn client(topology: &Topology) -> UdpSocket {
    let socket = within(topology, "far", || UdpSocket::bind("0.0.0.0:0").unwrap());
    socket.connect(VOICE).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    socket
}

fn passes(client: &UdpSocket) -> bool {
    // Where the node's machine refuses what it sends, the client may hear of it.
    drop(client.send(b"x"));
    client.recv(&mut [0; 16]).is_ok()
}

/// Has this machine drop what matches while something is done.
fn dropping(machine: &Namespace, matches: &[&str], kind: &str, done: impl FnOnce()) {
    let rule = [
        &["ip", "rule", "add", "pref", "1"],
        matches,
        &["type", kind],
    ]
    .concat();
    machine.run(&rule).unwrap();
    done();
    machine.run(&["ip", "rule", "del", "pref", "1"]).unwrap();
}

/// Rules whose drops the sender learns of as EACCES, EINVAL and EHOSTUNREACH: of what goes to the service, and of what goes back to the client
/// by the listener's own socket.
#[test]
fn what_a_rule_of_this_machine_drops_ends_no_session() {
    let topology = networks();
    serve(&topology);
    let hermes = program::path();
    let node = Node::start_by(
        command(&topology, "near", hermes.to_str().unwrap()),
        "near",
        &format!(
            "
            listeners: {{ voice: {{ udp: \"{VOICE}\", public: true, target: \"{SERVICE}\" }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [10.0.1.0/24] }}
            "
        ),
    );

    let client = client(&topology);
    eventually("an answer", || passes(&client).then_some(()));
    let session = node.exchanges()[0]["id"].clone();
    assert!(!session.is_null());

    let near = topology.namespace("near").unwrap();
    for way in [["dport", "7000"], ["sport", "5004"]] {
        for kind in ["prohibit", "blackhole", "unreachable"] {
            let matches = [&["ipproto", "udp"], &way[..]].concat();
            dropping(near, &matches, kind, || {
                eventually("nothing passes", || (!passes(&client)).then_some(()));
                for _ in 0..5 {
                    drop(client.send(b"lost"));
                }
            });
            eventually("an answer again", || passes(&client).then_some(()));
            assert_eq!(node.exchanges()[0]["id"], session, "{way:?} {kind}");
        }
    }
    let dropped = |line: &&str| line.starts_with("hermes_datagrams_dropped_total{");
    let metrics = node.metrics();
    let counted = metrics
        .lines()
        .filter(dropped)
        .find(|line| line.contains("send_failed"));
    let count = counted.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(count.is_some_and(|count| count >= 15.0), "{metrics}");
}

/// The key of a node in custody, which is made there.
fn key(folder: &TempDir) -> String {
    let file = folder.path().join("key");
    let said = program::run(&["custody-key", file.to_str().unwrap()]);
    said.stdout.trim().to_owned()
}

/// A link that this machine does not let anything out to, as one that is down: what waits in custody arrives once it is there again, and meanwhile
/// an operator reads why.
#[test]
fn what_a_rule_of_this_machine_drops_waits_in_custody() {
    let topology = networks();
    let folders: [TempDir; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let keys = folders.each_ref().map(key);
    let [first, second] = folders;
    let hermes = program::path();
    let by = |name: &str| command(&topology, name, hermes.to_str().unwrap());
    let yaml = format!(
        "
        defaults: {{ custody: {{ key_file: key, neighbours: {{ near: {{ key: \"{}\" }} }} }} }}
        listeners: {{ hops: {{ udp: \"10.0.1.2:4500\", ingress: custody, public: true }} }}
        routes: [ {{ respond: {{ status: 204 }} }} ]
        ",
        keys[0]
    );
    let _far = Node::start_in_by(second, by("far"), "far", &yaml);
    let yaml = format!(
        "
        defaults: {{ custody: {{ key_file: key, neighbours: {{ far: {{ key: \"{}\", address: \"10.0.1.2:4500\" }} }} }} }}
        listeners: {{ web: {{ http: 127.0.0.1:8080 }} }}
        routes: [ {{ to: far, retry: {{ custody: true }} }} ]
        upstreams: {{ far: {{ endpoints: [\"127.0.0.1:9\"] }} }}
        ",
        keys[1]
    );
    let node = Node::start_in_by(first, by("near"), "near", &yaml);
    let ask = || {
        within(&topology, "near", || {
            let mut raw = Raw::connect("127.0.0.1:8080".parse().unwrap());
            raw.send("GET http://any/ HTTP/1.1\r\nHost: any\r\n\r\n");
            raw
        })
    };
    assert_eq!(ask().head().status(), 204);

    let near = topology.namespace("near").unwrap();
    for kind in ["prohibit", "blackhole"] {
        let mut waiting = None;
        dropping(near, &["ipproto", "udp", "dport", "4500"], kind, || {
            waiting = Some(ask());
            eventually_true("it is said why", || {
                let shown = node.status()["custody"][0].clone();
                let reason = shown["reason"].as_str().unwrap_or_default();
                shown["state"] == "silent" && reason.contains("this machine cannot send there")
            });
        });
        assert_eq!(waiting.unwrap().head().status(), 204, "{kind}");
        assert_eq!(node.status()["custody"][0]["state"], "up");
    }
}
