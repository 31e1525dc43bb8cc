//! Traffic of machines behind a router.

use std::io::ErrorKind;

use hermes_tests::eventually::eventually_true;

use super::network::{
    SERVERS, again, ask, configuration, hear, networks, node, run, serve, tables,
};

const LAN: &str = "interfaces: client";

#[test]
fn a_connection_through_the_router_is_an_exchange_for_its_original_destination() {
    let topology = networks();
    serve(&topology, 8000);
    let node = node(&topology, LAN);

    for (address, router) in [("10.0.2.2", "10.0.2.1"), ("fd02::2", "fd02::1")] {
        let seen = hear(&topology, "client", address, 8000).unwrap();
        assert_eq!(seen, router, "the node, not the client, connected");
        let target = match address.contains(':') {
            true => format!("[{address}]:8000"),
            false => format!("{address}:8000"),
        };
        let record = node.record(|record| record["target"] == target);
        let source = record["source"].as_str().unwrap();
        assert!(source.contains("10.0.1.2:") || source.contains("[fd01::2]:"));
        assert_eq!(record["listener"], "lan");
    }
}

#[test]
fn a_datagram_is_answered_from_the_address_that_it_was_sent_to() {
    let topology = networks();
    serve(&topology, 5353);
    let _node = node(&topology, LAN);

    for (address, router) in [("10.0.2.2", "10.0.2.1"), ("fd02::2", "fd02::1")] {
        for _ in 0..3 {
            let answer = ask(&topology, "client", address, 5353).unwrap();
            assert_eq!(answer, format!("{router} hello"));
        }
    }
}

#[test]
fn policy_decides_on_the_original_destination() {
    let topology = networks();
    serve(&topology, 9);
    let node = node(&topology, LAN);
    for address in SERVERS {
        let error = hear(&topology, "client", address, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
    }
    let record = node.record(|record| record["target"] == "10.0.2.2:9");
    assert_eq!(record["status"], 403, "{record:#}");
}

#[test]
fn a_refused_port_is_answered_by_icmp_or_a_reset() {
    let topology = networks();
    serve(&topology, 443);
    let _node = node(&topology, "interfaces: client, refuse: [udp/443, tcp/443]");
    for address in SERVERS {
        for refused in [
            ask(&topology, "client", address, 443).unwrap_err(),
            hear(&topology, "client", address, 443).unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
        }
    }
}

#[test]
fn excluded_destinations_and_other_protocols_go_their_ordinary_way() {
    let topology = networks();
    serve(&topology, 8000);
    let _node = node(
        &topology,
        "interfaces: client, exclude: 10.0.2.0/24, protocols: tcp",
    );
    let seen = |address| hear(&topology, "client", address, 8000).unwrap();
    assert_eq!(seen("10.0.2.2"), "10.0.1.2");
    assert_eq!(seen("fd02::2"), "fd02::1");
    let asked = ask(&topology, "client", "fd02::2", 8000).unwrap();
    assert_eq!(asked, "fd01::2 hello");
}

#[test]
fn no_one_reaches_the_sockets_of_a_capture_by_their_own_address() {
    let topology = networks();
    let node = node(&topology, LAN);
    let listening = run(&topology, "router", "ss -Hltn");
    let mut ports = listening.lines().filter_map(|line| {
        let local = line.split_whitespace().nth(3)?;
        local.rsplit(':').next()?.parse::<u16>().ok()
    });
    let port = ports.next().unwrap();

    // Carried as an exchange, each would open the next one.
    for (from, address) in [
        ("client", "10.0.1.1"),
        ("client", "fd01::1"),
        ("router", "127.0.0.1"),
    ] {
        let error = hear(&topology, from, address, port).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::ConnectionRefused,
            "{from}: {error}"
        );
    }
    assert!(node.exchanges().is_empty());
}

#[test]
fn a_killed_node_that_fails_open_leaves_no_rule_and_lets_traffic_pass() {
    let topology = networks();
    serve(&topology, 8000);
    let mut node = node(&topology, LAN);
    assert!(!tables(&topology).is_empty());
    assert_eq!(
        hear(&topology, "client", "10.0.2.2", 8000).unwrap(),
        "10.0.2.1"
    );

    node.kill();
    assert_eq!(tables(&topology), Vec::<String>::new());
    for (address, client) in [("10.0.2.2", "10.0.1.2"), ("fd02::2", "fd01::2")] {
        assert_eq!(hear(&topology, "client", address, 8000).unwrap(), client);
    }
}

#[test]
fn a_killed_node_that_fails_closed_leaks_nothing_until_it_is_back() {
    let topology = networks();
    serve(&topology, 8000);
    let mut node = node(&topology, "interfaces: client, fail: closed");

    node.kill();
    for address in SERVERS {
        let error = hear(&topology, "client", address, 8000).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    }
    again(&topology, &mut node);
    assert_eq!(
        hear(&topology, "client", "10.0.2.2", 8000).unwrap(),
        "10.0.2.1"
    );
    // One of traffic, one of flows: that of the killed process is gone.
    assert_eq!(tables(&topology).len(), 2);

    node.stop();
    assert_eq!(tables(&topology), Vec::<String>::new());
}

#[test]
fn a_connection_outlives_the_listener_that_captured_it() {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    let topology = networks();
    let node = node(&topology, LAN);
    let listening = super::super::within(&topology, "server", || {
        TcpListener::bind("10.0.2.2:8000").unwrap()
    });
    let mut client = super::super::within(&topology, "client", || {
        TcpStream::connect("10.0.2.2:8000").unwrap()
    });
    let (mut server, from) = listening.accept().unwrap();
    assert_eq!(from.ip().to_string(), "10.0.2.1");

    let (status, answer) = node.reload(&configuration("interfaces: server"));
    assert_eq!(status, 200, "{answer}");
    eventually_true("the old rules are gone", || {
        tables(&topology)
            .iter()
            .filter(|name| !name.contains("flows"))
            .count()
            == 1
    });
    for word in [b"first", b"later"] {
        client.write_all(word).unwrap();
        let mut room = [0; 5];
        server.read_exact(&mut room).unwrap();
        server.write_all(&room).unwrap();
        client.read_exact(&mut room).unwrap();
        assert_eq!(&room, word);
    }
}
