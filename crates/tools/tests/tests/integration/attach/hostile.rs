//! Peers that ask for what cannot be, or speak nonsense on an attachment.

use hermes_tests::eventually::eventually_true;
use hermes_tests::frames::{GOAWAY, HELLO, SETTINGS, frame};
use hermes_tests::h2c::Client;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, Pki};

use super::overlay::{Overlay, ROUTES, attached, core};

/// What is asked with HTTP/1.1 of a listener where every client is the user `server`.
fn ask(core: &Node, path: &str, fields: &str) -> (Raw, hermes_tests::head::Head) {
    let mut raw = Raw::connect(core.address("web"));
    raw.send(format!(
        "GET {path} HTTP/1.1\r\nHost: core\r\nConnection: upgrade\r\nUpgrade: ptth\r\n{fields}\r\n"
    ));
    let head = raw.head();
    (raw, head)
}

const OWN: &str = "/.well-known/ptth/server/";

#[test]
fn bad_requests_are_refused_with_their_reasons() {
    let pki = Pki::new();
    let core = Node::start("core", &core(&pki, ROUTES));
    let long = format!("/.well-known/ptth/{}/", "a".repeat(257));
    for (path, fields, status, reason) in [
        ("/", "ALPN: h2\r\n", 400, "does not match"),
        (
            "/.well-known/ptth/a/b/",
            "ALPN: h2\r\n",
            400,
            "does not match",
        ),
        (
            "/.well-known/ptth//",
            "ALPN: h2\r\n",
            400,
            "a name to attach under",
        ),
        (
            "/.well-known/ptth/Server/",
            "ALPN: h2\r\n",
            400,
            "a name to attach under",
        ),
        (
            "/.well-known/ptth/%00/",
            "ALPN: h2\r\n",
            400,
            "a name to attach under",
        ),
        (
            "/.well-known/ptth/%zz/",
            "ALPN: h2\r\n",
            400,
            "percent-encoded",
        ),
        (&long, "ALPN: h2\r\n", 400, "a name to attach under"),
        (OWN, "", 400, "does not offer h2"),
        (OWN, "ALPN: http%2F1.1\r\n", 400, "does not offer h2"),
        (
            "/.well-known/ptth/alice/",
            "ALPN: h2\r\n",
            403,
            "user server may be attached under no name but that",
        ),
    ] {
        let (_, head) = ask(&core, path, fields);
        let said = head.field("proxy-status").unwrap();
        assert!(
            head.status() == status && said.contains(reason),
            "{path} {fields}: {head:?}"
        );
    }
    assert_eq!(core.status()["attached"], serde_json::json!([]));
}

#[test]
fn nonsense_on_an_attachment_ends_it_alone() {
    let overlay = Overlay::start(2);
    let core = &overlay.core;
    for nonsense in [
        b"HTTP/1.1 200 OK\r\n\r\n".as_slice(),
        &[0xff; 4096],
        HELLO,
        &frame(GOAWAY, 0, 7, b"no"),
    ] {
        let (mut raw, head) = ask(core, OWN, "ALPN: h2\r\n");
        assert_eq!(
            (head.status(), head.field("alpn").as_deref()),
            (101, Some("h2")),
            "{head:?}"
        );
        raw.send_if_open(nonsense);
        assert_ne!(raw.rest().0, b"", "our preface, at the least");
    }
    // One that began well.
    let (mut raw, _) = ask(core, OWN, "ALPN: h2\r\n");
    raw.send(frame(SETTINGS, 0, 0, b""));
    raw.send_if_open(frame(SETTINGS, 0, 0, b"odd"));
    raw.rest();
    attached(core, "server", 0);
    eventually_true("all are recorded", || {
        core.metrics().contains("hermes_attached 2\n")
    });
    assert_eq!(overlay.get("http://alice/").status, 200);
}

#[test]
fn who_says_nothing_is_never_used_and_is_let_go() {
    let overlay = Overlay::start(2);
    let core = &overlay.core;
    let (mut raw, head) = ask(core, OWN, "ALPN: h2\r\n");
    assert_eq!(head.status(), 101);
    assert_eq!(overlay.get("http://server/").status, 503);
    assert_eq!(raw.rest().1, End::Reset);
    let record = core.record(|record| record["user"] == "server" && record["status"] == 101);
    assert_eq!(
        record["reason"], "http_protocol_error: the node did not begin HTTP/2",
        "{record:#}"
    );
}

#[test]
fn a_name_has_so_many_attachments_and_no_more() {
    let pki = Pki::new();
    let core = Node::start("core", &core(&pki, ROUTES));
    let held: Vec<_> = (0..32).map(|_| ask(&core, OWN, "ALPN: h2\r\n")).collect();
    assert!(held.iter().all(|(_, head)| head.status() == 101));
    let (_, head) = ask(&core, OWN, "ALPN: h2\r\n");
    assert_eq!(head.status(), 429, "{head:?}");
    assert!(
        head.field("proxy-status")
            .unwrap()
            .contains("32 attachments"),
        "{head:?}"
    );
    drop(held);
    eventually_true("there is room again", || {
        ask(&core, OWN, "ALPN: h2\r\n").1.status() == 101
    });
}

/// What may not pass to an origin may not pass to an attached node either, which would see requests that no route has seen.
#[test]
fn upgrades_and_paths_are_refused_before_an_attached_node_sees_them() {
    let overlay = Overlay::start(2);
    let client = Client::connect(overlay.core.address("web"));
    for protocol in ["h2c", "tls/1.0", "irc/6.9"] {
        let answer = client
            .extended(protocol, "http://alice/admin", &[])
            .unwrap_err();
        assert_eq!(answer.status, 501, "{protocol}: {answer:?}");
    }
    let request = http::Request::get("http://alice/a/%2e%2e/../admin")
        .body(())
        .unwrap();
    assert_eq!(client.send(request, b"").unwrap().status, 400);
    let record = overlay
        .core
        .record(|record| record["kind"] == "upgrade" && record["status"] == 501);
    assert_eq!(
        (&record["target"], &record["upstream"]),
        (&"alice:80/admin".into(), &serde_json::Value::Null),
        "{record}"
    );
    assert_eq!(overlay.site.seen(), []);
}
