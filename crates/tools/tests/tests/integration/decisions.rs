//! The log of decisions: what it says of whom, and what becomes of it where a file is moved or a service is slow, gone or wrong.

use std::fs;

use hermes_tests::eventually::{eventually, eventually_true};
use hermes_tests::origins::{self, Answer, deciding};
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Collector, Node, curl};
use serde_json::{Value, json};

const POLICY: &str = r#"
package overlay
import rego.v1
default decision := {"allow": false, "reason": "the page is closed"}
decision := {"allow": true, "fields": {"x-secure": "admin", "x-auth-token": "hidden"}} if input.path == "/open"
"#;

/// A node with a policy of its own, a policy in Rego for one path, and a log of decisions with these keys.
fn yaml(log: &str, default: &str) -> String {
    format!(
        r#"
        fields: [user, x-secure, x-auth-token]
        groups: {{ staff: [alice] }}
        listeners: {{ web: {{ http: 127.0.0.1:0, user: alice }} }}
        log: {{ access: {{ file: access.json }}, decisions: {{ {log} }} }}
        policy:
          default: {default}
          rules:
            - {{ name: law, match: {{ path: /secret }}, deny: {{ status: 451, reason: by law }} }}
            - {{ name: staff, match: {{ user: group:staff }}, set: {{ x-secure: "{{user}}" }}, allow: true }}
        authorize:
          - name: page
            timeout: 60s
            match: {{ path: [/open, /closed] }}
            allow_fields: [x-secure, x-auth-token]
            rego: {{ files: policy.rego, query: data.overlay.decision }}
        routes: [{{ respond: {{ status: 200 }} }}]
        "#
    )
}

fn start(log: &str) -> Node {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), POLICY).unwrap();
    Node::start_in(folder, "gate", &yaml(log, "deny"), &[])
}

fn get(node: &Node, path: &str) -> curl::Output {
    let url = format!("http://shop{path}");
    let proxy = node.url("web");
    let fields = ["-H", "cookie: crumbs", "-H", "x-tenant: blue"];
    curl(&[&["-x", &proxy, &url], &fields[..]].concat())
}

