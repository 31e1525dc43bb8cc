//! nginx behind Hermes, as an origin, and in front of it, as a reverse proxy.

use std::collections::BTreeSet;
use std::fs;

use hermes_tests::curl::Output;
use hermes_tests::{Nginx, Node, curl, eventually, origins};

/// Bytes of the large file.
const LARGE: usize = 5_000_000;

/// An nginx with a large file, a text, and a folder that can be written to.
fn origin() -> Nginx {
    let server = "
        gzip on; gzip_proxied any; gzip_types text/plain; gzip_min_length 100;
        location /files/ { dav_methods PUT DELETE; client_max_body_size 10m; }
        location /changed/ { alias www/; sub_filter_types text/plain; sub_filter 'a' 'b'; sub_filter_once off; gzip off; }
        location = /post { return 200 \"$request_method $content_length $content_type\"; }
    ";
    Nginx::start(server, |root| {
        fs::write(root.join("large.bin"), large()).unwrap();
        fs::write(root.join("text.txt"), "a line of text\n".repeat(1_000)).unwrap();
        fs::create_dir(root.join("files")).unwrap();
    })
}

fn large() -> Vec<u8> {
    (0..LARGE)
        .map(|position| ((position * 31) >> 4).to_le_bytes()[0])
        .collect()
}

/// Hermes in front of it, on one worker, so that one pool holds all connections.
fn proxy(nginx: &Nginx) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            workers: 1
            listeners:
              web: {{ http: 127.0.0.1:0 }}
            routes:
              - terminate: nginx
            upstreams:
              nginx: {{ endpoints: ["{}"] }}
            "#,
            nginx.address()
        ),
    )
}

/// curl through Hermes.
fn get(node: &Node, path: &str, arguments: &[&str]) -> Output {
    let got = curl(
        &[
            &["-x", &node.url("web"), &format!("http://NGINX{path}")],
            arguments,
        ]
        .concat(),
    );
    assert_eq!(got.exit, 0, "{} {:?}", got.stderr, got.heads);
    got
}

#[test]
fn a_file_of_5_mb_comes_whole() {
    let nginx = origin();
    let node = proxy(&nginx);
    let got = get(&node, "/large.bin", &[]);
    assert_eq!(
        (got.status, got.field("content-length")),
        (200, Some(LARGE.to_string()))
    );
    assert!(got.body == large(), "{} bytes came", got.body.len());
}

#[test]
fn a_range_is_answered_with_206() {
    let nginx = origin();
    let node = proxy(&nginx);
    let got = get(&node, "/large.bin", &["-r", "1000000-1000099"]);
    assert_eq!(got.status, 206);
    assert_eq!(
        got.field("content-range"),
        Some(format!("bytes 1000000-1000099/{LARGE}"))
    );
    assert_eq!(got.body, large()[1_000_000..1_000_100]);
    let got = get(&node, "/large.bin", &["-r", "6000000-"]);
    assert_eq!(
        (got.status, got.field("content-range")),
        (416, Some(format!("bytes */{LARGE}")))
    );
}

#[test]
fn head_has_the_length_and_no_content() {
    let nginx = origin();
    let node = proxy(&nginx);
    let got = get(&node, "/large.bin", &["-I"]);
    assert_eq!(
        (got.status, got.field("content-length")),
        (200, Some(LARGE.to_string()))
    );
    assert_eq!(
        nginx.access().pop().map(|access| access.method),
        Some("HEAD".to_owned())
    );
}

#[test]
fn a_matching_etag_is_answered_with_304() {
    let nginx = origin();
    let node = proxy(&nginx);
    let etag = get(&node, "/large.bin", &["-I"])
        .field("etag")
        .expect("nginx sends an ETag");
    let got = get(
        &node,
        "/large.bin",
        &["-H", &format!("If-None-Match: {etag}")],
    );
    assert_eq!((got.status, got.body.len()), (304, 0));
    assert_eq!(got.field("etag"), Some(etag));
    let got = get(&node, "/large.bin", &["-H", "If-None-Match: \"other\""]);
    assert_eq!((got.status, got.body.len()), (200, LARGE));
}

#[test]
fn content_without_a_length_comes_chunked_and_whole() {
    let nginx = origin();
    let node = proxy(&nginx);
    let got = get(&node, "/changed/text.txt", &[]);
    assert_eq!((got.status, got.field("content-length")), (200, None));
    assert_eq!(got.field("transfer-encoding").as_deref(), Some("chunked"));
    assert_eq!(got.text(), "b line of text\n".repeat(1_000));
}

