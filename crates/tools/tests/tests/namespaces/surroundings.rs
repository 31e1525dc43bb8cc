//! What packets of a tunnel do not reach although the kernel where it ends would take them there.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::ip_packets::{ICMP, UDP, assigned, datagram, icmp, packet_to};

use super::hostile_packets::{received, tunnel};
use super::packets::{edge, networks, start};
use super::within;

/// The addresses of the machine where tunnels end: of the device, of a network behind it, and one for the public.
const OWN: [Ipv4Addr; 3] = [
    Ipv4Addr::new(10, 7, 0, 1),
    Ipv4Addr::new(10, 0, 2, 1),
    Ipv4Addr::new(198, 51, 100, 7),
];

/// Where the host behind it is.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// What ends tunnels, of which clients may reach everything, and these addresses of the machine.
fn open(allowed: &str) -> String {
    edge("")
        .replace(", routes: [10.7.0.0/24, 10.0.2.0/24, \"fd07::/64\"]", "")
        .replace("10.7.0.1/32, \"fd07::1/128\"", allowed)
}

fn run(topology: &Topology, name: &str, words: &str) {
    let words: Vec<&str> = words.split(' ').collect();
    topology.namespace(name).unwrap().run(&words).unwrap();
}

fn listening(topology: &Topology, name: &str, address: &str) -> UdpSocket {
    let socket = within(topology, name, || UdpSocket::bind(address).unwrap());
    let patience = Some(Duration::from_secs(15));
    socket.set_read_timeout(patience).unwrap();
    socket
}

fn send(tunnel: &mut UdpTunnel, ends: [Ipv4Addr; 2], payload: &[u8]) {
    tunnel.send(packet_to(ends, UDP, 0, &datagram(payload)));
}

/// The packets of IPv4 that a tunnel brings, up to one that `is_it`.
fn await_packet(tunnel: &mut UdpTunnel, what: &str, is_it: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    eventually(what, || {
        let packet = tunnel.receive();
        is_it(&packet).then_some(packet)
    })
}

#[test]
fn no_packet_reaches_the_machine_itself_unless_egress_opens_its_address_alone() {
    let topology = networks();
    run(&topology, "edge", "ip addr add 198.51.100.7/32 dev lo");
    let node = start(&topology, "edge", &open("10.0.0.0/8"));
    let mut tunnel = tunnel(&topology, "alice");
    let own = assigned(&mut tunnel)[0].1;
    let host = listening(&topology, "server", "10.0.2.2:6000");
    let ends = listening(&topology, "edge", "0.0.0.0:6000");
    run(&topology, "edge", "sysctl -qw net.ipv4.ip_forward=1");

    // Broadcasts of the networks of the machine are delivered to it, too.
    for to in [OWN.as_slice(), &[Ipv4Addr::new(10, 0, 2, 255)]].concat() {
        send(&mut tunnel, [own, to], b"forbidden");
    }
    // Packets of a tunnel stay in order.
    send(&mut tunnel, [own, HOST], b"through");
    assert_eq!(received(&host).0, b"through");
    ends.set_nonblocking(true).unwrap();
    let nothing = ends.recv(&mut [0; 100]).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
    ends.set_nonblocking(false).unwrap();

    // Its device answers echoes, and what the machine itself opens is answered.
    tunnel.send(packet_to(
        [own, OWN[0]],
        ICMP,
        0,
        &icmp([8, 0], 7, b"there?"),
    ));
    await_packet(&mut tunnel, "an echo", |packet| {
        packet[9] == ICMP && packet[20] == 0
    });
    ends.send_to(b"question", (own, 5000)).unwrap();
    await_packet(&mut tunnel, "a question", |packet| {
        packet.ends_with(b"question")
    });
    send(&mut tunnel, [own, OWN[0]], b"answer");
    assert_eq!(received(&ends).0, b"answer");

    // One address alone is opened, and none else.
    let (status, said) = node.reload(&open("10.7.0.1/32"));
    assert_eq!(status, 200, "{said}");
    let asking = listening(&topology, "edge", "10.7.0.1:6001");
    let question = |port: u16| {
        let mut datagram = datagram(b"opened");
        datagram[2..4].copy_from_slice(&port.to_be_bytes());
        datagram
    };
    eventually_true("the address is open", || {
        tunnel.send(packet_to([own, OWN[0]], UDP, 0, &question(6001)));
        asking
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        asking.recv(&mut [0; 100]).is_ok()
    });
    send(&mut tunnel, [own, OWN[2]], b"forbidden");
    send(&mut tunnel, [own, OWN[0]], b"last");
    assert_eq!(received(&ends).0, b"last");
}

