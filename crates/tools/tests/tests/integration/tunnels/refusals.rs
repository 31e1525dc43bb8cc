//! Tunnels that cannot be opened: the client learns why, however far away that is.

use std::net::{SocketAddr, TcpListener};

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;

use crate::tunnels::overlay::{self, Overlay};
use crate::tunnels::pipe::{Pipe, WAYS};

/// An address where nothing listens.
fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

#[test]
fn a_port_where_no_one_listens_is_a_connection_refused() {
    for overlay in overlay::all() {
        for way in WAYS {
            let refused = Pipe::open(way, overlay.address(), &closed().to_string())
                .err()
                .unwrap();
            assert_eq!(refused.status, 502, "{refused:?}");
            assert!(
                refused.reason.contains("error=connection_refused"),
                "{refused:?}"
            );
        }
        overlay.idle();
    }
}

#[test]
fn a_name_that_dns_does_not_know_is_a_dns_error() {
    for links in [&[][..], &[1], &[2]] {
        let overlay = Overlay::start(links);
        for way in WAYS {
            let refused = Pipe::open(way, overlay.address(), "nowhere.invalid:80")
                .err()
                .unwrap();
            assert_eq!(refused.status, 502, "{refused:?}");
            assert!(refused.reason.contains("error=dns_error"), "{refused:?}");
        }
        let head = UdpTunnel::h1(overlay.address(), "nowhere.invalid", 80, "").unwrap_err();
        assert_eq!(head.status(), 502);
        assert!(
            head.field("proxy-status")
                .unwrap()
                .contains("error=dns_error"),
            "{head:?}"
        );
        let client = Client::connect(overlay.address());
        let answer =
            UdpTunnel::h2(&client, overlay.address(), "nowhere.invalid", 80, &[]).unwrap_err();
        assert_eq!(answer.status, 502);
        assert!(
            answer
                .fields
                .get("proxy-status")
                .unwrap()
                .to_str()
                .unwrap()
                .contains("error=dns_error"),
            "{answer:?}"
        );
    }
}

#[test]
fn a_name_without_a_dot_that_no_route_knows_is_not_found() {
    for links in [&[][..], &[1], &[2]] {
        let overlay = Overlay::start(links);
        for way in WAYS {
            let refused = Pipe::open(way, overlay.address(), "NOWHERE:80")
                .err()
                .unwrap();
            assert_eq!(refused.status, 404, "{refused:?}");
            assert!(
                refused.reason.contains("error=destination_not_found"),
                "{refused:?}"
            );
        }
    }
}

#[test]
fn a_udp_path_with_a_bad_variable_is_a_bad_request_and_any_other_is_not_found() {
    let overlay = Overlay::start(&[]);
    let bad = [
        "host/0/",
        "host/65536/",
        "host/x/",
        "/53/",
        "fe80%3A%3A1%25lo/53/",
        "ho%zzst/53/",
    ];
    let other = ["host/", "host/53", "host/53/more/"];
    for (target, status) in bad
        .map(|target| (target, 400))
        .into_iter()
        .chain(other.map(|target| (target, 404)))
    {
        let path = format!("/.well-known/masque/udp/{target}");
        assert_eq!(
            ask_for_udp(overlay.address(), &path),
            [status, status],
            "{target}"
        );
    }
}

/// The answers to CONNECT-UDP for this path, over HTTP/2 and HTTP/1.1.
fn ask_for_udp(proxy: SocketAddr, path: &str) -> [u16; 2] {
    let client = Client::connect(proxy);
    let answer = client
        .extended("connect-udp", &format!("http://{proxy}{path}"), &[])
        .unwrap_err();
    let mut raw = Raw::connect(proxy);
    raw.send(format!("GET {path} HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n"));
    [answer.status, raw.head().status()]
}

#[test]
fn an_h1_connection_whose_tunnel_was_refused_takes_nothing_more() {
    let overlay = Overlay::start(&[]);
    let authority = closed();
    let mut raw = Raw::connect(overlay.address());
    raw.send(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\nGET http://video/ HTTP/1.1\r\n\r\n"));
    let head = raw.head();
    assert_eq!(head.status(), 502);
    assert_eq!(head.field("connection").as_deref(), Some("close"));
    let rest = String::from_utf8(raw.rest().0).unwrap();
    assert!(!rest.contains("HTTP/1.1"), "one answer only: {rest}");
}
