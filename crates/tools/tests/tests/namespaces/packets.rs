//! IP packets between two devices: from Alice's machine through two or three nodes, to the last one and to a network behind it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use hermes_lab::topology::{Plug, Topology};
use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::{Node, Pki, program};

use super::{command, within};

/// Alice - edge - server: no route leads from one to the other but the overlay.
pub(super) fn networks() -> Topology {
    let mut topology = Topology::new();
    for name in ["alice", "edge", "server"] {
        topology.add(name).unwrap();
    }
    let plug = |namespace, address| Plug { namespace, address };
    topology
        .cable(plug("alice", "10.0.1.1/24"), plug("edge", "10.0.1.2/24"))
        .unwrap();
    topology
        .cable(plug("edge", "10.0.2.1/24"), plug("server", "10.0.2.2/24"))
        .unwrap();
    topology.route("server", "10.7.0.0/24", "10.0.2.1").unwrap();
    topology
}

pub(super) fn start(topology: &Topology, name: &'static str, yaml: &str) -> Node {
    let hermes = program::path();
    Node::start_by(
        command(topology, name, hermes.to_str().unwrap()),
        name,
        yaml,
    )
}

/// Starts a node that was killed again.
fn again(topology: &Topology, name: &str, node: &mut Node) {
    let hermes = program::path();
    node.restart_by(command(topology, name, hermes.to_str().unwrap()));
}

