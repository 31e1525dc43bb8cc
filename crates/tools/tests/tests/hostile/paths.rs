//! Paths that routes, rewrites and origins could read differently.

use hermes_tests::frames::{
    END_HEADERS, END_STREAM, HEADERS, HELLO, RST_STREAM, frame, parse, request,
};
use hermes_tests::raw::Raw;
use hermes_tests::{curl, origins, program};

use crate::versions::Versions;

/// Only `/public/` is routed, `/admin/` is denied before, and what is under `/s2` is rewritten.
fn guarded(origin: &str) -> Versions {
    let rest = format!(
        r#"
        routes:
          - {{ match: {{ path: /admin/* }}, respond: {{ status: 403, body: denied }} }}
          - {{ match: {{ path: "~^/s2" }}, rewrite: {{ path: {{ prefix: /s2, with: / }} }}, terminate: video }}
          - {{ match: {{ path: [/public/*, /cut/*] }}, rewrite: {{ path: {{ prefix: /cut/, with: / }} }}, terminate: video }}
          - {{ match: {{ path: /open/* }}, terminate: video }}
          - {{ match: {{ path: "/" }}, terminate: video }}
        upstreams: {{ video: {{ endpoints: ["{origin}"] }} }}
        "#
    );
    Versions::start("", &rest)
}

#[test]
fn a_deny_route_is_not_slipped_past() {
    let origin = origins::http();
    let node = guarded(&origin.address().to_string());
    for path in [
        "//admin/x",
        "///admin//x",
        "/%61dmin/x",
        "/public/../admin/x",
        "/public/%2e%2e/admin/x",
        "/open/.%2E//admin/x",
        "/./admin/x",
    ] {
        for came in node.get("VIDEO", path, &[]) {
            assert_eq!(came.status, 403, "{path}: {came:?}");
        }
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn dot_segments_are_resolved_before_the_route_and_never_above_the_root() {
    let origin = origins::http();
    let node = guarded(&origin.address().to_string());
    for (path, seen) in [
        ("/public/./a", "/public/a"),
        ("/public/x/../a?b=/../c", "/public/a?b=/../c"),
        ("/public/%2E/a%2fb", "/public/a%2fb"),
        ("/public//a", "/public//a"),
    ] {
        for came in node.get("VIDEO", path, &[]) {
            assert_eq!(
                (came.status, origin.last().path.as_str()),
                (200, seen),
                "{path}: {came:?}"
            );
        }
    }
    origin.forget();
    for (path, at) in [("/public/../../x", 11), ("/..", 1), ("/%2e%2e/x", 1)] {
        for came in node.get("VIDEO", path, &[]) {
            assert!(
                came.status == 400 && came.said.contains(&format!("0x2e at offset {at} ")),
                "{path}: {came:?}"
            );
        }
    }
    for path in ["/public/..%2fx", "/public/..;a/x", "/public/%2e%2e%5cx"] {
        for came in node.get("VIDEO", path, &[]) {
            assert!(
                came.status == 400 && came.said.contains("at offset 8 "),
                "{path}: {came:?}"
            );
        }
    }
    assert_eq!(origin.seen(), []);
}

#[test]
fn a_path_that_is_not_ascii_is_400_with_byte_and_offset() {
    let origin = origins::http();
    let node = guarded(&origin.address().to_string());
    for (path, at) in [("/public/\u{fc}", 8), ("/public/?q=\u{fc}", 11)] {
        for came in node.get("VIDEO", path, &[]) {
            let named = came.said.contains(&format!("byte 0xc3 at offset {at} "));
            assert!(came.status == 400 && named, "{path}: {came:?}");
        }
    }
    assert_eq!(origin.seen(), []);
}

/// URLs that Go and nginx take.
#[test]
fn impolite_bytes_pass_percent_encoded() {
    let origin = origins::http();
    let node = guarded(&origin.address().to_string());
    let (path, seen) = (
        r#"/public/{a}|b?query={job="node"}"#,
        "/public/%7Ba%7D%7Cb?query=%7Bjob=%22node%22%7D",
    );
    let h1 = node.h1("GET", "VIDEO", path, &[]);
    assert_eq!(
        (h1.status, origin.last().path.as_str()),
        (200, seen),
        "{h1:?}"
    );
    let h3 = node.h3("GET", "VIDEO", path, &[]);
    assert_eq!(
        (h3.status, origin.last().path.as_str()),
        (200, seen),
        "{h3:?}"
    );
    let answered = h2_raw(node.node.address("web"), path);
    assert_eq!((answered, origin.last().path.as_str()), (0x88, seen));
    // As a program that knows no better writes it.
    let got = curl(&[
        "-g",
        "--path-as-is",
        "-x",
        &node.node.url("web"),
        "http://VIDEO/public/./{x}",
    ]);
    assert_eq!(
        (got.status, origin.last().path.as_str()),
        (200, "/public/%7Bx%7D"),
        "{got:?}"
    );
}

/// The first byte of the response's section to a request for exactly this path over HTTP/2: 0x88 is `:status: 200` (RFC 7541,
/// appendix A). No HTTP library sends all of these.
fn h2_raw(address: std::net::SocketAddr, path: &str) -> u8 {
    let mut raw = Raw::connect(address);
    raw.send(HELLO);
    let section = request("GET", "VIDEO", path);
    raw.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, &section));
    let first = |heard: &[u8]| {
        parse(heard)
            .iter()
            .find_map(|(kind, _, stream, payload)| match (*kind, *stream) {
                (HEADERS, 1) => Some(payload[0]),
                (RST_STREAM, 1) => Some(0),
                _ => None,
            })
    };
    first(&raw.until(|heard| first(heard).is_some())).unwrap_or(0)
}

/// What other clients send unencoded, in the path and in the query, is not the client's fault over any version.
#[test]
fn impolite_bytes_pass_over_http_2_as_over_the_others() {
    let origin = origins::http();
    let node = guarded(&origin.address().to_string());
    for (path, seen) in [
        ("/public/<a>`b`", "/public/%3Ca%3E%60b%60"),
        (r#"/public/"a""#, "/public/%22a%22"),
        (
            r#"/public/?q={job="node"}"#,
            "/public/?q=%7Bjob=%22node%22%7D",
        ),
        ("/public/?q=<a>`b`", "/public/?q=%3Ca%3E%60b%60"),
    ] {
        for came in [
            node.h1("GET", "VIDEO", path, &[]),
            node.h3("GET", "VIDEO", path, &[]),
        ] {
            assert_eq!(
                (came.status, origin.last().path.as_str()),
                (200, seen),
                "{path}: {came:?}"
            );
        }
        origin.forget();
        let answered = h2_raw(node.node.address("web"), path);
        assert_eq!((answered, origin.last().path.as_str()), (0x88, seen));
        origin.forget();
        let url = format!("http://{}{path}", node.node.address("web"));
        let got = curl(&["-g", "--path-as-is", "--http2-prior-knowledge", &url]);
        assert_eq!(
            (got.status, origin.last().path.as_str()),
            (200, seen),
            "{got:?}"
        );
    }
}

#[test]
fn a_rewrite_neither_climbs_nor_is_slipped_past() {
    let origin = origins::http();
    let node = guarded(&origin.address().to_string());
    for (path, seen) in [
        ("/s2../secret", "/s2../secret"),
        ("/s2x/secret", "/s2x/secret"),
        ("/s2/a", "/a"),
        ("/%73%32/a", "/a"),
        ("//s2//a", "//a"),
        ("/c%75t/a", "/a"),
        ("/cut/..a", "/..a"),
    ] {
        for came in node.get("VIDEO", path, &[]) {
            assert_eq!(
                (came.status, origin.last().path.as_str()),
                (200, seen),
                "{path}: {came:?}"
            );
        }
    }
}

#[test]
fn a_value_with_white_space_around_it_is_malformed() {
    let origin = origins::http();
    let node = guarded(&origin.address().to_string());
    for value in [" a", "a ", "\ta", " "] {
        let came = node.h2("GET", "VIDEO", "/public/", &[("x-a", value)]);
        assert!(
            came.status == 400 && came.said.contains("white space around"),
            "{value:?}: {came:?}"
        );
    }
    assert_eq!(origin.seen(), []);
    assert_eq!(
        node.h2("GET", "VIDEO", "/public/", &[("x-a", "a b")])
            .status,
        200
    );
}

#[test]
fn a_condition_or_rewrite_with_dot_segments_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.yaml");
    let text = "version: 1\nlisteners: { web: { http: 127.0.0.1:0 } }\nroutes:\n  - { match: { path: /a/../b }, \
                rewrite: { path: { prefix: /a/./, with: /.. } }, terminate: true }\n";
    std::fs::write(&file, text).unwrap();
    let said = program::run(&["check", file.to_str().unwrap()]);
    let said = format!("{}{}", said.stdout, said.stderr);
    for place in ["match.path[0]", "rewrite.path.prefix", "rewrite.path.with"] {
        assert!(said.contains(place), "{place}: {said}");
    }
}
