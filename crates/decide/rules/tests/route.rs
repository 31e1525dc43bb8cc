//! Which route an exchange takes, and why.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use hermes_config::model::{Document, ExchangeKind};
use hermes_proto::fields::Fields;
use hermes_rules::route::Hop;
use hermes_rules::{ClaimedGroups, Facts, Table, Target};
use http::{HeaderValue, Method};
use serde_json::{Value, json};

fn table(routes: Value) -> Table<()> {
    let document: Document =
        serde_json::from_value(json!({ "version": 1, "routes": routes })).unwrap();
    Table::compile(&document, |_, _| Some(())).unwrap()
}

/// The position of the route that is taken.
fn decided(table: &Table<()>, facts: &Facts<'_>) -> Option<usize> {
    table.decide(facts).map(|route| route.index)
}

/// A GET of `http://VIDEO:80/a/b` from 192.0.2.1 by alice.
fn facts<'a>(method: &'a Method, fields: &'a Fields) -> Facts<'a> {
    Facts {
        kind: ExchangeKind::Http,
        target: Target::Host {
            name: "VIDEO",
            port: 80,
        },
        authority: Some(("proxy.example", Some(8080))),
        path: "/a/b",
        method,
        protocol: Some("websocket"),
        fields,
        user: Some("alice"),
        claimed: ClaimedGroups::default(),
        source: Some("::ffff:192.0.2.1".parse().unwrap()),
        listener: "web",
    }
}

fn fields() -> Fields {
    let mut fields = Fields::new();
    fields.append("service", HeaderValue::from_static("db"));
    fields.append("service", HeaderValue::from_static("web"));
    fields.append("odd", HeaderValue::from_bytes(b"\xff").unwrap());
    fields
}

#[test]
fn no_user_is_met_by_false_alone() {
    let fields = fields();
    let table = |user: Value| table(json!([{ "match": { "user": user }, "to": "next" }]));
    let known = facts(&Method::GET, &fields);
    let unknown = Facts {
        user: None,
        ..facts(&Method::GET, &fields)
    };
    for (user, of_alice, of_no_one) in [
        (json!(false), None, Some(0)),
        (json!([false, "alice"]), Some(0), Some(0)),
        (json!("false"), None, None),
        (json!("*"), Some(0), None),
        (json!("~"), Some(0), None),
    ] {
        let table = table(user.clone());
        assert_eq!(decided(&table, &known), of_alice, "{user}");
        assert_eq!(decided(&table, &unknown), of_no_one, "{user}");
    }
    let said = failure(json!({ "user": false }));
    assert_eq!(said.as_deref(), Some("user alice is not no user"));
}

/// Why a route with this one condition does not match; `None` if it does.
fn failure(matches: Value) -> Option<String> {
    let fields = fields();
    let explained =
        table(json!([{ "match": matches, "to": "next" }])).explain(&facts(&Method::GET, &fields));
    assert_eq!(explained[0].matched, explained[0].failed.is_none());
    explained[0].failed.clone()
}

#[test]
fn conditions_that_hold() {
    for matches in [
        json!({}),
        json!({ "target": "video" }),
        json!({ "target": ["DB", "VIDEO:80"] }),
        json!({ "target": "~^V" }),
        json!({ "target": "*" }),
        json!({ "port": "1-1023" }),
        json!({ "authority": "*.example:8080" }),
        json!({ "path": "/a/*" }),
        json!({ "path": ["/x", "/%61/b"] }),
        json!({ "method": ["GET", "HEAD"] }),
        json!({ "protocol": "WebSocket" }),
        json!({ "fields": { "Service": "web" } }),
        json!({ "fields": { "service": "~^d" } }),
        json!({ "fields": { "service": true, "odd": true, "absent": false } }),
        json!({ "user": "~^al" }),
        json!({ "source": "192.0.2.0/24" }),
        json!({ "source": "::ffff:192.0.2.0/120" }),
        json!({ "listener": "web" }),
    ] {
        assert_eq!(failure(matches.clone()), None, "{matches}");
    }
}

#[test]
fn conditions_that_do_not_hold_say_why() {
    for (matches, why) in [
        (json!({ "target": "DB" }), "target VIDEO:80 is not db"),
        (
            json!({ "target": ["DB", "*.example.com:1"] }),
            "target VIDEO:80 is not one of db, *.example.com:1",
        ),
        (
            json!({ "port": [443, "1000-2000"] }),
            "port 80 is not one of 443, 1000-2000",
        ),
        (
            json!({ "authority": "proxy.example:1" }),
            "authority proxy.example:8080 is not proxy.example:1",
        ),
        (json!({ "path": "/A/*" }), "path /a/b is not /A/*"),
        (json!({ "method": "CONNECT" }), "method GET is not CONNECT"),
        (
            json!({ "protocol": "connect-udp" }),
            "protocol websocket is not connect-udp",
        ),
        (
            json!({ "fields": { "service": "DB" } }),
            "field service is not DB",
        ),
        (
            json!({ "fields": { "service": "db, web" } }),
            "field service is not db, web",
        ),
        (
            json!({ "fields": { "service": false } }),
            "field service is present",
        ),
        (
            json!({ "fields": { "absent": true } }),
            "field absent is absent",
        ),
        (json!({ "fields": { "odd": "~." } }), "field odd is not ~."),
        (
            json!({ "fields": { ":path": false } }),
            "field :path is present",
        ),
        (json!({ "user": "~^b" }), "user alice is not ~^b"),
        (
            json!({ "source": "10.0.0.0/8" }),
            "source 192.0.2.1 is not 10.0.0.0/8",
        ),
        (
            json!({ "listener": ["a", "b", "c"] }),
            "listener web is not one of a, b, c",
        ),
    ] {
        assert_eq!(failure(matches.clone()).as_deref(), Some(why), "{matches}");
    }
}

