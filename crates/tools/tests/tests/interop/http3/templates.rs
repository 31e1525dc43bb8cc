//! URI templates other than the default one, with masque-go as client and as server.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::{HttpPeer, Node, Pki, origins};
use serde_json::json;

/// Templates in every form that RFC 9298 allows.
const TEMPLATES: [&str; 3] = [
    "/masque{?target_host,target_port}",
    "/u/{target_port}/{target_host}",
    "/p?a=b{&target_host,target_port}",
];

#[test]
fn masque_go_asks_hermes_by_a_template() {
    let (pki, udp) = (Pki::new(), origins::udp_echo(origins::V4));
    for template in TEMPLATES {
        let yaml = format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {} }}, templates: {{ udp: "{template}" }} }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#,
            pki.issue(&["127.0.0.1"]).yaml()
        );
        let node = Node::start("end", &yaml);
        let action = ["udp", &udp.address().to_string(), "1", "1200"];
        let got = HttpPeer::MasqueGo.client_by(template, &pki.ca(), node.address("web"), &action);
        assert_eq!(
            got,
            json!({ "status": 200, "came": [1, 1200] }),
            "{template}"
        );
    }
}

#[test]
fn hermes_asks_masque_go_by_a_template() {
    let (pki, udp) = (Pki::new(), origins::udp_echo(origins::V4));
    for template in TEMPLATES {
        let next = HttpPeer::MasqueGo.server_by(template, &pki, &[]);
        let yaml = format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: next }} ]
            upstreams:
              next: {{ endpoints: ["{}"], http: 3, tls: {{ ca_file: {} }}, templates: {{ udp: "{template}" }} }}
            "#,
            next.address(),
            pki.ca().display()
        );
        let node = Node::start("entry", &yaml);
        let mut tunnel = UdpTunnel::h1(node.address("web"), "127.0.0.1", udp.port(), "").unwrap();
        for length in [1, 1200] {
            tunnel.send(vec![9; length]);
            assert_eq!(tunnel.receive(), vec![9; length], "{template}");
        }
    }
}
