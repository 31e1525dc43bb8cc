//! The certificate that `openssl req -x509` makes unless told otherwise: that of an authority, shown as a server's.

use std::process::Command;

use hermes_tests::{Node, curl};

#[test]
fn the_certificate_of_an_authority_is_named_with_what_mends_it() {
    for (extension, status) in [("", 502), ("basicConstraints=critical,CA:FALSE", 200)] {
        let folder = tempfile::tempdir().unwrap();
        let mut openssl = Command::new("openssl");
        openssl
            .current_dir(folder.path())
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args([
                "-nodes", "-keyout", "own.key", "-out", "own.pem", "-days", "30",
            ])
            .args([
                "-subj",
                "/CN=localhost",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ]);
        if !extension.is_empty() {
            openssl.args(["-addext", extension]);
        }
        let made = openssl.output().unwrap();
        assert!(made.status.success(), "{made:?}");

        let ca_file = folder.path().join("own.pem");
        let server = Node::start_in(
            folder,
            "server",
            r#"
            listeners: { web: { http: 127.0.0.1:0, gateway: true, tls: { cert_file: own.pem, key_file: own.key } } }
            routes: [ { respond: { status: 200 } } ]
            "#,
            &[],
        );
        let client = Node::start(
            "client",
            &format!(
                r#"
                listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
                routes: [ {{ terminate: server }} ]
                upstreams: {{ server: {{ endpoints: ["{}"], tls: {{ ca_file: "{}" }} }} }}
                "#,
                server.address("web"),
                ca_file.display()
            ),
        );
        assert_eq!(
            curl(&["-x", &client.url("web"), "http://server/"]).status,
            status
        );
        let record = client.record(|record| record["kind"] == "http");
        if status == 502 {
            let said = record.to_string();
            assert!(
                said.contains("CA:FALSE") && !said.contains("CaUsedAsEndEntity"),
                "{record:#}"
            );
        }
    }
}
