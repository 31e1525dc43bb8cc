//! The decisions of a policy, which its index does not change.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use hermes_config::model::{Document, ExchangeKind};
use hermes_proto::fields::Fields;
use hermes_rules::policy::CompiledPolicy;
use hermes_rules::{ClaimedGroups, Facts, Names, Target, Values};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
use proptest::sample::select;
use serde_json::{Value, json};

/// Thursday, 1 January 1970, 12:00.
const NOON: u64 = 12 * 3600;

fn compile(changes: Value) -> (CompiledPolicy, Names) {
    let mut document = json!({ "version": 1 });
    let Value::Object(changes) = changes else {
        panic!("a map")
    };
    document.as_object_mut().unwrap().extend(changes);
    let document: Document = serde_json::from_value(document).unwrap();
    (
        CompiledPolicy::compile(&document).unwrap(),
        Names::new(&document),
    )
}

/// The exchange, by host and port.
#[derive(Debug, Clone)]
struct Asked {
    kind: ExchangeKind,
    host: &'static str,
    port: u16,
    user: Option<&'static str>,
    method: Method,
    path: &'static str,
    fields: Fields,
    source: [u8; 4],
    listener: &'static str,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            kind: ExchangeKind::Http,
            host: "video",
            port: 80,
            user: None,
            method: Method::GET,
            path: "/",
            fields: Fields::new(),
            source: [192, 0, 2, 1],
            listener: "web",
        }
    }
}

impl Asked {
    fn facts(&self) -> Facts<'_> {
        Facts {
            kind: self.kind,
            target: Target::Host {
                name: self.host,
                port: self.port,
            },
            authority: None,
            path: self.path,
            method: &self.method,
            protocol: None,
            fields: &self.fields,
            user: self.user,
            claimed: ClaimedGroups::default(),
            source: Some(self.source.into()),
            listener: self.listener,
        }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.fields.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
        self
    }
}

/// The decision, as `rule: allowed` or `rule: STATUS reason`.
fn decided((policy, names): &(CompiledPolicy, Names), asked: &Asked, now: u64) -> String {
    let decision = policy.decide(names, &asked.facts(), now);
    match &decision.denied {
        None => format!("{}: allowed", decision.by()),
        Some(denied) => format!(
            "{}: {} {}",
            decision.by(),
            denied.status.as_u16(),
            denied.reason
        ),
    }
}

#[test]
fn the_first_rule_that_decides_counts_and_else_the_default() {
    let policy = compile(json!({ "policy": { "rules": [
        { "name": "films", "match": { "target": "video" }, "allow": true },
        { "name": "never", "match": { "user": "mallory" }, "deny": { "status": 451, "reason": "by law" } },
        { "match": { "port": 22 }, "deny": true },
        { "name": "ours", "match": { "user": "*" }, "allow": true },
    ] } }));
    let mallory = Asked {
        user: Some("mallory"),
        ..Asked::default()
    };
    assert_eq!(decided(&policy, &mallory, 0), "films: allowed");

    let elsewhere = Asked {
        host: "db",
        ..mallory
    };
    assert_eq!(
        decided(&policy, &elsewhere, 0),
        "never: 451 policy rule never: by law"
    );

    let ssh = Asked {
        port: 22,
        user: Some("alice"),
        ..elsewhere.clone()
    };
    assert_eq!(
        decided(&policy, &ssh, 0),
        "policy.rules[2]: 403 policy rule policy.rules[2] denies it"
    );
    let alice = Asked { port: 1, ..ssh };
    assert_eq!(decided(&policy, &alice, 0), "ours: allowed");
    // A stranger is no user, not even one of any name.
    let stranger = Asked {
        user: None,
        ..alice
    };
    assert_eq!(
        decided(&policy, &stranger, 0),
        "default: 403 no rule of the policy allows it"
    );

    let open = compile(json!({ "policy": { "default": "allow" } }));
    assert_eq!(decided(&open, &stranger, 0), "default: allowed");
}

