//! Whose traffic it is: credentials, certificates, peers, and fields that no one may forge.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::tokens::{self, Issuer};
use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{Origin, Request};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, Pki, curl, origins};
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

const SECRET: u32 = 0o600;

/// A folder with these files, which only their owner can read.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(SECRET)).unwrap();
    }
    folder
}

/// A node with one listener `web` that says this of itself and terminates; what is exposed is the test's choice.
fn node(folder: TempDir, listener: &str, rest: &str) -> Node {
    let yaml = format!(
        "listeners: {{ web: {{ http: 127.0.0.1:0, {listener} }} }}\negress: {{ allow: [127.0.0.0/8] }}\n{}",
        hermes_tests::node::dedent(rest)
    );
    Node::start_in(folder, "edge", &yaml, &[])
}

const EXPOSE_USER: &str = "routes: [ { terminate: true, expose: [user] } ]";

fn url(origin: &Origin<Request>) -> String {
    format!("http://{}/a", origin.address())
}

#[test]
fn basic_authentication_names_the_user() {
    let users = format!("alice:{}\n", bcrypt::hash("secret", 4).unwrap());
    let origin = origins::http();
    let node = node(
        folder(&[("users", &users)]),
        "auth: { basic: { file: users, realm: overlay } }",
        EXPOSE_USER,
    );
    let (proxy, url) = (node.url("web"), url(&origin));

    let got = curl(&["-x", &proxy, "-U", "alice:secret", &url]);
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(origin.last().field("user").as_deref(), Some("alice"));
    assert_eq!(origin.last().field("proxy-authorization"), None);
    assert_eq!(
        node.record(|record| record["status"] == 200)["user"],
        "alice"
    );

    for wrong in [
        &["-U", "alice:wrong"][..],
        &["-U", "bob:secret"],
        &["-U", "alice:"],
        &[],
    ] {
        let got = curl(&[&["-x", &proxy, &url][..], wrong].concat());
        assert_eq!(got.status, 407, "{wrong:?}: {got:?}");
        assert_eq!(
            got.field("proxy-authenticate").as_deref(),
            Some("Basic realm=\"overlay\", charset=\"UTF-8\"")
        );
        assert!(
            got.field("proxy-status")
                .unwrap()
                .starts_with("edge; error=http_request_denied"),
            "{got:?}"
        );
    }
    let authority = origin.address().to_string();
    assert_eq!(
        Raw::tunnel(node.address("web"), &authority, "")
            .unwrap_err()
            .status(),
        407
    );
    assert_eq!(origin.connections(), 1);
    assert!(node.metrics().contains("auth"), "{}", node.metrics());
}

#[test]
fn no_credential_appears_in_log_or_records() {
    let users = format!("alice:{}\n", bcrypt::hash("secret-password", 4).unwrap());
    let origin = origins::http();
    let node = node(
        folder(&[("users", &users)]),
        "auth: { basic: { file: users } }",
        EXPOSE_USER,
    );
    node.ask("PUT", "/log", "trace");
    for password in ["secret-password", "wrong-password"] {
        curl(&[
            "-x",
            &node.url("web"),
            "-U",
            &format!("alice:{password}"),
            &format!("{}?token=query-secret", url(&origin)),
        ]);
    }
    node.record(|record| record["status"] == 407);
    let records = fs::read_to_string(node.folder().join("access.json")).unwrap();
    for text in [
        node.log(),
        records,
        node.metrics(),
        node.status().to_string(),
    ] {
        // The last three: base64 of both credentials, and the query.
        for secret in [
            "secret-password",
            "wrong-password",
            "c2VjcmV0LXBhc3N3b3",
            "d3JvbmctcGFzc3dvc",
            "query-secret",
        ] {
            assert!(!text.contains(secret), "{secret}");
        }
    }
}

#[test]
fn a_gateway_asks_with_401_and_authorization() {
    let users = format!("alice:{}\n", bcrypt::hash("secret", 4).unwrap());
    let origin = origins::http();
    let routes = format!(
        "routes: [ {{ terminate: o }} ]\nupstreams: {{ o: {{ endpoints: [\"{}\"] }} }}",
        origin.address()
    );
    let node = node(
        folder(&[("users", &users)]),
        "gateway: true, auth: { basic: { file: users } }",
        &routes,
    );
    let url = format!("{}/a", node.url("web"));
    let got = curl(&[&url]);
    assert_eq!(got.status, 401, "{got:?}");
    assert!(
        got.field("www-authenticate").unwrap().starts_with("Basic"),
        "{got:?}"
    );
    let got = curl(&["-u", "alice:secret", &url]);
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(
        origin.last().field("authorization"),
        None,
        "the listener read it; it is not for the origin"
    );
}

