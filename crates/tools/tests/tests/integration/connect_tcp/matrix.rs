//! Three nodes under TLS: every version and every form between them, CONNECT and connect-tcp in.

use std::net::SocketAddr;

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, origins};

use super::{DATA, FINAL_DATA, path, read};

const VERSIONS: [u8; 3] = [1, 2, 3];
const FORMS: [&str; 2] = ["connect", "connect-tcp"];

fn upstream(pki: &Pki, next: SocketAddr, version: u8) -> String {
    format!(
        r#"{{ endpoints: ["{next}"], http: {version}, tls: {{ ca_file: {} }} }}"#,
        pki.ca().display()
    )
}

/// The node where tunnels end, and nodes that lead to it in each version and form.
fn behind(pki: &Pki) -> (Node, Vec<(String, Node)>) {
    let tls = pki.issue(&["127.0.0.1"]).yaml();
    let end = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}
        routes: [ {{ terminate: true }} ]
        egress: {{ allow: [127.0.0.0/8] }}
        "#
    );
    let end = Node::start("end", &end);
    let middle = |version: u8, form: &str| {
        let yaml = format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0, tls: {{ {tls} }} }} }}
            routes: [ {{ to: next, tunnel: {form} }} ]
            upstreams: {{ next: {} }}
            "#,
            upstream(pki, end.address("web"), version)
        );
        (format!("v{version}-{form}"), Node::start("middle", &yaml))
    };
    let middles = VERSIONS
        .iter()
        .flat_map(|version| FORMS.map(|form| middle(*version, form)))
        .collect();
    (end, middles)
}

#[test]
fn tcp_passes_in_every_form_over_every_version() {
    let pki = Pki::new();
    let (_end, middles) = behind(&pki);
    let (mut listeners, mut routes, mut upstreams) = (String::new(), String::new(), String::new());
    let mut names = Vec::new();
    for version in VERSIONS {
        for form in FORMS {
            for (second, middle) in &middles {
                let name = format!("v{version}-{form}-{second}");
                listeners += &format!("  {name}: {{ http: 127.0.0.1:0 }}\n");
                routes += &format!(
                    "  - {{ match: {{ listener: {name} }}, to: {name}, tunnel: {form} }}\n"
                );
                upstreams += &format!(
                    "  {name}: {}\n",
                    upstream(&pki, middle.address("web"), version)
                );
                names.push(name);
            }
        }
    }
    let entry = Node::start(
        "entry",
        &format!("listeners:\n{listeners}routes:\n{routes}upstreams:\n{upstreams}"),
    );
    let origin = origins::tcp_echo();
    let payload: Vec<u8> = (0..=250).cycle().take(100_000).collect();
    for name in names {
        let mut raw = Raw::tunnel(entry.address(&name), &origin.address().to_string(), "").unwrap();
        raw.send(&payload);
        assert!(raw.exactly(payload.len()) == payload, "{name}");
        raw.finish();
        assert_eq!(raw.rest().0, b"", "{name}");

        let mut tunnel = UdpTunnel::h1_for(
            entry.address(&name),
            "connect-tcp",
            &path(origin.address()),
            "",
        )
        .unwrap();
        tunnel.send_capsule(DATA, &payload);
        tunnel.send_capsule(FINAL_DATA, b"the end");
        let (came, _) = read(&mut tunnel);
        assert!(came == [&payload[..], b"the end"].concat(), "{name}");
        assert_eq!(tunnel.rest(), Some(vec![]), "{name}");
    }
    entry.idle();
}