/// The decisions in a file, once there are so many.
fn decisions(node: &Node, file: &str, count: usize) -> Vec<Value> {
    eventually("decisions", || {
        let text = fs::read_to_string(node.folder().join(file)).unwrap_or_default();
        let lines = text.lines().map(serde_json::from_str);
        let lines: Vec<Value> = lines.map_while(Result::ok).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// What became of decisions, by the metrics.
fn outcome(node: &Node, outcome: &str) -> u64 {
    let name = format!("hermes_decisions_logged_total{{outcome=\"{outcome}\"}} ");
    let metrics = node.metrics();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.unwrap().parse().unwrap()
}

#[test]
fn each_decision_says_what_it_saw_and_came_to_without_secrets() {
    let node = start("file: decisions.json");
    assert_eq!(get(&node, "/secret?key=1").status, 451);
    assert_eq!(get(&node, "/open").status, 200);
    let logged = decisions(&node, "decisions.json", 3);

    let denied = &logged[0];
    assert_eq!(denied["path"], "policy/law");
    assert_eq!(
        denied["result"],
        json!({ "allow": false, "status": 451, "reason": "policy rule law: by law" })
    );
    let input = &denied["input"];
    assert_eq!(input["method"], "GET");
    assert_eq!(input["target"], "shop:80");
    assert_eq!(input["path"], "/secret");
    assert_eq!(input["user"], "alice");
    assert_eq!(input["groups"], json!(["staff"]));
    assert_eq!(input["fields"]["x-tenant"], "blue");
    assert_eq!(
        denied["erased"],
        json!(["/input/fields/cookie", "/input/query"])
    );
    assert_eq!(denied["labels"]["id"], "gate");
    assert_eq!(denied["hermes"]["place"], "policy.rules[0]");
    let requested_by = denied["requested_by"].as_str().unwrap();
    assert!(requested_by.starts_with("127.0.0.1:"), "{denied}");

    let allowed = &logged[1];
    assert_eq!(allowed["path"], "policy/staff");
    assert_eq!(
        allowed["result"],
        json!({ "allow": true, "fields": { "x-secure": "alice" } })
    );
    let rego = &logged[2];
    assert_eq!(rego["path"], "overlay/decision");
    assert_eq!(
        rego["result"],
        json!({ "allow": true, "reason": "true", "fields": { "x-secure": "admin" } })
    );
    assert_eq!(rego["input"]["fields"]["x-secure"], "alice");
    assert!(rego["metrics"]["timer_filter_ns"].is_u64(), "{rego}");

    let text = fs::read_to_string(node.folder().join("decisions.json")).unwrap();
    for secret in ["crumbs", "hidden", "key=1"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert_eq!(outcome(&node, "logged"), 3);
}

#[test]
fn a_refusal_is_called_as_the_decision_that_brought_it_about() {
    let node = start("file: decisions.json");
    for (path, key) in [("/secret", "policy.rules[0]"), ("/closed", "authorize[0]")] {
        let status = get(&node, path).field("proxy-status").unwrap();
        let (_, name) = status.rsplit_once("; refusal=").unwrap();
        let logged = eventually("the decision", || {
            let logged = decisions(&node, "decisions.json", 1);
            logged
                .into_iter()
                .find(|event| event["decision_id"] == name)
        });
        assert_eq!(logged["result"]["allow"], false);

        let (code, why) = node.ask("GET", &format!("/why/{name}"), "");
        assert!(code == 200 && why.contains(key), "{why}");
        let record = node.record(|record| record["refusal"] == name);
        assert_eq!(record["id"], logged["hermes"]["exchange"]);
    }
}

#[test]
fn what_denies_an_open_tunnel_is_told_and_what_leaves_it_as_it_is_is_not() {
    let tcp = origins::tcp_echo();
    let server = deciding(|_| Answer::new(200, &[]));
    let yaml = |effect: &str| {
        format!(
            r#"
            listeners: {{ db: {{ tcp: 127.0.0.1:0, target: "DB:1" }} }}
            log: {{ access: {{ file: access.json }}, decisions: {{ file: decisions.json }} }}
            policy: {{ rules: [{{ name: db, {effect} }}] }}
            authorize: [{{ name: check, url: "http://{}", timeout: 5s }}]
            routes: [{{ terminate: tcp }}]
            upstreams: {{ tcp: {{ endpoints: ["{}"] }} }}
            "#,
            server.address(),
            tcp.address()
        )
    };
    let node = Node::start("gate", &yaml("allow: true"));
    let mut tunnel = Raw::connect(node.address("db"));
    tunnel.send("x");
    tunnel.exactly(1);
    node.reload(&yaml("allow: true"));
    eventually_true("the server is asked again", || server.seen().len() == 2);

    node.reload(&yaml("deny: { reason: closed }"));
    assert_eq!(tunnel.rest(), (Vec::new(), End::Reset));
    let logged = decisions(&node, "decisions.json", 3);
    let told: Vec<_> = logged
        .iter()
        .map(|event| (&event["path"], &event["hermes"]["reevaluated"]))
        .collect();
    assert_eq!(
        json!(told),
        json!([
            ["policy/db", false],
            ["authorize/check", false],
            ["policy/db", true]
        ])
    );
    let record = node.record(|_| true);
    assert_eq!(record["refusal"], logged[2]["decision_id"]);
    assert_eq!(logged[2]["result"]["allow"], false);
}

#[test]
fn a_file_that_was_moved_is_begun_anew_and_a_reload_takes_another() {
    let node = start("file: decisions.json, mask: [/input/fields/X-Tenant]");
    get(&node, "/secret?key=1");
    let masked = &decisions(&node, "decisions.json", 1)[0];
    assert_eq!(masked["input"]["query"], "key=1");
    assert!(masked["input"]["fields"]["x-tenant"].is_null(), "{masked}");

    let moved = node.folder().join("old.json");
    fs::rename(node.folder().join("decisions.json"), &moved).unwrap();
    node.reload(&yaml("file: decisions.json, sample: 0%", "deny"));
    // Of what is allowed nothing is logged now, of what is denied everything.
    get(&node, "/one");
    get(&node, "/secret");
    let logged = decisions(&node, "decisions.json", 1);
    assert_eq!(logged.len(), 1);
    assert_eq!(logged[0]["path"], "policy/law");

    node.reload(&yaml("file: other.json", "deny"));
    get(&node, "/one");
    assert_eq!(decisions(&node, "other.json", 1)[0]["path"], "policy/staff");
    assert_eq!(decisions(&node, "old.json", 1).len(), 1);
    assert_eq!(decisions(&node, "decisions.json", 1).len(), 1);
}

#[test]
fn a_service_gets_lists_and_what_it_does_not_take_at_first_comes_again() {
    let service = Collector::of_decisions();
    let url = |path: &str| format!("url: \"http://{}{path}\"", service.address());
    let node = start(&url("/later"));
    get(&node, "/secret");
    let said = eventually("the message again", || {
        Some(service.said()).filter(|said| said.len() == 2)
    });
    assert_eq!(said[0], said[1]);
    assert_eq!(said[0]["type"], "application/json");
    assert_eq!(said[0]["encoding"], "gzip");
    assert_eq!(said[0]["decisions"][0]["path"], "policy/law");
    eventually_true("it is counted", || outcome(&node, "logged") == 1);
    assert_eq!(outcome(&node, "failed"), 0);

    // What is left goes out at the end.
    let mut node = node;
    get(&node, "/secret");
    assert!(node.stop().success());
    assert_eq!(service.said().len(), 3);
}

#[test]
fn a_service_that_is_wrong_slow_or_gone_holds_no_one_up() {
    let service = Collector::of_decisions();
    let wrong = start(&format!("url: \"http://{}/wrong\"", service.address()));
    assert_eq!(get(&wrong, "/secret").status, 451);
    eventually_true("it is counted", || outcome(&wrong, "failed") == 1);
    assert!(wrong.log().contains("it answered 404 Not Found"));

    let slow = format!("url: \"http://{}/slow\"", service.address());
    for log in [slow.as_str(), "url: \"http://127.0.0.1:1/logs\""] {
        let mut node = start(log);
        for _ in 0..20 {
            assert_eq!(get(&node, "/secret").status, 451);
        }
        assert_eq!(outcome(&node, "logged"), 0);
        assert!(node.stop().success());
    }
}

#[test]
fn one_policy_decides_on_all_layers_and_one_log_tells_of_it() {
    let node = Node::start(
        "gate",
        r#"
        listeners: { web: { http: 127.0.0.1:0, user: alice } }
        log: { access: { file: access.json }, decisions: { file: decisions.json } }
        policy:
          rules:
            - { name: lab, match: { kind: connect-ip, target: 10.1.0.0/16 }, allow: true }
            - { name: mail, match: { port: 25 }, deny: true }
            - { name: net, match: { target: 192.0.2.0/24 }, deny: { status: 451 } }
            - { name: films, match: { path: /films/* }, allow: true }
        routes: [ { respond: { status: 410 } } ]
        "#,
    );
    let upgrade = |path: &str, protocol: &str| {
        format!(
            "GET /.well-known/masque/{path}/ HTTP/1.1\r\nHost: proxy\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\
             Capsule-Protocol: ?1\r\n\r\n"
        )
    };
    let cases = [
        (
            "GET http://shop/films/one HTTP/1.1\r\nHost: shop\r\n\r\n".to_owned(),
            410,
            "policy/films",
            "http",
        ),
        (
            "CONNECT shop:25 HTTP/1.1\r\nHost: shop:25\r\n\r\n".to_owned(),
            403,
            "policy/mail",
            "connect",
        ),
        (
            upgrade("udp/192.0.2.7/53", "connect-udp"),
            451,
            "policy/net",
            "connect-udp",
        ),
        (
            upgrade("ip/10.1.2.0%2F24/*", "connect-ip"),
            410,
            "policy/lab",
            "connect-ip",
        ),
        // A wider prefix is not in that of the rule.
        (
            upgrade("ip/10.0.0.0%2F8/*", "connect-ip"),
            403,
            "policy/default",
            "connect-ip",
        ),
        (
            upgrade("ip/192.0.2.128%2F25/17", "connect-ip"),
            451,
            "policy/net",
            "connect-ip",
        ),
    ];

    for (count, (request, status, rule, kind)) in (1..).zip(&cases) {
        let mut raw = Raw::connect(node.address("web"));
        raw.send(request);
        assert_eq!(raw.head().status(), *status, "{rule}");
        let logged = decisions(&node, "decisions.json", count);
        let last = logged.last().unwrap();
        assert_eq!(
            (&last["path"], &last["input"]["kind"]),
            (&json!(rule), &json!(kind)),
            "{last}"
        );
        assert_eq!(last["result"]["allow"], *status == 410, "{last}");
    }
}