#[test]
fn authorization_for_the_origin_passes_a_proxy() {
    let origin = origins::http();
    let node = node(folder(&[]), "auth: none", EXPOSE_USER);
    curl(&["-x", &node.url("web"), "-u", "bob:origin", &url(&origin)]);
    assert!(
        origin
            .last()
            .field("authorization")
            .unwrap()
            .starts_with("Basic ")
    );
}

/// A bearer listener for tokens of `issuer`.
fn bearer(issuer: &Issuer) -> Node {
    let auth = "auth: { bearer: { jwks_file: keys.json, issuer: \"https://issuer.test\", audience: hermes } }";
    node(
        folder(&[("keys.json", &issuer.key_set())]),
        auth,
        EXPOSE_USER,
    )
}

#[test]
fn a_signed_token_names_the_user() {
    for issuer in [Issuer::eddsa(), Issuer::rs256()] {
        let (node, origin) = (bearer(&issuer), origins::http());
        let token = issuer.token(&issuer.claims("alice"));
        let field = format!("Proxy-Authorization: Bearer {token}");
        let got = curl(&[
            "-x",
            &node.url("web"),
            "--proxy-header",
            &field,
            &url(&origin),
        ]);
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(origin.last().field("user").as_deref(), Some("alice"));
        assert_eq!(origin.last().field("proxy-authorization"), None);
        let got = curl(&["-x", &node.url("web"), &url(&origin)]);
        assert_eq!(got.status, 407, "{got:?}");
        assert!(
            got.field("proxy-authenticate")
                .unwrap()
                .starts_with("Bearer"),
            "{got:?}"
        );
    }
}

/// An issuer that begins to sign with what this program does not know goes on with its other keys (RFC 7517, section 5), also where it
/// publishes that while the node runs.
#[test]
fn keys_that_are_not_understood_leave_the_others_of_a_renewed_set() {
    let (before, after, origin) = (Issuer::eddsa(), Issuer::rs256(), origins::http());
    let node = bearer(&before);
    let ask = |issuer: &Issuer| {
        let token = issuer.token(&issuer.claims("alice"));
        let field = format!("Proxy-Authorization: Bearer {token}");
        let web = node.url("web");
        curl(&["-x", &web, "--proxy-header", &field, &url(&origin)]).status
    };
    assert_eq!([ask(&before), ask(&after)], [200, 407]);

    let mut renewed: serde_json::Value = serde_json::from_str(&after.key_set()).unwrap();
    let unknown = [
        json!({ "kty": "AKP", "alg": "ML-DSA-44", "use": "sig", "kid": "2", "pub": "AA" }),
        json!({ "kty": "EC", "crv": "secp256k1", "alg": "ES256K", "x": "AA", "y": "AA" }),
        json!({ "kty": "RSA", "kid": "3", "e": "AQAB" }),
        json!({ "kty": 7 }),
    ];
    renewed["keys"].as_array_mut().unwrap().extend(unknown);
    fs::write(node.folder().join("keys.json"), renewed.to_string()).unwrap();
    node.signal(Signal::HUP);
    eventually_true("the new set counts", || ask(&after) == 200);
    assert_eq!(ask(&before), 407);
    let said = node.log();
    assert!(said.contains("this key is ignored"), "{said}");
}

