//! Routes that can never match: certain cases are found, and findings are certain.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use hermes_config::model::{Document, ExchangeKind, FieldMatch, Hops, Match, OneOrMany, Route};
use hermes_proto::fields::Fields;
use hermes_rules::route::Scope;
use hermes_rules::shadow::{Shadow, implies, shadows};
use hermes_rules::{ClaimedGroups, Facts, Table, Target};
use http::{HeaderName, HeaderValue, Method};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use serde_json::{Value, json};

fn conditions(matches: Value) -> Match {
    serde_json::from_value(matches).unwrap()
}

#[test]
fn conditions_that_follow_from_others() {
    for (later, earlier) in [
        (json!({}), json!({})),
        (json!({ "user": "alice" }), json!({})),
        (json!({}), json!({ "target": "*" })),
        (json!({ "target": "VIDEO" }), json!({ "target": "video." })),
        (
            json!({ "target": "[::1]:80" }),
            json!({ "target": "[0:0:0:0:0:0:0:1]" }),
        ),
        (json!({ "target": "a.b.c" }), json!({ "target": "*.c" })),
        (json!({ "target": "*.b.c" }), json!({ "target": "*.c" })),
        (json!({ "target": "v1" }), json!({ "target": "~^V[0-9]$" })),
        (
            json!({ "target": "~^v$" }),
            json!({ "target": ["x", "~^v$"] }),
        ),
        (
            json!({ "target": ["a", "b:1"] }),
            json!({ "target": ["b", "a"] }),
        ),
        (
            json!({ "target": ["a:80", "b:443"] }),
            json!({ "port": "80-443" }),
        ),
        (
            json!({ "target": "a", "port": 80 }),
            json!({ "target": "a:80" }),
        ),
        (json!({ "port": 80 }), json!({ "target": "*:80" })),
        (
            json!({ "port": [80, "100-200"] }),
            json!({ "port": ["1-99", "100-300"] }),
        ),
        (json!({ "authority": "a:1" }), json!({ "authority": "*" })),
        (
            json!({ "path": ["/a/b", "/a/c/*"] }),
            json!({ "path": "/a/*" }),
        ),
        (json!({ "path": "/%61" }), json!({ "path": "/a" })),
        (json!({ "path": "/v1" }), json!({ "path": "~^/v" })),
        (
            json!({ "method": "GET" }),
            json!({ "method": ["HEAD", "GET"] }),
        ),
        (
            json!({ "protocol": "WebSocket" }),
            json!({ "protocol": "websocket" }),
        ),
        (
            json!({ "fields": { "Service": "db" } }),
            json!({ "fields": { "service": true } }),
        ),
        (
            json!({ "fields": { "service": "db", "x": false } }),
            json!({ "fields": { "service": "~^d" } }),
        ),
        (
            json!({ "user": ["alice", "~^b"] }),
            json!({ "user": ["~^b", "~^a"] }),
        ),
        (
            json!({ "source": "10.1.0.0/16" }),
            json!({ "source": "10.0.0.0/8" }),
        ),
        (
            json!({ "source": "::ffff:10.1.0.0/112" }),
            json!({ "source": "10.0.0.0/8" }),
        ),
        (
            json!({ "listener": "a" }),
            json!({ "listener": ["a", "b"] }),
        ),
    ] {
        assert!(
            implies(&conditions(later.clone()), &conditions(earlier.clone())),
            "{later} {earlier}"
        );
    }
}

