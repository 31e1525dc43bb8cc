//! Deciding about an exchange: its route, its user, and its fields.

use std::hint::black_box;

use hermes_config::model::{Document, ExchangeKind, FieldPattern, Forged, Template, UserPattern};
use hermes_proto::fields::Fields;
use hermes_rules::{
    Border, ClaimedGroups, Facts, Mandate, OverlayFields, Source, Table, Target, Values, apply,
    believe,
};
use http::{HeaderValue, Method};
use indexmap::IndexMap;
use serde_json::{Value, json};

use crate::http1::fields;

/// A table of ten routes; an exchange takes the last.
pub fn route_decide_10(rounds: usize) {
    rounds_of_decide(rounds, 10);
}

/// As above, of a hundred.
pub fn route_decide_100(rounds: usize) {
    rounds_of_decide(rounds, 100);
}

/// As above, of ten thousand: at most three times the instructions of ten.
pub fn route_decide_10000(rounds: usize) {
    rounds_of_decide(rounds, 10_000);
}

fn rounds_of_decide(rounds: usize, routes: usize) {
    let route = |number| json!({ "match": { "target": format!("host-{number}"), "path": "/films/*" }, "to": "next" });
    let written: Vec<Value> = (0..routes).map(route).collect();
    let document: Document =
        serde_json::from_value(json!({ "version": 1, "routes": written })).unwrap();
    let table = Table::compile(&document, |_, _| Some(())).unwrap();
    let fields = fields();
    let host = format!("host-{}", routes - 1);
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
        user: Some("alice"),
        claimed: ClaimedGroups::default(),
        source: Some([192, 0, 2, 1].into()),
        listener: "in",
    };
    for _ in 0..rounds {
        let route = table.decide(black_box(&facts)).unwrap();
        assert_eq!(route.index, routes - 1);
    }
}

fn patterns(names: &[&str]) -> Vec<FieldPattern> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// A client with untrusted claims about itself.
pub fn believe_client(rounds: usize) {
    rounds_of_believe(rounds, &Source::Client, Some("alice"));
}

/// A peer that may speak for the user.
pub fn believe_peer(rounds: usize) {
    let speaks_for: Vec<UserPattern> = vec!["bob".parse().unwrap(), "al*".parse().unwrap()];
    rounds_of_believe(
        rounds,
        &Source::Peer {
            name: "entry",
            speaks_for: Mandate::of(&speaks_for),
            border: Border::default(),
        },
        None,
    );
}

fn rounds_of_believe(rounds: usize, source: &Source<'_>, authenticated: Option<&str>) {
    let overlay = OverlayFields::new(&patterns(&[
        "user",
        "service",
        "namespace",
        "ipaddress",
        "x-hermes-*",
    ]));
    let accepts = patterns(&["service"]);
    let mut given = fields();
    for (name, value) in [
        ("user", "alice"),
        ("service", "video"),
        ("namespace", "films"),
        ("x-hermes-hop", "1"),
    ] {
        given.insert(name, HeaderValue::from_static(value));
    }
    for _ in 0..rounds {
        let mut fields: Fields = black_box(&given).clone();
        let user = believe(
            source,
            authenticated,
            Forged::Remove,
            &accepts,
            &overlay,
            &mut fields,
        );
        assert_eq!(user.unwrap().as_deref(), Some("alice"));
        black_box(fields);
    }
}

pub fn fields_change(rounds: usize) {
    let template =
        |(name, text): (&str, &str)| (name.to_owned(), text.parse::<Template>().unwrap());
    let set: IndexMap<String, Template> = [("ipaddress", "{peer.address}"), ("service", "video")]
        .map(template)
        .into();
    let append: IndexMap<String, Template> = [("x-way", "{node}/{listener} for {target}")]
        .map(template)
        .into();
    let (remove, given) = (patterns(&["cookie", "x-request-*"]), fields());
    let values = Values {
        peer: Some("192.0.2.1:50000".parse().unwrap()),
        listener: "in",
        user: Some("alice"),
        tls_peer: None,
        target_host: "video",
        target_port: Some(80),
        node: "entry",
        path: "/films/one",
        query: None,
        method: "GET",
    };
    for _ in 0..rounds {
        let mut fields = black_box(&given).clone();
        apply(&set, &append, &remove, &mut fields, black_box(&values)).unwrap();
        black_box(fields);
    }
}
