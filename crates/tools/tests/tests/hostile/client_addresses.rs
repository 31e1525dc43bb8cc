//! Addresses of clients in fields: believed of the proxies that are named, and of no one else.

use std::net::{IpAddr, SocketAddr};

use hermes_tests::raw::Raw;
use hermes_tests::{Node, eventually, origins};

/// A gateway that takes `field` from 127.0.0.1, and shows its origin who asked.
fn gateway(field: &str, more: &str) -> (Node, origins::Origin<origins::Request>) {
    let origin = origins::http();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners:
              web:
                http: 127.0.0.1:0
                gateway: true
                accepts: [x-forwarded-for]
                client_address: {{ field: {field}, from: [127.0.0.1/32, 10.0.0.0/8] }}
                set: {{ x-seen: "{{peer.address}}" }}
                {more}
            routes:
              - {{ match: {{ source: 192.0.2.0/24 }}, respond: {{ status: 403 }} }}
              - {{ terminate: origin }}
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    (node, origin)
}

/// A connection from this address of the machine.
fn from(node: &Node, address: &str) -> Raw {
    let address: IpAddr = address.parse().unwrap();
    Raw::connect_from(SocketAddr::new(address, 0), node.address("web"))
}

/// The status of a request with these fields.
fn ask(raw: &mut Raw, fields: &str) -> u16 {
    raw.send(format!("GET /asked HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    raw.response().0.status()
}

#[test]
fn the_nearest_address_that_is_no_proxys_counts_for_rules_records_and_origins() {
    let (node, origin) = gateway("x-forwarded-for", "");
    let mut raw = from(&node, "127.0.0.1");
    // The client wrote the first one, in the hope to be another.
    for fields in [
        "X-Forwarded-For: 192.0.2.66, 203.0.113.9\r\n",
        "X-Forwarded-For: 192.0.2.66\r\nX-Forwarded-For: 203.0.113.9, 10.0.0.7\r\n",
        "X-Forwarded-For: \", 203.0.113.9:4711\r\n",
        "X-Forwarded-For: ::ffff:203.0.113.9\r\n",
    ] {
        origin.forget();
        assert_eq!(ask(&mut raw, fields), 200, "{fields}");
        assert_eq!(
            origin.last().field("x-seen").as_deref(),
            Some("203.0.113.9")
        );
        let forwarded = origin.last().field("forwarded").unwrap();
        assert!(forwarded.starts_with("for=203.0.113.9;"), "{forwarded}");
    }
    let record = node.record(|record| record["status"] == 200);
    assert_eq!(record["source"], "203.0.113.9");

    // Clients that take turns on one connection are told apart.
    assert_eq!(ask(&mut raw, "X-Forwarded-For: 192.0.2.1\r\n"), 403);
    assert_eq!(ask(&mut raw, "X-Forwarded-For: 198.51.100.1\r\n"), 200);
}

#[test]
fn forwarded_is_read_behind_whatever_a_client_left_open() {
    let (node, origin) = gateway("forwarded", "");
    let mut raw = from(&node, "127.0.0.1");
    for begun in ["for=\"", "for=\"192.0.2.66", "for=192.0.2.66;by=\"\\", "\""] {
        let fields = format!("Forwarded: {begun}, for=\"203.0.113.9:80\";proto=https\r\n");
        assert_eq!(ask(&mut raw, &fields), 200, "{fields}");
        assert_eq!(
            origin.last().field("x-seen").as_deref(),
            Some("203.0.113.9")
        );
    }
}

#[test]
fn no_stranger_uses_it_and_the_origin_does_not_see_what_he_wrote() {
    let (node, origin) = gateway("x-forwarded-for", "");
    let mut stranger = from(&node, "127.0.0.2");
    assert_eq!(ask(&mut stranger, "X-Forwarded-For: 203.0.113.9\r\n"), 200);
    assert_eq!(origin.last().field("x-seen").as_deref(), Some("127.0.0.2"));
    assert_eq!(origin.last().field("x-forwarded-for"), None);
    // Nor is he refused as someone else would be.
    assert_eq!(ask(&mut stranger, "X-Forwarded-For: 192.0.2.1\r\n"), 200);
}

#[test]
fn what_is_no_address_is_the_proxys_own_counted_and_told_once() {
    let (node, origin) = gateway("x-forwarded-for", "");
    let mut raw = from(&node, "127.0.0.1");
    for value in ["unknown", "203.0.113.9.", "_hidden", "0.0.0.0"] {
        assert_eq!(ask(&mut raw, &format!("X-Forwarded-For: {value}\r\n")), 200);
        assert_eq!(origin.last().field("x-seen").as_deref(), Some("127.0.0.1"));
    }
    // Without the field the proxy asks for itself.
    assert_eq!(ask(&mut raw, ""), 200);

    let metric = "hermes_client_addresses_unread_total{listener=\"web\"} 4";
    eventually("they are counted", || {
        node.metrics().contains(metric).then_some(())
    });
    let log = node.log();
    let told = log.matches("names its client by no address").count();
    assert_eq!(told, 1, "{log}");
    assert!(!log.contains("_hidden"), "{log}");
}

#[test]
fn clients_behind_a_proxy_are_bounded_each_by_its_own_address() {
    let (node, _origin) = gateway("x-forwarded-for", "limits: { per_source: 3 }");
    let open = |address: &str| {
        let mut raw = from(&node, "127.0.0.1");
        raw.send(format!(
            "GET /hang HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {address}\r\n\r\n"
        ));
        raw
    };
    let mut greedy: Vec<Raw> = (0..3).map(|_| open("203.0.113.9")).collect();
    eventually("all three are open", || {
        (node.exchanges().len() == 3).then_some(())
    });

    let mut raw = from(&node, "127.0.0.1");
    assert_eq!(ask(&mut raw, "X-Forwarded-For: 203.0.113.9\r\n"), 429);
    assert_eq!(ask(&mut raw, "X-Forwarded-For: 203.0.113.10\r\n"), 200);

    greedy.clear();
    eventually("their permits are given back", || {
        (ask(&mut raw, "X-Forwarded-For: 203.0.113.9\r\n") == 200).then_some(())
    });
}

/// A gateway for tunnels, with this `client_address` and these sources denied.
fn tunnels(client_address: &str, denied: &str) -> String {
    format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true{client_address} }} }}
        policy: {{ default: allow, rules: [ {{ match: {{ source: "{denied}" }}, deny: true }} ] }}
        routes: [ {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    )
}

