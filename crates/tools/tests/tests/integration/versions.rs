//! HTTP/1.0, HTTP/1.1, HTTP/2 and TLS, on either side.

use std::net::SocketAddr;

use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, origins};
use http::Request;

/// A reverse proxy: requests in origin form go to `origin`.
fn gateway(origin: SocketAddr) -> Node {
    Node::start(
        "gate",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{origin}"] }} }}
            "#
        ),
    )
}

#[test]
fn an_http_1_0_client_gets_no_interim_response_and_a_closed_connection() {
    let (node, origin) = (Node::forward_proxy(), origins::early_hints());
    let authority = origin.address();
    origin.release();
    let mut raw = Raw::connect(node.address("web"));
    raw.send(format!(
        "GET http://{authority}/ HTTP/1.0\r\nHost: {authority}\r\n\r\n"
    ));
    let (head, body) = raw.response();
    assert_eq!(
        (head.status(), body.as_slice()),
        (200, b"done\n".as_slice())
    );
    assert_eq!(raw.rest().0, b"");
}

#[test]
fn an_http_1_0_client_gets_no_chunks() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let got = curl(&[
        "-0",
        "-x",
        &node.url("web"),
        &format!("http://{}/chunked/200000", origin.address()),
    ]);
    assert_eq!((got.exit, got.body.len()), (0, 200_000), "{}", got.stderr);
    assert_eq!(got.field("transfer-encoding"), None);
}

#[test]
fn an_http_2_client_with_prior_knowledge_uses_a_gateway() {
    let origin = origins::http();
    let node = gateway(origin.address());
    let url = format!("{}/a?b=c", node.url("web"));
    let got = curl(&["--http2-prior-knowledge", "-d", "body", &url]);
    assert_eq!(
        (got.exit, got.status, got.version.as_str()),
        (0, 200, "2"),
        "{got:?}"
    );
    assert_eq!(got.json()["body"], "body");
    assert_eq!(origin.last().uri, "/a?b=c");
    assert_eq!(origin.last().version, "HTTP/1.1");
}

#[test]
fn an_http_2_client_uses_the_forward_proxy() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let client = Client::connect(node.address("web"));
    let uri = format!("http://{}/post", origin.address());
    let answer = client
        .send(Request::post(&uri).body(()).unwrap(), &[b'x'; 40_000])
        .unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap()["bytes"],
        40_000
    );
    let uri = format!("http://{}/bytes/3000000", origin.address());
    let answer = client
        .send(Request::get(&uri).body(()).unwrap(), b"")
        .unwrap();
    assert_eq!(answer.body.len(), 3_000_000);
}

#[test]
fn a_tls_listener_offers_both_versions_by_alpn() {
    let (pki, origin) = (Pki::new(), origins::http());
    let tls = pki.issue(&["127.0.0.1", "gate.test"]).yaml();
    let node = Node::start(
        "gate",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {tls} }} }} }}
            routes: [ {{ terminate: origin }} ]
            upstreams: {{ origin: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let (url, ca) = (format!("https://{}/a", node.address("web")), pki.ca());
    for (option, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let got = curl(&[option, "--cacert", ca.to_str().unwrap(), &url]);
        assert_eq!(
            (got.exit, got.status, got.version.as_str()),
            (0, 200, version),
            "{got:?}"
        );
    }
    let proxied = curl(&[
        "--cacert",
        ca.to_str().unwrap(),
        "--tlsv1.1",
        "--tls-max",
        "1.1",
        &url,
    ]);
    assert_ne!(proxied.exit, 0, "TLS 1.1 is too old");
}

#[test]
fn a_forward_proxy_under_tls_is_an_https_proxy() {
    let (pki, origin) = (Pki::new(), origins::http());
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#
        ),
    );
    let proxy = format!("https://{}", node.address("web"));
    let ca = pki.ca();
    let got = curl(&[
        "--proxy-cacert",
        ca.to_str().unwrap(),
        "-x",
        &proxy,
        &format!("http://{}/a", origin.address()),
    ]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
}

