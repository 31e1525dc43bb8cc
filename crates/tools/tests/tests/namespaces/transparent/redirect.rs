//! Connections that are redirected, as where the kernel has no TPROXY.

use std::io::ErrorKind;
use std::process::Command;

use super::network::{SERVERS, again, as_user, ask, hear, networks, node, run, serve, tables};

const LAN: &str = "interfaces: client, mode: redirect";

#[test]
fn a_redirected_connection_is_an_exchange_for_its_original_destination() {
    let topology = networks();
    serve(&topology, 8000);
    let node = node(&topology, LAN);
    let status = node.status().to_string();
    assert!(
        status.contains("redirected: as the configuration says"),
        "{status}"
    );

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
        // Datagrams go their ordinary way.
        let client = if router.contains(':') {
            "fd01::2"
        } else {
            "10.0.1.2"
        };
        let answer = ask(&topology, "client", address, 8000).unwrap();
        assert_eq!(answer, format!("{client} hello"));
    }
}

#[test]
fn policy_and_refused_ports_hold_for_redirected_connections() {
    let topology = networks();
    serve(&topology, 9);
    serve(&topology, 443);
    let node = node(&topology, &format!("{LAN}, refuse: tcp/443"));
    for address in SERVERS {
        let error = hear(&topology, "client", address, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        let error = hear(&topology, "client", address, 443).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    }
    let record = node.record(|record| record["target"] == "10.0.2.2:9");
    assert_eq!(record["status"], 403, "{record:#}");
}

/// The words of the server as a program of this user of the router hears them.
fn heard(mut command: Command, address: &str) -> String {
    let script = format!("exec 3<>/dev/tcp/{address}/8000 && cat <&3");
    let output = command.args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn users_connections_are_redirected_and_the_nodes_own_never_are() {
    let topology = networks();
    serve(&topology, 8000);
    let node = node(&topology, "only: { users: [0, 1000] }, mode: redirect");
    for address in SERVERS {
        let before = node.access().len();
        heard(as_user(&topology, 1000, "bash"), address);
        node.record(|record| record["target"].as_str().unwrap().contains(address));
        heard(as_user(&topology, 1001, "bash"), address);
        // The node is of this user, too: each captured connection would open another one.
        hear(&topology, "router", address, 8000).unwrap();
        let seen = || node.access().len();
        hermes_tests::eventually::eventually_true("both records", || seen() == before + 2);
    }
}

#[test]
fn no_one_reaches_the_port_of_redirected_connections_by_its_own_address() {
    let topology = networks();
    let node = node(&topology, LAN);
    let listening = run(&topology, "router", "ss -Hltn");
    let mut ports = listening.lines().filter_map(|line| {
        let local = line.split_whitespace().nth(3)?;
        local.rsplit(':').next()?.parse::<u16>().ok()
    });
    let port = ports.next().unwrap();
    for (from, address) in [
        ("client", "10.0.1.1"),
        ("client", "fd01::1"),
        ("router", "127.0.0.1"),
    ] {
        let error = hear(&topology, from, address, port).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{from}: {error}");
    }
    assert!(node.exchanges().is_empty());
}

#[test]
fn a_killed_node_that_redirected_leaves_no_rule_or_leaks_no_connection() {
    let topology = networks();
    serve(&topology, 8000);
    for (fail, is_closed) in [("open", false), ("closed", true)] {
        let mut node = node(&topology, &format!("{LAN}, fail: {fail}"));
        let through = |address| hear(&topology, "client", address, 8000);
        assert_eq!(through("10.0.2.2").unwrap(), "10.0.2.1");
        node.kill();
        assert_eq!(tables(&topology).is_empty(), !is_closed, "{fail}");
        for (address, client) in [("10.0.2.2", "10.0.1.2"), ("fd02::2", "fd01::2")] {
            match through(address) {
                Ok(seen) => assert!(seen == client && !is_closed, "{fail}: {seen}"),
                Err(error) => assert!(is_closed, "{fail}: {error}"),
            }
        }

        again(&topology, &mut node);
        assert_eq!(through("10.0.2.2").unwrap(), "10.0.2.1");
        assert!(node.stop().success());
        assert_eq!(tables(&topology), Vec::<String>::new());
        assert_eq!(through("10.0.2.2").unwrap(), "10.0.1.2");
    }
}
