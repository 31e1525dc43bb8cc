//! Devices with a queue for each worker.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};

use super::packets::{bulk, edge, networks, start};
use super::within;

/// Flows, and datagrams of each: few enough for a device's queue.
const FLOWS: usize = 24;
const DATAGRAMS: u32 = 10;

/// Alice's machine, whose device is as `device` says.
fn alice(device: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, {device} routes: [10.7.0.0/24, 10.0.2.0/24, \"fd07::/64\"] }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], http: 2 }} }}
        "
    )
}

/// How many packets came out of each queue of a node's device.
fn queues(node: &Node) -> Vec<u64> {
    let status = node.status();
    let counts = status["devices"][0]["queues"].as_array().unwrap();
    counts.iter().map(|count| count.as_u64().unwrap()).collect()
}

/// Takes what has come, and checks that the numbers of each flow only grow; says of whom something came.
fn take(socket: &UdpSocket, last: &mut HashMap<SocketAddr, u32>) -> Option<(SocketAddr, [u8; 4])> {
    let mut number = [0; 4];
    let (_, from) = socket.recv_from(&mut number).ok()?;
    let value = u32::from_be_bytes(number);
    let before = last.insert(from, value);
    assert!(
        before.is_none_or(|before| before < value),
        "{from}: {value} after {before:?}"
    );
    Some((from, number))
}

#[test]
fn many_flows_use_several_queues_and_none_is_reordered() {
    let topology = networks();
    let edge = start(&topology, "edge", &edge(""));
    let alice = start(&topology, "alice", &alice(""));
    eventually_true("an echo", || {
        let network = topology.namespace("alice").unwrap();
        network
            .run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"])
            .is_ok()
    });
    assert_eq!([queues(&alice).len(), queues(&edge).len()], [2, 2]);

    let server = within(&topology, "server", || {
        UdpSocket::bind("10.0.2.2:6000").unwrap()
    });
    let senders: Vec<UdpSocket> = within(&topology, "alice", || {
        let open = || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect("10.0.2.2:6000").unwrap();
            socket
        };
        (0..FLOWS).map(|_| open()).collect()
    });
    for socket in senders.iter().chain([&server]) {
        let timeout = Some(Duration::from_millis(500));
        socket.set_read_timeout(timeout).unwrap();
    }

    // Datagrams may be lost on the way; those that come are in order, and so are the answers to them.
    let mut last = HashMap::new();
    let mut answered: Vec<HashMap<SocketAddr, u32>> = vec![HashMap::new(); FLOWS];
    let mut next = 0;
    eventually("something of each flow, and an answer", || {
        for _ in 0..DATAGRAMS {
            next += 1_u32;
            for sender in &senders {
                sender.send(&next.to_be_bytes()).unwrap();
            }
        }
        while let Some((from, number)) = take(&server, &mut last) {
            server.send_to(&number, from).unwrap();
        }
        for (sender, answered) in senders.iter().zip(&mut answered) {
            sender.set_nonblocking(true).unwrap();
            while take(sender, answered).is_some() {}
            sender.set_nonblocking(false).unwrap();
        }
        let all = last.len() == FLOWS && answered.iter().all(|answers| !answers.is_empty());
        all.then_some(())
    });

    for node in [&alice, &edge] {
        let counts = queues(node);
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
    bulk(&topology, "server", "10.0.2.2:5000");
    bulk(&topology, "edge", "[fd07::1]:5000");
}

#[test]
fn a_device_has_no_more_queues_than_it_is_to_have() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let one = start(&topology, "alice", &alice("queues: 1,"));
    eventually_true("an echo", || {
        let network = topology.namespace("alice").unwrap();
        network
            .run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"])
            .is_ok()
    });
    bulk(&topology, "server", "10.0.2.2:5000");
    assert_eq!(queues(&one).len(), 1);

    // Other queues make another device, and more than there are workers are not used.
    let (status, said) = one.reload(&alice("queues: 200,"));
    assert_eq!(status, 200, "{said:#}");
    eventually_true("the device is made anew", || queues(&one).len() == 2);
    eventually_true("an echo", || {
        let network = topology.namespace("alice").unwrap();
        network
            .run(&["ping", "-c", "1", "-W", "1", "10.0.2.2"])
            .is_ok()
    });
}
