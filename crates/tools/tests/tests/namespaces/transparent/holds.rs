//! Connections whose beginning is held until the target has answered: the client sees no answer that the target did not give.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use hermes_lab::topology::Topology;
use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, program};

use super::super::{command, within};
use super::network::{SERVERS, as_user, hear, networks, node, run, serve, tables};

const SPLIT: &str = "interfaces: client, split: true";

/// Four nodes, each of which knows only the next: the first captures, the last connects.
fn chain(topology: &Topology) -> Vec<Node> {
    let hermes = program::path();
    let start = |name: &'static str, yaml: &str| {
        let command = command(topology, "router", hermes.to_str().unwrap());
        Node::start_by(command, name, yaml)
    };
    let mut nodes = vec![start(
        "last",
        "
        listeners: { chain: { http: 127.0.0.1:8403 } }
        routes: [ { match: { kind: connect }, terminate: true, timeouts: { connect: 2s } } ]
        egress: { allow: [10.0.2.0/24, \"fd02::/64\", 10.0.9.0/24] }
        ",
    )];
    for (name, own, next) in [("third", 8402, 8403), ("second", 8401, 8402)] {
        nodes.push(start(
            name,
            &format!(
                "
                listeners: {{ chain: {{ http: 127.0.0.1:{own} }} }}
                routes: [ {{ to: next }} ]
                upstreams: {{ next: {{ endpoints: [127.0.0.1:{next}], http: 2 }} }}
                "
            ),
        ));
    }
    nodes.push(start(
        "first",
        "
        listeners: { lan: { capture: { host: { interfaces: client, split: true } } } }
        routes: [ { to: next } ]
        upstreams: { next: { endpoints: [127.0.0.1:8401], http: 1 } }
        ",
    ));
    nodes
}

fn error_of(topology: &Topology, address: &str, port: u16) -> io::Error {
    hear(topology, "client", address, port).unwrap_err()
}

#[test]
fn the_status_says_that_beginnings_are_held() {
    let topology = networks();
    let node = node(&topology, SPLIT);
    let status = node.status().to_string();
    assert!(status.contains("held by NFQUEUE"), "{status}");
}

#[test]
fn a_held_connection_carries_bytes_both_ways() {
    let topology = networks();
    serve(&topology, 8000);
    let node = node(&topology, SPLIT);
    for (address, router) in [("10.0.2.2", "10.0.2.1"), ("fd02::2", "fd02::1")] {
        for _ in 0..20 {
            assert_eq!(hear(&topology, "client", address, 8000).unwrap(), router);
        }
    }
    let record = node.record(|record| record["target"] == "[fd02::2]:8000");
    assert_eq!(record["status"], 200);
}

#[test]
fn a_refused_target_refuses_the_client() {
    let topology = networks();
    let _node = node(&topology, SPLIT);
    for address in SERVERS {
        let error = error_of(&topology, address, 8001);
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    }
}

#[test]
fn policy_looks_as_a_router_that_forbids() {
    let topology = networks();
    serve(&topology, 9);
    let _node = node(&topology, SPLIT);
    for address in SERVERS {
        let error = error_of(&topology, address, 9);
        let expected = match address.contains(':') {
            false => rustix::io::Errno::HOSTUNREACH.raw_os_error(),
            true => rustix::io::Errno::ACCESS.raw_os_error(),
        };
        assert_eq!(error.raw_os_error(), Some(expected), "{error}");
    }
}

#[test]
fn four_hops_look_as_the_target_looks() {
    let topology = networks();
    serve(&topology, 8000);
    // A network behind the server that does not answer, and one that no one knows.
    run(&topology, "router", "ip route add 10.0.9.0/25 via 10.0.2.2");
    run(&topology, "server", "ip route add blackhole 10.0.9.0/25");
    run(
        &topology,
        "router",
        "ip route add unreachable 10.0.9.128/25",
    );
    let _nodes = chain(&topology);

    for address in SERVERS {
        assert!(hear(&topology, "client", address, 8000).is_ok());
        let error = error_of(&topology, address, 8001);
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    }
    let silent = error_of(&topology, "10.0.9.1", 80);
    assert_eq!(silent.kind(), ErrorKind::TimedOut, "{silent}");
    let unreachable = error_of(&topology, "10.0.9.129", 80);
    let errors = [
        Some(rustix::io::Errno::HOSTUNREACH.raw_os_error()),
        Some(rustix::io::Errno::NETUNREACH.raw_os_error()),
    ];
    assert!(
        errors.contains(&unreachable.raw_os_error()),
        "{unreachable}"
    );
}

#[test]
fn a_client_waits_as_long_as_its_target() {
    let topology = networks();
    // A server whose queue is full answers no beginning.
    let listening = within(&topology, "server", || {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let address: std::net::SocketAddr = "10.0.2.2:8000".parse().unwrap();
        socket.bind(&address.into()).unwrap();
        socket.listen(0).unwrap();
        TcpListener::from(socket)
    });
    let _node = node(&topology, SPLIT);
    let connect = |within_time| {
        within(&topology, "client", move || {
            TcpStream::connect_timeout(&"10.0.2.2:8000".parse().unwrap(), within_time)
        })
    };
    let _first = connect(Duration::from_secs(5)).unwrap();
    let second = connect(Duration::from_millis(700));
    assert_eq!(second.unwrap_err().kind(), ErrorKind::TimedOut);
    drop(listening);
}

#[test]
fn users_of_this_machine_are_told_as_well() {
    let topology = networks();
    serve(&topology, 8000);
    let _node = node(&topology, "only: { users: 1000 }, split: true");
    for address in SERVERS {
        for (port, expected) in [(8000, true), (8001, false)] {
            let script = format!("exec 3<>/dev/tcp/{address}/{port} && cat <&3");
            let output = as_user(&topology, 1000, "bash")
                .args(["-c", &script])
                .output();
            let output = output.unwrap();
            assert_eq!(output.status.success(), expected, "{output:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(expected || said.contains("refused"), "{said}");
        }
    }
}

#[test]
fn both_directions_end_independently() {
    let topology = networks();
    let listening = within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:8000").unwrap()
    });
    let _node = node(&topology, SPLIT);
    let mut client = within(&topology, "client", || {
        TcpStream::connect("10.0.2.2:8000").unwrap()
    });
    let (mut server, _) = listening.accept().unwrap();
    client.write_all(b"question").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut question = String::new();
    server.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    server.write_all(b"answer").unwrap();
    drop(server);
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "answer");
}