#[test]
fn conditions_that_do_not_certainly_follow() {
    for (later, earlier) in [
        (json!({}), json!({ "user": "~" })),
        (json!({}), json!({ "source": ["0.0.0.0/0", "::/0"] })),
        (json!({}), json!({ "authority": "*" })),
        (json!({ "target": "a" }), json!({ "target": "a:80" })),
        (
            json!({ "target": "a", "port": [80, 81] }),
            json!({ "target": "a:80" }),
        ),
        (
            json!({ "target": "a", "port": "80-81" }),
            json!({ "target": "a:80" }),
        ),
        (json!({ "target": ["a:80", "b"] }), json!({ "port": 80 })),
        (
            json!({ "target": "example.com" }),
            json!({ "target": "*.example.com" }),
        ),
        (json!({ "target": "*.c" }), json!({ "target": "*.b.c" })),
        (json!({ "target": "*.c" }), json!({ "target": "~c$" })),
        (json!({ "target": "v" }), json!({ "target": "~(?-i)^v$" })),
        (json!({ "target": "[::1]" }), json!({ "target": "~^::1$" })),
        (json!({ "target": ["a", "b"] }), json!({ "target": "a" })),
        (json!({ "port": "1-100" }), json!({ "port": "1-99" })),
        (json!({ "path": "/a/*" }), json!({ "path": "/a/b" })),
        (json!({ "path": "/a/*" }), json!({ "path": "~^/a" })),
        (json!({ "path": "/a" }), json!({ "path": "/a/*" })),
        (json!({ "method": "get" }), json!({ "method": "GET" })),
        (
            json!({ "fields": { "service": true } }),
            json!({ "fields": { "service": "~" } }),
        ),
        (
            json!({ "fields": { "service": true } }),
            json!({ "fields": { "service": false } }),
        ),
        (
            json!({ "fields": { "service": "db" } }),
            json!({ "fields": { "service": "web" } }),
        ),
        (json!({ "user": "~^a" }), json!({ "user": "~a" })),
        (
            json!({ "source": "10.0.0.0/8" }),
            json!({ "source": "10.1.0.0/16" }),
        ),
        (
            json!({ "listener": ["a", "b"] }),
            json!({ "listener": "a" }),
        ),
    ] {
        assert!(
            !implies(&conditions(later.clone()), &conditions(earlier.clone())),
            "{later} {earlier}"
        );
    }
}

#[test]
fn each_dead_route_is_blamed_on_the_first_that_covers_it() {
    let document: Document = serde_json::from_value(json!({ "version": 1, "routes": [
        { "match": { "target": "a" }, "to": "x" },
        { "match": { "target": "a:80" }, "to": "x" },
        { "to": "x" },
        { "match": { "target": "a:81" }, "to": "x" },
        { "match": { "target": "b" }, "to": "x" },
    ] }))
    .unwrap();
    let found = shadows(&document.routes);
    assert_eq!(
        found,
        [
            Shadow { dead: 1, by: 0 },
            Shadow { dead: 3, by: 0 },
            Shadow { dead: 4, by: 2 }
        ]
    );
}

/// An optional list of one to three of these, as parsed.
fn some<T: std::str::FromStr<Err: std::fmt::Debug> + Clone + std::fmt::Debug>(
    texts: &'static [&'static str],
) -> impl Strategy<Value = Option<OneOrMany<T>>> {
    let parsed = select(texts).prop_map(|text| text.parse::<T>().unwrap());
    weighted(0.6, vec(parsed, 1..3).prop_map(OneOrMany))
}

const TARGETS: [&str; 14] = [
    "a",
    "A:80",
    "x.a",
    "*.a",
    "*.x.a",
    "*",
    "*:80",
    "~^a",
    "~(?-i)^a",
    "[::1]:80",
    "10.1.2.3",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "::/16",
];
const KINDS: [ExchangeKind; 3] = [
    ExchangeKind::Http,
    ExchangeKind::ConnectUdp,
    ExchangeKind::ConnectIp,
];
const PATHS: [&str; 8] = ["/", "/a", "/%61", "/a/*", "/*", "/a/b/*", "~^/a", "/a/../b"];
const TEXTS: [&str; 5] = ["a", "b", "~a", "~^", "~^b$"];
const NETS: [&str; 6] = [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "::ffff:10.1.0.0/112",
    "0.0.0.0/0",
    "::/0",
    "2001:db8::/32",
];

fn any_match() -> impl Strategy<Value = Match> {
    let text = select(&TEXTS[..]).prop_map(|text| FieldMatch::Value(text.parse().unwrap()));
    let field = proptest::prop_oneof![any::<bool>().prop_map(FieldMatch::Present), text];
    let fields = vec(
        (select(&["f", "F", "g"][..]).prop_map(str::to_owned), field),
        0..3,
    );
    let what = (
        some(&TARGETS),
        some(&["80", "443", "1-100", "1-65535"]),
        some(&TARGETS),
        some(&PATHS),
    );
    let how = (
        some(&["GET", "POST"]),
        some(&["websocket", "WebSocket", "x"]),
    );
    let whose = (some(&TEXTS), some(&NETS), some(&["web", "db"]));
    let kinds = weighted(0.4, vec(select(&KINDS[..]), 1..3).prop_map(OneOrMany));
    (what, how, fields, whose, kinds).prop_map(|(what, how, fields, whose, kind)| {
        let ((target, port, authority, path), (method, protocol), (user, source, listener)) =
            (what, how, whose);
        let fields = fields.into_iter().collect();
        Match {
            kind,
            target,
            port,
            authority,
            path,
            method,
            protocol,
            fields,
            user,
            source,
            listener,
        }
    })
}

