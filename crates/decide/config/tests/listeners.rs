//! Kinds of listeners: one each, with the keys of this kind alone.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too")]

use std::path::Path;

use hermes_config::model::{Document, Listener, ListenerKind};

fn said(lines: &str) -> Result<Document, String> {
    let text = format!("version: 1\nlisteners:\n{lines}\n");
    let loaded = hermes_config::parse(Path::new("n"), &text, &|_| None);
    loaded
        .map(|loaded| loaded.document)
        .map_err(|problems| problems.to_string())
}

#[track_caller]
fn finds(lines: &str, expected: &[&str]) {
    assert_eq!(said(lines).unwrap_err(), expected.join("\n"));
}

fn listener(keys: &str) -> Listener {
    said(&format!("  a: {{ {keys} }}")).unwrap().listeners["a"].clone()
}

#[test]
fn one_key_says_the_kind() {
    let Listener { kind, user, .. } = listener("tcp: 127.0.0.1:1, target: a:1, user: bob");
    let ListenerKind::Tcp(tcp) = kind else {
        panic!("{kind:?}");
    };
    assert_eq!(tcp.address.to_string(), "127.0.0.1:1");
    assert_eq!(tcp.purpose.target.unwrap().to_string(), "a:1");
    assert_eq!(user.as_deref(), Some("bob"));

    for (keys, kind) in [
        ("http: 127.0.0.1:1, gateway: true", "http"),
        (
            "socks: 127.0.0.1:1, auth: { basic: { file: users } }",
            "socks",
        ),
        ("udp: 127.0.0.1:1, target: a:1, datagrams: {}", "udp"),
        ("attach: next, accepts: [user]", "attach"),
        ("tun: hermes0, set: { user: bob }", "tun"),
    ] {
        assert_eq!(listener(keys).kind.key(), kind);
    }
}

#[test]
fn every_listener_has_one_kind() {
    let remedy = "give one of `http`, `socks`, `tcp`, `udp`, `attach`, `tun` and `capture`";
    finds(
        "  \"a.b\": {}\n  more: { user: bob }",
        &[
            &format!("n:3:3: listeners[\"a.b\"]: the listener has no address; {remedy}"),
            &format!("n:4:3: listeners.more: the listener has no address; {remedy}"),
        ],
    );
    finds(
        "  both: { udp: 127.0.0.1:1, target: a:1, tcp: 127.0.0.1:1 }",
        &[
            "n:3:16: listeners.both.udp: the listener is tcp and udp at once; make a listener of each",
        ],
    );
}

#[test]
fn a_kind_that_cannot_be_read_is_not_missed() {
    finds(
        "  a: { htp: 127.0.0.1:1, pac: true }",
        &["n:3:8: listeners.a.htp: unknown key; did you mean `http`?"],
    );
    finds(
        "  a: { tcp: 127.0.0.1, target: a:1 }",
        &[
            "n:3:13: listeners.a.tcp: `127.0.0.1` is not an IP address and port, nor unix:/path; \
             write 127.0.0.1:8080 for this machine alone, [::]:8080 for everybody",
        ],
    );
}

#[test]
fn keys_of_another_kind_are_refused_where_they_stand() {
    finds(
        "  db:
    tcp: 127.0.0.1:1
    target: a:1
    auth: none
    accepts: [user]
    pac: all
    datagrams: { hold_time: 5s }",
        &[
            "n:6:11: listeners.db.auth: `auth` is for `http` and `socks` listeners; remove it, and name the user of the traffic with `user`",
            "n:7:5: listeners.db.accepts: `accepts` is for `http` and `attach` listeners; remove it, or make it an `http` listener",
            "n:8:10: listeners.db.pac: `pac` is for `http` listeners; remove it, or make it an `http` listener",
            "n:9:5: listeners.db.datagrams: `datagrams` is for `udp` listeners; remove it, or put it on a route",
        ],
    );
    finds(
        "  a: { http: 127.0.0.1:1, target: a:1 }
  b: { attach: next, versions: 2 }
  c: { tun: hermes0, target: a:1 }
  d: { udp: 127.0.0.1:1, target: a:1, proxy_protocol: accept }",
        &[
            "n:3:35: listeners.a.target: `target` is for `tcp` and `udp` listeners; remove `target`, or make it a `tcp` listener: each \
             request names its own",
            "n:4:32: listeners.b.versions: `versions` is for `http` listeners; remove it: the upstream that it attaches to says so",
            "n:5:30: listeners.c.target: `target` is for `tcp` and `udp` listeners; remove `target`: each packet names its own",
            "n:6:55: listeners.d.proxy_protocol: `proxy_protocol` is for `http`, `socks` and `tcp` listeners; remove it, or make it an `http` listener",
        ],
    );
}

#[test]
fn a_key_of_another_kind_that_says_the_default_is_no_mistake() {
    let db = listener("tcp: 127.0.0.1:1, target: a:1, gateway: false, explain: false");
    assert_eq!(db, listener("tcp: 127.0.0.1:1, target: a:1"));
}