#[test]
fn fields_accumulate_until_a_rule_decides_and_are_seen_by_no_rule() {
    let policy = compile(json!({ "policy": { "rules": [
        { "set": { "x-one": "{user}", "x-role": "guest" } },
        { "match": { "fields": { "x-one": true } }, "deny": true },
        { "match": { "fields": { "token": "admin" } }, "set": { "x-role": "admin" }, "allow": true },
        { "set": { "x-late": "1" } },
        { "match": { "path": "/free" }, "allow": true },
    ] } }));
    let values = Values {
        peer: None,
        listener: "web",
        user: Some("alice"),
        tls_peer: None,
        target_host: "video",
        target_port: Some(80),
        node: "edge",
        path: "/",
        query: None,
        method: "GET",
    };
    let set = |asked: Asked| {
        let decision = policy.0.decide(&policy.1, &asked.facts(), 0);
        let mut fields = asked.fields.clone();
        decision.apply(&mut fields, &values).unwrap();
        let lines = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.as_bytes())));
        (
            decision.denied.is_none(),
            lines.collect::<Vec<_>>().join(" "),
        )
    };

    assert_eq!(
        set(Asked::default().with("token", "admin")),
        (true, "token=admin x-one=alice x-role=admin".to_owned())
    );
    // A denied exchange gets no fields.
    assert_eq!(set(Asked::default()), (false, String::new()));
    let free = Asked {
        path: "/free",
        ..Asked::default()
    };
    assert_eq!(
        set(free),
        (true, "x-one=alice x-role=guest x-late=1".to_owned())
    );
}

#[test]
fn groups_and_services_stand_for_what_they_list() {
    let policy = compile(json!({
        "groups": { "admins": ["alice", "*@ops.example"], "guests": ["bob"], "empty": [] },
        "services": { "database": ["db:5432", "10.1.0.0/16", "*.db.example"], "films": ["video"] },
        "policy": { "rules": [
            { "name": "a", "match": { "user": "group:admins", "target": "service:database" }, "allow": true },
            { "name": "g", "match": { "user": ["group:guests", "carol"], "target": ["service:films", "news"] }, "allow": true },
            { "name": "e", "match": { "user": "group:empty" }, "allow": true },
        ] },
    }));
    let by = |user, host, port| {
        let asked = Asked {
            user: Some(user),
            host,
            port,
            ..Asked::default()
        };
        policy.0.decide(&policy.1, &asked.facts(), 0).by()
    };

    assert_eq!(by("alice", "DB", 5432), "a");
    assert_eq!(by("root@ops.example", "10.1.2.3", 1), "a");
    assert_eq!(by("alice", "x.db.example", 443), "a");
    assert_eq!(by("alice", "db", 5433), "default");
    assert_eq!(by("bob", "db", 5432), "default");
    assert_eq!(by("bob", "video", 1), "g");
    assert_eq!(by("carol", "news", 1), "g");
    assert_eq!(by("group:admins", "db", 5432), "default");
    assert_eq!(by("alice", "database", 5432), "default");
}

#[test]
fn rules_hold_in_their_hours_and_say_when_that_changes() {
    let policy = compile(json!({ "policy": { "rules": [
        { "name": "day", "hours": "08:00-18:00", "allow": true },
        { "name": "weekend", "hours": ["sat,sun 00:00-24:00"], "allow": true },
    ] } }));
    let until = |now| {
        policy
            .0
            .decide(&policy.1, &Asked::default().facts(), now)
            .until
    };

    assert_eq!(decided(&policy, &Asked::default(), NOON), "day: allowed");
    assert_eq!(until(NOON), Some(18 * 3600));
    let night = 20 * 3600;
    assert_eq!(
        decided(&policy, &Asked::default(), night),
        "default: 403 no rule of the policy allows it"
    );
    assert_eq!(until(night), Some(32 * 3600));
    let saturday = 2 * 86_400 + night;
    assert_eq!(
        decided(&policy, &Asked::default(), saturday),
        "weekend: allowed"
    );

    let always = compile(json!({ "policy": { "default": "allow" } }));
    let decision = always.0.decide(&always.1, &Asked::default().facts(), NOON);
    assert_eq!((decision.until, decision.denied), (None, None));
}

#[test]
fn a_status_that_is_none_is_403() {
    let policy =
        compile(json!({ "policy": { "rules": [{ "deny": { "status": 0, "reason": "no" } }] } }));
    let decision = policy.0.decide(&policy.1, &Asked::default().facts(), 0);
    assert_eq!(decision.denied.unwrap().status, StatusCode::FORBIDDEN);
}

