//! The decision about an exchange, and the steps that explain it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use hermes_config::model::{Document, ExchangeKind};
use hermes_proto::fields::Fields;
use hermes_rules::judge::{
    Arrived, ArrivedPath, Authenticated, Entrance, Judged, Step, Unrouted, describe_action,
    listener_user,
};
use hermes_rules::route::Unmatched;
use hermes_rules::{Border, Mandate, Rules, Source, Target};
use http::{HeaderValue, Method};
use serde_json::{Value, json};

fn document(mut text: Value) -> Document {
    text["version"] = json!(1);
    serde_json::from_value(text).unwrap()
}

fn rules(document: &Document) -> Rules<()> {
    Rules::compile(document, "edge".into(), |_, _| Some(())).unwrap()
}

/// A GET of `http://VIDEO/a` that enters at `web`, with these fields; each step as `phase path: said`.
fn judge(
    document: &Document,
    source: Source<'_>,
    authenticated: Authenticated<'_>,
    fields: &[(&'static str, &str)],
) -> (Result<Judged<()>, Unrouted>, Vec<String>) {
    let config = &document.listeners["web"];
    let user = listener_user(document, config);
    let arrived = Arrived {
        entrance: Entrance {
            name: "web",
            config,
            user: user.as_deref(),
        },
        source,
        authenticated,
        kind: ExchangeKind::Http,
        target_host: "VIDEO",
        target: Target::Host {
            name: "VIDEO",
            port: 80,
        },
        authority: None,
        method: &Method::GET,
        path: ArrivedPath {
            path: "/a",
            query: None,
        },
        protocol: None,
        peer: None,
        tls_peer: None,
    };
    let mut given = Fields::new();
    for (name, value) in fields {
        given.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let mut steps: Vec<Step> = Vec::new();
    let judged = rules(document).judge(&arrived, given, 0, &mut steps);
    let said = steps
        .iter()
        .map(|step| format!("{} {}: {}", step.phase.word(), step.path, step.said));
    (judged, said.collect())
}

#[test]
fn each_step_says_what_was_compared_and_where_that_is_written() {
    let document = document(json!({
        "listeners": { "web": { "http": "127.0.0.1:0", "user": "alice", "set": { "service": "{user}" } } },
        "routes": [
            { "match": { "user": "bob" }, "to": "a" },
            { "name": "films", "match": { "fields": { "service": "alice" } }, "to": { "a": 3, "b": 1 } },
            { "to": "never" },
        ],
    }));
    let forged = [("user", "mallory"), ("namespace", "x"), ("accept", "*/*")];
    let (judged, steps) = judge(&document, Source::Client, Authenticated::default(), &forged);

    assert_eq!(
        steps,
        [
            "identify listeners.web.user: from a client: user alice",
            "identify listeners.web.accepts: field namespace is not trusted, and removed",
            "identify listeners.web.forged: field user said someone else, and is replaced",
            "tag listeners.web.set.service: field service: alice",
            "route routes[0].match: routes[0]: no, user alice is not bob",
            "route routes[1]: films: yes; to a (75 %), b (25 %)",
        ]
    );
    let judged = judged.unwrap();
    assert_eq!(judged.user.as_deref(), Some("alice"));
    assert_eq!((judged.route.index, &*judged.route.name), (1, "films"));
    assert_eq!(judged.fields.get("accept").unwrap(), "*/*");
}

#[test]
fn a_certificate_of_a_peer_says_which_proxy_it_is_and_not_whose_the_exchange_is() {
    let document = document(json!({
        "peers": { "core": { "certificate": ["core.example", "core.test"], "speaks_for": ["al*"] } },
        "listeners": { "web": { "http": "127.0.0.1:0", "auth": "mtls" } },
        "routes": [{ "to": "a" }],
    }));
    let rules = rules(&document);
    assert!(
        rules
            .peers
            .certified(["other.example"].into_iter(), None)
            .is_none()
    );
    let peer = rules
        .peers
        .certified(["core.test"].into_iter(), None)
        .unwrap();
    let certificate = Authenticated {
        user: Some("core.example"),
        by_certificate: true,
        ..Authenticated::default()
    };

    let (judged, _) = judge(&document, peer, certificate, &[("user", "alice")]);
    assert_eq!(judged.unwrap().user.as_deref(), Some("alice"));

    let (judged, steps) = judge(&document, peer, certificate, &[("user", "bob")]);
    assert_eq!(
        judged.unwrap_err().to_string(),
        "peer core does not speak for user bob"
    );
    assert_eq!(
        steps,
        ["identify peers.core: refused: peer core does not speak for user bob"]
    );
}

#[test]
fn of_peers_with_one_certificate_the_first_in_the_document_counts() {
    let peer = |name: &str| json!({ "certificate": [name, "shared"], "speaks_for": [] });
    let document = document(json!({
        "peers": { "second": peer("a"), "first": peer("b") },
        "listeners": { "web": { "http": "127.0.0.1:0" } },
    }));
    let rules = rules(&document);
    let found = rules.peers.certified(["b", "shared"].into_iter(), None);
    assert!(matches!(found, Some(Source::Peer { name: "second", .. })));
}

#[test]
fn a_peer_of_a_family_speaks_for_the_user_of_its_certificate() {
    let document = document(json!({
        "users": { "carol": ["caroline"] },
        "groups": { "staff": ["dave"] },
        "peers": {
            "devices": { "certificate": "spiffe://a/user/{user}/*", "speaks_for": ["{user}", "group:staff"] },
            "own": { "certificate": "spiffe://a/user/eve/x", "speaks_for": ["*"] },
            "nodes": { "certificate": "spiffe://a/user/*/x", "speaks_for": [] },
        },
        "listeners": { "web": { "http": "127.0.0.1:0" } },
        "routes": [{ "to": "a" }],
    }));
    let rules = rules(&document);
    let speaks = |id: &str, user: &str| {
        let source = rules.peers.certified([id].into_iter(), Some(id)).unwrap();
        let (judged, _) = judge(
            &document,
            source,
            Authenticated::default(),
            &[("user", user)],
        );
        judged.is_ok()
    };

    assert!(speaks("spiffe://a/user/alice/x", "alice"));
    assert!(speaks("spiffe://a/user/alice/x", "dave"));
    assert!(speaks("spiffe://a/user/caroline/x", "carol"));
    assert!(!speaks("spiffe://a/user/alice/x", "bob"));
    assert!(!speaks("spiffe://a/user/alice/x", "{user}"));
    // An exact name comes before a family, wherever it stands.
    assert!(speaks("spiffe://a/user/eve/x", "bob"));

    let id = "spiffe://a/user/alice/x";
    let is_devices = |found| {
        matches!(
            found,
            Some(Source::Peer {
                name: "devices",
                ..
            })
        )
    };
    assert!(is_devices(rules.peers.named(id)));
    // A common name, or one of several URIs, is no SPIFFE ID.
    assert!(rules.peers.certified([id].into_iter(), None).is_none());
    // The entry alone says of no one that it is theirs.
    let entry = rules.peers.named("devices").unwrap();
    let (judged, _) = judge(
        &document,
        entry,
        Authenticated::default(),
        &[("user", "alice")],
    );
    assert!(judged.is_err());
}

#[test]
fn without_a_route_every_route_says_why_not() {
    let document = document(json!({
        "listeners": { "web": { "http": "127.0.0.1:0" } },
        "routes": [{ "match": { "target": "DB" }, "to": "a" }],
    }));
    let (judged, steps) = judge(&document, Source::Client, Authenticated::default(), &[]);
    assert_eq!(judged.unwrap_err(), Unrouted::Unmatched(Unmatched::NoRoute));
    assert_eq!(
        steps[1..],
        ["route routes[0].match: routes[0]: no, target VIDEO:80 is not db"]
    );
}

#[test]
fn the_policy_says_which_rule_decided_and_what_it_set() {
    let document = document(json!({
        "fields": ["user", "x-secure"],
        "groups": { "admins": ["alice"] },
        "listeners": { "web": { "http": "127.0.0.1:0", "user": "alice" } },
        "policy": { "rules": [
            { "match": { "user": "bob" }, "allow": true },
            { "name": "night", "hours": "22:00-06:00 -12:00", "deny": true },
            { "set": { "x-secure": "{user}" } },
            { "name": "admins", "match": { "user": "group:admins" }, "allow": true },
        ] },
        "routes": [{ "match": { "fields": { "x-secure": "alice" } }, "to": "a" }],
    }));
    let forged = [("x-secure", "root")];
    let (judged, steps) = judge(&document, Source::Client, Authenticated::default(), &forged);

    assert_eq!(
        steps[2..],
        [
            "policy policy.rules[0].match: policy.rules[0]: no, user alice is not bob",
            "policy policy.rules[1].hours: night: no, now is not within 22:00-06:00 -12:00",
            "policy policy.rules[2]: policy.rules[2]: yes; sets x-secure, and the next rules are asked",
            "policy policy.rules[3]: admins: yes; allowed",
            "policy policy.rules[2].set.x-secure: field x-secure: alice",
            "route routes[0]: routes[0]: yes; to a",
        ]
    );
    assert_eq!(judged.unwrap().fields.get("x-secure").unwrap(), "alice");
}

#[test]
fn what_the_policy_denies_takes_no_route() {
    let document = document(json!({
        "listeners": { "web": { "http": "127.0.0.1:0" } },
        "policy": { "rules": [{ "name": "closed", "match": { "target": "video" }, "deny": { "status": 451, "reason": "by law" } }] },
        "routes": [{ "to": "a" }],
    }));
    let (judged, steps) = judge(&document, Source::Client, Authenticated::default(), &[]);
    assert_eq!(
        judged.unwrap_err().to_string(),
        "policy rule closed: by law"
    );
    assert_eq!(
        steps.last().unwrap(),
        "policy policy.rules[0]: closed: yes; denied with 451: by law"
    );
}

#[test]
fn a_user_is_one_under_all_names() {
    let document = document(json!({
        "users": { "alice": ["auth0|5f", "alice.laptop"] },
        "groups": { "staff": ["alice"] },
        "listeners": { "web": { "http": "127.0.0.1:0", "auth": "mtls", "forged": "refuse" } },
        "policy": { "rules": [{ "name": "staff", "match": { "user": "group:staff" }, "allow": true }] },
        "routes": [{ "to": "a" }],
    }));

    for (found, said) in [
        ("auth0|5f", None),
        ("alice.laptop", Some("auth0|5f")),
        ("alice", Some("alice.laptop")),
    ] {
        let authenticated = Authenticated {
            user: Some(found),
            ..Authenticated::default()
        };
        let fields: Vec<_> = said.into_iter().map(|said| ("user", said)).collect();
        let (judged, steps) = judge(&document, Source::Client, authenticated, &fields);
        let judged = judged.unwrap_or_else(|error| panic!("{found}: {error}: {steps:?}"));
        assert_eq!(judged.user.as_deref(), Some("alice"));
        assert_eq!(judged.fields.get("user").unwrap(), "alice");
    }

    // A name that is no alias stays.
    let authenticated = Authenticated {
        user: Some("auth0|6"),
        ..Authenticated::default()
    };
    let (judged, _) = judge(&document, Source::Client, authenticated, &[]);
    assert!(matches!(judged.unwrap_err(), Unrouted::Denied(_)));
}

#[test]
fn a_peer_speaks_for_a_user_by_any_of_the_names() {
    let document = document(json!({
        "users": { "alice": ["auth0|5f"] },
        "listeners": { "web": { "http": "127.0.0.1:0" } },
        "routes": [{ "to": "a" }],
    }));
    let speaks = |pattern: &str| {
        let patterns = [pattern.parse().unwrap()];
        let source = Source::Peer {
            name: "core",
            speaks_for: Mandate::of(&patterns),
            border: Border::default(),
        };
        let (judged, _) = judge(
            &document,
            source,
            Authenticated::default(),
            &[("user", "auth0|5f")],
        );
        judged.map(|judged| judged.user)
    };

    assert_eq!(speaks("alice").unwrap().as_deref(), Some("alice"));
    assert!(matches!(
        speaks("auth0|*").unwrap_err(),
        Unrouted::Refused(_)
    ));
}

#[test]
fn a_peer_speaks_for_the_members_of_a_group_and_for_no_one_else() {
    let document = document(json!({
        "groups": { "staff": ["alice", "*@ops.example"] },
        "peers": { "core": { "certificate": "core.overlay", "speaks_for": ["group:staff", "eve"] } },
        "listeners": { "web": { "http": "127.0.0.1:0" } },
        "routes": [{ "to": "a" }],
    }));
    let known = rules(&document);
    for (user, is_spoken_for) in [
        ("alice", true),
        ("bob@ops.example", true),
        ("eve", true),
        ("bob", false),
        // A group is no user, also for someone who is called so.
        ("group:staff", false),
    ] {
        let source = known.peers.named("core").unwrap();
        let claims = [("user", user)];
        let (judged, steps) = judge(&document, source, Authenticated::default(), &claims);
        match judged {
            Ok(judged) => assert_eq!(judged.user.as_deref(), is_spoken_for.then_some(user)),
            Err(refused) => {
                assert!(matches!(refused, Unrouted::Refused(_)), "{refused}");
                assert!(!is_spoken_for, "{user}: {steps:#?}");
            }
        }
    }
}

#[test]
fn a_route_says_which_way_it_has_beside_its_next_proxy() {
    let said = |direct: Value| {
        let route = json!({ "to": "edge", "tunnel": { "direct": direct } });
        describe_action(&document(json!({ "routes": [route] })).routes[0])
    };
    assert_eq!(
        said(json!("fallback")),
        "to edge, or from here for tunnels once that has failed"
    );
    assert_eq!(
        said(json!({ "after": "250ms", "requests": true })),
        "to edge, or from here once that has failed or taken 250 ms"
    );
}