#[test]
fn cookie_crumbs_of_http_2_become_one_line_of_http_1() {
    let (node, origin) = (Node::forward_proxy(), origins::http());
    let client = Client::connect(node.address("web"));
    let request = Request::get(format!("http://{}/", origin.address()))
        .header("cookie", "a=1")
        .header("cookie", "b=2");
    assert_eq!(
        client.send(request.body(()).unwrap(), b"").unwrap().status,
        200
    );
    // RFC 9113, 8.2.3.
    assert_eq!(origin.last().field("cookie").as_deref(), Some("a=1; b=2"));
}

#[test]
fn trailers_pass_between_versions() {
    let node = Node::forward_proxy();
    let origin = origins::scripted(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbody\n\r\n0\r\nx-checksum: 42\r\n\r\n",
    );
    let client = Client::connect(node.address("web"));
    let request = Request::get(format!("http://{}/", origin.address()))
        .body(())
        .unwrap();
    let answer = client.send(request, b"").unwrap();
    assert_eq!(answer.body, b"body\n");
    assert_eq!(answer.trailers.unwrap()["x-checksum"], "42");
}

#[test]
fn interim_responses_pass_to_http_2() {
    let (node, origin) = (Node::forward_proxy(), origins::early_hints());
    origin.release();
    let client = Client::connect(node.address("web"));
    let request = Request::get(format!("http://{}/", origin.address()))
        .body(())
        .unwrap();
    assert_eq!(client.send(request, b"").unwrap().status, 200);
}

#[test]
fn an_upstream_is_spoken_to_in_the_version_it_prefers() {
    let (pki, clear) = (Pki::new(), origins::http());
    let sealed = origins::https(&pki, &["127.0.0.1"]);
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes:
              - {{ match: {{ target: h2c }}, terminate: h2c }}
              - {{ match: {{ target: tls }}, terminate: tls }}
              - {{ match: {{ target: tls1 }}, terminate: tls1 }}
            upstreams:
              h2c: {{ endpoints: ["{0}"], http: 2 }}
              tls: {{ endpoints: ["{1}"], tls: {{ ca_file: "{2}" }} }}
              tls1: {{ endpoints: ["{1}"], http: 1, tls: {{ ca_file: "{2}" }} }}
            "#,
            clear.address(),
            sealed.address(),
            pki.ca().display()
        ),
    );
    for (host, version) in [
        ("h2c", "HTTP/2.0"),
        ("tls", "HTTP/2.0"),
        ("tls1", "HTTP/1.1"),
    ] {
        let got = curl(&[
            "-x",
            &node.url("web"),
            "-d",
            "body",
            &format!("http://{host}/a"),
        ]);
        assert_eq!(
            (got.status, got.json()["version"].as_str()),
            (200, Some(version)),
            "{host}: {got:?}"
        );
        assert_eq!(got.json()["body"], "body");
    }
    assert_eq!(sealed.last().host().as_deref(), Some("tls1"));
}

#[test]
fn a_certificate_that_is_not_to_be_believed_is_a_bad_gateway() {
    let (pki, stranger) = (Pki::new(), Pki::new());
    let origins = [
        origins::https(&stranger, &["127.0.0.1"]),
        origins::https(&pki, &["elsewhere.test"]),
    ];
    let node = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ match: {{ target: a }}, terminate: stranger }}, {{ terminate: misnamed }} ]
            upstreams:
              stranger: {{ endpoints: ["{}"], tls: {{ ca_file: "{2}" }} }}
              misnamed: {{ endpoints: ["{}"], tls: {{ ca_file: "{2}" }} }}
            "#,
            origins[0].address(),
            origins[1].address(),
            pki.ca().display()
        ),
    );
    for host in ["a", "b"] {
        let got = curl(&["-x", &node.url("web"), &format!("http://{host}/")]);
        assert_eq!(got.status, 502, "{got:?}");
        assert!(
            got.field("proxy-status")
                .unwrap()
                .contains("error=tls_certificate_error"),
            "{got:?}"
        );
    }
    assert!(origins.iter().all(|origin| origin.seen().is_empty()));
}
