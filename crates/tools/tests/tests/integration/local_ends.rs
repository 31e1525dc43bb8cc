//! Where connections and datagrams leave from.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::origins::V4;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, origins};

/// A node that ends here everything that comes, and says in its records where that came from.
fn far(tls: &str) -> Node {
    Node::start(
        "far",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, {tls} }} }}\nroutes: [ {{ respond: {{ status: 204 }} }} ]\n"
        ),
    )
}

fn source(far: &Node) -> String {
    let record = far.record(|record| record["status"] == 204);
    record["source"].as_str().unwrap().to_owned()
}

#[test]
fn those_of_an_upstream_leave_from_its_address_over_each_version() {
    let pki = Pki::new();
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let ca = pki.ca();
    for (http, secured) in [("1", false), ("2", false), ("2", true), ("3", true)] {
        let far = far(&if secured {
            format!("tls: {{ {tls} }}")
        } else {
            String::new()
        });
        let tls = if secured {
            format!("tls: {{ ca_file: {} }},", ca.display())
        } else {
            String::new()
        };
        let node = Node::start(
            "near",
            &format!(
                r#"
                listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ to: far }} ]
                upstreams: {{ far: {{ endpoints: ["{}"], http: {http}, {tls} local_address: ["::1", 127.0.0.9], interface: lo }} }}
                "#,
                far.address("web")
            ),
        );
        let got = curl(&["-x", &node.url("web"), "http://a/"]);
        assert_eq!(got.status, 204, "{http} {secured}: {got:?}");
        assert!(source(&far).starts_with("127.0.0.9:"), "{}", source(&far));
    }
}

#[test]
fn those_to_targets_leave_from_the_address_of_egress() {
    let (web, bytes, datagrams) = (
        far("gateway: true"),
        origins::tcp_echo(),
        origins::udp_echo(V4),
    );
    let node = Node::start(
        "end",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8], local_address: 127.0.0.9 }
        "#,
    );
    let proxy = node.address("web");
    let url = format!("http://{}/", web.address("web"));
    assert_eq!(curl(&["-x", &node.url("web"), &url]).status, 204);
    assert!(source(&web).starts_with("127.0.0.9:"));

    let mut tunnel = Raw::tunnel(proxy, &bytes.address().to_string(), "").unwrap();
    tunnel.send("a");
    assert_eq!(tunnel.exactly(1), b"a");

    let target = datagrams.address();
    let mut tunnel = UdpTunnel::h1(proxy, "127.0.0.1", target.port(), "").unwrap();
    assert_eq!(tunnel.ask(b"a"), b"a");
    assert_eq!(datagrams.last().0.ip().to_string(), "127.0.0.9");
}

#[test]
fn those_of_bind_leave_by_the_interface_of_egress() {
    let asks = |interface: &str| {
        let node = Node::start(
            "end",
            &format!(
                "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: true, bind: {{ listen: 127.0.0.1 }} }} ]\n\
                 egress: {{ allow: [127.0.0.0/8], local_address: 127.0.0.9, interface: {interface} }}\n"
            ),
        );
        let proxy = node.address("web");
        let mut raw = Raw::connect(proxy);
        raw.send(format!(
            "GET /.well-known/masque/udp/%2A/%2A/ HTTP/1.1\r\nHost: {proxy}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\
             Capsule-Protocol: ?1\r\nConnect-UDP-Bind: ?1\r\n\r\n"
        ));
        raw.head()
    };
    let opened = asks("lo");
    assert_eq!(opened.status(), 101, "{opened:?}");
    let public = opened.field("proxy-public-address").unwrap();
    assert!(public.starts_with("\"127.0.0.1:"), "{public}");

    let refused = asks("nowhere0");
    assert_eq!(refused.status(), 500, "{refused:?}");
    let why = refused.field("proxy-status").unwrap();
    assert!(
        why.contains("interface nowhere0: this machine has no such interface"),
        "{why}"
    );
}

#[test]
fn what_cannot_be_left_from_is_told_in_words() {
    let far = far("");
    for (key, said) in [
        (
            "interface: hermes-none",
            "interface hermes-none: this machine has no such interface",
        ),
        (
            "local_address: 192.0.2.1",
            "local address 192.0.2.1: it is not an address of this machine",
        ),
        (
            "local_address: \"::1\"",
            "local_address: there is no address of IPv4",
        ),
    ] {
        let node = Node::start(
            "near",
            &format!(
                r#"
                listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ to: far }} ]
                upstreams: {{ far: {{ endpoints: ["{}"], {key} }} }}
                "#,
                far.address("web")
            ),
        );
        let got = curl(&["-x", &node.url("web"), "http://a/"]);
        assert_eq!(got.status, 500, "{got:?}");
        assert!(got.text().contains(said), "{}", got.text());
    }
}
