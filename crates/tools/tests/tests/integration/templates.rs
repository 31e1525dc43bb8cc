//! URI templates: which paths ask for a tunnel here, and which path the next proxy is asked with.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::h2c::Client;
use hermes_tests::{Node, origins};

/// A node where tunnels end, with two templates.
const END: &str = r#"
    listeners:
      web:
        http: 127.0.0.1:0
        templates: { udp: ["/masque{?target_host,target_port}", "/u/{target_port}/{target_host}"] }
    routes:
      - { name: named, match: { authority: proxy.example }, terminate: true }
      - { terminate: true }
    egress: { allow: [127.0.0.0/8] }
"#;

#[test]
fn a_listener_serves_its_templates_and_the_default_one() {
    let (end, udp) = (Node::start("end", END), origins::udp_echo(origins::V4));
    let (address, port) = (end.address("web"), udp.port());
    let paths = [
        format!("/masque?target_host=127.0.0.1&target_port={port}"),
        format!("/u/{port}/127.0.0.1"),
        format!("/.well-known/masque/udp/127.0.0.1/{port}/"),
    ];
    for path in &paths {
        let mut tunnel = UdpTunnel::h1_at(address, path, "").unwrap();
        tunnel.send("over HTTP/1.1");
        assert_eq!(tunnel.receive(), b"over HTTP/1.1");
        let client = Client::connect(address);
        let uri = format!("http://{address}{path}");
        let stream = client
            .extended("connect-udp", &uri, &[("capsule-protocol", "?1")])
            .unwrap();
        assert_eq!(stream.fields.get("capsule-protocol").unwrap(), "?1");
    }
}

#[test]
fn another_path_is_404_and_a_bad_value_400() {
    let end = Node::start("end", END);
    for (path, status) in [
        ("/other/127.0.0.1/53/", 404),
        ("/masque?target_port=53&target_host=127.0.0.1", 404),
        ("/u/53", 404),
        ("/u/0/127.0.0.1", 400),
        ("/u/53/%7F", 400),
        ("/masque?target_host=::1&target_port=53", 400),
        ("/.well-known/masque/udp/127.0.0.1/no/", 400),
    ] {
        let head = UdpTunnel::h1_at(end.address("web"), path, "").unwrap_err();
        assert_eq!(head.status(), status, "{path}: {head:?}");
    }
}

#[test]
fn each_hop_is_asked_by_its_own_template() {
    let (end, udp) = (Node::start("end", END), origins::udp_echo(origins::V4));
    let middle = |name: &str, templates: &str| {
        let yaml = format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, templates: {{ udp: "/in/{{target_host}}/{{target_port}}" }} }} }}
            routes: [ {{ to: next }} ]
            upstreams: {{ next: {{ endpoints: ["{}"], http: 2, {templates} }} }}
            "#,
            end.address("web")
        );
        Node::start(name, &yaml)
    };
    let named = middle(
        "named",
        r#"templates: { udp: "https://proxy.example/u/{target_port}/{target_host}" }"#,
    );
    let default = middle("default", "");
    for node in [&named, &default] {
        let path = format!("/in/127.0.0.1/{}", udp.port());
        let mut tunnel = UdpTunnel::h1_at(node.address("web"), &path, "").unwrap();
        tunnel.send("through two nodes");
        assert_eq!(tunnel.receive(), b"through two nodes");
    }
    for route in ["named", "routes[1]"] {
        let record =
            end.record(|record| record["route"] == route && record["kind"] == "connect-udp");
        assert_eq!(record["target"], format!("127.0.0.1:{}", udp.port()));
    }
}