#[test]
fn a_killed_node_leaves_no_queue_in_the_way() {
    let topology = networks();
    serve(&topology, 8000);
    let mut node = node(&topology, SPLIT);
    hear(&topology, "client", "10.0.2.2", 8000).unwrap();
    node.kill();
    assert_eq!(tables(&topology), Vec::<String>::new());
    assert_eq!(
        hear(&topology, "client", "10.0.2.2", 8000).unwrap(),
        "10.0.1.2"
    );
}

#[test]
fn a_server_that_resets_later_resets_the_client() {
    let topology = networks();
    let listening = within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:8000").unwrap()
    });
    let _node = node(&topology, SPLIT);
    let mut client = within(&topology, "client", || {
        TcpStream::connect("10.0.2.2:8000").unwrap()
    });
    let (server, _) = listening.accept().unwrap();
    socket2::SockRef::from(&server)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    drop(server);
    let mut room = [0; 1];
    eventually_true(
        "the reset",
        || matches!(client.read(&mut room), Err(error) if error.kind() == ErrorKind::ConnectionReset),
    );
}

#[test]
fn a_node_that_stands_still_lets_traffic_pass_until_it_goes_on() {
    use rustix::process::Signal;

    let topology = networks();
    serve(&topology, 8000);
    let node = node(&topology, SPLIT);
    let seen = |by: &str| hear(&topology, "client", "10.0.2.2", 8000).is_ok_and(|seen| seen == by);
    assert!(seen("10.0.2.1"));
    node.signal(Signal::STOP);
    eventually_true("the ordinary way", || seen("10.0.1.2"));
    node.signal(Signal::CONT);
    eventually_true("the node again", || seen("10.0.2.1"));
}

