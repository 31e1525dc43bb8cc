//! Go's net/http, as a client of proxies and gateways and as an origin, in clear and under TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hermes_tests::raw::{End, Raw};
use hermes_tests::{Echo, HttpPeer, HttpServer, Node, Pki, curl, origins};
use serde_json::{Value, json};

use super::before;

const GO: HttpPeer = HttpPeer::GoHttp2;

/// What stands for the authorities where there is no TLS.
const CLEAR: &str = "-";

/// Go's client at a gateway in clear, and at one under TLS.
fn at_gateways(node: &Node, pki: &Pki, mut check: impl FnMut(&dyn Fn(&[&str]) -> Value)) {
    let gates: [(PathBuf, SocketAddr); 2] = [
        (Path::new(CLEAR).to_owned(), node.address("gate")),
        (pki.ca(), node.address("secure_gate")),
    ];
    for (ca, address) in gates {
        check(&|action| GO.client(&ca, address, action));
    }
}

#[test]
fn a_client_sends_requests_with_trailers_and_takes_interim_answers() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = before(&pki, origin.address(), "");
    at_gateways(&node, &pki, |go| {
        let got = go(&["post", "VIDEO", "/post", "300000"]);
        let seen: Value = serde_json::from_str(got["text"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&got["status"], &got["version"]),
            (&json!(200), &json!("HTTP/2.0"))
        );
        assert_eq!(seen["bytes"], 300_000, "{seen}");
        assert_eq!(seen["trailers"]["x-checksum"], "42", "{seen}");

        let got = go(&["get", "VIDEO", "/trailers"]);
        assert_eq!(got["trailers"], json!({ "x-checksum": "42" }), "{got}");
    });
}

#[test]
fn a_client_has_a_hundred_answers_at_once_on_one_connection() {
    let (pki, origin) = (Pki::new(), origins::http());
    let node = before(&pki, origin.address(), "");
    at_gateways(&node, &pki, |go| {
        let got = go(&["many", "VIDEO", "/bytes/50000", "100"]);
        assert_eq!(got, json!({ "bytes": 100 * 50_000, "connections": 1 }));
    });
}

#[test]
fn a_client_carries_bytes_through_connect() {
    let echo = Echo::start();
    let node = Node::start(
        "edge",
        "listeners: { gate: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: true } ]\negress: { allow: [127.0.0.0/8] }\n",
    );
    let got = GO.client(
        Path::new(CLEAR),
        node.address("gate"),
        &["bytes", &echo.tcp.to_string(), "1000000"],
    );
    assert_eq!(got, json!({ "status": 200, "bytes": 1_000_000 }));
}

/// Go's server, and a node that speaks HTTP/2 to it.
struct Behind {
    node: Node,
    _server: HttpServer,
}

impl Behind {
    fn in_clear() -> Self {
        let pki = Pki::new();
        let server = GO.server(&pki, &["clear"]);
        Self {
            node: before(&pki, server.address(), ", http: 2"),
            _server: server,
        }
    }

    fn under_tls() -> Self {
        let pki = Pki::new();
        let server = GO.server(&pki, &[]);
        let keys = format!(", tls: {{ ca_file: {} }}", pki.ca().display());
        Self {
            node: before(&pki, server.address(), &keys),
            _server: server,
        }
    }
}

#[test]
fn a_server_takes_requests_and_answers_in_clear_and_under_tls() {
    for pair in [Behind::in_clear(), Behind::under_tls()] {
        let url = |path: &str| format!("{}{path}", pair.node.url("gate"));
        let got = curl(&["-d", &"x".repeat(100_000), &url("/post")]);
        assert_eq!((got.exit, got.status), (0, 200), "{got:?}");
        let seen = got.json();
        assert_eq!(
            (&seen["version"], &seen["bytes"]),
            (&json!("HTTP/2.0"), &json!(100_000))
        );

        let client = ["many", "VIDEO", "/bytes/100000", "50"];
        let got = GO.client(Path::new(CLEAR), pair.node.address("gate"), &client);
        assert_eq!(got["bytes"], 50 * 100_000);
    }
}

#[test]
fn a_server_has_trailers_and_interim_answers() {
    let pair = Behind::in_clear();
    let go = |action: &[&str]| GO.client(Path::new(CLEAR), pair.node.address("gate"), action);
    let got = go(&["get", "VIDEO", "/trailers"]);
    assert_eq!(got["trailers"], json!({ "x-checksum": "42" }), "{got}");

    let got = go(&["get", "VIDEO", "/hints"]);
    assert_eq!(
        (&got["status"], &got["interim"]),
        (&json!(200), &json!([103])),
        "{got}"
    );
}

#[test]
fn a_server_sends_back_the_bytes_of_a_tunnel() {
    let pki = Pki::new();
    let server = GO.server(&pki, &["clear"]);
    let node = Node::start(
        "entry",
        &format!(
            "listeners: {{ ssh: {{ tcp: 127.0.0.1:0, target: ECHO:7 }} }}\nroutes: [ {{ to: next }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}\n",
            server.address()
        ),
    );
    let mut raw = Raw::connect(node.address("ssh"));
    raw.send("through Go and back");
    raw.finish();
    assert_eq!(raw.rest(), (b"through Go and back".to_vec(), End::Closed));
}
