//! Targets that are this machine itself, behind a proxy that may reach anything else.

use hermes_tests::{Node, curl, origins};

#[test]
fn a_prefix_that_holds_this_machine_does_not_open_it() {
    let (wide, origin) = (
        Node::start(
            "edge",
            r#"
            listeners: { web: { http: 127.0.0.1:0 } }
            routes: [ { terminate: true } ]
            egress: { allow: [0.0.0.0/0, "::/0"] }
            "#,
        ),
        origins::http(),
    );
    let port = origin.port();
    for host in [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "localhost",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
    ] {
        let got = curl(&["-x", &wide.url("web"), &format!("http://{host}:{port}/")]);
        assert_eq!(got.status, 502, "{host}: {got:?}");
        let status = got.field("proxy-status").unwrap();
        assert!(
            status.contains("destination_ip_prohibited") && status.contains("this machine"),
            "{host}: {status}"
        );
    }
    assert!(origin.seen().is_empty());
}