#[test]
fn a_tunnel_keeps_the_address_that_it_came_with_over_reloads() {
    const FIELD: &str = ", client_address: { field: x-forwarded-for, from: [127.0.0.1/32] }";
    const CLIENT: &str = "203.0.113.9";
    let echo = origins::tcp_echo();
    let node = Node::start("edge", &tunnels(FIELD, "192.0.2.0/24"));
    let fields = format!("X-Forwarded-For: 192.0.2.66, {CLIENT}\r\n");
    let target = echo.address().to_string();
    let mut tunnel = Raw::tunnel(node.address("web"), &target, &fields).unwrap();
    let mut speaks = |word: &str| {
        tunnel.send(word);
        assert_eq!(tunnel.exactly(word.len()), word.as_bytes());
        let source = node.exchanges()[0]["source"].clone();
        assert_eq!(source.as_str().unwrap(), CLIENT);
    };
    speaks("opened");

    // Neither another field, nor none, nor a rule about the proxy itself is about this tunnel any more.
    for (client_address, denied) in [
        (
            ", client_address: { field: forwarded, from: [127.0.0.1/32] }",
            "192.0.2.0/24",
        ),
        ("", "192.0.2.0/24"),
        ("", "127.0.0.1/32"),
    ] {
        let (status, said) = node.reload(&tunnels(client_address, denied));
        assert_eq!(status, 200, "{said:#}");
        speaks(&format!("after {client_address} {denied}"));
    }
    let refused = Raw::tunnel(node.address("web"), &target, &fields);
    assert!(
        refused.is_err(),
        "a new one is the proxy's own, which is denied"
    );

    // A rule about its own address is.
    let (status, said) = node.reload(&tunnels("", "203.0.113.0/24"));
    assert_eq!(status, 200, "{said:#}");
    let record = node.record(|record| {
        record["kind"] == "connect" && record["event"] == "end" && record["status"] == 200
    });
    assert_eq!(record["source"], CLIENT);
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("policy"), "{reason}");
}
