//! What decides where an exchange goes, and what is changed on its way.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins};
use http::Request;

/// The body of the answer to a request through `web`, whose routes answer with their own names.
fn route(node: &Node, arguments: &[&str]) -> String {
    let got = curl(&[&["-g", "-x", &node.url("web")][..], arguments].concat());
    assert_eq!(got.exit, 0, "{got:?}");
    format!("{} {}", got.status, got.text())
}

/// A node whose routes are `matches`; each answers 200 with its number, and what matches none gets 404.
fn numbered(matches: &[&str]) -> Node {
    let routes: String = matches
        .iter()
        .enumerate()
        .map(|(number, matches)| {
            format!("  - {{ match: {matches}, respond: {{ status: 200, body: \"{number}\" }} }}\n")
        })
        .collect();
    let listeners = "listeners:\n  web: { http: 127.0.0.1:0, user: alice, accepts: [service] }\n  \
                     side: { http: 127.0.0.1:0, user: bob }\n";
    Node::start("alice", &format!("{listeners}routes:\n{routes}"))
}

#[test]
fn targets_match_exactly_by_suffix_and_by_expression() {
    let node = numbered(&[
        "{ target: VIDEO }",
        "{ target: \"DB:5432\" }",
        "{ target: \"*.example.com:8443\" }",
        "{ target: \"*.example.com\" }",
        "{ target: \"~^v[0-9]+$\" }",
        "{ target: [\"[2001:db8::1]:80\", 192.0.2.1] }",
        "{ target: \"*\", port: [8000-8010, 9000] }",
    ]);
    let cases = [
        ("http://video/", "200 0"),
        ("http://VIDEO:99/", "200 0"),
        ("http://db:5432/", "200 1"),
        ("http://a.example.com:8443/", "200 2"),
        ("http://a.b.example.com/", "200 3"),
        ("http://v12/", "200 4"),
        ("http://[2001:db8:0:0::1]/", "200 5"),
        ("http://192.0.2.1:7/", "200 5"),
        ("http://other:8005/", "200 6"),
        ("http://other:9000/", "200 6"),
    ];
    for (url, expected) in cases {
        assert_eq!(route(&node, &[url]), expected, "{url}");
    }
    for url in [
        "http://db:5433/",
        "http://example.com.evil/",
        "http://xv12/",
        "http://other:8011/",
    ] {
        assert!(route(&node, &[url]).starts_with("404 "), "{url}");
    }
}

#[test]
fn paths_methods_fields_users_and_listeners_match() {
    let node = numbered(&[
        "{ path: /exact }",
        "{ path: /prefix/* }",
        "{ path: \"~^/v[0-9]+/\" }",
        "{ method: [PUT, DELETE] }",
        "{ fields: { x-kind: big, x-other: false } }",
        "{ fields: { x-other: true } }",
        "{ fields: { service: \"~^d\" } }",
        "{ listener: side, user: bob, source: 127.0.0.0/8 }",
        "{ source: 192.0.2.0/24 }",
        "{ user: \"~^al\", path: /mine }",
    ]);
    let cases: [(&[&str], &str); 9] = [
        (&["http://a/exact?q=/prefix/"], "200 0"),
        (&["http://a/prefix/x"], "200 1"),
        (&["http://a/v1/x"], "200 2"),
        (&["-X", "DELETE", "http://a/"], "200 3"),
        (&["-H", "x-kind: big", "http://a/"], "200 4"),
        (
            &["-H", "x-kind: big", "-H", "x-other: 1", "http://a/"],
            "200 5",
        ),
        (&["-H", "service: db", "http://a/"], "200 6"),
        (&["-x", &node.url("side"), "http://a/"], "200 7"),
        (&["http://a/mine"], "200 9"),
    ];
    for (arguments, expected) in cases {
        assert_eq!(route(&node, arguments), expected, "{arguments:?}");
    }
    assert!(route(&node, &["http://a/exact/"]).starts_with("404 "));
    assert!(route(&node, &["http://a/prefix"]).starts_with("404 "));
}