/// What ends tunnels at a device, over TLS or without.
pub(super) fn edge(listener: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] {listener} }} }}
        routes:
          - match: {{ kind: connect-ip }}
            terminate: {{ tun: hermes1, pool: [10.7.0.0/24, \"fd07::/64\"], routes: [10.7.0.0/24, 10.0.2.0/24, \"fd07::/64\"] }}
        egress: {{ allow: [10.7.0.1/32, \"fd07::1/128\"] }}
        "
    )
}

const ROUTES: &str = "routes: [10.7.0.0/24, 10.0.2.0/24, \"fd07::/64\"]";

/// Alice's machine: a device, and the next proxy over this version.
pub(super) fn alice(device: &str, upstream: &str) -> String {
    format!(
        "
        identity: {{ user: alice }}
        listeners: {{ vpn: {{ tun: {{ name: hermes0, {device} {ROUTES} }} }} }}
        routes: [ {{ match: {{ kind: connect-ip }}, to: edge }} ]
        upstreams: {{ edge: {{ endpoints: [10.0.1.2:8443], {upstream} }} }}
        "
    )
}

/// Whether an echo comes back.
fn echo(topology: &Topology, from: &str, to: &str) -> bool {
    let from = topology.namespace(from).unwrap();
    from.run(&["ping", "-c", "1", "-W", "1", to]).is_ok()
}

fn reaches(topology: &Topology, from: &str, to: &str) {
    eventually(&format!("an echo of {to}"), || {
        echo(topology, from, to).then_some(())
    });
}

/// Sends bytes over a connection to an echo server in another namespace, and checks what comes back.
pub(super) fn bulk(topology: &Topology, to: &'static str, at: &'static str) {
    bulk_by(topology, to, at, at);
}

/// The same, where Alice reaches the server `at` by another address.
pub(super) fn bulk_by(topology: &Topology, to: &'static str, at: &'static str, by: &'static str) {
    let listening = within(topology, to, || TcpListener::bind(at).unwrap());
    let served = thread::spawn(move || {
        let mut stream = listening.accept().unwrap().0;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(&all).unwrap();
        all.len()
    });

    let mut stream = within(topology, "alice", || TcpStream::connect(by).unwrap());
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    stream.set_write_timeout(patience).unwrap();
    let sent: Vec<u8> = (0..4_000_000_u32).map(|at| (at % 251) as u8).collect();
    stream.write_all(&sent).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == sent, "{} bytes came back", back.len());
    assert_eq!(served.join().unwrap(), sent.len());
}

#[test]
fn packets_cross_between_two_devices_over_either_version_of_streams() {
    for version in [1, 2] {
        let topology = networks();
        let edge = start(&topology, "edge", &edge(""));
        let alice = start(&topology, "alice", &alice("", &format!("http: {version}")));

        // The device at the end, and a server behind it; IPv6 too.
        reaches(&topology, "alice", "10.7.0.1");
        reaches(&topology, "alice", "10.0.2.2");
        reaches(&topology, "alice", "fd07::1");
        bulk(&topology, "edge", "10.7.0.1:5000");
        bulk(&topology, "server", "10.0.2.2:5000");
        bulk(&topology, "edge", "[fd07::1]:5000");

        // The server finds Alice, too.
        let address = own_address(&topology);
        reaches(&topology, "server", &address);

        drop(alice);
        let record = edge.record(|record| record["kind"] == "connect-ip");
        assert_eq!(record["user"], "alice", "{record:#}");
        let left = topology
            .namespace("alice")
            .unwrap()
            .run(&["ip", "-o", "link"]);
        assert!(!left.unwrap().contains("hermes0"));
    }
}

/// The address that Alice's device was assigned.
pub(super) fn own_address(topology: &Topology) -> String {
    let alice = topology.namespace("alice").unwrap();
    let said = alice.run(&["ip", "-4", "-o", "addr", "show", "dev", "hermes0"]);
    let said = said.unwrap();
    let net = said
        .split_whitespace()
        .find(|word| word.starts_with("10.7.0."));
    net.unwrap().split('/').next().unwrap().to_owned()
}

#[test]
fn packets_cross_over_quic_and_those_of_1280_bytes_always_fit() {
    let topology = networks();
    let pki = Pki::new();
    let tls = pki.issue(&["10.0.1.2"]).yaml();
    let _edge = start(&topology, "edge", &edge(&format!(", tls: {{ {tls} }}")));
    let upstream = format!("http: 3, tls: {{ ca_file: {} }}", pki.ca().display());
    let node = start(&topology, "alice", &alice("", &upstream));

    reaches(&topology, "alice", "10.7.0.1");
    bulk(&topology, "edge", "10.7.0.1:5000");
    bulk(&topology, "edge", "[fd07::1]:5000");

    // Whole packets of 1500 bytes do not fit QUIC; those that every link of IPv6 carries do.
    let alice = topology.namespace("alice").unwrap();
    let long = [
        "ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1472", "10.7.0.1",
    ];
    eventually_true("the sender is told what fits", || {
        let told = alice.run(&long).unwrap_err().to_string();
        told.contains("mtu")
    });
    let device = &node.status()["devices"][0];
    let carries = device["carries"].as_u64().unwrap();
    assert!((1280..1500).contains(&carries), "{device:#}");
    let guaranteed = [
        "ping", "-c", "1", "-W", "5", "-M", "do", "-s", "1232", "fd07::1",
    ];
    alice.run(&guaranteed).unwrap();
}

#[test]
fn what_this_node_opens_itself_and_what_is_excluded_pass_by_its_device() {
    let topology = networks();
    topology.route("alice", "10.0.2.0/24", "10.0.1.2").unwrap();
    let edge = edge("").replace("10.0.1.2:8443", "10.0.2.1:8443");
    let _edge = start(&topology, "edge", &edge);

    // The next proxy is on the network that the device leads to, which the machine itself reaches as well.
    let yaml =
        alice("exclude: [10.0.2.128/25],", "http: 2").replace("10.0.1.2:8443", "10.0.2.1:8443");
    let mut alice = start(&topology, "alice", &yaml);
    let network = topology.namespace("alice").unwrap();
    let way = |to: &str| network.run(&["ip", "route", "get", to]).unwrap();
    for again in [false, true] {
        reaches(&topology, "alice", "10.0.2.2");
        assert!(
            way("10.0.2.2").contains("dev hermes0"),
            "{}",
            way("10.0.2.2")
        );
        assert!(
            way("10.0.2.130").contains("via 10.0.1.2"),
            "{}",
            way("10.0.2.130")
        );
        // Longer than the device's: as in one table.
        assert!(!way("10.0.1.2").contains("hermes0"));
        if !again {
            alice.kill();
            assert!(
                way("10.0.2.2").contains("via 10.0.1.2"),
                "it leads nowhere any more"
            );
            self::again(&topology, "alice", &mut alice);
        }
    }

    assert!(alice.stop().success());
    for family in ["-4", "-6"] {
        let rules = network.run(&["ip", family, "rule"]).unwrap();
        assert!(
            !rules.contains("suppress") && !rules.contains("fwmark"),
            "{rules}"
        );
    }
}

#[test]
fn an_address_that_is_asked_for_is_given_and_stays_when_the_node_comes_back() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let asks = "addresses: [10.7.0.77/24],";
    let mut alice = start(&topology, "alice", &alice(asks, "http: 2"));
    reaches(&topology, "alice", "10.7.0.1");
    reaches(&topology, "edge", "10.7.0.77");

    // Killed, it leaves no device behind.
    alice.kill();
    let said = topology
        .namespace("alice")
        .unwrap()
        .run(&["ip", "-o", "link"]);
    assert!(!said.unwrap().contains("hermes0"));
    again(&topology, "alice", &mut alice);
    reaches(&topology, "edge", "10.7.0.77");
}

#[test]
fn who_had_an_address_finds_it_again_after_a_restart_of_the_node_that_gave_it() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leases");
    let yaml = edge("").replace(
        "routes: [10.7",
        &format!("leases_file: {}, routes: [10.7", file.display()),
    );
    let mut edge = start(&topology, "edge", &yaml);
    let asks = start(
        &topology,
        "alice",
        &alice("addresses: [10.7.0.77/24],", "http: 2"),
    );
    reaches(&topology, "edge", "10.7.0.77");
    eventually("the lease in the file", || {
        let leases = std::fs::read_to_string(&file).ok()?;
        leases.contains("10.7.0.77/32").then_some(())
    });

    // Killed, it writes nothing more; and now Alice asks for no address.
    drop(asks);
    edge.kill();
    again(&topology, "edge", &mut edge);
    let _alice = start(&topology, "alice", &alice("", "http: 2"));
    reaches(&topology, "alice", "10.7.0.1");
    assert_eq!(own_address(&topology), "10.7.0.77");
}

#[test]
fn a_tunnel_that_breaks_is_opened_again_and_the_device_stays() {
    let topology = networks();
    let mut edge = start(&topology, "edge", &edge(""));
    let _alice = start(
        &topology,
        "alice",
        &alice("addresses: [10.7.0.77/24],", "http: 2"),
    );
    reaches(&topology, "alice", "10.7.0.1");

    // Killed, it leaves neither its device nor the routes through it.
    let network = topology.namespace("edge").unwrap();
    let owned = network.run(&["ip", "route"]).unwrap();
    assert!(owned.contains("dev hermes1"), "{owned}");
    edge.kill();
    let owned = network.run(&["ip", "route"]).unwrap();
    assert!(!owned.contains("hermes1"), "{owned}");

    let said = topology
        .namespace("alice")
        .unwrap()
        .run(&["ip", "-o", "link"]);
    assert!(said.unwrap().contains("hermes0"));
    again(&topology, "edge", &mut edge);
    reaches(&topology, "alice", "10.7.0.1");
}

#[test]
fn what_has_another_source_than_was_assigned_does_not_pass() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let _alice = start(
        &topology,
        "alice",
        &alice("addresses: [10.7.0.77/24],", "http: 2"),
    );
    reaches(&topology, "alice", "10.7.0.1");

    let ends = within(&topology, "edge", || {
        UdpSocket::bind("10.7.0.1:6000").unwrap()
    });
    ends.set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    // 10.0.1.1 is Alice's too, on another network; the kernel sends from it where it is told to.
    let spoofed = within(&topology, "alice", || {
        UdpSocket::bind("10.0.1.1:0").unwrap()
    });
    let honest = within(&topology, "alice", || {
        UdpSocket::bind("10.7.0.77:0").unwrap()
    });
    spoofed.send_to(b"spoofed", "10.7.0.1:6000").unwrap();
    honest.send_to(b"honest", "10.7.0.1:6000").unwrap();

    let mut room = [0; 16];
    let (length, from) = ends.recv_from(&mut room).unwrap();
    assert_eq!(&room[..length], b"honest");
    assert_eq!(from.ip().to_string(), "10.7.0.77");
}

