//! curl, whose HTTP/2 is nghttp2, in front of Hermes.

use hermes_tests::origins::{self, Origin, Request};
use hermes_tests::{Node, Pki, curl};

/// A node that is a proxy and a gateway, in the clear and under TLS, in front of an origin.
fn node(pki: &Pki, origin: &Origin<Request>) -> Node {
    let tls = pki.issue(&["hermes.test", "127.0.0.1"]).yaml();
    Node::start(
        "edge",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0 }}
              gate: {{ http: 127.0.0.1:0, gateway: true }}
              secure_web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }}
              secure_gate: {{ http: 127.0.0.1:0, gateway: true, tls: {{ {tls} }} }}
            routes:
              - terminate: origin
            upstreams:
              origin: {{ endpoints: ["{}"] }}
            "#,
            origin.address()
        ),
    )
}

#[test]
fn curl_speaks_h2_to_a_gateway_by_prior_knowledge() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = node(&pki, &origin);
    let got = curl(&[
        "--http2-prior-knowledge",
        &format!("{}/bytes/300000", node.url("gate")),
    ]);
    assert_eq!(
        (got.exit, got.status, got.version.as_str(), got.body.len()),
        (0, 200, "2", 300_000),
        "{:?}",
        got.heads
    );
    let content = "x".repeat(100_000);
    let got = curl(&[
        "--http2-prior-knowledge",
        "-d",
        &content,
        &format!("{}/post", node.url("gate")),
    ]);
    assert_eq!(got.json()["bytes"], 100_000);
}

#[test]
fn curl_chooses_h2_by_alpn() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = node(&pki, &origin);
    let ca = pki.ca();
    for (version, expected) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let url = format!("https://{}/who", node.address("secure_gate"));
        let got = curl(&["--cacert", ca.to_str().unwrap(), version, &url]);
        assert_eq!(
            (got.exit, got.status, got.version.as_str()),
            (0, 200, expected),
            "{got:?}"
        );
    }
}

#[test]
fn requests_in_parallel_share_one_h2_connection() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = node(&pki, &origin);
    let (ca, url) = (
        pki.ca(),
        format!(
            "https://{}/bytes/[100000-100019]",
            node.address("secure_gate")
        ),
    );
    let got = curl(&["--cacert", ca.to_str().unwrap(), "--parallel", &url]);
    assert_eq!(got.exit, 0, "{got:?}");
    let records: Vec<_> = (100_000..100_020)
        .map(|size| node.record(|record| record["bytes"]["target_to_client"] == size))
        .collect();
    assert!(
        records
            .iter()
            .all(|record| record["protocol"] == "h2" && record["status"] == 200),
        "{records:?}"
    );
    assert!(
        records
            .iter()
            .all(|record| record["source"] == records[0]["source"]),
        "{records:?}"
    );
}

// curl 8.1 and later can speak HTTP/2 to a proxy (--proxy-http2); Debian 12 has 7.88, which speaks HTTP/1.1 to it.
#[test]
fn curl_uses_a_proxy_under_tls_for_requests_and_tunnels() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = node(&pki, &origin);
    let ca = pki.ca();
    let proxy = format!("https://{}", node.address("secure_web"));
    let through = ["--proxy-cacert", ca.to_str().unwrap(), "-x", &proxy];
    let got = curl(&[&through[..], &["http://VIDEO/films"]].concat());
    assert_eq!(
        (got.exit, got.status, origin.last().host().as_deref()),
        (0, 200, Some("VIDEO")),
        "{got:?}"
    );
    let got = curl(&[&through[..], &["-p", "http://VIDEO/films"]].concat());
    assert_eq!(
        (got.exit, got.connect_status, got.status),
        (0, 200, 200),
        "{got:?}"
    );
}

#[test]
fn curl_asks_for_100_continue_and_gets_it_from_the_origin() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = node(&pki, &origin);
    let content = "x".repeat(100_000);
    let got = curl(&[
        "-x",
        &node.url("web"),
        "-H",
        "Expect: 100-continue",
        "-d",
        &content,
        "http://VIDEO/post",
    ]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    assert_eq!(
        got.heads.first().map(hermes_tests::head::Head::status),
        Some(100),
        "{got:?}"
    );
    assert_eq!(got.json()["bytes"], 100_000);
}