#[test]
fn ten_thousand_held_beginnings_cost_no_one_else() {
    const HELD: usize = 10_000;

    let topology = networks();
    serve(&topology, 8000);
    run(&topology, "router", "ip route add 10.0.9.0/25 via 10.0.2.2");
    run(&topology, "server", "ip route add blackhole 10.0.9.0/25");
    let hermes = program::path();
    let node = Node::start_by(
        command(&topology, "router", hermes.to_str().unwrap()),
        "router",
        "
        listeners:
          lan: { capture: { host: { interfaces: client, split: true } }, limits: { connections: 20000, per_source: 20000 } }
        routes: [ { match: { kind: connect }, terminate: true, timeouts: { connect: 120s } } ]
        egress: { allow: [10.0.2.0/24, 10.0.9.0/24] }
        ",
    );

    for address in ["10.0.1.3", "10.0.1.4"] {
        let add = format!("ip address add {address}/24 dev router");
        run(&topology, "client", &add);
    }
    let sockets = within(&topology, "client", || {
        let held = (0..HELD).map(|one| {
            let kind = socket2::Type::STREAM;
            let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            // Two clients, so that neither has more than its share of descriptors, and none is refused.
            let own = [10, 0, 1, if one % 2 == 0 { 2 } else { 4 }];
            socket
                .bind(&std::net::SocketAddr::from((own, 0)).into())
                .unwrap();
            let host = u8::try_from(one % 100 + 1).unwrap();
            let to = std::net::SocketAddr::from(([10, 0, 9, host], 80));
            assert!(
                socket.connect(&to.into()).is_err(),
                "it cannot be connected"
            );
            socket
        });
        held.collect::<Vec<_>>()
    });
    for _ in 0..20 {
        assert_eq!(
            hear_from(&topology, "10.0.1.3", "10.0.2.2:8000"),
            "10.0.2.1"
        );
    }
    assert!(node.peak() < 256 << 20, "{} bytes", node.peak());
    drop(sockets);
}

/// The words of the server, which this address of the client's machine hears.
fn hear_from(topology: &Topology, own: &str, server: &str) -> String {
    let own: std::net::SocketAddr = format!("{own}:0").parse().unwrap();
    let server: std::net::SocketAddr = server.parse().unwrap();
    within(topology, "client", move || {
        let kind = socket2::Type::STREAM;
        let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
        socket.bind(&own.into()).unwrap();
        socket
            .connect_timeout(&server.into(), Duration::from_secs(30))
            .unwrap();
        let mut words = String::new();
        TcpStream::from(socket).read_to_string(&mut words).unwrap();
        words
    })
}

#[test]
fn a_scan_of_ports_finds_those_that_it_finds_without_a_node() {
    let topology = networks();
    serve(&topology, 8000);
    let scan = |address: &str| {
        let family = if address.contains(':') { "-6" } else { "-4" };
        let said = run(
            &topology,
            "client",
            &format!("nmap -sT -Pn -n {family} -p 7998-8003 -oG - {address}"),
        );
        // Without the times.
        let ports = said.lines().find_map(|line| line.split("Ports: ").nth(1));
        ports.map(str::to_owned).unwrap()
    };
    let direct = SERVERS.map(scan);
    assert!(
        direct[0].contains("8000/open") && direct[0].contains("8001/closed"),
        "{direct:?}"
    );
    let _node = node(&topology, SPLIT);
    assert_eq!(SERVERS.map(scan), direct);
}
