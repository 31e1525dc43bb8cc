//! Many exchanges one after the other, and nodes that stop or die while exchanges are under way.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::net::SocketAddr;
use std::thread;

use hermes_tests::eventually::eventually;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, origins, udp};
use rustix::process::Signal;

/// A node that ends the overlay.
fn end() -> Node {
    let yaml = r#"
        listeners:
          web: { http: 127.0.0.1:0 }
        routes:
          - { terminate: true }
        egress: { allow: [127.0.0.0/8] }
    "#;
    Node::start("end", yaml)
}

/// A node that forwards to `next`.
fn entry(next: SocketAddr, version: u8) -> Node {
    forwarder("entry", "127.0.0.1:0", next, version)
}

/// As [`entry`], with another name and at this address.
fn forwarder(name: &str, address: &str, next: SocketAddr, version: u8) -> Node {
    let yaml = format!(
        r#"
        listeners:
          web: {{ http: "{address}" }}
        routes:
          - {{ to: next }}
        upstreams:
          next: {{ endpoints: ["{next}"], http: {version} }}
        "#
    );
    Node::start(name, &yaml)
}

/// Connections that are kept, and requests on each of them.
const KEPT: usize = 20;
const REQUESTS: usize = 25;

/// Tunnels one after the other.
const TUNNELS: usize = 200;

#[test]
fn two_hundred_new_tunnels_in_a_row_all_work() {
    let (origin, end) = (origins::tcp_echo(), end());
    for version in [1, 2] {
        let entry = entry(end.address("web"), version);
        for number in 0..TUNNELS {
            let mut raw =
                Raw::tunnel(entry.address("web"), &origin.address().to_string(), "").unwrap();
            raw.send(number.to_string());
            raw.finish();
            assert_eq!(raw.rest(), (number.to_string().into_bytes(), End::Closed));
        }
        entry.idle();
        assert_eq!(entry.access().len(), TUNNELS);
    }
    end.idle();
}

#[test]
fn five_hundred_requests_over_twenty_kept_connections_all_work() {
    let (origin, end) = (origins::http(), end());
    for version in [1, 2] {
        let entry = entry(end.address("web"), version);
        let (proxy, origin) = (entry.address("web"), origin.address());
        thread::scope(|scope| {
            for connection in 0..KEPT {
                scope.spawn(move || ask_again_and_again(proxy, origin, connection));
            }
        });
        entry.idle();
        let records = entry.access();
        assert_eq!(records.len(), KEPT * REQUESTS);
        assert!(
            records
                .iter()
                .all(|record| record["status"] == 200 && record["reason"] == "done")
        );
    }
    assert!(
        origin.connections() <= 2 * KEPT * 2,
        "{} connections to the origin",
        origin.connections()
    );
}

fn ask_again_and_again(proxy: SocketAddr, origin: SocketAddr, connection: usize) {
    let mut raw = Raw::connect(proxy);
    for number in 0..REQUESTS {
        let length = connection * 100 + number;
        raw.send(format!(
            "GET http://{origin}/bytes/{length} HTTP/1.1\r\nHost: {origin}\r\n\r\n"
        ));
        let (head, content) = raw.response();
        assert_eq!((head.status(), content.len()), (200, length));
    }
}

