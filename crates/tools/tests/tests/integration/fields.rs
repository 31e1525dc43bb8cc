//! What is changed in a message on its way: fields of one hop, fields of the path, rewrites.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, eventually, origins};

#[test]
fn target_and_path_are_rewritten_and_the_query_is_not() {
    let origin = origins::http();
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes:
              - match: {{ path: /org/* }}
                rewrite: {{ target: "{0}", path: {{ prefix: /org/, with: /new/ }} }}
                terminate: true
              - {{ rewrite: {{ target: "db.test:{1}" }}, terminate: o }}
            upstreams: {{ o: {{ endpoints: ["{0}"] }} }}
            egress: {{ allow: [127.0.0.0/8] }}
            "#,
            origin.address(),
            origin.port()
        ),
    );
    let got = curl(&[
        "-x",
        &node.url("web"),
        "http://video/org/a%20b?x=/org/&y=%2F",
    ]);
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(origin.last().uri, "/new/a%20b?x=/org/&y=%2F");
    assert_eq!(
        origin.last().field("host"),
        Some(origin.address().to_string())
    );
    curl(&["-x", &node.url("web"), "http://video/"]);
    assert_eq!(
        origin.last().field("host"),
        Some(format!("db.test:{}", origin.port()))
    );
    let mut raw = Raw::tunnel(node.address("web"), "video:1", "").unwrap();
    raw.send("GET /in-tunnel HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(raw.head().status(), 200);
}

#[test]
fn a_loop_is_detected() {
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    drop(holder);
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: "127.0.0.1:{port}" }} }}
            routes: [ {{ to: itself }} ]
            upstreams: {{ itself: {{ endpoints: ["127.0.0.1:{port}"] }} }}
            "#
        ),
    );
    let got = curl(&["-x", &node.url("web"), "http://video/"]);
    assert_eq!(got.status, 508, "{got:?}");
    assert!(
        got.field("proxy-status")
            .unwrap()
            .contains("error=proxy_loop_detected"),
        "{got:?}"
    );
    eventually("both passes are recorded", || {
        (node.access().len() == 2).then_some(())
    });
    let head = Raw::tunnel(node.address("web"), "video:1", "").unwrap_err();
    assert_eq!(head.status(), 508, "{head:?}");
    let head = UdpTunnel::h1(node.address("web"), "video", 1, "").unwrap_err();
    assert_eq!(head.status(), 508, "{head:?}");
}

#[test]
fn a_message_that_passed_too_many_proxies_is_refused() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let via: Vec<_> = (0..16).map(|number| format!("1.1 p{number}")).collect();
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-H",
        &format!("Via: {}", via.join(", ")),
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!(got.status, 508, "{got:?}");
    assert!(origin.seen().is_empty());
}

#[test]
fn via_names_every_proxy_in_both_directions() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-H",
        "Via: 1.0 fred",
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!(
        origin.last().field("via").as_deref(),
        Some("1.0 fred, 1.1 alice")
    );
    assert_eq!(got.field("via").as_deref(), Some("1.1 alice"));
}

#[test]
fn an_origin_learns_nothing_of_the_client_unless_it_is_exposed() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    curl(&[
        "-x",
        &node.url("web"),
        "-H",
        "Forwarded: for=10.9.9.9",
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!(
        (
            origin.last().field("forwarded"),
            origin.last().field("x-forwarded-for")
        ),
        (None, None)
    );
    let gate = Node::start(
        "gate",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ terminate: o }} ]
            upstreams: {{ o: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    curl(&["-H", "Forwarded: for=10.9.9.9", &gate.url("web")]);
    let forwarded = origin.last().field("forwarded").unwrap();
    let parts: Vec<_> = forwarded.split(';').collect();
    assert_eq!(
        parts.len(),
        3,
        "a client's own is not believed: {forwarded}"
    );
    for part in [
        "for=127.0.0.1",
        "proto=http",
        &format!("host=\"{}\"", gate.address("web")),
    ] {
        assert!(parts.contains(&part), "{part} in {forwarded}");
    }
}

#[test]
fn hop_by_hop_fields_stay_on_their_hop() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let fields = [
        "Connection: x-mine, close",
        "x-mine: 1",
        "Keep-Alive: timeout=5",
        "Proxy-Connection: keep-alive",
        "TE: gzip",
        "Upgrade: foo",
        "Proxy-Authorization: Basic YTpi",
        "Trailer: x",
    ];
    let mut arguments = vec![
        "-x".to_owned(),
        node.url("web"),
        format!("http://{}/", origin.address()),
    ];
    arguments.extend(
        fields
            .iter()
            .flat_map(|field| ["-H".to_owned(), (*field).to_owned()]),
    );
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let got = curl(&arguments);
    assert_eq!(got.status, 200, "{got:?}");
    let seen = origin.last();
    for name in [
        "connection",
        "x-mine",
        "keep-alive",
        "proxy-connection",
        "te",
        "upgrade",
        "proxy-authorization",
    ] {
        assert_eq!(seen.field(name), None, "{name}");
    }
    let origin = origins::scripted(
        "HTTP/1.1 200 OK\r\nConnection: x-secret\r\nx-secret: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n\
         Content-Length: 0\r\n\r\n",
    );
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/", origin.address()),
    ]);
    assert_eq!(got.status, 200);
    for name in ["x-secret", "keep-alive", "proxy-authenticate"] {
        assert_eq!(got.field(name), None, "{name}");
    }
}

#[test]
fn routes_set_append_and_remove_fields_with_variables() {
    let origin = origins::http();
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, user: bob, set: {{ x-in: "{{listener}}" }} }} }}
            routes:
              - set: {{ x-who: "{{user}}@{{peer.address}} for {{target.host}}:{{target.port}}", x-what: "{{method}} {{path}}" }}
                append: {{ x-in: "{{node}}", cache-control: no-transform }}
                remove: [cookie, x-old-*]
                terminate: o
            upstreams: {{ o: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let fields = [
        "-H",
        "Cookie: a",
        "-H",
        "x-old-1: a",
        "-H",
        "x-who: evil",
        "-H",
        "Cache-Control: no-cache",
    ];
    let got = curl(
        &[
            &["-x", &node.url("web"), "http://video:81/p?q"][..],
            &fields,
        ]
        .concat(),
    );
    assert_eq!(got.status, 200, "{got:?}");
    let seen = origin.last();
    assert_eq!(
        seen.field("x-who").as_deref(),
        Some("bob@127.0.0.1 for video:81")
    );
    assert_eq!(seen.field("x-what").as_deref(), Some("GET /p"));
    assert_eq!(seen.field("x-in").as_deref(), Some("web, alice"));
    assert_eq!(
        seen.field("cache-control").as_deref(),
        Some("no-cache, no-transform")
    );
    assert_eq!((seen.field("cookie"), seen.field("x-old-1")), (None, None));
}

#[test]
fn max_forwards_ends_options_and_trace_here() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let url = format!("http://{}/", origin.address());
    let ask = |method: &str, hops: &str| {
        curl(&[
            "-x",
            &node.url("web"),
            "-X",
            method,
            "-H",
            &format!("Max-Forwards: {hops}"),
            &url,
        ])
        .status
    };
    // RFC 9110, 7.6.2.
    for method in ["OPTIONS", "TRACE"] {
        ask(method, "0");
        assert_eq!(
            origin.seen(),
            [],
            "{method} with no hop left is not forwarded"
        );
    }
    assert_eq!(ask("OPTIONS", "5"), 200);
    assert_eq!(origin.last().field("max-forwards").as_deref(), Some("4"));
    assert_eq!(ask("GET", "0"), 200, "other methods ignore it");
}
