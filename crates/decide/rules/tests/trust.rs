//! The user of an exchange: every case of the table, by source.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use hermes_config::model::{FieldPattern, Forged, UserPattern};
use hermes_proto::fields::Fields;
use hermes_rules::{Border, Mandate, OverlayFields, Source, believe};
use http::{HeaderName, HeaderValue};

const REMOVE: Forged = Forged::Remove;
const REFUSE: Forged = Forged::Refuse;

/// The result: the user, or the reason of the refusal.
type Outcome = Result<Option<&'static str>, &'static str>;

fn patterns(names: &[&str]) -> Vec<FieldPattern> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn overlay() -> OverlayFields {
    OverlayFields::new(&patterns(&[
        "user",
        "service",
        "namespace",
        "ipaddress",
        "x-hermes-*",
    ]))
}

fn map(fields: &[(&str, &str)]) -> Fields {
    let mut map = Fields::new();
    for (name, value) in fields {
        map.append(
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
    }
    map
}

fn users(lines: &[&str]) -> Fields {
    map(&lines.iter().map(|line| ("User", *line)).collect::<Vec<_>>())
}

/// Asserts the decision of `believe`, and that the `user` field agrees afterwards (or is unchanged,
/// if refused).
#[track_caller]
fn decides(
    source: &Source<'_>,
    lines: &[&str],
    authenticated: Option<&str>,
    forged: Forged,
    accepts: &[&str],
    expected: Outcome,
) {
    let mut fields = users(lines);
    let result = believe(
        source,
        authenticated,
        forged,
        &patterns(accepts),
        &overlay(),
        &mut fields,
    );
    let case = format!("{source:?} {lines:?} {authenticated:?} {forged:?} {accepts:?}");
    match (&result, expected) {
        (Ok(user), Ok(wanted)) => {
            assert_eq!(user.as_deref(), wanted, "{case}");
            assert_eq!(fields, users(wanted.as_slice()), "{case}");
        }
        (Err(refusal), Err(reason)) => {
            assert_eq!(
                (refusal.status, refusal.reason.as_str()),
                (403, reason),
                "{case}"
            );
            assert_eq!(refusal.to_string(), reason);
            assert_eq!(fields, users(lines), "{case}");
        }
        _ => panic!("{case}: {result:?} is not {expected:?}"),
    }
}

#[test]
fn authenticated_client() {
    let forged = "user alice claims to be user bob";
    let several = "more than one user field";
    for (lines, on_remove, on_refuse) in [
        (&[][..], Ok(Some("alice")), Ok(Some("alice"))),
        (&["alice"], Ok(Some("alice")), Ok(Some("alice"))),
        (&[" alice\t"], Ok(Some("alice")), Ok(Some("alice"))),
        (&[""], Ok(Some("alice")), Ok(Some("alice"))),
        (&["bob"], Ok(Some("alice")), Err(forged)),
        (
            &["Alice"],
            Ok(Some("alice")),
            Err("user alice claims to be user Alice"),
        ),
        (&["alice", "bob"], Ok(Some("alice")), Err(several)),
        (&["alice", "alice"], Ok(Some("alice")), Err(several)),
        (&["", "alice"], Ok(Some("alice")), Err(several)),
    ] {
        for accepts in [&[][..], &["user"], &["service"], &["u*"]] {
            decides(
                &Source::Client,
                lines,
                Some("alice"),
                REMOVE,
                accepts,
                on_remove,
            );
            decides(
                &Source::Client,
                lines,
                Some("alice"),
                REFUSE,
                accepts,
                on_refuse,
            );
        }
    }
}

#[test]
fn client_that_no_one_authenticated_and_whose_field_is_not_accepted() {
    let forged = "an unauthenticated client claims to be user bob";
    for (lines, on_refuse) in [
        (&[][..], Ok(None)),
        (&[""], Ok(None)),
        (&["bob"], Err(forged)),
        (&["bob", "bob"], Err("more than one user field")),
    ] {
        for accepts in [&[][..], &["service", "x-*"]] {
            decides(&Source::Client, lines, None, REMOVE, accepts, Ok(None));
            decides(&Source::Client, lines, None, REFUSE, accepts, on_refuse);
        }
    }
}

#[test]
fn client_that_no_one_authenticated_and_whose_field_is_accepted() {
    for (lines, on_remove, on_refuse) in [
        (&[][..], Ok(None), Ok(None)),
        (&[""], Ok(None), Ok(None)),
        (&["bob"], Ok(Some("bob")), Ok(Some("bob"))),
        (
            &["j\u{fc}rgen"],
            Ok(Some("j\u{fc}rgen")),
            Ok(Some("j\u{fc}rgen")),
        ),
        (&["bob", "eve"], Ok(None), Err("more than one user field")),
        (
            &["a\tb"],
            Ok(None),
            Err("the user field holds control characters or is not UTF-8"),
        ),
    ] {
        for accepts in [&["user"][..], &["User"], &["us*", "service"]] {
            decides(&Source::Client, lines, None, REMOVE, accepts, on_remove);
            decides(&Source::Client, lines, None, REFUSE, accepts, on_refuse);
        }
    }
}

#[test]
fn peer_speaks_for_some() {
    let speaks_for: Vec<UserPattern> = ["alice", "*@example.com", "team-*"]
        .iter()
        .map(|pattern| pattern.parse().unwrap())
        .collect();
    let peer = Source::Peer {
        name: "dp",
        speaks_for: Mandate::of(&speaks_for),
        border: Border::default(),
    };
    let several = Err("peer dp: more than one user field");
    for (lines, authenticated, expected) in [
        (&[][..], None, Ok(None)),
        (&[""], None, Ok(None)),
        (&["alice"], None, Ok(Some("alice"))),
        (&["bob@example.com"], None, Ok(Some("bob@example.com"))),
        (&["team-red"], None, Ok(Some("team-red"))),
        (&["bob"], None, Err("peer dp does not speak for user bob")),
        (
            &["ALICE"],
            None,
            Err("peer dp does not speak for user ALICE"),
        ),
        (&["alice", "alice"], None, several),
        (&["alice", ""], None, several),
        (
            &["a\tb"],
            None,
            Err("peer dp: the user field holds control characters or is not UTF-8"),
        ),
        (&[], Some("eve"), Ok(Some("eve"))),
        (&[""], Some("eve"), Ok(Some("eve"))),
        (&["alice"], Some("alice"), Ok(Some("alice"))),
        (
            &["alice"],
            Some("eve"),
            Err("peer dp claims user alice, but authenticated as user eve"),
        ),
        (
            &["bob"],
            Some("bob"),
            Err("peer dp does not speak for user bob"),
        ),
        (&["alice", "bob"], Some("alice"), several),
    ] {
        // Neither `forged` nor `accepts` is about peers.
        for (forged, accepts) in [(REMOVE, &[][..]), (REFUSE, &["user"])] {
            decides(&peer, lines, authenticated, forged, accepts, expected);
        }
    }
}

#[test]
fn peer_that_speaks_for_no_one_or_for_everybody() {
    let unnamed = Source::Peer {
        name: "dp",
        speaks_for: Mandate::of(&[]),
        border: Border::default(),
    };
    decides(
        &unnamed,
        &["alice"],
        None,
        REMOVE,
        &["user"],
        Err("peer dp does not speak for user alice"),
    );
    decides(&unnamed, &[], None, REMOVE, &[], Ok(None));
    let all: [UserPattern; 1] = ["*".parse().unwrap()];
    decides(
        &Source::Peer {
            name: "dp",
            speaks_for: Mandate::of(&all),
            border: Border::default(),
        },
        &["alice"],
        None,
        REMOVE,
        &[],
        Ok(Some("alice")),
    );
}

#[test]
fn insecure_peer_speaks_for_everybody() {
    let contradicts =
        "a peer listed in insecure_trust claims user alice, but authenticated as user eve";
    for (lines, authenticated, expected) in [
        (&[][..], None, Ok(None)),
        (&[""], None, Ok(None)),
        (&["alice"], None, Ok(Some("alice"))),
        (
            &["alice", "bob"],
            None,
            Err("a peer listed in insecure_trust: more than one user field"),
        ),
        (&[], Some("eve"), Ok(Some("eve"))),
        (&["eve"], Some("eve"), Ok(Some("eve"))),
        (&["alice"], Some("eve"), Err(contradicts)),
    ] {
        for forged in [REMOVE, REFUSE] {
            decides(
                &Source::InsecurePeer,
                lines,
                authenticated,
                forged,
                &[],
                expected,
            );
        }
    }
}

#[test]
fn refusal_says_what_was_claimed() {
    for (lines, claimed) in [(&["bob"][..], "bob"), (&["bob", "eve"], "bob, eve")] {
        let source = Source::Client;
        let refusal = believe(
            &source,
            Some("alice"),
            REFUSE,
            &[],
            &overlay(),
            &mut users(lines),
        )
        .unwrap_err();
        assert_eq!(refusal.claimed, claimed);
    }
}

#[test]
fn bytes_that_are_not_text_are_no_one() {
    let mut fields = Fields::new();
    fields.insert("user", HeaderValue::from_bytes(b"b\xffb").unwrap());
    let refusal = believe(
        &Source::InsecurePeer,
        None,
        REMOVE,
        &[],
        &overlay(),
        &mut fields,
    )
    .unwrap_err();
    assert!(
        refusal
            .reason
            .ends_with("holds control characters or is not UTF-8")
    );
    let user = believe(
        &Source::Client,
        None,
        REMOVE,
        &patterns(&["user"]),
        &overlay(),
        &mut fields,
    );
    assert_eq!((user, fields.len()), (Ok(None), 0));
}

#[test]
fn authenticated_user_must_fit_into_a_field() {
    for user in ["", " alice", "a\r\nb", "a\0"] {
        let refusal = believe(
            &Source::Client,
            Some(user),
            REMOVE,
            &[],
            &overlay(),
            &mut users(&[]),
        )
        .unwrap_err();
        assert_eq!(
            refusal.reason,
            "the authenticated user's name cannot be written in a field"
        );
    }
}

#[test]
fn clients_keep_only_the_overlay_fields_that_are_accepted() {
    let sent = [
        ("Service", "db"),
        ("NAMESPACE", "lab"),
        ("X-Hermes-Hop", "1"),
        ("x-hermes-trace", "2"),
        ("x_hermes_trace", "3"),
        ("X-Request-Id", "4"),
        ("users", "5"),
    ];
    for (accepts, kept) in [
        (&[][..], &[("x-request-id", "4"), ("users", "5")][..]),
        (
            &["SERVICE"],
            &[("service", "db"), ("x-request-id", "4"), ("users", "5")],
        ),
        (
            &["x-hermes-t*"],
            &[
                ("x-hermes-trace", "2"),
                ("x-request-id", "4"),
                ("users", "5"),
            ],
        ),
        (
            &["x-hermes-*", "namespace"],
            &[
                ("namespace", "lab"),
                ("x-hermes-hop", "1"),
                ("x-hermes-trace", "2"),
                ("x-request-id", "4"),
                ("users", "5"),
            ],
        ),
    ] {
        let mut fields = map(&sent);
        assert_eq!(
            believe(
                &Source::Client,
                None,
                REFUSE,
                &patterns(accepts),
                &overlay(),
                &mut fields
            ),
            Ok(None)
        );
        assert_eq!(fields, map(kept), "{accepts:?}");
    }
}

#[test]
fn peers_keep_all_overlay_fields() {
    let sent = [
        ("service", "db"),
        ("x-hermes-hop", "1"),
        ("x-hermes-hop", "2"),
        ("user", "alice"),
    ];
    let all: [UserPattern; 1] = ["*".parse().unwrap()];
    for source in [
        Source::InsecurePeer,
        Source::Peer {
            name: "dp",
            speaks_for: Mandate::of(&all),
            border: Border::default(),
        },
    ] {
        let mut fields = map(&sent);
        let user = believe(&source, None, REMOVE, &[], &overlay(), &mut fields);
        assert_eq!((user, fields), (Ok(Some("alice".to_owned())), map(&sent)));
    }
}

#[test]
fn user_is_an_overlay_field_even_if_it_is_not_declared() {
    let mut fields = users(&["bob"]);
    let none = OverlayFields::new(&[]);
    assert_eq!(
        believe(&Source::Client, None, REMOVE, &[], &none, &mut fields),
        Ok(None)
    );
    assert!(fields.is_empty());
}

/// Another operator's overlay, of which `x-hermes-hop` alone is taken.
fn other_overlay<'a>(speaks_for: &'a [UserPattern], accepts: &'a [FieldPattern]) -> Source<'a> {
    Source::Peer {
        name: "b",
        speaks_for: Mandate::of(speaks_for),
        border: Border {
            domain: Some("b.test"),
            accepts: Some(accepts),
        },
    }
}

#[test]
fn users_of_another_overlay_are_never_those_of_this_one() {
    let all = ["*@b.test".parse().unwrap()];
    let source = other_overlay(&all, &[]);
    let unnamed = Err("peer b names no user of b.test");
    for (lines, authenticated, expected) in [
        (&["alice"][..], None, Ok(Some("alice@b.test"))),
        // A user of this overlay, of a third one, and of themselves.
        (&["alice@a.test"], None, Ok(Some("alice@a.test@b.test"))),
        (&["alice@c.test"], None, Ok(Some("alice@c.test@b.test"))),
        (&["alice@b.test"], None, Ok(Some("alice@b.test@b.test"))),
        (&[], None, unnamed),
        (&[""], None, unnamed),
        (&[" "], None, unnamed),
        (&[], Some("alice"), unnamed),
        (
            &["alice"],
            Some("alice"),
            Err("peer b claims user alice@b.test, but authenticated as user alice"),
        ),
        (
            &["alice", "bob"],
            None,
            Err("peer b: more than one user field"),
        ),
    ] {
        decides(&source, lines, authenticated, REMOVE, &["user"], expected);
    }

    let some = ["ops-*@b.test".parse().unwrap()];
    let source = other_overlay(&some, &[]);
    decides(
        &source,
        &["ops-1"],
        None,
        REMOVE,
        &[],
        Ok(Some("ops-1@b.test")),
    );
    let refused = Err("peer b does not speak for user alice@b.test");
    decides(&source, &["alice"], None, REMOVE, &[], refused);
}

#[test]
fn another_overlay_is_believed_in_listed_fields_alone() {
    let all = ["*@b.test".parse().unwrap()];
    let accepts = ["x-hermes-hop".parse().unwrap()];
    let source = other_overlay(&all, &accepts);
    let mut fields = map(&[
        ("user", "alice"),
        ("service", "db"),
        ("x-hermes-hop", "1"),
        ("x_hermes_hop", "2"),
        ("accept", "*/*"),
    ]);
    // The fields that clients of the listener may set are not those of a peer.
    let listener = ["service".parse().unwrap()];
    let user = believe(&source, None, REMOVE, &listener, &overlay(), &mut fields);
    assert_eq!(user, Ok(Some("alice@b.test".to_owned())));
    let left = [
        ("x-hermes-hop", "1"),
        ("accept", "*/*"),
        ("user", "alice@b.test"),
    ];
    assert_eq!(fields, map(&left));
}
