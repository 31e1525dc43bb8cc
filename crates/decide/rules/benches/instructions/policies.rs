//! Whether an exchange may go on.

use std::hint::black_box;

use hermes_config::model::{Document, ExchangeKind};
use hermes_rules::policy::CompiledPolicy;
use hermes_rules::{ClaimedGroups, Facts, Names, Target};
use http::Method;
use serde_json::{Value, json};

use crate::http1::fields;

/// Ten rules; the last one decides.
pub fn decide_10(rounds: usize) {
    let rules = (0..10).map(rule).collect();
    rounds_of_decide(
        rounds,
        json!({ "policy": { "rules": Value::Array(rules) } }),
    );
}

/// As above, of ten thousand: at most three times the instructions of ten.
pub fn decide_10000(rounds: usize) {
    let rules = (0..10_000).map(rule).collect();
    rounds_of_decide(
        rounds,
        json!({ "policy": { "rules": Value::Array(rules) } }),
    );
}

/// As above, by a group of a thousand users and a service of a thousand targets.
pub fn decide_names(rounds: usize) {
    let users: Vec<String> = (0..1000).map(|number| format!("user-{number}")).collect();
    let targets: Vec<String> = (0..1000)
        .map(|number| format!("host-{number}:80"))
        .collect();
    let mut rules: Vec<Value> = (1000..11_000).map(rule).collect();
    rules.push(json!({ "match": { "user": "group:all", "target": "service:all" }, "allow": true }));

    let policy = json!({ "rules": rules });
    let groups = json!({ "all": users, "some": ["bob"] });
    rounds_of_decide(
        rounds,
        json!({ "policy": policy, "groups": groups, "services": { "all": targets } }),
    );
}

/// A rule for a user of a host of its own.
fn rule(number: usize) -> Value {
    json!({
        "match": { "target": format!("host-{number}"), "user": format!("user-{number}"), "kind": "http" },
        "allow": true,
    })
}

fn rounds_of_decide(rounds: usize, mut document: Value) {
    document["version"] = json!(1);
    let document: Document = serde_json::from_value(document).unwrap();
    let names = Names::new(&document);
    let policy = CompiledPolicy::compile(&document).unwrap();

    let last = match document.services.is_empty() {
        true => policy.rules().len() - 1,
        false => 999,
    };
    let host = format!("host-{last}");
    let user = format!("user-{last}");
    let fields = fields();
    let facts = Facts {
        kind: ExchangeKind::Http,
        target: Target::Host {
            name: &host,
            port: 80,
        },
        authority: None,
        path: "/films/one",
        method: &Method::GET,
        protocol: None,
        fields: &fields,
        user: Some(&user),
        claimed: ClaimedGroups::default(),
        source: Some([192, 0, 2, 1].into()),
        listener: "in",
    };

    for _ in 0..rounds {
        let decision = policy.decide(&names, black_box(&facts), 0);
        assert!(decision.denied.is_none());
        assert_eq!(
            decision.rule.map(|rule| rule.index),
            Some(policy.rules().len() - 1)
        );
    }
}
