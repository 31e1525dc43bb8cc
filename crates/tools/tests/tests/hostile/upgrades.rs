//! Requests that would turn a connection into one whose requests no route sees (h2c smuggling), and others that switch.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins, program};

use crate::versions::Versions;

/// Only `/public/*` is routed; what `upgrades` says of it is given.
fn node(origin: &str, upgrades: &str) -> Versions {
    let rest = format!(
        r#"
        routes: [ {{ match: {{ path: /public/* }}, terminate: video{upgrades} }} ]
        upstreams: {{ video: {{ endpoints: ["{origin}"] }} }}
        "#
    );
    Versions::start("", &rest)
}

#[test]
fn protocols_of_connections_pass_nowhere() {
    let origin = origins::http();
    let node = node(&origin.address().to_string(), "");
    for protocol in ["h2c", "H2C", "h2", "tls/1.3", "http/2.0"] {
        for came in [
            node.h2_upgrade(protocol, "VIDEO", "/public/x"),
            node.h3_upgrade(protocol, "VIDEO", "/public/x"),
        ] {
            let named = came.said.contains("http_upgrade_failed")
                && came.said.contains("would hide the requests");
            assert!(came.status == 501 && named, "{protocol}: {came:?}");
        }
        assert_eq!(origin.seen(), [], "{protocol}");
        // RFC 9110, 7.8: HTTP/1.1 can go on without.
        let came = node.h1_upgrade(protocol, "VIDEO", "/public/x");
        assert_eq!(
            (came.status, origin.last().field("upgrade")),
            (200, None),
            "{protocol}: {came:?}"
        );
        origin.forget();
    }
    let record = node.node.record(|record| record["kind"] == "upgrade");
    assert_eq!(
        (&record["target"], &record["status"]),
        (&"VIDEO:80/public/x".into(), &501.into()),
        "{record}"
    );
}

#[test]
fn they_pass_nowhere_even_if_a_route_names_them() {
    for protocol in ["h2c", "TLS/1.0", "http/2.0"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.yaml");
        let text = format!(
            "version: 1\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [{{ terminate: true, upgrades: [{protocol}] }}]\n"
        );
        std::fs::write(&file, text).unwrap();
        let said = program::run(&["check", file.to_str().unwrap()]);
        let words = format!("{}{}", said.stdout, said.stderr);
        assert!(
            said.code == 2 && words.contains("routes[0].upgrades[0]"),
            "{protocol}: {said:?}"
        );
    }
}

#[test]
fn an_unknown_protocol_passes_only_where_its_route_names_it() {
    let answer =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: Irc/6.9\r\n\r\n";
    let origin = origins::scripted(answer);
    let closed = node(&origin.address().to_string(), "");
    for came in closed.upgrade("irc/6.9", "VIDEO", "/public/x") {
        assert!(
            came.status == 501 && came.said.contains("protocol irc/6.9 passes only where"),
            "{came:?}"
        );
    }
    assert_eq!(origin.seen(), Vec::<String>::new());
    let open = node(&origin.address().to_string(), ", upgrades: [IRC/6.9]");
    let [h1, h2, h3] = open.upgrade("irc/6.9", "VIDEO", "/public/x");
    assert_eq!(
        (h1.status, h2.status, h3.status),
        (101, 200, 200),
        "{h1:?} {h2:?} {h3:?}"
    );
    assert!(
        origin
            .seen()
            .iter()
            .all(|head| head.contains("upgrade: irc/6.9")),
        "{:?}",
        origin.seen()
    );
}

#[test]
fn what_is_not_one_protocol_is_malformed() {
    let origin = origins::tcp_upgrades();
    let node = node(&origin.address().to_string(), "");
    for protocol in ["a b", "websocket, h2c", "a/b/c"] {
        let came = node.h2_upgrade(protocol, "VIDEO", "/public/x");
        assert!(
            came.status == 400 && came.said.contains("not one name"),
            "{protocol}: {came:?}"
        );
        // H3_MESSAGE_ERROR.
        let came = node.h3_upgrade(protocol, "VIDEO", "/public/x");
        assert!(
            came.said.contains(&0x10e.to_string()),
            "{protocol}: {came:?}"
        );
    }
    assert_eq!(node.h1_upgrade("a b", "VIDEO", "/public/x").status, 400);
    // HTTP/1.1 has lists, of which the known protocol is chosen.
    let came = node.h1_upgrade("h2c, irc/6.9, websocket", "VIDEO", "/public/x");
    assert_eq!(came.status, 101, "{came:?}");
    assert!(
        came.said.contains("websocket") && !came.said.contains("h2c"),
        "{came:?}"
    );
}

#[test]
fn an_origin_switches_to_nothing_that_was_not_asked_for() {
    for said in ["Upgrade: h2c\r\n", "Upgrade: websocket, h2c\r\n", ""] {
        let origin = origins::scripted(&format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n{said}\r\n"
        ));
        let node = node(&origin.address().to_string(), ", upgrades: [my-protocol]");
        for came in node.upgrade("my-protocol", "VIDEO", "/public/x") {
            assert!(
                came.status == 502 && came.said.contains("101"),
                "{said}: {came:?}"
            );
        }
    }
}

/// A tunnel through two nodes ends when its route no longer names the protocol.
#[test]
fn an_open_tunnel_ends_with_its_permission() {
    let origin = origins::scripted(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n",
    );
    let yaml = |upgrades: &str| {
        format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: video{upgrades} }} ]
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        )
    };
    let node = Node::start("edge", &yaml(", upgrades: [chat]"));
    let mut raw = Raw::connect(node.address("web"));
    raw.send(
        "GET http://VIDEO/ HTTP/1.1\r\nHost: VIDEO\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n",
    );
    assert_eq!(raw.head().status(), 101);
    assert_eq!(node.reload(&yaml("")).0, 200);
    raw.rest();
    let record = node.record(|record| record["event"] == "end");
    assert!(
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("policy_changed"),
        "{record}"
    );
}
