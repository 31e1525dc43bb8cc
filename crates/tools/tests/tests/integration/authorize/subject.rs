//! What a policy in Rego knows of an exchange, and when it decides again.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermes_tests::origins::tcp_echo;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, Pki, curl, program};
use serde_json::{Value, json};

use crate::tokens::Issuer;

fn start(policy: &str, yaml: &str, files: &[(&str, &str)]) -> Node {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [&[("policy.rego", policy)], files].concat() {
        fs::write(folder.path().join(name), text).unwrap();
    }
    Node::start_in(folder, "sap", yaml, &[])
}

/// Denies everything, and says what it knows.
const TELLS: &str = r#"
package a
import rego.v1
keys := {"claims", "groups", "certificate", "destination", "user"}
b := {"allow": false, "body": json.marshal({key: input[key] | some key in keys})}
"#;

#[test]
fn a_policy_knows_a_token_s_claims_and_the_user_s_groups() {
    let issuer = Issuer::eddsa();
    let yaml = r#"
        groups: { staff: [alice, bob], admins: ["al*"], others: [carol] }
        listeners:
          web:
            http: 127.0.0.1:0
            auth: { bearer: { jwks_file: keys, issuer: https://issuer.test, audience: hermes } }
        authorize: [{ name: a, timeout: 60s, rego: { files: policy.rego, query: data.a.b } }]
        routes: [{ respond: { status: 200 } }]
    "#;
    let node = start(TELLS, yaml, &[("keys", &issuer.key_set())]);
    let mut claims = issuer.claims("alice");
    claims["groups"] = json!(["ops"]);
    let token = format!("proxy-authorization: Bearer {}", issuer.token(&claims));

    let got = curl(&["-x", &node.url("web"), "-H", &token, "http://a/"]);
    assert_eq!(got.status, 403, "{got:?}");
    let known: Value = serde_json::from_str(&got.text()).unwrap();
    assert_eq!(known["claims"], claims);
    assert_eq!(known["user"], "alice");
    assert_eq!(known["groups"], json!(["staff", "admins"]));
    assert_eq!(known["certificate"], Value::Null);
    let port = node.address("web").port();
    assert_eq!(
        known["destination"],
        json!({ "address": "127.0.0.1", "port": port })
    );
}

/// Groups that a token claims, in the policy, where a filter is asked, and in a route.
const CLAIMED: &str = r#"
fields: [user, x-role]
groups: { admins: [carol] }
listeners:
  web:
    http: 127.0.0.1:0
    auth: { bearer: { jwks_file: keys, issuer: https://issuer.test, audience: hermes } }
policy:
  rules:
    - { name: ops, match: { user: claim-group:ops }, set: { x-role: ops }, allow: true }
    - { name: staff, match: { user: [group:admins, claim-group:staff] }, allow: true }
    - { name: tunnels, match: { user: claim-group:tunnels, kind: connect }, allow: true }
authorize:
  - { name: asked, timeout: 60s, match: { user: claim-group:asked }, rego: { files: policy.rego, query: data.a.b } }
routes:
  - { match: { kind: connect }, terminate: echo }
  - { match: { fields: { x-role: ops } }, respond: { status: 200, body: ops } }
  - { match: { user: claim-group:night }, respond: { status: 200, body: night } }
  - { respond: { status: 200, body: staff } }
upstreams: { echo: { endpoints: ["ECHO"] } }
"#;

#[test]
fn rules_know_the_groups_that_a_token_claims() {
    let issuer = Issuer::eddsa();
    let echo = tcp_echo();
    let yaml = CLAIMED.replace("ECHO", &echo.address().to_string());
    let node = start(
        "package a\nb := false\n",
        &yaml,
        &[("keys", &issuer.key_set())],
    );
    let shown = |user: &str, claim: &str, groups: Value| {
        let mut claims = issuer.claims(user);
        claims[claim] = groups;
        format!("proxy-authorization: Bearer {}", issuer.token(&claims))
    };
    let ask = |user: &str, groups: Value| {
        let token = shown(user, "groups", groups);
        let got = curl(&[
            "-x",
            &node.url("web"),
            "-H",
            &token,
            "-H",
            "x-role: ops",
            "http://a/",
        ]);
        (got.status, got.text())
    };

    let ok = |body: &str| (200, body.to_owned());
    assert_eq!(ask("alice", json!(["x", "ops"])), ok("ops"));
    assert_eq!(ask("alice", json!("ops")), ok("ops"));
    assert_eq!(ask("alice", json!(["staff"])), ok("staff"));
    assert_eq!(ask("alice", json!(["staff", "night"])), ok("night"));
    assert_eq!(ask("carol", json!([])), ok("staff"));

    // A token does not put anyone into a group of the file, nor is the name of one a claim.
    for nothing in [
        json!(["admins"]),
        json!(["Ops"]),
        json!({ "ops": true }),
        json!([["ops"]]),
        json!(7),
        Value::Null,
    ] {
        assert_eq!(ask("alice", nothing.clone()).0, 403, "{nothing}");
    }
    assert_eq!(ask("alice", json!(["ops", "asked"])).0, 403);
    let many: Vec<String> = (0..300).map(|number| format!("group-{number}")).collect();
    let beyond = [&many[..], &["ops".to_owned()]].concat();
    assert_eq!(ask("alice", json!(beyond)).0, 403);

    let record = node.record(|record| record["status"] == 403 && record["filters"].is_array());
    let name = record["refusal"].as_str().unwrap();
    let (_, account) = node.ask("GET", &format!("/why/{name}"), "");
    assert!(account.contains("ops: yes; allowed"), "{account}");

    // Tunnels are decided on again, by the claim that counts then.
    let token = format!("{}\r\n", shown("alice", "groups", json!(["tunnels"])));
    let mut tunnel = Raw::tunnel(node.address("web"), "ECHO:7", &token).unwrap();
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");
    let (status, answer) = node.reload(&yaml.replace("staff]", "others]"));
    assert_eq!(status, 200, "{answer}");
    tunnel.send("y");
    assert_eq!(tunnel.exactly(1), b"y");
    let renamed = yaml.replace("audience: hermes", "audience: hermes, groups_claim: roles");
    let (status, answer) = node.reload(&renamed);
    assert_eq!(status, 200, "{answer}");
    node.record(|record| {
        record["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("policy_changed"))
    });

    let token = shown("alice", "roles", json!(["staff"]));
    let got = curl(&["-x", &node.url("web"), "-H", &token, "http://a/"]);
    assert_eq!((got.status, got.text().as_str()), (200, "staff"));
}

/// Decides by what the token claims.
const TENANTS: &str = r#"
package a
import rego.v1
default b := {"allow": false, "reason": "no tenant"}
b := {"allow": true, "fields": {"tenant": input.claims.tenant}} if input.claims.tenant in ["blue", "green"]
b := {"allow": true} if { "ops" in input.claims.roles; input.claims.sub == input.user }
"#;

#[test]
fn a_supposed_user_with_claims_is_judged_as_the_real_one() {
    let issuer = Issuer::eddsa();
    let yaml = r#"
        fields: [user, tenant]
        listeners:
          web:
            http: 127.0.0.1:0
            auth: { bearer: { jwks_file: keys, issuer: https://issuer.test, audience: hermes, groups_claim: roles } }
        authorize: [{ name: a, timeout: 60s, allow_fields: [tenant], rego: { files: policy.rego, query: data.a.b } }]
        routes:
          - { name: blues, match: { fields: { tenant: blue } }, respond: { status: 200 } }
          - { name: ops, match: { user: claim-group:ops }, respond: { status: 204 } }
          - { name: others, respond: { status: 404 } }
    "#;
    let node = start(TENANTS, yaml, &[("keys", &issuer.key_set())]);
    let cases: [(&[&str], Value); 6] = [
        (&["--claim", "tenant=blue"], json!({ "tenant": "blue" })),
        (&["--claim", "tenant=green"], json!({ "tenant": "green" })),
        (&["--claim", "tenant=red"], json!({ "tenant": "red" })),
        (
            &["--claim", "tenant=[\"blue\"]"],
            json!({ "tenant": ["blue"] }),
        ),
        (&["--claim-group", "ops"], json!({ "roles": ["ops"] })),
        (&["--claim", "roles=[\"dev\"]"], json!({ "roles": ["dev"] })),
    ];

    let mut routes = Vec::new();
    for (arguments, claimed) in cases {
        let mut claims = issuer.claims("alice");
        for (name, value) in claimed.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let token = format!("proxy-authorization: Bearer {}", issuer.token(&claims));
        let got = curl(&["-x", &node.url("web"), "-H", &token, "http://a/"]);

        let output = Command::new(program::path())
            .args([
                "why",
                "GET",
                "http://a/",
                "--ask",
                "--json",
                "--user",
                "alice",
            ])
            .args(arguments)
            .arg("--admin")
            .arg(node.socket())
            .output()
            .unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["status"], got.status, "{arguments:?}: {said:#}");
        routes.push(said["route"].as_str().unwrap_or("none").to_owned());
    }
    assert_eq!(routes, ["blues", "others", "none", "none", "ops", "none"]);
}

/// One user of whom a token, a password and another proxy's field have different names.
const ALIASES: &str = r#"
users: { alice: ["auth0|5f7c", al] }
groups: { staff: [alice] }
listeners:
  web:
    http: 127.0.0.1:0
    auth: { basic: { file: users }, bearer: { jwks_file: keys, issuer: https://issuer.test, audience: hermes } }
    limits: { users: [{ user: group:staff, per_user: 1 }] }
policy:
  rules:
    - { match: { user: [group:staff, claim-group:ops] }, allow: true }
routes:
  - { match: { kind: connect }, terminate: echo }
  - { match: { user: claim-group:ops }, respond: { status: 200, body: ops } }
  - { respond: { status: 200, body: staff } }
upstreams: { echo: { endpoints: ["ECHO"] } }
"#;

#[test]
fn a_user_whom_tokens_and_passwords_name_otherwise_is_one() {
    let issuer = Issuer::eddsa();
    let echo = tcp_echo();
    let yaml = ALIASES.replace("ECHO", &echo.address().to_string());
    let users =
        ["al", "bob"].map(|user| format!("{user}:{}\n", bcrypt::hash("secret", 4).unwrap()));
    let users = users.concat();
    let password = |user: &str| {
        let shown = STANDARD.encode(format!("{user}:secret"));
        format!("proxy-authorization: Basic {shown}")
    };
    let node = start("", &yaml, &[("keys", &issuer.key_set()), ("users", &users)]);

    let token = |user: &str, groups: Value| {
        let mut claims = issuer.claims(user);
        claims["groups"] = groups;
        format!("proxy-authorization: Bearer {}", issuer.token(&claims))
    };
    let ask = |header: &str| {
        let got = curl(&["-x", &node.url("web"), "-H", header, "http://a/"]);
        (got.status, got.text())
    };
    assert_eq!(
        ask(&token("auth0|5f7c", json!([]))),
        (200, "staff".to_owned())
    );
    assert_eq!(
        ask(&token("auth0|5f7c", json!("ops"))),
        (200, "ops".to_owned())
    );
    assert_eq!(ask(&password("al")), (200, "staff".to_owned()));
    assert_eq!(ask(&password("bob")).0, 403);
    assert_eq!(ask(&token("auth0|5f7d", json!([]))).0, 403);
    assert_eq!(
        node.record(|record| record["status"] == 200)["user"],
        "alice"
    );

    // Bounds are the user's, and so is what an open tunnel is decided on again by.
    let shown = |header: &str| format!("{header}\r\n");
    let mut tunnel = Raw::tunnel(
        node.address("web"),
        "ECHO:7",
        &shown(&token("auth0|5f7c", json!([]))),
    )
    .unwrap();
    let second = Raw::tunnel(node.address("web"), "ECHO:7", &shown(&password("al")));
    assert_eq!(second.unwrap_err().status(), 429);
    tunnel.send("x");
    assert_eq!(tunnel.exactly(1), b"x");

    let (status, answer) = node.reload(&yaml.replace("\"auth0|5f7c\", ", ""));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(tunnel.rest().0, b"");
    assert_eq!(ask(&token("auth0|5f7c", json!([]))).0, 403);
}

#[test]
fn a_token_with_a_megabyte_of_claims_is_bounded() {
    let issuer = Issuer::eddsa();
    let yaml = |limits: &str| {
        format!(
            r#"
        listeners:
          web:
            http: 127.0.0.1:0
            limits: {{ {limits} }}
            auth: {{ bearer: {{ jwks_file: keys, issuer: https://issuer.test, audience: hermes }} }}
        authorize: [{{ name: a, timeout: 60s, rego: {{ files: policy.rego, query: data.a.b, memory: 1MiB }} }}]
        routes: [{{ respond: {{ status: 200 }} }}]
        "#
        )
    };
    let policy = "package a\nb if input.claims.small\n";
    let keys = [("keys", &*issuer.key_set())];
    let mut small = issuer.claims("alice");
    small["small"] = json!(true);
    let mut large = small.clone();
    large["more"] = (0..100_000).map(|number| json!(number)).collect();
    let ask = |node: &Node, claims: &Value| {
        let token = issuer.token(claims);
        let mut client = Raw::connect(node.address("web"));
        client.send_if_open(format!(
            "GET http://a/ HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Bearer {token}\r\n\r\n"
        ));
        client.head().status()
    };

    let usual = start(policy, &yaml(""), &keys);
    assert_eq!(ask(&usual, &large), 431);
    // A listener that takes such heads takes no such token.
    let generous = start(policy, &yaml("head_bytes: 4MiB"), &keys);
    assert_eq!(ask(&generous, &large), 407);
    assert_eq!(ask(&generous, &small), 200);
}

#[test]
fn a_policy_knows_the_names_in_a_certificate() {
    let pki = Pki::new();
    let client = pki.issue(&["alice.example"]);
    let server = pki.issue(&["127.0.0.1"]);
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0, auth: mtls, tls: {{ {}, client_ca_file: {} }} }} }}
        authorize: [{{ name: a, timeout: 60s, rego: {{ files: policy.rego, query: data.a.b }} }}]
        routes: [{{ respond: {{ status: 200 }} }}]
        "#,
        server.yaml(),
        pki.ca().display()
    );
    let node = start(TELLS, &yaml, &[]);
    let proxy = format!("https://{}", node.address("web"));
    let certificate = client.cert.to_str().unwrap();
    let key = client.key.to_str().unwrap();
    let got = curl(&[
        "-x",
        &proxy,
        "--proxy-insecure",
        "--proxy-cert",
        certificate,
        "--proxy-key",
        key,
        "http://a/",
    ]);
    let known: Value = serde_json::from_str(&got.text()).unwrap();
    assert_eq!(known["certificate"]["dns"], json!(["alice.example"]));
    assert_eq!(known["certificate"]["common_name"], "alice.example");
}

#[test]
fn of_two_policies_that_set_a_field_the_later_one_counts() {
    let policy = r#"
        package a
        import rego.v1
        one := {"allow": true, "fields": {"x-secure": "user", "x-first": "1"}}
        two := {"allow": true, "fields": {"x-secure": concat("", [input.fields["x-secure"], "-", "admin"])}}
    "#;
    let yaml = r#"
        fields: [user, x-secure, x-first]
        listeners: { web: { http: 127.0.0.1:0 } }
        authorize:
          - { name: one, timeout: 60s, allow_fields: [x-secure, x-first], rego: { files: policy.rego, query: data.a.one } }
          - { name: two, timeout: 60s, allow_fields: [x-secure], rego: { files: policy.rego, query: data.a.two } }
        routes:
          - { match: { fields: { x-secure: user-admin, x-first: "1" } }, respond: { status: 200, body: both } }
          - { respond: { status: 200, body: other } }
    "#;
    let node = start(policy, yaml, &[]);
    let forged = "x-secure: forged";
    let got = curl(&["-x", &node.url("web"), "-H", forged, "http://a/"]);
    assert_eq!(got.text(), "both");
}

#[test]
fn an_exchange_meets_the_policy_that_was_in_force_when_it_came() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let yaml = format!(
        r#"
        listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
        authorize:
          - {{ name: slow, url: "http://{}", timeout: 60s }}
          - {{ name: a, timeout: 60s, rego: {{ files: policy.rego, query: data.a.b }} }}
        routes: [{{ respond: {{ status: 200 }} }}]
        "#,
        server.local_addr().unwrap()
    );
    let node = start("package a\nb := true\n", &yaml, &[]);
    let url = node.url("web");
    let ask = move || curl(&["-x", &url, "http://a/"]).status;
    let first = thread::spawn(ask.clone());
    let mut asked = server.accept().unwrap().0;
    let read = asked.read(&mut [0; 4096]).unwrap();
    assert!(read > 0, "the server is asked");

    let file = node.folder().join("policy.rego");
    fs::write(file, "package a\nb := false\n").unwrap();
    assert_eq!(node.reload(&yaml).0, 200);
    let yes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    asked.write_all(yes).unwrap();
    assert_eq!(first.join().unwrap(), 200);

    let second = thread::spawn(ask);
    let mut asked = server.accept().unwrap().0;
    asked.write_all(yes).unwrap();
    assert_eq!(second.join().unwrap(), 403);
}

#[test]
fn a_tunnel_ends_when_the_policy_s_decision_is_over() {
    let echo = tcp_echo();
    let yaml = format!(
        r#"
        listeners: {{ db: {{ tcp: 127.0.0.1:0, target: "DB:1" }} }}
        authorize: [{{ name: a, timeout: 60s, rego: {{ files: policy.rego, query: data.a.b }} }}]
        routes: [{{ terminate: tcp }}]
        upstreams: {{ tcp: {{ endpoints: ["{}"] }} }}
        "#,
        echo.address()
    );
    let node = start("package a\nb := true\n", &yaml, &[]);
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // On a busy machine the time may be over before the tunnel is open: then a longer one is tried.
    let opened = [3, 10, 60].into_iter().find_map(|seconds| {
        let until = (now() + Duration::from_secs(seconds)).as_nanos();
        let policy = format!(
            "package a\nimport rego.v1\nb := {{\"allow\": true, \"max_age\": 1}} if time.now_ns() < {until}\n"
        );
        fs::write(node.folder().join("policy.rego"), policy).unwrap();
        assert_eq!(node.reload(&yaml).0, 200);
        let mut tunnel = Raw::connect(node.address("db"));
        tunnel.exchange(b"x").is_ok().then_some(tunnel)
    });

    assert_eq!(opened.unwrap().rest().1, End::Reset);
    let record = node.record(|record| {
        record["reason"]
            .as_str()
            .unwrap()
            .starts_with("policy_changed")
    });
    assert_eq!(
        record["reason"],
        "policy_changed: http_request_denied: a denied: the decision is undefined"
    );
}