/// What ends tunnels at a device, with these rules on packets.
fn edge_with(rules: &str) -> String {
    format!(
        "{}policy: {{ default: allow, packets: {{ rules: [ {rules} ] }} }}\n",
        edge("")
    )
}

/// Why a connection cannot be opened.
fn refused(topology: &Topology, from: &str, to: &'static str) -> std::io::ErrorKind {
    let connection = within(topology, from, || {
        TcpStream::connect_timeout(&to.parse().unwrap(), Duration::from_secs(60))
    });
    connection.unwrap_err().kind()
}

#[test]
fn packets_meet_the_rules_in_force_and_who_sends_what_is_forbidden_is_told() {
    let topology = networks();
    let pings = "{ name: pings, allow: true, user: alice, protocol: icmp }";
    let web = "{ name: web, allow: true, to: 10.0.2.0/24, protocol: tcp, port: 5000 }";
    let edge = start(&topology, "edge", &edge_with(&format!("{pings}, {web}")));
    let _alice = start(
        &topology,
        "alice",
        &alice("addresses: [10.7.0.77/24],", "http: 2"),
    );
    reaches(&topology, "alice", "10.0.2.2");
    bulk(&topology, "server", "10.0.2.2:5000");

    // What no rule allows: another port, another host, and what the server opens.
    let told = std::io::ErrorKind::HostUnreachable;
    assert_eq!(refused(&topology, "alice", "10.0.2.2:5001"), told);
    assert_eq!(refused(&topology, "alice", "10.7.0.1:5000"), told);
    assert_eq!(refused(&topology, "server", "10.7.0.77:22"), told);
    let decided = edge.metrics();
    for decision in [
        "rule=\"web\",outcome=\"allow\"",
        "rule=\"pings\",outcome=\"allow\"",
        "rule=\"default\",outcome=\"deny\"",
    ] {
        assert!(decided.contains(decision), "{decision}: {decided}");
    }
    for (what, sender) in [("10.0.2.2:5001", "client"), ("10.7.0.77:22", "target")] {
        let log = edge.log();
        let line = log
            .lines()
            .find(|line| line.contains("packet denied") && line.contains(what))
            .unwrap_or_else(|| panic!("{what}: {log}"));
        let name = line.split("refusal=").nth(1).unwrap();
        let (status, account) = edge.ask("GET", &format!("/why/{name}"), "");
        assert_eq!(status, 200, "{account}");
        let words = format!("the default: tcp from the {sender}, ");
        assert!(
            account.contains(&words) && account.contains(what),
            "{account}"
        );
        assert!(account.contains("policy.packets.default"), "{account}");
    }
    // By the tunnel, too: what was denied last.
    let tunnel = edge.exchanges()[0]["id"].as_str().unwrap().to_owned();
    let (status, account) = edge.ask("GET", &format!("/why/{tunnel}"), "");
    assert!(
        status == 200 && account.contains("10.7.0.77:22"),
        "{account}"
    );

    // The tunnel is open: other rules hold at once, for flows that were judged by the old ones as well.
    let listening = within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:5001").unwrap()
    });
    let other = "{ name: other, allow: true, protocol: tcp, port: \"5001-5009\" }";
    assert_eq!(edge.reload(&edge_with(other)).0, 200);
    eventually_true("pings are forbidden", || {
        !echo(&topology, "alice", "10.0.2.2")
    });
    within(&topology, "alice", || {
        TcpStream::connect("10.0.2.2:5001").unwrap()
    });
    drop(listening);
    assert_eq!(refused(&topology, "alice", "10.0.2.2:5000"), told);
}