#[test]
fn compressed_content_is_not_touched() {
    let nginx = origin();
    let node = proxy(&nginx);
    let gzip = ["-H", "Accept-Encoding: gzip"];
    let direct = curl(
        &[
            &gzip[..],
            &[&format!("http://{}/text.txt", nginx.address())],
        ]
        .concat(),
    );
    let got = get(&node, "/text.txt", &gzip);
    assert_eq!(got.field("content-encoding").as_deref(), Some("gzip"));
    assert_eq!(got.field("vary"), direct.field("vary"));
    assert_eq!(got.body, direct.body);
    let got = get(&node, "/text.txt", &["--compressed"]);
    assert_eq!(got.text(), "a line of text\n".repeat(1_000));
}

#[test]
fn content_that_is_put_is_what_nginx_stores() {
    let nginx = origin();
    let node = proxy(&nginx);
    let from = nginx.root().join("large.bin");
    let from = from.to_str().unwrap();
    let cases: [(&str, &[&str]); 3] = [
        ("known", &["-H", "Expect:"]),
        (
            "chunked",
            &["-H", "Expect:", "-H", "Transfer-Encoding: chunked"],
        ),
        ("expected", &["-H", "Expect: 100-continue"]),
    ];
    for (name, fields) in cases {
        let got = get(
            &node,
            &format!("/files/{name}"),
            &[&["-T", from], fields].concat(),
        );
        assert_eq!(got.status, 201, "{name}: {}", got.text());
        assert!(
            fs::read(nginx.root().join("files").join(name)).unwrap() == large(),
            "{name}: stored something else"
        );
        let continued = got.heads.first().is_some_and(|head| head.status() == 100);
        assert_eq!(continued, name == "expected", "{:?}", got.heads);
    }
    assert_eq!(get(&node, "/files/known", &["-X", "DELETE"]).status, 204);
    assert_eq!(get(&node, "/files/known", &[]).status, 404);
}

#[test]
fn a_form_is_posted() {
    let nginx = origin();
    let node = proxy(&nginx);
    let got = get(&node, "/post", &["-d", "name=hermes"]);
    assert_eq!(got.text(), "POST 11 application/x-www-form-urlencoded");
}

#[test]
fn connections_to_nginx_are_kept_and_used_again() {
    let nginx = origin();
    let node = proxy(&nginx);
    for _ in 0..5 {
        assert_eq!(get(&node, "/text.txt", &[]).status, 200);
        assert_eq!(get(&node, "/large.bin", &["-I"]).status, 200);
        assert_eq!(get(&node, "/changed/text.txt", &[]).status, 200);
        assert_eq!(get(&node, "/post", &["-d", "name=hermes"]).status, 200);
    }
    let access = eventually("nginx has logged all", || {
        Some(nginx.access()).filter(|access| access.len() == 20)
    });
    let connections: BTreeSet<_> = access.iter().map(|access| access.connection).collect();
    assert_eq!(connections.len(), 1, "{access:?}");
}

#[test]
fn nginx_sends_requests_to_a_gateway_of_hermes() {
    let origin = origins::http();
    let node = Node::start(
        "gateway",
        &format!(
            r#"
            listeners:
              gate: {{ http: 127.0.0.1:0, gateway: true }}
            routes:
              - match: {{ target: VIDEO }}
                terminate: video
            upstreams:
              video: {{ endpoints: ["{}"] }}
            "#,
            origin.address()
        ),
    );
    let server = format!(
        "location / {{ proxy_pass {}; proxy_http_version 1.1; proxy_set_header Host VIDEO; \
         proxy_set_header Connection ''; proxy_request_buffering off; client_max_body_size 10m; }}",
        node.url("gate")
    );
    let nginx = Nginx::start(&server, |_| ());
    let at = |path: &str| format!("http://{}{path}", nginx.address());
    let got = curl(&[&at("/films?of=1936")]);
    assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
    let seen = origin.last();
    assert_eq!(
        (seen.host().as_deref(), seen.path.as_str()),
        (Some("VIDEO"), "/films?of=1936")
    );
    let got = curl(&[&at("/chunked/300000")]);
    assert_eq!((got.status, got.body.len()), (200, 300_000));
    let got = curl(&["-I", &at("/bytes/300000")]);
    assert_eq!(
        (got.status, got.field("content-length").as_deref()),
        (200, Some("300000"))
    );
    let content = "x".repeat(100_000);
    for length in ["Expect:", "Transfer-Encoding: chunked"] {
        let got = curl(&["-d", &content, "-H", length, &at("/post")]);
        assert_eq!(got.json()["bytes"], 100_000, "{got:?}");
    }
    let refused = curl(&["-H", "user: mallory", &at("/who")]);
    assert_eq!(
        (refused.status, origin.last().field("user")),
        (200, None),
        "a client's user field is not believed"
    );
}
