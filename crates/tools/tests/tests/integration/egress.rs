//! Which addresses a request may choose.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins};

fn node(egress: &str) -> Node {
    Node::start(
        "edge",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0 }} }}\nroutes: [ {{ terminate: true }} ]\negress: {egress}\n"
        ),
    )
}

/// Asks for the target as a message and as a tunnel, and expects the same refusal.
fn refused(node: &Node, target: &str, error: &str) {
    let got = curl(&["-g", "-x", &node.url("web"), &format!("http://{target}/")]);
    let status = got.field("proxy-status").unwrap_or_default();
    assert!(
        status.starts_with(&format!("edge; error={error}")),
        "{target}: {got:?}"
    );
    assert!(got.status >= 400, "{target}: {got:?}");
    let head = Raw::tunnel(node.address("web"), target, "").unwrap_err();
    assert!(head.status() >= 400, "{target}: {head:?}");
    assert!(
        head.field("proxy-status")
            .unwrap()
            .starts_with(&format!("edge; error={error}")),
        "{target}: {head:?}"
    );
}

#[test]
fn addresses_of_this_machine_and_of_links_are_prohibited() {
    let (node, origin) = (node("{}"), origins::http());
    let port = origin.port();
    let hosts = [
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "localhost",
        "a.localhost",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "[fe80::1]",
        "10.0.0.1",
        "192.168.1.1",
        "172.16.0.1",
        "100.64.0.1",
        "224.0.0.1",
        "[fd00::1]",
    ];
    for host in hosts {
        refused(
            &node,
            &format!("{host}:{port}"),
            "destination_ip_prohibited",
        );
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn odd_spellings_of_loopback_lead_nowhere() {
    let (node, origin) = (node("{}"), origins::http());
    for host in ["2130706433", "0x7f000001", "0177.0.0.1", "127.1"] {
        let result = Raw::tunnel(
            node.address("web"),
            &format!("{host}:{}", origin.port()),
            "",
        );
        assert_eq!(result.unwrap_err().status(), 400, "{host}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn udp_is_under_the_same_rules() {
    let (node, origin) = (node("{}"), origins::udp_echo(origins::V4));
    for host in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost"] {
        let head = UdpTunnel::h1(node.address("web"), host, origin.port(), "").unwrap_err();
        let status = head.field("proxy-status").unwrap_or_default();
        assert!(
            status.starts_with("edge; error=destination_ip_prohibited"),
            "{host}: {head:?}"
        );
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn what_is_allowed_is_reached_and_no_more() {
    let (node, origin) = (
        node("{ allow: [127.0.0.1/32], deny: [127.0.0.2/32] }"),
        origins::http(),
    );
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/a", origin.address()),
    ]);
    assert_eq!(got.status, 200, "{got:?}");
    let got = curl(&[
        "-x",
        &node.url("web"),
        &format!("http://localhost:{}/a", origin.port()),
    ]);
    assert_eq!(got.status, 200, "{got:?}");
    refused(
        &node,
        &format!("127.0.0.2:{}", origin.port()),
        "destination_ip_prohibited",
    );
    refused(
        &node,
        &format!("127.0.0.3:{}", origin.port()),
        "destination_ip_prohibited",
    );
}

#[test]
fn a_denial_is_stronger_than_a_permission() {
    let (node, origin) = (
        node("{ allow: [127.0.0.0/8], deny: [127.0.0.1/32] }"),
        origins::http(),
    );
    refused(
        &node,
        &origin.address().to_string(),
        "destination_ip_prohibited",
    );
}

#[test]
fn no_request_chooses_the_nodes_own_listener() {
    let node = node("{ allow: [127.0.0.0/8] }");
    refused(
        &node,
        &node.address("web").to_string(),
        "destination_ip_prohibited",
    );
    refused(
        &node,
        &format!("localhost:{}", node.address("web").port()),
        "destination_ip_prohibited",
    );
}

#[test]
fn mail_and_other_denied_ports_are_refused() {
    let allowing = node("{ allow: [127.0.0.0/8] }");
    refused(&allowing, "127.0.0.1:25", "destination_ip_prohibited");
    let origin = origins::http();
    let port = origin.port();
    let denying = node(&format!("{{ allow: [127.0.0.0/8], deny_ports: [{port}] }}"));
    refused(
        &denying,
        &origin.address().to_string(),
        "destination_ip_prohibited",
    );
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_name_without_a_dot_is_not_looked_up() {
    let node = node("{}");
    refused(&node, "video:80", "destination_not_found");
}

#[test]
fn an_endpoint_that_the_operator_wrote_needs_no_permission() {
    let origin = origins::http();
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ match: {{ target: VIDEO }}, terminate: video }} ]
            upstreams: {{ video: {{ endpoints: ["{}"] }} }}
            "#,
            origin.address()
        ),
    );
    let got = curl(&["-x", &node.url("web"), "http://video/a"]);
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(
        origin.last().field("host").as_deref(),
        Some("video"),
        "the name is the client's"
    );
}
