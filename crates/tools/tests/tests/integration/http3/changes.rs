//! Reloads and the end of a node, while HTTP/3 carries something.

use std::net::UdpSocket;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, eventually, origins};
use rustix::process::Signal;

use crate::http3::overlay::{end, upstream};

pub fn entry(pki: &Pki, next: &Node, http: &str) -> Node {
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        routes: [ {{ to: next }} ]
        upstreams: {{ next: {} }}
        workers: 1
        "#,
        upstream(pki, next.address("web"), http)
    );
    Node::start("entry", &yaml)
}

#[test]
fn http3_can_be_switched_off_and_on_while_a_tunnel_goes_on() {
    let (pki, origin) = (Pki::new(), origins::tcp_echo());
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let with = end(&tls);
    let end = Node::start("end", &with);
    let address = end.address("web");
    let entry = entry(&pki, &end, "3");
    let mut tunnel = Raw::tunnel(entry.address("web"), &origin.address().to_string(), "").unwrap();
    tunnel.send("before");
    assert_eq!(tunnel.exactly(6), b"before");

    let fixed = with.replace("127.0.0.1:0,", &format!("{address},"));
    let without = fixed.replace("tls:", "versions: [1, 2], tls:");
    // The port of a listener that asked for any is another one than the same port asked for by number.
    let (status, report) = end.reload(&with.replace("tls:", "versions: [1, 2], tls:"));
    assert_eq!(status, 200, "{report}");
    assert_eq!(
        report["listeners"]["closed"],
        serde_json::json!(["web (HTTP/3)"]),
        "{report}"
    );
    tunnel.send("during");
    assert_eq!(tunnel.exactly(6), b"during");
    drop(without);

    tunnel.finish();
    drop(tunnel);
    end.idle();
    let report = eventually("the port is free for HTTP/3 again", || {
        let (status, report) = end.reload(&with);
        (status == 200).then_some(report)
    });
    assert_eq!(
        report["listeners"]["opened"],
        serde_json::json!(["web (HTTP/3)"]),
        "{report}"
    );
    let mut tunnel = eventually("a tunnel over HTTP/3", || {
        Raw::tunnel(entry.address("web"), &origin.address().to_string(), "").ok()
    });
    tunnel.send("after");
    assert_eq!(tunnel.exactly(5), b"after");
}

#[test]
fn a_renewed_certificate_serves_new_connections() {
    let (old, new, origin) = (Pki::new(), Pki::new(), origins::http());
    let node = Node::start("end", &end(&old.issue(&["127.0.0.1"]).yaml()));
    let url = format!("http://{}/", origin.address());
    let first = entry(&old, &node, "3");
    assert_eq!(curl(&["-x", &first.url("web"), &url]).status, 200);
    let echo = origins::tcp_echo();
    let mut tunnel = Raw::tunnel(first.address("web"), &echo.address().to_string(), "").unwrap();
    assert_eq!(node.reload(&end(&new.issue(&["127.0.0.1"]).yaml())).0, 200);
    // The open connection goes on with what is open on it, a new one sees the new certificate.
    assert_eq!(curl(&["-x", &first.url("web"), &url]).status, 200);
    tunnel.send("still here");
    assert_eq!(tunnel.exactly(10), b"still here");
    assert_eq!(
        curl(&["-x", &entry(&new, &node, "3").url("web"), &url]).status,
        200
    );
    let refused = curl(&["-x", &entry(&old, &node, "3").url("web"), &url]);
    assert_eq!(refused.status, 502, "{refused:?}");
    assert!(
        refused
            .field("proxy-status")
            .unwrap()
            .contains("error=tls_certificate_error"),
        "{refused:?}"
    );
}

#[test]
fn a_node_that_stops_lets_tunnels_end_and_tells_the_next_connection_to_go_elsewhere() {
    let (pki, origin) = (Pki::new(), origins::tcp_echo());
    let mut node = Node::start("end", &end(&pki.issue(&["127.0.0.1"]).yaml()));
    let entry = entry(&pki, &node, "3");
    let mut tunnel = Raw::tunnel(entry.address("web"), &origin.address().to_string(), "").unwrap();
    node.signal(Signal::TERM);
    eventually("the node drains", || {
        node.log().contains("stopping").then_some(())
    });
    tunnel.send("still here");
    assert_eq!(tunnel.exactly(10), b"still here");
    assert!(Raw::tunnel(entry.address("web"), &origin.address().to_string(), "").is_err());
    tunnel.finish();
    drop(tunnel);
    assert!(node.stop().success());
}

#[test]
fn a_node_that_stops_does_not_wait_for_clients_that_are_gone() {
    let (pki, origin) = (Pki::new(), origins::http());
    let mut node = Node::start("end", &end(&pki.issue(&["127.0.0.1"]).yaml()));
    let mut entry = entry(&pki, &node, "3");
    let mut client = Raw::connect(entry.address("web"));
    client.send(format!(
        "GET http://{0}/hang HTTP/1.1\r\nHost: {0}\r\n\r\n",
        origin.address()
    ));
    eventually("the request arrives", || {
        (!origin.seen().is_empty()).then_some(())
    });
    // The answer is sent, and no one confirms it.
    entry.signal(Signal::STOP);
    origin.release();
    node.idle();
    entry.kill();
    assert!(node.stop().success());
}

#[test]
fn a_node_that_ends_tells_those_that_it_has_connections_to() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = Node::start("end", &end(&pki.issue(&["127.0.0.1"]).yaml()));
    let mut entry = entry(&pki, &node, "3");
    assert_eq!(
        curl(&[
            "-x",
            &entry.url("web"),
            &format!("http://{}/", origin.address())
        ])
        .status,
        200
    );
    let open = |number: &str| {
        node.metrics().contains(&format!(
            "hermes_connections_active{{listener=\"web\"}} {number}\n"
        ))
    };
    assert!(open("1"), "{}", node.metrics());
    assert!(entry.stop().success());
    eventually("the connection ends", || open("0").then_some(()));
}

#[test]
fn a_port_that_someone_uses_for_udp_is_an_error_that_says_so() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let node = Node::start("end", &end(&tls).replace("tls:", "versions: [1, 2], tls:"));
    let wanted = end(&tls).replace("127.0.0.1:0,", &format!("{},", taken.local_addr().unwrap()));
    let (status, report) = node.reload(&wanted);
    assert_ne!(status, 200);
    assert!(report.to_string().contains("in use"), "{report}");
}