fn a_rule() -> impl Strategy<Value = Value> {
    let conditions = [
        json!({}),
        json!({ "user": "alice" }),
        json!({ "user": "group:admins" }),
        json!({ "user": ["group:all", "bob"] }),
        json!({ "user": "~^a" }),
        json!({ "target": "service:database" }),
        json!({ "target": ["service:films", "news:80"] }),
        json!({ "target": "*.example" }),
        json!({ "target": "10.0.0.0/8", "port": "1-1023" }),
        json!({ "kind": "connect" }),
        json!({ "method": ["GET", "POST"], "path": "/a/*" }),
        json!({ "fields": { "token": "admin" } }),
        json!({ "fields": { "token": false } }),
        json!({ "source": "192.0.2.0/24" }),
        json!({ "listener": "web", "user": "*" }),
    ];
    let effects = [
        json!({ "allow": true }),
        json!({ "deny": true }),
        json!({ "set": { "x-a": "1" } }),
        json!({ "allow": true, "set": { "x-b": "2" } }),
    ];
    let hours = [None, None, Some("08:00-18:00"), Some("fri-mon 22:00-06:00")];

    (
        select(conditions.to_vec()),
        select(effects.to_vec()),
        select(hours.to_vec()),
    )
        .prop_map(|(matches, mut rule, hours)| {
            rule["match"] = matches;
            if let Some(hours) = hours {
                rule["hours"] = json!(hours);
            }
            rule
        })
}

fn asked() -> impl Strategy<Value = Asked> {
    let hosts = [
        "video",
        "db",
        "news",
        "a.example",
        "10.1.2.3",
        "203.0.113.1",
    ];
    let users = [None, Some("alice"), Some("bob"), Some("carol")];
    (
        select(hosts.to_vec()),
        select(vec![80, 443, 5432]),
        select(users.to_vec()),
        select(vec!["/", "/a/b", "/c"]),
        any::<bool>(),
        any::<bool>(),
        select(vec![None, Some("admin"), Some("user")]),
    )
        .prop_map(|(host, port, user, path, is_get, is_web, token)| {
            let asked = Asked {
                kind: if is_get {
                    ExchangeKind::Http
                } else {
                    ExchangeKind::Connect
                },
                method: if is_get { Method::GET } else { Method::CONNECT },
                source: if is_web {
                    [192, 0, 2, 1]
                } else {
                    [10, 0, 0, 1]
                },
                listener: if is_web { "web" } else { "db" },
                host,
                port,
                user,
                path,
                ..Asked::default()
            };
            match token {
                Some(token) => asked.with("token", token),
                None => asked,
            }
        })
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 512, failure_persistence: None, ..Default::default() })]

    /// An index finds the rules worth asking: the answer must be that of asking each.
    #[test]
    fn what_is_decided_is_what_asking_every_rule_says(
        rules in proptest::collection::vec(a_rule(), 0..24),
        many in proptest::collection::vec((asked(), 0_u64..700_000), 16),
        is_open in any::<bool>(),
    ) {
        let default = if is_open { "allow" } else { "deny" };
        let (policy, names) = compile(json!({
            "groups": { "admins": ["alice", "root"], "all": ["*"] },
            "services": { "database": ["db:5432", "10.1.0.0/16"], "films": ["video", "*.example"] },
            "policy": { "default": default, "rules": rules },
        }));

        for (asked, now) in many {
            let facts = asked.facts();
            let decision = policy.decide(&names, &facts, now);
            let explained = policy.explain(&names, &facts, now);
            let matching: Vec<_> = explained.iter().filter(|(_, unmet)| unmet.is_none()).collect();
            let decisive = matching.iter().find(|(rule, _)| rules[rule.index]["set"].is_null() || rules[rule.index]["allow"] == true);

            prop_assert_eq!(decision.rule.map(|rule| rule.index), decisive.map(|(rule, _)| rule.index), "{:?}", asked);
            let denied = match decisive {
                Some((rule, _)) => rules[rule.index]["deny"] == true,
                None => !is_open,
            };
            prop_assert_eq!(decision.denied.is_some(), denied);
            let sets: Vec<usize> = decision.sets().iter().map(|rule| rule.index).collect();
            let expected: Vec<usize> = matching.iter().map(|(rule, _)| rule.index).filter(|index| !rules[*index]["set"].is_null()).collect();
            prop_assert_eq!(sets, if denied { Vec::new() } else { expected });
        }
    }
}