/// Facts that own what [`Facts`] borrows.
#[derive(Debug, Clone)]
struct Owned {
    kind: ExchangeKind,
    host: &'static str,
    /// Where packets go, in place of a host.
    net: Option<&'static str>,
    port: u16,
    authority: Option<(&'static str, Option<u16>)>,
    path: &'static str,
    method: Method,
    protocol: Option<&'static str>,
    fields: Fields,
    user: Option<&'static str>,
    source: Option<&'static str>,
    listener: &'static str,
}

impl Owned {
    fn facts(&self) -> Facts<'_> {
        Facts {
            kind: self.kind,
            target: match self.net.map(str::parse) {
                None => Target::Host {
                    name: self.host,
                    port: self.port,
                },
                Some(Ok(net)) => Target::Ip {
                    scope: Scope::Net(net),
                    protocol: None,
                },
                Some(Err(_)) => Target::Ip {
                    scope: Scope::Any,
                    protocol: Some(6),
                },
            },
            authority: self.authority,
            path: self.path,
            method: &self.method,
            protocol: self.protocol,
            fields: &self.fields,
            user: self.user,
            claimed: ClaimedGroups::default(),
            source: self.source.map(|source| source.parse().unwrap()),
            listener: self.listener,
        }
    }
}

fn any_facts() -> impl Strategy<Value = Owned> {
    let host = || {
        select(
            &[
                "a", "A.", "x.a", "X.x.A", "b", "::1", "[0::1]", "10.1.2.3", "",
            ][..],
        )
    };
    let nets = [
        "10.1.0.0/16",
        "10.1.2.3/32",
        "10.9.0.0/16",
        "10.0.0.0/7",
        "::/8",
        "*",
    ];
    let packets = (select(&KINDS[..]), weighted(0.3, select(nets.to_vec())));
    let port = || select(&[80_u16, 443, 100, 0][..]);
    let authority = weighted(0.8, (host(), weighted(0.8, port())));
    let path = select(
        &[
            "", "/", "/a", "/%61", "/a/", "/a/b/c", "/a%2fb", "/a/../b", "/a/%2e",
        ][..],
    );
    let method = proptest::prop_oneof![Just(Method::GET), Just(Method::POST)];
    let protocol = weighted(0.8, select(&["websocket", "WEBSOCKET", "x"][..]));
    let value = select(&["a", "b", "ab", ""][..]).prop_map(HeaderValue::from_static);
    let name = select(&["f", "g"][..]).prop_map(HeaderName::from_static);
    let fields = vec((name, value), 0..4).prop_map(|lines| {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(name, value);
        }
        fields
    });
    let user = weighted(0.8, select(&["a", "b", "ab"][..]));
    let source = weighted(
        0.8,
        select(
            &[
                "10.1.2.3",
                "::ffff:10.1.2.3",
                "10.2.0.1",
                "2001:db8::1",
                "::2",
            ][..],
        ),
    );
    let listener = select(&["web", "db"][..]);
    let target = (host(), port(), authority, path);
    let how = (method, protocol, fields);
    (target, how, (user, source, listener), packets).prop_map(
        |(target, how, whose, (kind, net))| {
            let (
                (host, port, authority, path),
                (method, protocol, fields),
                (user, source, listener),
            ) = (target, how, whose);
            Owned {
                kind,
                net,
                host,
                port,
                authority,
                path,
                method,
                protocol,
                fields,
                user,
                source,
                listener,
            }
        },
    )
}

/// Conditions like the given ones, with some taken away: it is likely that they follow.
fn weakened(one: &Match, keep: [bool; 11]) -> Match {
    let mut other = one.clone();
    let [
        target,
        port,
        authority,
        path,
        method,
        protocol,
        fields,
        user,
        source,
        listener,
        kind,
    ] = keep;
    other.kind = other.kind.filter(|_| kind);
    other.target = other.target.filter(|_| target);
    other.port = other.port.filter(|_| port);
    other.authority = other.authority.filter(|_| authority);
    other.path = other.path.filter(|_| path);
    other.method = other.method.filter(|_| method);
    other.protocol = other.protocol.filter(|_| protocol);
    other.fields.retain(|_, _| fields);
    other.user = other.user.filter(|_| user);
    other.source = other.source.filter(|_| source);
    other.listener = other.listener.filter(|_| listener);
    other
}