#[test]
fn a_token_that_proves_nothing_is_refused() {
    let (issuer, stranger) = (Issuer::eddsa(), Issuer::eddsa());
    let (node, origin) = (bearer(&issuer), origins::http());
    let with = |name: &str, value: serde_json::Value| {
        let mut claims = issuer.claims("alice");
        claims[name] = value;
        issuer.token(&claims)
    };
    let unsigned = format!(
        "{}.{}.",
        tokens::part(r#"{"alg":"none"}"#),
        tokens::part(&issuer.claims("alice").to_string())
    );
    let cases = [
        (
            "another issuer's key",
            stranger.token(&issuer.claims("alice")),
        ),
        ("expired", with("exp", 1_000_000.into())),
        ("not valid yet", with("nbf", 99_999_999_999_u64.into())),
        ("another audience", with("aud", "mail".into())),
        ("another issuer", with("iss", "https://evil.test".into())),
        ("no user", with("sub", serde_json::Value::Null)),
        (
            "a user that is no token",
            with("sub", "alice\r\nuser: bob".into()),
        ),
        ("unsigned", unsigned),
        ("no token at all", "a.b.c".to_owned()),
    ];
    for (case, token) in cases {
        let got = curl(&[
            "-x",
            &node.url("web"),
            "-H",
            &format!("Proxy-Authorization: Bearer {token}"),
            &url(&origin),
        ]);
        assert_eq!(got.status, 407, "{case}: {got:?}");
    }
    assert!(origin.seen().is_empty());
}

/// A listener under TLS with client certificates; returns the node and the certificates' authority.
fn mutual(listener: &str, rest: &str) -> (Node, Pki) {
    let pki = Pki::new();
    let tls = format!(
        "tls: {{ {}, client_ca_file: {} }}",
        pki.issue(&["127.0.0.1"]).yaml(),
        pki.ca().display()
    );
    (node(folder(&[]), &format!("{tls}, {listener}"), rest), pki)
}

/// curl through the node with a client certificate for `name`.
fn curl_as(node: &Node, pki: &Pki, name: &str, arguments: &[&str]) -> curl::Output {
    let (issued, ca) = (pki.issue(&[name]), pki.ca());
    let proxy = format!("https://{}", node.address("web"));
    let (cert, key) = (issued.cert.to_str().unwrap(), issued.key.to_str().unwrap());
    let identity = [
        "-x",
        &proxy,
        "--proxy-cacert",
        ca.to_str().unwrap(),
        "--proxy-cert",
        cert,
        "--proxy-key",
        key,
    ];
    curl(&[&identity[..], arguments].concat())
}

#[test]
fn a_client_certificate_names_the_user() {
    let origin = origins::http();
    let (node, pki) = mutual("auth: mtls", EXPOSE_USER);
    let got = curl_as(&node, &pki, "alice@example.com", &[&url(&origin)]);
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(
        origin.last().field("user").as_deref(),
        Some("alice@example.com")
    );

    let proxy = format!("https://{}", node.address("web"));
    let got = curl(&[
        "-x",
        &proxy,
        "--proxy-cacert",
        pki.ca().to_str().unwrap(),
        &url(&origin),
    ]);
    assert_ne!(got.status, 200, "{got:?}");
    let strangers = Pki::new().issue(&["alice@example.com"]);
    let (cert, key) = (
        strangers.cert.to_str().unwrap(),
        strangers.key.to_str().unwrap(),
    );
    let ca = pki.ca();
    let stranger = [
        "-x",
        &proxy,
        "--proxy-cacert",
        ca.to_str().unwrap(),
        "--proxy-cert",
        cert,
        "--proxy-key",
        key,
    ];
    assert_ne!(
        curl(&[&stranger[..], &[&url(&origin)]].concat()).status,
        200
    );
    assert_eq!(origin.connections(), 1);
}

const PEER: &str = r#"
    routes: [ { terminate: true, expose: [user, service] } ]
    peers: { sap: { certificate: sap.overlay, speaks_for: [alice, "*@example.com"] } }
"#;

#[test]
fn a_peer_is_believed_for_the_users_it_speaks_for() {
    let origin = origins::http();
    let (node, pki) = mutual("auth: mtls", PEER);
    for user in ["alice", "carol@example.com"] {
        let field = format!("user: {user}");
        let got = curl_as(
            &node,
            &pki,
            "sap.overlay",
            &["-H", &field, "-H", "service: db", &url(&origin)],
        );
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(origin.last().field("user").as_deref(), Some(user));
        assert_eq!(
            origin.last().field("service").as_deref(),
            Some("db"),
            "a peer's overlay fields are kept"
        );
    }
}

#[test]
fn a_peer_that_does_not_speak_for_a_user_is_refused_with_the_reason() {
    let origin = origins::http();
    let (node, pki) = mutual("auth: mtls", PEER);
    let got = curl_as(
        &node,
        &pki,
        "sap.overlay",
        &["-H", "user: bob", &url(&origin)],
    );
    assert_eq!(got.status, 403, "{got:?}");
    let status = got.field("proxy-status").unwrap();
    assert!(status.contains("error=http_request_denied"), "{status}");
    assert!(
        status.contains("peer sap does not speak for user bob"),
        "{status}"
    );
    let got = curl_as(
        &node,
        &pki,
        "sap.overlay",
        &["-H", "user: alice", "-H", "user: bob", &url(&origin)],
    );
    assert_eq!(got.status, 403, "several users are none: {got:?}");
    assert!(origin.seen().is_empty());
}

#[test]
fn a_certificate_that_is_no_peers_does_not_speak_for_others() {
    let origin = origins::http();
    let (node, pki) = mutual("auth: mtls", PEER);
    let got = curl_as(
        &node,
        &pki,
        "mallory.test",
        &["-H", "user: alice", "-H", "service: db", &url(&origin)],
    );
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(origin.last().field("user").as_deref(), Some("mallory.test"));
    assert_eq!(origin.last().field("service"), None);
}

#[test]
fn a_forged_user_is_removed() {
    let origin = origins::http();
    let node = node(folder(&[]), "user: guest", EXPOSE_USER);
    for field in ["user: admin", "User: admin", "USER:admin"] {
        let got = curl(&["-x", &node.url("web"), "-H", field, &url(&origin)]);
        assert_eq!(got.status, 200, "{got:?}");
        assert_eq!(origin.last().field("user").as_deref(), Some("guest"));
    }
    assert_eq!(node.record(|_| true)["user"], "guest");
}

#[test]
fn a_forged_user_is_refused_where_the_operator_wants_that() {
    let users = format!("alice:{}\n", bcrypt::hash("secret", 4).unwrap());
    let origin = origins::http();
    let node = node(
        folder(&[("users", &users)]),
        "auth: { basic: { file: users } }, forged: refuse",
        EXPOSE_USER,
    );
    let (proxy, url) = (node.url("web"), url(&origin));
    let got = curl(&[
        "-x",
        &proxy,
        "-U",
        "alice:secret",
        "-H",
        "user: admin",
        &url,
    ]);
    assert_eq!(got.status, 403, "{got:?}");
    let status = got.field("proxy-status").unwrap();
    assert!(
        status.contains("user alice claims to be user admin"),
        "{status}"
    );
    let got = curl(&[
        "-x",
        &proxy,
        "-U",
        "alice:secret",
        "-H",
        "user: alice",
        &url,
    ]);
    assert_eq!(got.status, 200, "the truth is no forgery: {got:?}");
    assert_eq!(origin.connections(), 1);
}

#[test]
fn insecure_trust_believes_a_clear_link() {
    let origin = origins::http();
    let rest = "routes: [ { terminate: true, expose: [user, service] } ]";
    let trusting = node(folder(&[]), "insecure_trust: [127.0.0.0/8]", rest);
    let fields = [
        "-H",
        "user: anybody",
        "-H",
        "service: db",
        "-H",
        "x-other: 1",
    ];
    let got = curl(&[&["-x", &trusting.url("web")][..], &fields, &[&url(&origin)]].concat());
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(origin.last().field("user").as_deref(), Some("anybody"));
    assert_eq!(origin.last().field("service").as_deref(), Some("db"));
    let elsewhere = node(folder(&[]), "insecure_trust: [192.0.2.0/24]", rest);
    curl(
        &[
            &["-x", &elsewhere.url("web")][..],
            &fields,
            &[&url(&origin)],
        ]
        .concat(),
    );
    assert_eq!(origin.last().field("user"), None);
    assert_eq!(origin.last().field("service"), None);
    assert_eq!(origin.last().field("x-other").as_deref(), Some("1"));
}

#[test]
fn a_client_sets_only_the_overlay_fields_that_the_listener_accepts() {
    let origin = origins::http();
    let rest =
        "routes: [ { terminate: true, expose: [user, service, namespace, \"x-hermes-*\"] } ]";
    let node = node(folder(&[]), "accepts: [service]", rest);
    let fields = [
        "-H",
        "service: db",
        "-H",
        "namespace: prod",
        "-H",
        "X-Hermes-Trace: 1",
        "-H",
        "ipaddress: 1",
    ];
    curl(&[&["-x", &node.url("web")][..], &fields, &[&url(&origin)]].concat());
    let seen = origin.last();
    assert_eq!(seen.field("service").as_deref(), Some("db"));
    assert_eq!(
        (
            seen.field("namespace"),
            seen.field("x-hermes-trace"),
            seen.field("ipaddress")
        ),
        (None, None, None)
    );
}

#[test]
fn overlay_fields_do_not_reach_an_origin_unless_they_are_exposed() {
    let origin = origins::http();
    let listener =
        "user: guest, set: { service: db, namespace: prod, x-hermes-a: \"1\", x-own: \"2\" }";
    let rest = r#"
        routes:
          - { match: { path: /open }, terminate: true, expose: [service, "x-hermes-*"] }
          - { terminate: true }
    "#;
    let node = node(folder(&[]), listener, rest);
    let overlay = |seen: &Request| {
        ["user", "service", "namespace", "x-hermes-a"].map(|name| seen.field(name))
    };
    curl(&["-x", &node.url("web"), &url(&origin)]);
    assert_eq!(overlay(&origin.last()), [None, None, None, None]);
    assert_eq!(origin.last().field("x-own").as_deref(), Some("2"));
    curl(&[
        "-x",
        &node.url("web"),
        &format!("http://{}/open", origin.address()),
    ]);
    assert_eq!(
        overlay(&origin.last()),
        [None, Some("db".into()), None, Some("1".into())]
    );
}

#[test]
fn naming_a_field_in_connection_does_not_remove_identity() {
    let users = format!("alice:{}\n", bcrypt::hash("secret", 4).unwrap());
    let origin = origins::http();
    let node = node(
        folder(&[("users", &users)]),
        "auth: { basic: { file: users } }, set: { service: db }",
        "routes: [ { terminate: true, expose: [user, service] } ]",
    );
    let fields = [
        "-H",
        "Connection: user, service, proxy-authorization, via",
        "-H",
        "user: bob",
    ];
    let got = curl(
        &[
            &["-x", &node.url("web"), "-U", "alice:secret"][..],
            &fields,
            &[&url(&origin)],
        ]
        .concat(),
    );
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(origin.last().field("user").as_deref(), Some("alice"));
    assert_eq!(origin.last().field("service").as_deref(), Some("db"));
    assert_eq!(origin.last().field("via").as_deref(), Some("1.1 edge"));
}

#[test]
fn the_nodes_token_is_shown_to_the_next_proxy_only() {
    let (issuer, origin) = (Issuer::eddsa(), origins::http());
    let edge = bearer(&issuer);
    let token = issuer.token(&issuer.claims("alice"));
    let alice = Node::start_in(
        folder(&[("alice.jwt", &format!("{token}\n"))]),
        "alice",
        &format!(
            r#"
            identity: {{ user: alice, token_file: alice.jwt }}
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes:
              - {{ match: {{ path: /direct }}, terminate: true }}
              - {{ to: edge }}
            upstreams: {{ edge: {{ endpoints: ["{}"] }} }}
            egress: {{ allow: [127.0.0.0/8] }}
            "#,
            edge.address("web")
        ),
        &[],
    );
    let got = curl(&["-x", &alice.url("web"), &url(&origin)]);
    assert_eq!(got.status, 200, "{got:?}");
    assert_eq!(
        edge.record(|_| true)["user"],
        "alice",
        "the edge saw the token"
    );
    assert_eq!(origin.last().field("proxy-authorization"), None);
    assert_eq!(
        origin.last().field("via").as_deref(),
        Some("1.1 alice, 1.1 edge")
    );
    curl(&[
        "-x",
        &alice.url("web"),
        &format!("http://{}/direct", origin.address()),
    ]);
    assert_eq!(origin.last().field("proxy-authorization"), None);
    assert_eq!(origin.last().field("via").as_deref(), Some("1.1 alice"));
}

#[test]
fn a_refused_token_is_a_bad_gateway_for_the_client() {
    let (issuer, origin) = (Issuer::eddsa(), origins::http());
    let edge = bearer(&issuer);
    let alice = Node::start(
        "alice",
        &format!(
            r#"
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ to: edge }} ]
            upstreams: {{ edge: {{ endpoints: ["{}"] }} }}
            "#,
            edge.address("web")
        ),
    );
    let got = curl(&["-x", &alice.url("web"), &url(&origin)]);
    assert_eq!(
        (got.status, got.field("proxy-authenticate")),
        (502, None),
        "{got:?}"
    );
    let head = Raw::tunnel(alice.address("web"), &origin.address().to_string(), "").unwrap_err();
    assert_eq!(
        (head.status(), head.field("proxy-authenticate")),
        (502, None),
        "{head:?}"
    );
}

#[test]
fn a_token_stays_where_the_operator_says_so() {
    let issuer = Issuer::eddsa();
    let edge = bearer(&issuer);
    let token = issuer.token(&issuer.claims("alice"));
    let alice = |rest: &str| {
        let yaml = format!(
            "identity: {{ user: alice, token_file: alice.jwt }}\nlisteners: {{ web: {{ http: 127.0.0.1:0 }} }}\n\
             routes: [ {{ to: edge }} ]\nupstreams: {{ edge: {{ endpoints: [\"{}\"]{rest} }} }}\n",
            edge.address("web")
        );
        Node::start_in(folder(&[("alice.jwt", &token)]), "alice", &yaml, &[])
    };
    let origin = origins::http();
    assert_eq!(
        curl(&["-x", &alice(", send_token: true").url("web"), &url(&origin)]).status,
        200
    );
    assert_eq!(
        curl(&[
            "-x",
            &alice(", send_token: false").url("web"),
            &url(&origin)
        ])
        .status,
        502
    );
}
