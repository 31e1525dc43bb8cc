//! Packets that end in user space, at a node without any right over the network: each connection and each pair of UDP ports is an exchange.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually;
use hermes_tests::ip_packets::{assigned, checksum};
use hermes_tests::{Node, program};
use serde_json::Value;

use super::hostile_packets::tunnel;
use super::packets::{bulk, networks, own_address, start};
use super::{Running, command, within};

/// Where flows that are allowed go.
pub(super) const SERVER: &str = "10.0.2.2";

/// How long a client waits.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What ends packets in user space. `more` is said of that.
pub(super) fn interceptor(more: &str) -> String {
    format!(
        "
        listeners: {{ overlay: {{ http: 10.0.1.2:8443, public: true, insecure_trust: [10.0.1.0/24] }} }}
        log: {{ access: {{ file: access.json }} }}
        egress: {{ allow: [10.0.2.0/24] }}
        services: {{ web: [\"10.0.2.2:8000\"] }}
        policy:
          default: allow
          rules: [ {{ name: no-gopher, match: {{ port: 70, user: alice }}, deny: true }} ]
        routes:
          - name: packets
            match: {{ kind: connect-ip }}
            terminate: {{ intercept: true, pool: [10.7.0.0/24, \"fd07::/64\"], routes: [10.0.2.0/24, \"fd07::/64\"] {more} }}
          - {{ name: web, match: {{ target: \"service:web\" }}, terminate: true }}
          - {{ name: flows, match: {{ kind: [connect, connect-udp], user: alice }}, terminate: true }}
        "
    )
}

const ALICE: &str = "
    identity: { user: alice }
    listeners: { vpn: { tun: { name: hermes0, routes: [10.0.2.0/24, \"fd07::/64\"] } } }
    routes: [ { match: { kind: connect-ip }, to: edge } ]
    upstreams: { edge: { endpoints: [10.0.1.2:8443], http: 2 } }
";

/// Starts a node that has no capability.
pub(super) fn start_without_rights(topology: &Topology, name: &'static str, yaml: &str) -> Node {
    let mut without = command(topology, name, "setpriv");
    without.args(["--bounding-set=-all", "--inh-caps=-all", "--"]);
    without.arg(program::path());
    Node::start_by(without, name, yaml)
}

fn nodes(topology: &Topology, more: &str) -> [Node; 2] {
    let edge = start_without_rights(topology, "edge", &interceptor(more));
    let alice = start(topology, "alice", ALICE);
    eventually("Alice's device has an address", || {
        let alice = topology.namespace("alice").unwrap();
        let said = alice.run(&["ip", "-4", "-o", "addr", "show", "dev", "hermes0"]);
        said.ok().filter(|said| said.contains("10.7.0."))
    });
    [edge, alice]
}

/// A server of pages at the end of the network.
pub(super) fn web(topology: &Topology, folder: &std::path::Path) -> Running {
    std::fs::write(folder.join("hello"), "hello from the other side").unwrap();
    let python = std::env::var("HERMES_PYTHON").unwrap();
    let server = command(topology, "server", &python)
        .args(["-m", "http.server", "8000", "--bind", SERVER, "--directory"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(server.unwrap())
}

/// A server of names there.
pub(super) fn names(topology: &Topology) -> Running {
    names_at(topology, "server", SERVER)
}

/// A server of names at this address of a namespace.
pub(super) fn names_at(topology: &Topology, namespace: &str, address: &str) -> Running {
    let dnsmasq = std::env::var("HERMES_DNSMASQ")
        .expect("HERMES_DNSMASQ names dnsmasq: ./test system sets it");
    let server: Child = topology
        .namespace(namespace)
        .unwrap()
        .command(dnsmasq)
        .args([
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--pid-file=",
            "--bind-interfaces",
            "--user=root",
            "--address=/video.example/192.0.2.7",
            "--address=/rebound.example/100.64.0.7",
            "--address=/translated.example/64:ff9b::6440:7",
        ])
        .arg(format!("--listen-address={address}"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    Running(server)
}

/// Asks a server of names for the address of `video.example` (RFC 1035, section 4).
pub(super) fn ask(socket: &UdpSocket, server: SocketAddr) -> Option<Vec<u8>> {
    let mut question = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in ["video", "example"] {
        question.push(u8::try_from(label.len()).unwrap());
        question.extend_from_slice(label.as_bytes());
    }
    question.extend_from_slice(&[0, 0, 1, 0, 1]);
    socket.send_to(&question, server).unwrap();
    let mut room = [0; 512];
    let (length, _) = socket.recv_from(&mut room).ok()?;
    Some(room[..length].to_vec())
}

fn is_of(record: &Value, kind: &str, target: &str) -> bool {
    record["kind"] == kind && record["target"] == target
}

#[test]
fn connections_and_datagrams_of_a_device_are_exchanges_of_its_user_at_a_node_without_rights() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    let _web = web(&topology, folder.path());
    let _names = names(&topology);
    let [edge, alice] = nodes(&topology, "");
    let network = topology.namespace("alice").unwrap();

    // Connections: a page, and many bytes both ways.
    let curl = std::env::var("HERMES_CURL").unwrap();
    let page = eventually("the page", || {
        let url = format!("http://{SERVER}:8000/hello");
        network.run(&[&curl, "-sf", "-m", "10", &url]).ok()
    });
    assert_eq!(page, "hello from the other side");
    bulk(&topology, "server", "10.0.2.2:5000");
    // It was refused before the server was there.
    let record =
        edge.record(|record| is_of(record, "connect", "10.0.2.2:8000") && record["status"] == 200);
    assert_eq!(record["user"], "alice", "{record:#}");
    assert_eq!(record["route"], "web", "{record:#}");
    assert_eq!(record["protocol"], "ip", "{record:#}");
    assert_eq!(record["reason"], "done", "{record:#}");

    // Datagrams.
    let asking = within(&topology, "alice", || UdpSocket::bind("0.0.0.0:0").unwrap());
    asking.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = "10.0.2.2:53".parse().unwrap();
    let answer = eventually("an answer", || ask(&asking, server));
    assert!(answer.ends_with(&[192, 0, 2, 7]), "{answer:?}");
    let record = edge.record(|record| is_of(record, "connect-udp", "10.0.2.2:53"));
    assert_eq!(record["user"], "alice", "{record:#}");
    assert_eq!(record["route"], "flows", "{record:#}");

    // Echoes, of both families.
    for host in [SERVER, "fd07::1"] {
        network.run(&["ping", "-c", "1", "-W", "5", host]).unwrap();
    }

    // Each is refused at once in its own way: a rule as by a router that prohibits it, and a port that no one listens on by a reset.
    let prohibited = std::io::ErrorKind::HostUnreachable;
    let refused = std::io::ErrorKind::ConnectionRefused;
    for (port, kind) in [(70, prohibited), (9, refused)] {
        let refused = within(&topology, "alice", || TcpStream::connect((SERVER, port)));
        assert_eq!(refused.unwrap_err().kind(), kind, "port {port}");
    }
    let record = edge.record(|record| is_of(record, "connect", "10.0.2.2:70"));
    assert_eq!(record["status"], 403, "{record:#}");
    let name = record["refusal"].as_str().unwrap();
    let (status, why) = edge.ask("GET", &format!("/why/{name}"), "");
    assert_eq!(status, 200, "{why}");
    assert!(why.contains("no-gopher"), "{why}");

    // What is to be seen: where packets end, and how many flows there are.
    let device = edge.status()["devices"][0].clone();
    assert_eq!(
        device["name"], "intercept 10.7.0.0/24 fd07::/64",
        "{device:#}"
    );
    assert_eq!(device["tunnels"], 1, "{device:#}");
    let client = &device["clients"][0];
    assert_eq!(client["user"], "alice", "{device:#}");
    assert_eq!(
        client["addresses"][0],
        *own_address(&topology),
        "{device:#}"
    );
    assert!(client["carries"].as_u64().unwrap() >= 1500, "{device:#}");
    drop(alice);
    let record = edge.record(|record| record["kind"] == "connect-ip");
    assert_eq!(record["user"], "alice", "{record:#}");
}

#[test]
fn flows_end_with_their_tunnel_and_when_the_rules_forbid_them() {
    let topology = networks();
    let [edge, alice] = nodes(&topology, "");
    let listening = within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:5000").unwrap()
    });
    let open = || {
        let client = within(&topology, "alice", || {
            TcpStream::connect("10.0.2.2:5000").unwrap()
        });
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        (client, listening.accept().unwrap().0)
    };
    let is_over = |mut stream: &TcpStream| {
        use std::io::Read;
        let ended = stream.read(&mut [0; 1]);
        matches!(ended, Ok(0))
            || ended.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    };

    // A rule of before is another one now.
    let (client, server) = open();
    let yaml = interceptor("").replace("port: 70", "port: 5000");
    assert_eq!(edge.reload(&yaml).0, 200);
    assert!(is_over(&client) && is_over(&server));
    let record = edge.record(|record| is_of(record, "connect", "10.0.2.2:5000"));
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("policy_changed"),
        "{record:#}"
    );

    assert_eq!(edge.reload(&interceptor("")).0, 200);
    let (_client, server) = open();
    drop(alice);
    assert!(is_over(&server));
}

#[test]
fn pings_are_refused_where_that_is_said_and_addresses_outlive_a_restart() {
    let topology = networks();
    let folder = tempfile::tempdir().unwrap();
    let leases = folder.path().join("leases");
    let more = format!(
        ", echo: refuse, mtu: 1400, leases_file: {}",
        leases.display()
    );
    let [mut edge, alice] = nodes(&topology, &more);
    let network = topology.namespace("alice").unwrap();
    let refused = network.run(&["ping", "-c", "1", "-W", "5", SERVER]);
    let told = refused.unwrap_err().to_string();
    assert!(
        told.contains("filtered") || told.contains("Prohibited"),
        "{told}"
    );

    let before = own_address(&topology);
    eventually("the lease is written", || {
        let written = std::fs::read_to_string(&leases).ok()?;
        written.contains(&before).then_some(())
    });
    edge.kill();
    let mut without = command(&topology, "edge", "setpriv");
    without.args(["--bounding-set=-all", "--inh-caps=-all", "--"]);
    without.arg(program::path());
    edge.restart_by(without);
    eventually("a tunnel", || {
        (edge.status()["devices"][0]["tunnels"] == 1).then_some(())
    });
    assert_eq!(own_address(&topology), before);
    drop(alice);
}

/// A segment of TCP that opens a connection to port 5000 of the server; `changed` is a byte of it that is not as it should be.
fn opening(source: Ipv4Addr, port: u16, changed: Option<usize>) -> Vec<u8> {
    const TCP: u8 = 6;
    const SYN: u8 = 2;
    let server = Ipv4Addr::new(10, 0, 2, 2);
    let mut segment = Vec::new();
    segment.extend(port.to_be_bytes());
    segment.extend(5000_u16.to_be_bytes());
    segment.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, SYN, 0xff, 0xff, 0, 0, 0, 0]);

    let mut summed = Vec::new();
    summed.extend(source.octets());
    summed.extend(server.octets());
    summed.extend([0, TCP, 0, 20]);
    summed.extend(&segment);
    segment[16..18].copy_from_slice(&checksum(&summed).to_be_bytes());

    let mut packet = vec![0x45, 0, 0, 40, 0x12, 0x34, 0, 0, 64, TCP, 0, 0];
    packet.extend(source.octets());
    packet.extend(server.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(segment);
    if let Some(at) = changed {
        packet[at] ^= 0xff;
    }
    packet
}

#[test]
fn a_flood_of_openings_and_of_what_is_malformed_ends_nothing_but_itself() {
    let topology = networks();
    let yaml = interceptor("").replace(
        "user: alice }, terminate",
        "user: [alice, mallory] }, terminate",
    );
    let edge = start_without_rights(&topology, "edge", &yaml);
    let _alice = start(&topology, "alice", ALICE);
    let mut flood = tunnel(&topology, "mallory");
    let own = assigned(&mut flood)[0].1;
    let listening = within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:5000").unwrap()
    });

    // No one answers what they are answered; some come from another's address, and in some a byte is wrong: of the packet's header, of the
    // segment's, and of its checksum.
    for port in 1..5_000 {
        flood.send(opening(own, port, None));
        flood.send(opening(Ipv4Addr::new(10, 7, 0, 99), port, None));
        for at in [0, 2, 9, 32, 33, 36] {
            flood.send(opening(own, port, Some(at)));
        }
    }
    // Those that are connected and never confirm it count as well: there are no more than may be half open.
    eventually("its flows are there", || {
        let exchanges = edge.exchanges();
        let flows = exchanges
            .iter()
            .filter(|one| one["user"] == "mallory" && one["kind"] == "connect");
        let open = flows.count();
        assert!(open <= 64, "{open}");
        (open > 0).then_some(())
    });
    assert!(
        edge.exchanges()
            .iter()
            .all(|one| one["source"] != "10.7.0.99")
    );

    // Another tunnel does not notice. The server's queue is emptied of what the flood opened there.
    listening.set_nonblocking(true).unwrap();
    while listening.accept().is_ok() {}
    drop(listening);
    bulk(&topology, "server", "10.0.2.2:5001");
    flood.finish();
    let record =
        edge.record(|record| record["kind"] == "connect-ip" && record["user"] == "mallory");
    assert!(
        record["datagrams"]["dropped"].as_u64().unwrap() > 5_000,
        "{record:#}"
    );
}