#[test]
fn who_sends_to_an_address_that_no_one_has_is_told() {
    let topology = networks();
    let _edge = start(&topology, "edge", &edge(""));
    let _alice = start(
        &topology,
        "alice",
        &alice("addresses: [10.7.0.77/24],", "http: 2"),
    );
    reaches(&topology, "edge", "10.7.0.77");

    let refused = within(&topology, "server", || {
        TcpStream::connect_timeout(&"10.7.0.99:80".parse().unwrap(), Duration::from_secs(60))
    });
    let kind = refused.unwrap_err().kind();
    let unreachable = [
        std::io::ErrorKind::NetworkUnreachable,
        std::io::ErrorKind::HostUnreachable,
    ];
    assert!(unreachable.contains(&kind), "{kind}");
}

#[test]
fn a_device_that_is_taken_away_ends_its_tunnels_and_is_made_again() {
    let topology = networks();
    let edge = start(&topology, "edge", &edge(""));
    let _alice = start(
        &topology,
        "alice",
        &alice("addresses: [10.7.0.77/24],", "http: 2"),
    );
    reaches(&topology, "alice", "10.7.0.1");

    let network = topology.namespace("edge").unwrap();
    network.run(&["ip", "link", "delete", "hermes1"]).unwrap();
    let record = edge.record(|record| record["kind"] == "connect-ip" && record["event"] == "end");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("device"), "{record:#}");
    reaches(&topology, "alice", "10.7.0.1");
}

