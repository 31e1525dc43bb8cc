//! Pings that a node without rights forwards, and what errors of ICMP say about connections and datagrams that a client sends as packets.

use std::io::Read;
use std::net::{TcpStream, UdpSocket};

use hermes_lab::topology::Topology;
use hermes_tests::Node;
use hermes_tests::eventually::{eventually, eventually_true};

use super::intercept::{PATIENCE, SERVER, interceptor, start_without_rights};
use super::packets::{edge, networks, start};
use super::within;

/// Alice's machine, with a device that leads to the server.
const ALICE: &str = "
    identity: { user: alice }
    listeners: { vpn: { tun: { name: hermes0, routes: [10.0.2.0/24, \"fd02::/64\"] } } }
    routes: [ { match: { kind: connect-ip }, to: edge } ]
    upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
";

fn run(topology: &Topology, name: &str, words: &[&str]) -> String {
    topology.namespace(name).unwrap().run(words).unwrap()
}

/// The server has an address of IPv6, too.
fn with_ipv6() -> Topology {
    let topology = networks();
    for (name, address) in [("edge", "fd02::1/64"), ("server", "fd02::2/64")] {
        let links = run(&topology, name, &["ip", "-o", "route", "get", SERVER]);
        let words: Vec<&str> = links.split_whitespace().collect();
        let device = words.iter().position(|word| *word == "dev").unwrap();
        let link = match name {
            "server" => server_link(&topology),
            _ => words[device + 1].to_owned(),
        };
        let add = ["ip", "addr", "add", address, "dev", &link, "nodad"];
        run(&topology, name, &add);
    }
    topology
}

fn server_link(topology: &Topology) -> String {
    let said = run(
        topology,
        "server",
        &["ip", "-o", "route", "get", "10.0.2.1"],
    );
    let mut words = said.split_whitespace().skip_while(|word| *word != "dev");
    words.nth(1).unwrap().to_owned()
}

/// Who may have sockets of ICMP at the edge: in a new namespace, no one.
fn allow_echoes(topology: &Topology) {
    let range = "net.ipv4.ping_group_range=0 0";
    run(topology, "edge", &["sysctl", "-q", "-w", range]);
}

fn forwarding() -> String {
    interceptor(", echo: forward")
        .replace(
            "allow: [10.0.2.0/24]",
            "allow: [10.0.2.0/24, \"fd02::/64\"], deny: [10.0.2.66/32]",
        )
        .replace(
            "routes: [10.0.2.0/24,",
            "routes: [10.0.2.0/24, \"fd02::/64\",",
        )
}

fn has_address(topology: &Topology) {
    eventually("Alice's device has an address", || {
        let alice = topology.namespace("alice").unwrap();
        let said = alice.run(&["ip", "-4", "-o", "addr", "show", "dev", "hermes0"]);
        said.ok().filter(|said| said.contains("10.7.0."))
    });
}

#[test]
fn a_ping_is_answered_by_the_host_that_it_is_for() {
    let topology = with_ipv6();
    allow_echoes(&topology);
    let edge = start_without_rights(&topology, "edge", &forwarding());
    let _alice = start(&topology, "alice", ALICE);
    has_address(&topology);
    let alice = topology.namespace("alice").unwrap();

    // Long and short, one after the other and many at once.
    for host in [SERVER, "fd02::2"] {
        alice.run(&["ping", "-c", "1", "-W", "5", host]).unwrap();
        alice
            .run(&[
                "ping", "-c", "3", "-i", "0.01", "-W", "5", "-s", "1200", host,
            ])
            .unwrap();
    }
    // Each by its ID: `wait -n` passes over one that ended while it was about another.
    let together = format!(
        "for _ in 1 2 3 4; do ping -c 5 -i 0.05 -W 5 {SERVER} & all+=($!); done; \
         for one in ${{all[@]}}; do wait $one || exit 1; done"
    );
    alice.run(&["bash", "-c", &together]).unwrap();

    // Who is not there does not answer, and the edge does not in its place.
    let silent = alice.run(&["ping", "-c", "1", "-W", "1", "10.0.2.99"]);
    assert!(silent.unwrap_err().to_string().contains("100% packet loss"));
    // Of the server's silence, Alice hears.
    let quiet = "net.ipv4.icmp_echo_ignore_all=1";
    run(&topology, "server", &["sysctl", "-q", "-w", quiet]);
    assert!(alice.run(&["ping", "-c", "1", "-W", "1", SERVER]).is_err());

    // What a rule of the edge's machine drops is lost, and the next ones are not.
    run(
        &topology,
        "server",
        &["sysctl", "-q", "-w", "net.ipv4.icmp_echo_ignore_all=0"],
    );
    let tunnel = edge.exchanges()[0]["id"].clone();
    for kind in ["prohibit", "blackhole"] {
        let rule = ["ipproto", "icmp", "to", SERVER, "type", kind];
        run(
            &topology,
            "edge",
            &[&["ip", "rule", "add", "pref", "1"][..], &rule[..]].concat(),
        );
        assert!(
            alice
                .run(&["ping", "-c", "2", "-i", "0.1", "-W", "1", SERVER])
                .is_err()
        );
        run(&topology, "edge", &["ip", "rule", "del", "pref", "1"]);
        eventually_true("an answer again", || {
            alice.run(&["ping", "-c", "1", "-W", "1", SERVER]).is_ok()
        });
        assert_eq!(edge.exchanges()[0]["id"], tunnel, "{kind}");
    }

    // What may not be chosen is said to be prohibited.
    let denied = alice.run(&["ping", "-c", "1", "-W", "5", "10.0.2.66"]);
    let told = denied.unwrap_err().to_string();
    assert!(
        told.contains("filtered") || told.contains("Prohibited"),
        "{told}"
    );
}

#[test]
fn what_is_said_of_a_ping_on_its_way_is_told_to_who_sent_it() {
    let topology = with_ipv6();
    allow_echoes(&topology);
    // Behind the server is nothing, and it says so; to one more host the edge itself sends nothing.
    for (name, route) in [
        ("edge", "10.0.2.128/25 via 10.0.2.2"),
        ("edge", "fd02::8000/113 via fd02::2"),
        ("edge", "prohibit 10.0.2.77"),
        ("server", "unreachable 10.0.2.128/25"),
        ("server", "unreachable fd02::8000/113"),
    ] {
        let mut words = vec!["ip", "route", "add"];
        words.extend(route.split(' '));
        run(&topology, name, &words);
    }
    let _edge = start_without_rights(&topology, "edge", &forwarding());
    let _alice = start(&topology, "alice", ALICE);
    has_address(&topology);
    let alice = topology.namespace("alice").unwrap();
    alice.run(&["ping", "-c", "1", "-W", "5", SERVER]).unwrap();

    for (host, from, what) in [
        ("10.0.2.130", "10.0.2.2", "Destination Host Unreachable"),
        ("fd02::8001", "fd02::2", "Destination unreachable"),
        ("10.0.2.77", "10.0.2.77", "Packet filtered"),
    ] {
        let told = alice
            .run(&["ping", "-c", "1", "-W", "5", host])
            .unwrap_err();
        let told = told.to_string();
        assert!(told.contains(&format!("From {from} ")), "{told}");
        assert!(told.contains(what), "{told}");
        // The next one is answered as if nothing had been.
        alice.run(&["ping", "-c", "1", "-W", "5", SERVER]).unwrap();
    }
}

#[test]
fn pings_leave_from_where_egress_says() {
    let topology = networks();
    allow_echoes(&topology);
    // The edge has a second address; to its first, the server answers nothing.
    let routed = run(&topology, "edge", &["ip", "-o", "route", "get", SERVER]);
    let mut words = routed.split_whitespace().skip_while(|word| *word != "dev");
    let link = words.nth(1).unwrap().to_owned();
    for (name, change) in [
        ("edge", format!("addr add 10.0.2.7/24 dev {link}")),
        ("server", "route add unreachable 10.0.2.1".to_owned()),
    ] {
        let words: Vec<&str> = ["ip"].into_iter().chain(change.split(' ')).collect();
        run(&topology, name, &words);
    }
    let yaml = |from: &str| {
        interceptor(", echo: forward").replace("egress: {", &format!("egress: {{ {from},"))
    };
    let edge = start_without_rights(&topology, "edge", &yaml("local_address: 10.0.2.7"));
    let _alice = start(&topology, "alice", ALICE);
    has_address(&topology);
    let alice = topology.namespace("alice").unwrap();
    let ping = || alice.run(&["ping", "-c", "1", "-W", "2", SERVER]);
    ping().unwrap();

    // An open socket stays as it is; a new tunnel has new ones.
    let restarted = |edge: Node, from: &str| {
        drop(edge);
        let edge = start_without_rights(&topology, "edge", &yaml(from));
        eventually("a tunnel", || {
            let tunnels = edge.exchanges();
            tunnels.into_iter().find(|one| one["kind"] == "connect-ip")
        });
        edge
    };
    let edge = restarted(edge, "interface: lo");
    assert!(ping().is_err(), "the server is not behind `lo`");
    let edge = restarted(edge, "local_address: 10.0.2.99");
    assert!(ping().is_err(), "no address of the edge's");
    eventually_true("the log says why", || {
        edge.log()
            .contains("local address 10.0.2.99: it is not an address of this machine")
    });
    run(
        &topology,
        "edge",
        &["ip", "addr", "add", "10.0.2.99/24", "dev", &link],
    );
    ping().unwrap();
}

#[test]
fn where_no_ping_can_be_sent_that_is_said_and_the_fix_works() {
    let topology = networks();
    let edge = start_without_rights(&topology, "edge", &interceptor(", echo: forward"));
    let _alice = start(&topology, "alice", ALICE);
    has_address(&topology);
    let alice = topology.namespace("alice").unwrap();
    let refused = alice.run(&["ping", "-c", "1", "-W", "5", SERVER]);
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("filtered") || told.contains("Prohibited"),
        "{told}"
    );
    eventually_true("the log says what to do", || {
        edge.log().contains("hermes netcheck --require echo")
    });
    drop(edge);

    // The line that netcheck prints is all that it takes.
    let hermes = hermes_tests::program::path();
    let hermes = hermes.to_str().unwrap();
    let missing =
        topology
            .namespace("edge")
            .unwrap()
            .run(&[hermes, "netcheck", "--require", "echo"]);
    let said = missing.unwrap_err().to_string();
    let fix = said
        .lines()
        .find(|line| line.contains("ping_group_range=\""))
        .unwrap_or_else(|| panic!("{said}"));
    run(&topology, "edge", &["sh", "-c", fix.trim()]);
    run(
        &topology,
        "edge",
        &[hermes, "netcheck", "--require", "echo"],
    );
    let _edge = start_without_rights(&topology, "edge", &interceptor(", echo: forward"));
    eventually_true("a ping is answered", || {
        alice.run(&["ping", "-c", "1", "-W", "2", SERVER]).is_ok()
    });
}

/// Alice's machine, where she may make no device.
const FLOWS: &str = "
    identity: { user: alice }
    log: { access: { file: access.json } }
    listeners:
      office: { tun: { name: office, stack: true } }
      nowhere: { tcp: 127.0.0.1:5001, target: 10.0.2.99:5000 }
      silent: { udp: 127.0.0.1:5353, target: 10.0.2.2:9 }
    routes:
      - { match: { kind: connect-ip }, to: edge }
      - { match: { kind: [connect, connect-udp] }, terminate: { ip: office } }
    upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
";

fn reason(node: &Node, listener: &str) -> String {
    let record = node.record(|record| record["listener"] == listener);
    record["reason"].as_str().unwrap().to_owned()
}

#[test]
fn errors_end_what_leads_nowhere_with_their_reason() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let alice = start_without_rights(&topology, "alice", FLOWS);
    eventually("a tunnel", || {
        let device = alice.status()["devices"][0].clone();
        device["since"].as_str().map(str::to_owned)
    });

    // The edge finds no host with this address, and says so.
    let mut nowhere = within(&topology, "alice", || {
        TcpStream::connect("127.0.0.1:5001").unwrap()
    });
    nowhere.set_read_timeout(Some(PATIENCE)).unwrap();
    let ended = nowhere.read(&mut [0; 1]).unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
    let reason_of_tcp = reason(&alice, "nowhere");
    assert!(
        reason_of_tcp.starts_with("destination_ip_unroutable")
            && reason_of_tcp.contains("the host is unreachable"),
        "{reason_of_tcp}"
    );

    // The server says that no one is on the port.
    let asking = within(&topology, "alice", || {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    });
    asking.send_to(b"?", "127.0.0.1:5353").unwrap();
    let reason_of_udp = reason(&alice, "silent");
    assert!(
        reason_of_udp.contains("the port is unreachable"),
        "{reason_of_udp}"
    );
}
