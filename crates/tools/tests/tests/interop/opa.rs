//! Open Policy Agent decides about exchanges.

use hermes_tests::raw::Raw;
use hermes_tests::{Node, Opa, curl, origins};

/// Who may do what: roles of users, and what a role opens.
const POLICY: &str = r#"
package overlay

roles := {"alice": "admin", "bob": "user"}

default allow := false

allow if {
    input.kind == "connect"
    input.target == "db:5432"
}

default decision := {"allow": false, "status": 401, "reason": "no one knows you", "body": "no role\n"}

decision := {"allow": true, "fields": {"x-secure": role}, "reason": concat(" ", ["role", role])} if {
    role := roles[input.fields.token]
}
"#;

fn node(opa: &Opa, path: &str, origin: &str) -> Node {
    let yaml = format!(
        r#"
        fields: [user, service, x-hermes-*, x-secure]
        listeners: {{ web: {{ http: 127.0.0.1:0, user: alice }} }}
        authorize:
          - {{ name: opa, kind: opa, upstream: opa, path: {path}, timeout: 10s, send: [token], allow_fields: [x-secure] }}
        routes:
          - {{ match: {{ method: CONNECT }}, terminate: db }}
          - {{ match: {{ fields: {{ x-secure: admin }} }}, respond: {{ status: 200, body: admin }} }}
          - {{ match: {{ fields: {{ x-secure: user }} }}, respond: {{ status: 200, body: user }} }}
        upstreams:
          opa: {{ endpoints: ["unix:{}"] }}
          db: {{ endpoints: ["{origin}"] }}
        "#,
        opa.socket().display()
    );
    Node::start("sap", &yaml)
}

#[test]
fn a_policy_in_rego_gives_the_role_that_decides_the_route() {
    let (opa, origin) = (Opa::start(POLICY), origins::tcp_echo());
    let origin = origin.address().to_string();
    let deciding = node(&opa, "/v1/data/overlay/decision", &origin);
    let ask = |token: &str| {
        let url = deciding.url("web");
        curl(&[
            "-x",
            &url,
            "-H",
            &format!("token: {token}"),
            "-H",
            "x-secure: admin",
            "http://VIDEO/",
        ])
    };
    assert_eq!(ask("alice").text(), "admin");
    assert_eq!(ask("bob").text(), "user");
    let stranger = ask("mallory");
    assert_eq!(
        (stranger.status, stranger.text().as_str()),
        (401, "no role\n")
    );
    assert!(
        stranger
            .field("proxy-status")
            .unwrap()
            .contains("opa denied: no one knows you"),
        "{stranger:?}"
    );
    deciding.record(|record| record["filters"] == serde_json::json!(["opa allowed: role admin"]));
}

#[test]
fn a_truth_value_decides_about_tunnels_and_an_undefined_decision_denies() {
    let (opa, origin) = (Opa::start(POLICY), origins::tcp_echo());
    let address = origin.address().to_string();
    let deciding = node(&opa, "/v1/data/overlay/allow", &address);
    let mut tunnel = Raw::tunnel(deciding.address("web"), "DB:5432", "").unwrap();
    tunnel.send("ping");
    assert_eq!(tunnel.exactly(4), b"ping");
    assert_eq!(
        Raw::tunnel(deciding.address("web"), "OTHER:5432", "")
            .unwrap_err()
            .status(),
        403
    );
    let undefined = node(&opa, "/v1/data/overlay/nothing", &address);
    assert_eq!(
        curl(&["-x", &undefined.url("web"), "http://VIDEO/"]).status,
        403
    );
}