#[test]
fn protocols_match() {
    let origin = origins::udp_echo(origins::V4);
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes:
              - {{ match: {{ protocol: connect-udp, target: "a:53" }}, terminate: echo }}
              - {{ match: {{ protocol: websocket }}, respond: {{ status: 418 }} }}
              - {{ match: {{ method: CONNECT, target: "b:1" }}, respond: {{ status: 403 }} }}
            upstreams: {{ echo: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let proxy = node.address("web");
    let client = Client::connect(proxy);
    for mut tunnel in [
        UdpTunnel::h1(proxy, "a", 53, "").unwrap(),
        UdpTunnel::h2(&client, proxy, "a", 53, &[]).unwrap(),
    ] {
        tunnel.send("x");
        assert_eq!(tunnel.receive(), b"x");
    }
    assert_eq!(UdpTunnel::h1(proxy, "a", 54, "").unwrap_err().status(), 404);
    assert_eq!(
        UdpTunnel::h2(&client, proxy, "a", 54, &[])
            .unwrap_err()
            .status,
        404
    );
    let mut raw = Raw::connect(proxy);
    raw.send(
        "GET http://a/ HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    );
    assert_eq!(raw.head().status(), 418);
    assert_eq!(Raw::tunnel(proxy, "b:1", "").unwrap_err().status(), 403);
    assert_eq!(client.tunnel("b:1", &[]).unwrap_err().status, 403);
}

#[test]
fn the_authority_of_an_extended_connect_matches() {
    let origin = origins::udp_echo(origins::V4);
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ match: {{ authority: 127.0.0.1 }}, terminate: echo }} ]
            upstreams: {{ echo: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let mut tunnel = UdpTunnel::h1(node.address("web"), "video", 5004, "").unwrap();
    tunnel.send("x");
    assert_eq!(tunnel.receive(), b"x");
    let elsewhere = "[::1]:80".parse().unwrap();
    let client = Client::connect(node.address("web"));
    assert_eq!(
        UdpTunnel::h2(&client, elsewhere, "video", 5004, &[])
            .unwrap_err()
            .status,
        404
    );
}

#[test]
fn the_first_route_that_matches_decides() {
    let node = numbered(&["{ path: /a/* }", "{ target: video }", "{}"]);
    assert_eq!(route(&node, &["http://video/a/b"]), "200 0");
    assert_eq!(route(&node, &["http://video/b"]), "200 1");
    assert_eq!(route(&node, &["http://other/b"]), "200 2");
    assert_eq!(
        node.record(|record| record["target"] == "other:80/b")["route"],
        "routes[2]"
    );
}

#[test]
fn no_route_is_not_found_with_the_reason() {
    let node = numbered(&["{ path: /nowhere }"]);
    let got = curl(&["-x", &node.url("web"), "http://video/"]);
    assert_eq!(got.status, 404);
    let status = got.field("proxy-status").unwrap();
    assert!(
        status.starts_with("alice; error=destination_not_found"),
        "{status}"
    );
    assert!(
        status.contains("video:80") && status.contains("web"),
        "{status}"
    );
}

#[test]
fn weights_split_exchanges() {
    let (first, second) = (origins::http(), origins::http());
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ match: {{ path: /split }}, to: {{ a: 3, b: 1 }} }}, {{ terminate: both }} ]
            upstreams:
              a: {{ endpoints: ["{0}"] }}
              b: {{ endpoints: ["{1}"] }}
              both: {{ endpoints: [{{ address: "{0}", weight: 3 }}, "{1}"] }}
            workers: 1
            "#,
            first.address(),
            second.address()
        ),
    );
    let mut raw = Raw::connect(node.address("web"));
    let mut ask = |path: &str| {
        raw.send(format!("GET {path} HTTP/1.1\r\nHost: video\r\n\r\n"));
        assert_eq!(raw.response().0.status(), 200);
    };
    (0..40).for_each(|_| ask("/turns"));
    assert_eq!(
        (first.seen().len(), second.seen().len()),
        (30, 10),
        "in turn, by weight"
    );
    (0..200).for_each(|_| ask("/split"));
    let share = second.seen().len() - 10;
    assert!(
        (15..100).contains(&share),
        "a quarter of 200, by chance: {share}"
    );
}

