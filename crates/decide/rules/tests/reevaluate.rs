//! The fate of open tunnels.

#![allow(
    clippy::unwrap_used,
    reason = "a test stops at the first surprise, in its helpers too"
)]

use hermes_config::model::{Document, ExchangeKind};
use hermes_proto::fields::Fields;
use hermes_rules::reevaluate::{Destination, End, Reason, Tunnel};
use hermes_rules::route::Hop;
use hermes_rules::{
    Border, ClaimedGroups, Facts, Mandate, Source, Table, Target, reevaluate, still_believed,
};
use http::Method;
use serde_json::{Value, json};

/// A verdict, with the position of its route.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Kept { route: usize },
    Outlives { route: usize },
    Moved { route: usize },
    Ended(Reason),
}

/// Where a tunnel goes.
struct Led {
    destination: Destination,
    /// The upstream; `None` for the target itself.
    upstream: Option<&'static str>,
}

/// The verdict on a tunnel for `DB:1` with this destination, under these routes. Upstream `new` was
/// changed meanwhile.
fn labelled(routes: &Value, led: &Led, movable: bool, relabelled: bool) -> Verdict {
    let document: Document =
        serde_json::from_value(json!({ "version": 1, "routes": routes })).unwrap();
    let table = Table::compile(&document, |_, hop| {
        Some(match hop {
            Hop::Proxy(name) | Hop::Origin(name) | Hop::Connector(name) | Hop::Handler(name) => {
                Some(name.to_owned())
            }
            Hop::Target => None,
        })
    })
    .unwrap();
    let (method, fields) = (Method::CONNECT, Fields::new());
    let facts = Facts {
        kind: ExchangeKind::Http,
        target: Target::Host {
            name: "DB",
            port: 1,
        },
        authority: None,
        path: "",
        method: &method,
        protocol: None,
        fields: &fields,
        user: None,
        claimed: ClaimedGroups::default(),
        source: None,
        listener: "db",
    };
    let same = |hop: &Option<String>| hop.as_deref() == led.upstream && led.upstream != Some("new");
    let tunnel = Tunnel {
        facts,
        destination: &led.destination,
        movable,
        relabelled,
    };
    match reevaluate(&tunnel, &table, same) {
        reevaluate::Verdict::Kept(route) => Verdict::Kept { route: route.index },
        reevaluate::Verdict::Outlives(route) => Verdict::Outlives { route: route.index },
        reevaluate::Verdict::Moved(route) => Verdict::Moved { route: route.index },
        reevaluate::Verdict::Ended(reason) => Verdict::Ended(reason),
    }
}

/// As [`labelled`], with the fields that the tunnel was opened with.
fn verdict(routes: &Value, led: &Led, movable: bool) -> Verdict {
    labelled(routes, led, movable, false)
}

fn destination(end: End, upstream: Option<&'static str>) -> Led {
    let destination = Destination {
        end,
        rewritten: None,
    };
    Led {
        destination,
        upstream,
    }
}

#[test]
fn a_tunnel_that_goes_where_the_new_rules_send_it_is_kept() {
    let cases = [
        (json!([{ "to": "a" }]), destination(End::Proxy, Some("a"))),
        (
            json!([{ "to": { "a": 1, "b": 1 } }]),
            destination(End::Proxy, Some("b")),
        ),
        (
            json!([{ "terminate": "a" }]),
            destination(End::Socket, Some("a")),
        ),
        (
            json!([{ "terminate": true }]),
            destination(End::Socket, None),
        ),
        (
            json!([{ "terminate": { "by": "a" } }]),
            destination(End::Socket, Some("a")),
        ),
        (
            json!([{ "handle": "a" }]),
            destination(End::Handler, Some("a")),
        ),
        (
            json!([{ "name": "other", "set": { "x": "y" }, "to": "a" }]),
            destination(End::Proxy, Some("a")),
        ),
    ];
    for (routes, destination) in cases {
        for movable in [false, true] {
            assert_eq!(
                verdict(&routes, &destination, movable),
                Verdict::Kept { route: 0 },
                "{routes}"
            );
        }
    }
}

