//! Two ends that do not believe each other's certificates: the endpoint is asked once over every version, whatever is tried again
//! otherwise, the next endpoint is asked too, and the client learns what helps.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use hermes_tests::{Node, Pki, curl, origins, udp};
use serde_json::Value;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A proxy where tunnels end, which wants certificates of clients, or does not.
fn server(pki: &Pki, name: &str, wants: bool) -> Node {
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let clients = if wants {
        format!(", client_ca_file: {} }}, auth: mtls", pki.ca().display())
    } else {
        " }, public: true".to_owned()
    };
    Node::start(
        name,
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls}{clients} }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#
        ),
    )
}

/// A node whose upstream has these endpoints, reached with this `tls`, and a retry policy.
fn client(servers: &[&Node], tls: &str, version: u8, retry: &str, target: u16) -> Node {
    let endpoints: Vec<String> = servers
        .iter()
        .map(|server| format!("\"{}\"", server.address("web")))
        .collect();
    Node::start(
        "client",
        &format!(
            r#"
            listeners:
              web: {{ http: 127.0.0.1:0 }}
              udp: {{ udp: 127.0.0.1:0, target: "127.0.0.1:{target}" }}
            routes: [ {{ to: far{retry} }} ]
            upstreams: {{ far: {{ endpoints: [{}], http: {version}, tls: {{ {tls} }} }} }}
            "#,
            endpoints.join(", ")
        ),
    )
}

/// The records of a session of UDP, a tunnel and a request, none of which comes about.
fn refused(node: &Node) -> Vec<Value> {
    udp::Client::connect(node.address("udp")).send("hello");
    let tunnel = curl(&["-p", "-x", &node.url("web"), "http://127.0.0.1:9/"]);
    assert_eq!(tunnel.connect_status, 502, "{tunnel:?}");
    let message = curl(&["-x", &node.url("web"), "http://127.0.0.1:9/"]);
    assert_eq!(message.status, 502, "{message:?}");

    ["connect-udp", "connect", "http"]
        .map(|kind| node.record(|record| record["kind"] == kind))
        .to_vec()
}

#[test]
fn an_endpoint_is_asked_once_and_the_reason_says_what_helps() {
    let pki = Pki::new();
    let others = Pki::new();
    let proxy = server(&pki, "server", true);
    let ca = format!("ca_file: {}", pki.ca().display());
    let expired = pki.issue_for(
        &["expired.test"],
        SystemTime::now() - 9 * DAY,
        SystemTime::now() - 2 * DAY,
    );
    let own = pki.issue(&["client.test"]).yaml();
    let wrong = [
        (ca.clone(), "`tls.cert_file` and `key_file`"),
        (
            format!("{ca}, {}", others.issue(&["client.test"]).yaml()),
            "`client_ca_file`",
        ),
        (format!("{ca}, {}", expired.yaml()), "renew it"),
        (
            format!("ca_file: {}, {own}", others.ca().display()),
            "`tls.ca_file`",
        ),
        (
            format!("{ca}, {own}, server_name: elsewhere.test"),
            "`tls.server_name`",
        ),
    ];

    for version in [1, 2, 3] {
        for (tls, remedy) in &wrong {
            for retry in ["", ", retry: { attempts: 3, on: [connect-failure, reset] }"] {
                let node = client(&[&proxy], tls, version, retry, 9);
                for record in refused(&node) {
                    assert_eq!(record["attempts"], 1, "HTTP/{version}, {tls}: {record:#}");
                    let reason = record["reason"].as_str().unwrap();
                    assert!(reason.contains(remedy), "HTTP/{version}, {tls}: {reason}");
                }
            }
        }
    }
}

#[test]
fn the_next_endpoint_is_asked_where_one_does_not_believe_us() {
    let pki = Pki::new();
    let strict = server(&pki, "strict", true);
    let lenient = server(&pki, "lenient", false);
    let origin = origins::http();
    let echo = origins::udp_echo(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let tls = format!("ca_file: {}", pki.ca().display());

    for version in [2, 3] {
        let node = client(
            &[&strict, &lenient],
            &tls,
            version,
            "",
            echo.address().port(),
        );
        for _ in 0..4 {
            let url = format!("http://{}/", origin.address());
            assert_eq!(
                curl(&["-x", &node.url("web"), &url]).status,
                200,
                "HTTP/{version}"
            );
            let user = udp::Client::connect(node.address("udp"));
            user.send("hello");
            assert_eq!(user.receive(), b"hello", "HTTP/{version}");
        }
    }
}
