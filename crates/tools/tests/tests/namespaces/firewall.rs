//! Rules of the machine that drop what a node sends: it is lost, and its session goes on.

use std::net::UdpSocket;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::udp::Client;
use hermes_tests::{Node, eventually, program};

use super::{command, within};

/// Where the client speaks to its node, and where the service is.
const VOICE: &str = "127.0.0.1:5004";
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

fn passes(client: &Client) -> bool {
    client.send(b"x");
    client.receive_within(Duration::from_millis(100)).is_some()
}

/// Rules whose drops the sender learns of as EACCES, EINVAL and EHOSTUNREACH.
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
            listeners: {{ voice: {{ udp: {VOICE}, target: \"{SERVICE}\" }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [10.0.1.0/24] }}
            "
        ),
    );

    let client = within(&topology, "near", || {
        Client::connect(VOICE.parse().unwrap())
    });
    eventually("an answer", || passes(&client).then_some(()));
    let session = node.exchanges()[0]["id"].clone();
    assert!(!session.is_null());

    let near = topology.namespace("near").unwrap();
    for kind in ["prohibit", "blackhole", "unreachable"] {
        let rule = ["ipproto", "udp", "dport", "7000", "type", kind];
        near.run(&[&["ip", "rule", "add", "pref", "1"][..], &rule[..]].concat())
            .unwrap();
        eventually("nothing passes", || (!passes(&client)).then_some(()));
        for _ in 0..5 {
            client.send(b"lost");
        }
        near.run(&["ip", "rule", "del", "pref", "1"]).unwrap();
        eventually("an answer again", || passes(&client).then_some(()));
        assert_eq!(node.exchanges()[0]["id"], session, "{kind}");
    }
}