#[test]
fn another_next_hop_moves_datagrams_and_is_outlived_by_bytes() {
    let cases = [
        (json!([{ "to": "b" }]), destination(End::Proxy, Some("a"))),
        (
            json!([{ "to": { "a": 0, "b": 1 } }]),
            destination(End::Proxy, Some("a")),
        ),
        (
            json!([{ "to": "new" }]),
            destination(End::Proxy, Some("new")),
        ),
        (
            json!([{ "terminate": true }]),
            destination(End::Socket, Some("a")),
        ),
        (
            json!([{ "rewrite": { "target": "OTHER:2" }, "to": "a" }]),
            destination(End::Proxy, Some("a")),
        ),
    ];
    for (routes, destination) in cases {
        assert_eq!(
            verdict(&routes, &destination, true),
            Verdict::Moved { route: 0 },
            "{routes}"
        );
        assert_eq!(
            verdict(&routes, &destination, false),
            Verdict::Outlives { route: 0 },
            "{routes}"
        );
    }
}

#[test]
fn another_kind_of_end_moves_datagrams_and_ends_bytes() {
    for (routes, destination) in [
        (
            json!([{ "name": "it", "to": "a" }]),
            destination(End::Socket, Some("a")),
        ),
        (
            json!([{ "name": "it", "terminate": "a" }]),
            destination(End::Proxy, Some("a")),
        ),
    ] {
        assert_eq!(
            verdict(&routes, &destination, true),
            Verdict::Moved { route: 0 }
        );
        assert_eq!(
            verdict(&routes, &destination, false),
            Verdict::Ended(Reason::OtherAction("it".to_owned()))
        );
    }
}

#[test]
fn what_is_not_allowed_ends_with_the_reason() {
    let destination = destination(End::Socket, Some("a"));
    let cases = [
        (
            json!([{ "match": { "target": "OTHER" }, "to": "a" }]),
            "no route allows it any more",
        ),
        (
            json!([{ "name": "shut", "respond": { "status": 403 } }, { "to": "a" }]),
            "route shut does something else with it",
        ),
        (
            json!([{ "redirect": { "location": "https://a" } }]),
            "route routes[0] does something else with it",
        ),
    ];
    for (routes, reason) in cases {
        for movable in [false, true] {
            let Verdict::Ended(found) = verdict(&routes, &destination, movable) else {
                panic!("{routes}")
            };
            assert_eq!(found.to_string(), reason);
        }
    }
}

#[test]
fn a_peer_must_still_speak_for_the_user() {
    let patterns = ["alice".parse().unwrap(), "team-*".parse().unwrap()];
    let peer = Source::Peer {
        name: "core",
        speaks_for: Mandate::of(&patterns),
        border: Border::default(),
    };
    let cases = [
        (peer, true, Some("alice"), true),
        (peer, true, Some("team-1"), true),
        (peer, true, Some("bob"), false),
        (peer, true, None, true),
        (Source::InsecurePeer, true, Some("bob"), true),
        (Source::Client, true, Some("alice"), false),
        (Source::Client, true, None, true),
        (Source::Client, false, Some("alice"), true),
    ];
    for (source, was_peer, user, believed) in cases {
        assert_eq!(
            still_believed(&source, was_peer, user).is_ok(),
            believed,
            "{source:?} {user:?}"
        );
    }
}

#[test]
fn other_fields_move_datagrams_and_are_outlived_by_bytes_where_a_proxy_was_told_them() {
    let (on, ends) = (
        destination(End::Proxy, Some("a")),
        destination(End::Socket, Some("a")),
    );
    let to = json!([{ "to": "a" }]);
    assert_eq!(labelled(&to, &on, true, true), Verdict::Moved { route: 0 });
    assert_eq!(
        labelled(&to, &on, false, true),
        Verdict::Outlives { route: 0 }
    );
    for movable in [false, true] {
        assert_eq!(
            labelled(&json!([{ "terminate": "a" }]), &ends, movable, true),
            Verdict::Kept { route: 0 }
        );
    }
}