#[test]
fn clients_of_two_devices_do_not_reach_each_other() {
    let topology = networks();
    run(&topology, "edge", "sysctl -qw net.ipv4.ip_forward=1");
    let both = |client_to_client: bool| {
        format!(
            "
            listeners: {{ overlay: {{ http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] }} }}
            routes:
              - match: {{ kind: connect-ip, user: alice }}
                terminate: {{ tun: hermes1, pool: 10.7.0.0/24, client_to_client: {client_to_client} }}
              - match: {{ kind: connect-ip, user: bob }}
                terminate: {{ tun: hermes2, pool: 10.8.0.0/24, client_to_client: {client_to_client} }}
            "
        )
    };
    for is_open in [false, true] {
        let _node = start(&topology, "edge", &both(is_open));
        let mut alice = tunnel(&topology, "alice");
        let mut bob = tunnel(&topology, "bob");
        let at_alice = assigned(&mut alice)[0].1;
        let at_bob = assigned(&mut bob)[0].1;
        let host = listening(&topology, "server", "10.0.2.2:6000");
        run(
            &topology,
            "server",
            "ip route replace 10.8.0.0/24 via 10.0.2.1",
        );

        send(&mut alice, [at_alice, at_bob], b"for bob");
        send(&mut alice, [at_alice, HOST], b"for the host");
        let (payload, from) = received(&host);
        assert_eq!(payload, b"for the host");
        assert_eq!(from.ip(), at_alice);

        // Two flows may overtake each other, so several packets of the second say that the first would have come.
        let mut came = Vec::new();
        for _ in 0..8 {
            host.send_to(b"from the host", (at_bob, 5000)).unwrap();
            came.push(await_packet(&mut bob, "a datagram", |packet| {
                packet[9] == UDP
            }));
        }
        let reached = came.iter().filter(|packet| packet.ends_with(b"for bob"));
        assert_eq!(reached.count(), usize::from(is_open), "{came:?}");
    }
}

#[test]
fn forged_errors_end_no_flow_of_another_and_true_ones_arrive() {
    let topology = networks();
    run(&topology, "edge", "sysctl -qw net.ipv4.ip_forward=1");
    let policy = "
        policy: { default: allow, packets: { default: deny, rules: [ { allow: true, user: alice, protocol: udp }, { allow: true, user: carol } ] } }
    ";
    let yaml = format!("{}{policy}", edge(""));
    let _edge = start(&topology, "edge", &yaml);
    let mut alice = tunnel(&topology, "alice");
    let mut bob = tunnel(&topology, "bob");
    let mut carol = tunnel(&topology, "carol");
    let [at_alice, at_bob, at_carol] =
        [&mut alice, &mut bob, &mut carol].map(|tunnel| assigned(tunnel)[0].1);
    let host = listening(&topology, "server", "10.0.2.2:6000");

    send(&mut alice, [at_alice, HOST], b"hello");
    let (_, from) = received(&host);
    host.connect(from).unwrap();
    host.send(b"answer").unwrap();
    await_packet(&mut alice, "an answer", |packet| {
        packet.ends_with(b"answer")
    });

    // What the host sent to her: from its port 6000 to her port 5000.
    let mut back = datagram(b"answer");
    back[..4].copy_from_slice(&[0x17, 0x70, 0x13, 0x88]);
    let quoted = packet_to([HOST, at_alice], UDP, 0, &back);
    let errors = [[3, 3], [3, 2], [3, 10], [3, 4], [11, 0], [12, 0]];
    for error in errors {
        let forged = icmp(error, 576, &quoted);
        bob.send(packet_to([at_bob, HOST], ICMP, 0, &forged));
        // Of a packet of her own, which the policy denies to Bob.
        let own = packet_to([HOST, at_bob], UDP, 0, &back);
        bob.send(packet_to([at_bob, HOST], ICMP, 0, &icmp(error, 576, &own)));
        carol.send(packet_to([at_carol, HOST], ICMP, 0, &forged));
    }
    // The tunnels have brought all of it when this comes back.
    let ping = packet_to([at_carol, HOST], ICMP, 0, &icmp([8, 0], 9, b"there?"));
    carol.send(&ping);
    await_packet(&mut carol, "an echo", |packet| {
        packet[9] == ICMP && packet[20] == 0
    });
    for _ in 0..3 {
        host.send(b"goes on").unwrap();
        await_packet(&mut alice, "more", |packet| packet.ends_with(b"goes on"));
    }

    // Her own error about what she was sent arrives.
    alice.send(packet_to(
        [at_alice, HOST],
        ICMP,
        0,
        &icmp([3, 3], 0, &quoted),
    ));
    eventually_true("the host hears that no one is there", || {
        host.send(b"?")
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    });

    // And those of the other side arrive: of a port where no one listens.
    drop(host);
    eventually_true("an error", || {
        // The kernel may leave one out: its errors have a rate, which all networks of the machine share.
        send(&mut alice, [at_alice, HOST], b"anyone?");
        let packet = alice.receive_soon();
        packet.is_some_and(|packet| packet[9] == ICMP && packet[20..22] == [3, 3])
    });
}

#[test]
fn one_user_leaves_addresses_to_others_while_it_is_there_and_after() {
    let topology = networks();
    let yaml = edge("").replace(
        "10.7.0.0/24, \"fd07::/64\"], routes",
        "10.7.0.0/26, \"fd07::/64\"], routes",
    );
    let _edge = start(&topology, "edge", &yaml);
    let mut greedy = vec![tunnel(&topology, "mallory")];
    let open = |user: &str| {
        let fields = format!("user: {user}\r\n");
        within(&topology, "alice", || {
            let edge = "10.0.1.2:8443".parse().unwrap();
            UdpTunnel::h1_for(edge, "connect-ip", "/.well-known/masque/ip/*/*/", &fields)
        })
    };
    while let Ok(more) = open("mallory") {
        greedy.push(more);
    }
    // Half of 60: of 64, two are no hosts and two are the node's.
    assert_eq!(greedy.len(), 30);
    let others: Vec<_> = (0..20)
        .map(|n| open(&format!("user{n}")).unwrap())
        .collect();

    // The leases that it keeps are given away where they are needed, but for the last, which waits for it.
    drop(greedy);
    let later = (0..39).map(|n| eventually("an address", || open(&format!("later{n}")).ok()));
    assert_eq!(later.collect::<Vec<_>>().len() + others.len(), 59);
    assert!(open("too_late").is_err());
}