#[test]
fn a_route_answers_and_redirects_by_itself() {
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes:
          - match: { path: /gone }
            respond: { status: 410, body: "nothing here\n", fields: { content-type: text/plain, x-why: moved } }
          - { redirect: { location: "https://{target.host}{path}", status: 308 } }
        "#,
    );
    let got = curl(&["-x", &node.url("web"), "http://video/gone"]);
    assert_eq!((got.status, got.text().as_str()), (410, "nothing here\n"));
    assert_eq!(
        (
            got.field("x-why").as_deref(),
            got.field("content-length").as_deref()
        ),
        (Some("moved"), Some("13"))
    );
    let got = curl(&["-x", &node.url("web"), "-I", "http://video/gone"]);
    assert_eq!(
        (got.status, got.field("content-length").as_deref()),
        (410, Some("13")),
        "{got:?}"
    );
    let got = curl(&["-x", &node.url("web"), "http://video:8080/a/b?c"]);
    assert_eq!(
        (got.status, got.field("location").as_deref()),
        (308, Some("https://video/a/b?c")),
        "{got:?}"
    );
}

/// Over each version and in each form of a request: the query goes along, and the port is that of the target.
#[test]
fn a_redirect_keeps_the_query_and_knows_the_port() {
    for (location, expected) in [
        (
            "https://{target.host}:{target.port}{path}",
            "https://video:8080/a/b?c=d&e",
        ),
        (
            "https://{target}/new{path}{query}",
            "https://video:8080/new/a/b?c=d&e",
        ),
        (
            "https://login/?back={path}",
            "https://login/?back=/a/b?c=d&e",
        ),
        ("https://login{query}", "https://login?c=d&e"),
        ("https://login/", "https://login/"),
    ] {
        let node = Node::start(
            "alice",
            &format!(
                r#"
                listeners:
                  web: {{ http: 127.0.0.1:0 }}
                  site: {{ http: 127.0.0.1:0, gateway: true }}
                routes: [ {{ redirect: {{ location: "{location}" }} }} ]
                "#
            ),
        );
        let mut raw = Raw::connect(node.address("site"));
        raw.send("GET /a/b?c=d&e HTTP/1.1\r\nHost: video:8080\r\n\r\n");
        assert_eq!(raw.head().field("location").as_deref(), Some(expected));
        let request = Request::get("http://video:8080/a/b?c=d&e")
            .body(())
            .unwrap();
        let answer = Client::connect(node.address("web"))
            .send(request, b"")
            .unwrap();
        assert_eq!(answer.fields["location"], expected);
    }
}

#[test]
fn paths_that_two_servers_may_read_differently_are_refused() {
    let origin = origins::http();
    let node = Node::forward_proxy();
    let authority = origin.address();
    for path in [
        "/a/../../b",
        "/..",
        "/%2e%2e/b",
        "/%2E./b",
        "/a%2f..%2fb",
        "/a/..;/b",
        "/a/..%5cb",
    ] {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(format!(
            "GET http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\n\r\n"
        ));
        assert_eq!(raw.head().status(), 400, "{path}");
    }
    assert!(origin.seen().is_empty());
    for path in [
        "/a..b",
        "/...",
        "/.well-known/x",
        "/a%20b",
        "/a%2Fb",
        "/a?../b%2f",
        "//a",
    ] {
        let got = curl(&[
            "--path-as-is",
            "-x",
            &node.url("web"),
            &format!("http://{authority}{path}"),
        ]);
        assert_eq!(got.status, 200, "{path}");
        assert_eq!(origin.last().uri, path);
    }
}

#[test]
fn an_endpoint_that_refuses_is_passed_over() {
    let origin = origins::http();
    let unserved = origins::Unserved::new();
    let gone = unserved.address();
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ terminate: o }} ]
            upstreams: {{ o: {{ endpoints: ["{gone}", "{}"] }} }}
            "#,
            origin.address()
        ),
    );
    for _ in 0..4 {
        assert_eq!(curl(&["-x", &node.url("web"), "http://video/"]).status, 200);
    }
}

#[test]
fn a_response_that_does_not_come_is_a_gateway_timeout() {
    let origin = origins::http();
    let node = Node::start(
        "alice",
        r#"
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { terminate: true, timeouts: { header: 200ms } } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/hang", origin.address()),
    ]);
    assert_eq!(got.status, 504, "{got:?}");
    assert!(
        got.field("proxy-status")
            .unwrap()
            .starts_with("alice; error=http_response_timeout"),
        "{got:?}"
    );
}