#[test]
fn what_is_not_known_does_not_match() {
    let (method, fields) = (Method::CONNECT, Fields::new());
    let unknown = Facts {
        authority: None,
        path: "",
        protocol: None,
        user: None,
        source: None,
        ..facts(&method, &fields)
    };
    for (matches, why) in [
        (json!({ "authority": "*" }), "no authority; * is wanted"),
        (json!({ "path": "/*" }), "no path; /* is wanted"),
        (json!({ "protocol": "a" }), "no protocol; a is wanted"),
        (json!({ "user": "~" }), "no user; ~ is wanted"),
        (
            json!({ "source": ["0.0.0.0/0", "::/0"] }),
            "no source; one of 0.0.0.0/0, ::/0 is wanted",
        ),
    ] {
        let explained = table(json!([{ "match": matches, "to": "next" }])).explain(&unknown);
        assert_eq!(explained[0].failed.as_deref(), Some(why), "{matches}");
    }
}

#[test]
fn first_route_that_matches_decides() {
    let table = table(json!([
        { "name": "db", "match": { "target": "DB" }, "to": "next" },
        { "match": { "user": "alice" }, "to": "next" },
        { "name": "rest", "to": "next" },
    ]));
    let fields = fields();
    let facts = facts(&Method::GET, &fields);
    assert_eq!(decided(&table, &facts), Some(1));
    let explained = table.explain(&facts);
    assert_eq!(
        explained
            .iter()
            .map(|route| (route.route, route.matched))
            .collect::<Vec<_>>(),
        [(0, false), (1, true), (2, true)]
    );
    assert_eq!(
        explained
            .iter()
            .map(|route| route.name.as_str())
            .collect::<Vec<_>>(),
        ["db", "routes[1]", "rest"]
    );
    assert_eq!(
        table
            .routes()
            .map(|route| route.name.to_string())
            .collect::<Vec<_>>(),
        ["db", "routes[1]", "rest"]
    );
}

#[test]
fn what_cannot_be_taken_is_no_table() {
    let reason = |routes: Value| {
        let document = serde_json::from_value(json!({ "version": 1, "routes": routes })).unwrap();
        let table = Table::compile(&document, |_, hop| {
            (![Hop::Proxy("gone"), Hop::Handler("nothing")].contains(&hop)).then_some(())
        });
        table.unwrap_err().to_string()
    };
    assert_eq!(
        reason(json!([{ "to": "here" }, { "to": "gone" }])),
        "routes[1]: there is no upstream gone"
    );
    assert_eq!(
        reason(json!([{ "to": { "gone": 0 } }])),
        "routes[0]: all weights are zero"
    );
    assert_eq!(reason(json!([{}])), "routes[0]: the route has no action");
    assert_eq!(
        reason(json!([{ "handle": "nothing" }])),
        "routes[0]: there is no handler nothing"
    );
}

#[test]
fn no_route_matches_in_an_empty_table() {
    let fields = fields();
    let facts = facts(&Method::GET, &fields);
    assert_eq!(decided(&table(json!([])), &facts), None);
}

#[test]
fn secret_values_of_fields_are_not_told() {
    let mut fields = Fields::new();
    fields.insert("authorization", HeaderValue::from_static("Bearer secret"));
    let table = table(json!([{ "match": { "fields": { "authorization": "x" } }, "to": "next" }]));
    let failed = table.explain(&facts(&Method::GET, &fields))[0]
        .failed
        .clone()
        .unwrap();
    assert_eq!(failed, "field authorization is not x");
}

#[test]
fn a_path_under_more_prefixes_than_an_exchange_looks_up_takes_the_first_of_them() {
    let folder = |depth: usize| "/a".repeat(depth) + "/*";
    let mut routes: Vec<Value> = (1..=60)
        .map(|depth| json!({ "match": { "path": folder(depth) }, "to": "x" }))
        .collect();
    routes.reverse();
    let table = table(json!(routes));

    let path = "/a".repeat(50) + "/b";
    let fields = Fields::new();
    let method = Method::GET;
    assert_eq!(
        decided(
            &table,
            &Facts {
                path: &path,
                ..facts(&method, &fields)
            }
        ),
        Some(10)
    );
}