#[test]
fn a_node_that_is_told_to_stop_lets_a_download_and_a_tunnel_finish() {
    let (http, tcp, end) = (origins::http(), origins::tcp_echo(), end());
    for version in [1, 2] {
        let mut entry = entry(end.address("web"), version);
        let proxy = entry.address("web");
        let mut download = Raw::connect(proxy);
        let authority = http.address();
        download.send(format!(
            "GET http://{authority}/slow HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        ));
        let head = download.head();
        assert_eq!(
            (head.status(), head.field("transfer-encoding").as_deref()),
            (200, Some("chunked"))
        );
        assert_eq!(download.exactly(11), b"6\r\nfirst\n\r\n");
        let mut tunnel = Raw::tunnel(proxy, &tcp.address().to_string(), "").unwrap();

        entry.signal(Signal::TERM);
        eventually("the node drains", || {
            (entry.status()["draining"] == true).then_some(())
        });
        eventually("no one is let in", || {
            std::net::TcpStream::connect(proxy).is_err().then_some(())
        });
        tunnel.send("still open");
        assert_eq!(tunnel.exactly(10), b"still open");
        http.release();
        assert_eq!(
            download.rest(),
            (b"5\r\nlast\n\r\n0\r\n\r\n".to_vec(), End::Closed)
        );
        tunnel.finish();
        assert_eq!(tunnel.rest(), (Vec::new(), End::Closed));
        ends_by_itself(&mut entry);
    }
}

#[test]
fn a_second_signal_breaks_off_what_is_still_open() {
    let (tcp, end) = (origins::tcp_echo(), end());
    for version in [1, 2] {
        let mut entry = entry(end.address("web"), version);
        let mut tunnel = Raw::tunnel(entry.address("web"), &tcp.address().to_string(), "").unwrap();
        tunnel.send("open");
        assert_eq!(tunnel.exactly(4), b"open");
        entry.signal(Signal::TERM);
        eventually("the node drains", || {
            (entry.status()["draining"] == true).then_some(())
        });
        let stopped = entry.stop();
        assert!(stopped.success(), "{stopped}: {}", entry.log());
        assert_eq!(tunnel.rest().1, End::Reset);
    }
    end.idle();
}

#[test]
fn a_udp_session_goes_on_while_the_node_drains_and_ends_when_it_is_quiet() {
    let (echo, end) = (origins::udp_echo(origins::V4), end());
    let yaml = format!(
        r#"
        listeners:
          echo: {{ udp: 127.0.0.1:0, target: "{}" }}
        routes:
          - {{ to: next }}
        upstreams:
          next: {{ endpoints: ["{}"], http: 2 }}
        "#,
        echo.address(),
        end.address("web")
    );
    let mut entry = Node::start("entry", &yaml);
    let client = udp::Client::connect(entry.address("echo"));
    assert_eq!(client.ask("before"), b"before");
    entry.signal(Signal::TERM);
    eventually("the node drains", || {
        (entry.status()["draining"] == true).then_some(())
    });
    for number in 0..20 {
        client.send(format!("while it drains {number}"));
        assert_eq!(
            client.receive(),
            format!("while it drains {number}").as_bytes()
        );
    }
    ends_by_itself(&mut entry);
    end.idle();
}

#[test]
fn a_node_in_the_middle_that_dies_is_answered_for_and_used_again_when_it_is_back() {
    let (origin, tcp, end) = (origins::http(), origins::tcp_echo(), end());
    for version in [1, 2] {
        let first = forwarder("middle", "127.0.0.1:0", end.address("web"), version);
        let address = first.address("web");
        let entry = entry(address, version);
        assert_eq!(get(&entry, origin.address()).0, 200);
        let mut tunnel = Raw::tunnel(entry.address("web"), &tcp.address().to_string(), "").unwrap();
        tunnel.send("hello");
        assert_eq!(tunnel.exactly(5), b"hello");

        // Dropping it is SIGKILL.
        drop(first);
        // A process that dies ends its TCP connections in good order; over HTTP/2 the stream's end is then missing.
        let how = tunnel.rest().1;
        assert!(version == 1 || how == End::Reset, "{how:?}");
        for _ in 0..5 {
            let (status, reason) = get(&entry, origin.address());
            assert!([502, 504].contains(&status), "{status}: {reason}");
            assert!(reason.contains("entry; error=connection_"), "{reason}");
        }
        let second = forwarder("middle", &address.to_string(), end.address("web"), version);
        eventually("the next node is used again", || {
            (get(&entry, origin.address()).0 == 200).then_some(())
        });
        drop(tunnel);
        [&entry, &second, &end].into_iter().for_each(Node::idle);
    }
}

/// Waits until a node that was told to stop has done so, without a second signal, and well.
fn ends_by_itself(node: &mut Node) {
    // What has ended and was not waited for is a zombie.
    let stat = format!("/proc/{}/stat", node.pid());
    eventually("the node ends by itself", || {
        std::fs::read_to_string(&stat)
            .unwrap()
            .contains(") Z ")
            .then_some(())
    });
    assert!(node.stop().success(), "{}", node.log());
}

/// Status and `Proxy-Status` of the answer to a small request.
fn get(entry: &Node, origin: SocketAddr) -> (u16, String) {
    let mut raw = Raw::connect(entry.address("web"));
    raw.send(format!(
        "GET http://{origin}/bytes/10 HTTP/1.1\r\nHost: {origin}\r\n\r\n"
    ));
    let (head, _) = raw.response();
    (
        head.status(),
        head.field("proxy-status").unwrap_or_default(),
    )
}