#[test]
fn a_pool_without_a_free_address_says_so() {
    let topology = networks();
    let small = "
        listeners: { overlay: { http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] } }
        routes: [ { match: { kind: connect-ip }, terminate: { tun: hermes1, pool: 10.7.0.0/29 } } ]
    ";
    let edge = start(&topology, "edge", small);
    let mut tunnels = Vec::new();
    let open = |user: &str| {
        let fields = format!("user: {user}\r\n");
        within(&topology, "alice", || {
            let edge = "10.0.1.2:8443".parse().unwrap();
            let path = "/.well-known/masque/ip/*/*/";
            hermes_tests::capsules::UdpTunnel::h1_for(edge, "connect-ip", path, &fields)
        })
    };
    // The device is made after the listener: the first may come too early.
    tunnels.push(eventually("a tunnel", || open("alice").ok()));
    for user in ["bob", "carol", "dave"] {
        tunnels.push(open(user).unwrap());
    }

    assert_eq!(open("eve").err().map(|head| head.status()), Some(503));
    let record = edge.record(|record| {
        record["reason"]
            .as_str()
            .is_some_and(|said| said.contains("address is free"))
    });
    assert_eq!(record["status"], 503, "{record:#}");

    // Those that end make room, and the same client gets the address that it had.
    tunnels.pop();
    eventually("another tunnel", || open("dave").ok());
}

/// A server of names in this namespace, where `/etc/resolv.conf` says that one is; it knows `server.example`.
fn names(topology: &Topology, namespace: &str) -> Child {
    let configured = std::fs::read_to_string("/etc/resolv.conf").unwrap();
    let server = configured
        .lines()
        .find_map(|line| line.strip_prefix("nameserver "))
        .unwrap()
        .trim();
    let network = topology.namespace(namespace).unwrap();
    if !server.starts_with("127.") {
        network
            .run(&["ip", "address", "add", server, "dev", "lo"])
            .unwrap();
    }

    let dnsmasq = std::env::var("HERMES_DNSMASQ")
        .expect("HERMES_DNSMASQ names dnsmasq: ./test system sets it");
    let listen = format!("--listen-address={server}");
    let options = [
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--no-resolv",
        "--no-hosts",
        "--pid-file=",
        "--bind-interfaces",
        "--user=root",
        "--address=/server.example/10.0.2.2",
        &listen,
    ];
    network
        .command(dnsmasq)
        .args(options)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_tunnel_for_a_name_is_one_for_its_addresses() {
    let topology = networks();
    let mut names = names(&topology, "edge");
    let edge = start(&topology, "edge", &edge(""));
    let open = |name: &str| {
        let path = format!("/.well-known/masque/ip/{name}/*/");
        within(&topology, "alice", move || {
            let edge = "10.0.1.2:8443".parse().unwrap();
            hermes_tests::capsules::UdpTunnel::h1_for(edge, "connect-ip", &path, "")
        })
    };

    // The device and the server of names come after the listener.
    let mut tunnel = eventually("a tunnel", || open("server.example").ok());
    let routes = std::iter::from_fn(|| Some(tunnel.capsule())).find(|(kind, _)| *kind == 3);
    let only = [4, 10, 0, 2, 2, 10, 0, 2, 2, 0];
    assert_eq!(routes.unwrap().1, only, "one range, for any protocol");
    let record = &edge.exchanges()[0];
    assert_eq!(record["target"], "server.example", "{record:#}");

    // A name that there is not, and one that only overlays have.
    assert_eq!(
        open("other.example").err().map(|head| head.status()),
        Some(502)
    );
    assert_eq!(open("server").err().map(|head| head.status()), Some(404));
    names.kill().unwrap();
    names.wait().unwrap();
}
