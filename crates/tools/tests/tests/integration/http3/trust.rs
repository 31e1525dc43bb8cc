//! Who is believed: over HTTP/3 as over HTTP/2.

use hermes_tests::pki::Issued;
use hermes_tests::{Node, Pki, curl, origins};

const PEER: &str = r#"
    routes: [ { terminate: true, expose: [user] } ]
    peers: { sap: { certificate: sap.overlay, speaks_for: [alice] } }
    egress: { allow: [127.0.0.0/8] }
"#;

/// The versions that are compared.
const VERSIONS: [u8; 2] = [2, 3];

/// A node before `end`, over one version, that says `user` and may show a certificate.
fn entry(pki: &Pki, end: &Node, http: u8, user: &str, shown: Option<&Issued>) -> Node {
    let shown = shown
        .map(|issued| format!(", {}", issued.yaml()))
        .unwrap_or_default();
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, user: {user} }} }}
        routes: [ {{ to: end }} ]
        upstreams: {{ end: {{ endpoints: ["{}"], http: {http}, tls: {{ ca_file: {}{shown} }} }} }}
        "#,
        end.address("web"),
        pki.ca().display()
    );
    Node::start("entry", &yaml)
}

#[test]
fn a_certificate_says_who_a_node_is_and_for_whom_it_speaks() {
    let (pki, strangers, origin) = (Pki::new(), Pki::new(), origins::http());
    let tls = format!(
        "{}, client_ca_file: {}",
        pki.issue(&["127.0.0.1"]).yaml(),
        pki.ca().display()
    );
    let end = format!(
        "\n    listeners: {{ web: {{ http: 127.0.0.1:0, auth: mtls, tls: {{ {tls} }} }} }}{PEER}"
    );
    let cases = [
        (
            "a peer",
            Some(pki.issue(&["sap.overlay"])),
            "alice",
            200,
            Some("alice"),
        ),
        (
            "a user for whom it does not speak",
            Some(pki.issue(&["sap.overlay"])),
            "bob",
            403,
            None,
        ),
        (
            "no one's peer",
            Some(pki.issue(&["mallory.test"])),
            "alice",
            200,
            Some("mallory.test"),
        ),
        (
            "the name among others",
            Some(pki.issue(&["dp.overlay", "sap.overlay"])),
            "alice",
            200,
            Some("alice"),
        ),
        (
            "another authority",
            Some(strangers.issue(&["sap.overlay"])),
            "alice",
            502,
            None,
        ),
        ("no certificate", None, "alice", 502, None),
    ];
    for http in VERSIONS {
        let end = Node::start("end", &end);
        for (case, shown, user, status, seen) in &cases {
            origin.forget();
            let entry = entry(&pki, &end, http, user, shown.as_ref());
            let got = curl(&[
                "-x",
                &entry.url("web"),
                &format!("http://{}/", origin.address()),
            ]);
            assert_eq!(
                (got.exit, got.status),
                (0, *status),
                "{case}, HTTP/{http}: {got:?}"
            );
            let found = origin
                .seen()
                .first()
                .and_then(|request| request.field("user"));
            assert_eq!(found.as_deref(), *seen, "{case}, HTTP/{http}");
            if *status == 200 {
                let record =
                    end.record(|record| record["event"] == "end" && record["status"] == 200);
                assert_eq!(record["protocol"], format!("h{http}"), "{case}");
            }
        }
    }
}

#[test]
fn an_upstream_must_have_the_name_that_was_asked_for() {
    let (pki, origin) = (Pki::new(), origins::http());
    for http in VERSIONS {
        for (names, status) in [(&["127.0.0.1"], 200), (&["node.test"], 502)] {
            let end = Node::start("end", &crate::http3::overlay::end(&pki.issue(names).yaml()));
            let entry = entry(&pki, &end, http, "alice", None);
            let got = curl(&[
                "-x",
                &entry.url("web"),
                &format!("http://{}/", origin.address()),
            ]);
            assert_eq!(
                (got.exit, got.status),
                (0, status),
                "{names:?}, HTTP/{http}: {got:?}"
            );
            if status == 502 {
                let reason = got.field("proxy-status").unwrap();
                assert!(
                    reason.contains("error=tls_certificate_error"),
                    "HTTP/{http}: {reason}"
                );
            }
        }
    }
}