/// Conditions by their place in [`weakened`]; targets and ports are many-sided, so they are tried most.
const WHICH: [usize; 15] = [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

fn table(routes: &[Match]) -> Table<()> {
    let mut document: Document = serde_json::from_value(json!({ "version": 1 })).unwrap();
    document.routes = documented(routes);
    Table::compile(&document, |_, _| Some(())).unwrap()
}

/// Routes with these conditions.
fn documented(routes: &[Match]) -> Vec<Route> {
    routes
        .iter()
        .map(|matches| Route {
            matches: matches.clone(),
            to: Some(Hops::One("next".to_owned())),
            ..Default::default()
        })
        .collect()
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_dead_route_matches_nothing_that_its_shadow_does_not(
        later in any_match(), earlier in any_match(), keep in vec(0_usize..11, 0..4), many in vec(any_facts(), 64),
    ) {
        let earlier = weakened(&earlier, std::array::from_fn(|which| keep.contains(&which)));
        if implies(&later, &earlier) {
            let (one, two) = (table(&[later]), table(&[earlier]));
            for owned in &many {
                let facts = owned.facts();
                prop_assert!(one.decide(&facts).is_none() || two.decide(&facts).is_some(), "{:?}", owned);
            }
        }
    }

    #[test]
    fn each_single_condition_that_follows_certainly_follows(
        later in any_match(), earlier in any_match(), which in select(&WHICH[..]), many in vec(any_facts(), 64),
    ) {
        let mut keep = [false; 11];
        keep[which] = true;
        // The port of a target and the port beside it belong together.
        keep[1] |= which == 0;
        keep[0] |= which == 1;
        let (later, earlier) = (weakened(&later, keep), weakened(&earlier, keep));
        if implies(&later, &earlier) {
            let (one, two) = (table(&[later]), table(&[earlier]));
            for owned in &many {
                let facts = owned.facts();
                prop_assert!(one.decide(&facts).is_none() || two.decide(&facts).is_some(), "{:?}", owned);
            }
        }
    }

    #[test]
    fn conditions_imply_themselves_and_any_part_of_themselves(one in any_match(), keep in any::<[bool; 11]>()) {
        prop_assert!(implies(&one, &one));
        prop_assert!(implies(&one, &weakened(&one, keep)));
    }

    #[test]
    fn the_decision_is_the_first_route_that_is_explained_as_matching(
        routes in vec(any_match(), 0..6), owned in any_facts(),
    ) {
        let table = table(&routes);
        let facts = owned.facts();
        let explained = table.explain(&facts);
        prop_assert_eq!(explained.len(), routes.len());
        let decided = table.decide(&facts).map(|route| route.index);
        prop_assert_eq!(decided, explained.iter().find(|route| route.matched).map(|route| route.route));
    }

    #[test]
    fn no_text_panics_as_path_or_host(text in ".{0,40}", path in "[/.%2eEfF;\\\\a]{0,24}") {
        let table = table(&[Match { path: Some(OneOrMany(vec!["/a/*".parse().unwrap(), "~b".parse().unwrap()])), ..Match::default() },
            Match { target: Some(OneOrMany(vec!["*.a".parse().unwrap()])), ..Match::default() }]);
        let (method, fields) = (Method::GET, Fields::new());
        for path in [&text, &path] {
            let facts = Facts {
                kind: ExchangeKind::Http,
                target: Target::Host { name: &text, port: 1 }, authority: None, path, method: &method, protocol: None,
                fields: &fields, user: None, claimed: ClaimedGroups::default(), source: None, listener: "",
            };
            prop_assert_eq!(table.explain(&facts).len(), 2);
        }
    }

    /// An index finds routes where there are many: the answer must be that of asking each.
    #[test]
    fn many_routes_decide_as_if_each_were_asked(
        routes in vec((any_match(), vec(0_usize..11, 1..3)), 5..40), many in vec(any_facts(), 64),
    ) {
        let weakened = |(one, keep): &(Match, Vec<usize>)| weakened(one, std::array::from_fn(|which| keep.contains(&which)));
        let routes: Vec<Match> = routes.iter().map(weakened).collect();

        let table = table(&routes);
        for facts in &many {
            let first = table.explain(&facts.facts()).iter().position(|route| route.matched);
            let decided = table.decide(&facts.facts()).map(|route| route.index);
            prop_assert_eq!(decided, first, "{:?}", facts);
        }

        let routes = documented(&routes);
        let shadow = |dead: usize| {
            let by = (0..dead).find(|by| implies(&routes[dead].matches, &routes[*by].matches))?;
            Some(Shadow { dead, by })
        };
        prop_assert_eq!(shadows(&routes), (0..routes.len()).filter_map(shadow).collect::<Vec<_>>());
    }
}
