//! Stored responses are given again, in part, and once they are validated.

use std::thread;

use hermes_tests::eventually::eventually_true;
use hermes_tests::origins::{self, Act};
use hermes_tests::raw::Raw;

use super::{answer, ask_as, get, is_hit, node, status};

/// Asks until the answer of the first request is stored: that is done beside its client.
fn hit(
    node: &hermes_tests::Node,
    origin: &origins::Origin<String>,
    arguments: &[&str],
) -> hermes_tests::curl::Output {
    hermes_tests::eventually::eventually("a hit", || {
        Some(get(node, origin, "/a", arguments)).filter(is_hit)
    })
}

#[test]
fn a_fresh_response_is_given_again_with_its_age() {
    let origin = origins::scripted(&answer("Cache-Control: max-age=60\r\nAge: 5\r\n", "hello"));
    let node = node("");
    let first = get(&node, &origin, "/a", &[]);
    assert_eq!(
        (first.status, first.text().as_str()),
        (200, "hello"),
        "{first:?}"
    );
    assert_eq!(status(&first), "hermes; fwd=miss; stored");

    let second = get(&node, &origin, "/a", &[]);
    assert_eq!(
        (second.status, second.text().as_str()),
        (200, "hello"),
        "{second:?}"
    );
    assert!(is_hit(&second), "{second:?}");
    let age: u64 = second.field("age").unwrap().parse().unwrap();
    assert!((5..60).contains(&age), "{second:?}");
    let head = get(&node, &origin, "/a", &["-I"]);
    assert!(
        is_hit(&head) && head.field("content-length").as_deref() == Some("5"),
        "{head:?}"
    );
    assert_eq!(origin.seen().len(), 1);
    assert_eq!(node.status()["plugs"]["cache"]["hit"], 2);
    // Usage counts what a user was given, wherever it came from.
    let given = || {
        let records = node.access().into_iter();
        records
            .filter(|record| record["reason"] == "responded: cache")
            .filter(|record| record["bytes"]["target_to_client"] == 5)
            .count()
    };
    eventually_true("both answers count", || given() == 2);
}

#[test]
fn a_response_without_a_length_is_stored_once_it_has_come() {
    let chunked = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let origin = origins::scripted(chunked);
    let node = node("");
    assert_eq!(get(&node, &origin, "/a", &[]).text(), "hello");
    let second = hit(&node, &origin, &[]);
    assert_eq!(second.text(), "hello");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn a_content_that_is_too_long_passes_whole_and_is_not_stored() {
    let long = "x".repeat(300_000);
    let fields = "Cache-Control: max-age=60\r\n";
    let chunked = format!(
        "HTTP/1.1 200 OK\r\n{fields}Transfer-Encoding: chunked\r\n\r\n493e0\r\n{long}\r\n0\r\n\r\n"
    );
    for answer in [answer(fields, &long), chunked] {
        let origin = origins::scripted(&answer);
        let node = node("object: 64KiB");
        for _ in 0..2 {
            let got = get(&node, &origin, "/a", &[]);
            assert!(
                got.exit == 0 && got.body.len() == 300_000,
                "{}",
                got.body.len()
            );
        }
        assert_eq!(origin.seen().len(), 2);
    }
}

#[test]
fn a_resumed_fetch_is_answered_by_the_stored_whole() {
    let origin = origins::scripted(&answer(
        "Cache-Control: max-age=60\r\nETag: \"a\"\r\n",
        "0123456789",
    ));
    let node = node("");
    get(&node, &origin, "/a", &[]);
    let rest = get(&node, &origin, "/a", &["-r", "4-", "-H", "If-Range: \"a\""]);
    assert_eq!(
        (rest.status, rest.text().as_str()),
        (206, "456789"),
        "{rest:?}"
    );
    assert_eq!(rest.field("content-range").as_deref(), Some("bytes 4-9/10"));
    assert_eq!(
        get(&node, &origin, "/a", &["-r", "4-", "-H", "If-Range: \"b\""]).status,
        200
    );
    assert_eq!(get(&node, &origin, "/a", &["-r", "10-"]).status, 416);
    let many = get(&node, &origin, "/a", &["-r", "0-1,2-3,4-5"]);
    assert_eq!((many.status, many.body.len()), (200, 10), "{many:?}");
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn what_a_client_left_behind_serves_the_next_one() {
    let content = "x".repeat(4_000_000);
    let origin = origins::scripted(&answer("Cache-Control: max-age=60\r\n", &content));
    let node = node("");
    let url = format!("http://{}/a", origin.address());
    let mut client = Raw::connect(node.address("web"));
    client.send(format!("GET {url} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    client.exactly(1000);
    drop(client);
    let resumed = get(&node, &origin, "/a", &["-r", "1000-"]);
    assert_eq!((resumed.status, resumed.body.len()), (206, 3_999_000));
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn a_stale_response_is_validated_and_given_again() {
    let first = answer(
        "Cache-Control: no-cache\r\nETag: \"a\"\r\nX-A: 1\r\n",
        "hello",
    );
    let confirmed = "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nX-A: 2\r\n\r\n".to_owned();
    let changed = answer("Cache-Control: no-cache\r\nETag: \"b\"\r\n", "other");
    let origin = origins::acting(&[Act::Say(first), Act::Say(confirmed), Act::Say(changed)]);
    let node = node("");
    get(&node, &origin, "/a", &[]);

    let second = get(&node, &origin, "/a", &[]);
    assert_eq!(
        (second.status, second.text().as_str()),
        (200, "hello"),
        "{second:?}"
    );
    assert_eq!(status(&second), "hermes; fwd=stale; fwd-status=304");
    assert_eq!(second.field("x-a").as_deref(), Some("2"));
    assert!(
        origin
            .last()
            .to_lowercase()
            .contains("if-none-match: \"a\""),
        "{}",
        origin.last()
    );

    let third = get(&node, &origin, "/a", &[]);
    assert_eq!(
        (third.text().as_str(), status(&third).as_str()),
        ("other", "hermes; fwd=stale; stored")
    );
}

#[test]
fn a_client_that_has_the_stored_response_gets_304() {
    let origin = origins::scripted(&answer(
        "Cache-Control: max-age=60\r\nETag: \"a\"\r\n",
        "hello",
    ));
    let node = node("");
    get(&node, &origin, "/a", &[]);
    let got = get(&node, &origin, "/a", &["-H", "If-None-Match: W/\"a\""]);
    assert_eq!((got.status, got.body.len()), (304, 0), "{got:?}");
    assert_eq!(
        get(&node, &origin, "/a", &["-H", "If-None-Match: \"b\""]).status,
        200
    );
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn an_origin_that_fails_is_stood_in_for_as_long_as_it_said() {
    let first = answer(
        "Cache-Control: max-age=0, stale-if-error=60\r\nETag: \"a\"\r\n",
        "hello",
    );
    let origin = origins::acting(&[Act::Say(first), Act::status(503, "")]);
    let stands_in = node("");
    get(&stands_in, &origin, "/a", &[]);
    let got = get(&stands_in, &origin, "/a", &[]);
    assert_eq!((got.status, got.text().as_str()), (200, "hello"), "{got:?}");
    assert!(
        status(&got).starts_with("hermes; fwd=stale; ttl="),
        "{got:?}"
    );

    let strict = answer(
        "Cache-Control: max-age=0, stale-if-error=60, must-revalidate\r\nETag: \"a\"\r\n",
        "hello",
    );
    let origin = origins::acting(&[Act::Say(strict), Act::status(503, "")]);
    let node = node("");
    get(&node, &origin, "/a", &[]);
    assert_eq!(get(&node, &origin, "/a", &[]).status, 503);
}

#[test]
fn a_stale_response_is_given_while_it_is_validated_beside() {
    let first = answer(
        "Cache-Control: max-age=0, stale-while-revalidate=60\r\nETag: \"a\"\r\n",
        "hello",
    );
    let fresh = answer("Cache-Control: max-age=60\r\nETag: \"b\"\r\n", "other");
    let origin = origins::acting(&[Act::Say(first), Act::Say(fresh)]);
    let node = node("");
    get(&node, &origin, "/a", &[]);
    let second = get(&node, &origin, "/a", &[]);
    assert!(is_hit(&second) && second.text() == "hello", "{second:?}");
    eventually_true("the fresh one", || {
        get(&node, &origin, "/a", &[]).text() == "other"
    });
    assert_eq!(origin.seen().len(), 2);
}

#[test]
fn requests_at_once_make_one_request_to_the_origin() {
    let origin = origins::http();
    let held = node("");
    let url = format!("http://{}/slow", origin.address());
    let proxy = held.url("web");
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (url, proxy) = (url.clone(), proxy.clone());
            thread::spawn(move || hermes_tests::curl(&["-x", &proxy, &url]).status)
        })
        .collect();
    // Its answer cannot be stored: then no one waits for another one's content.
    eventually_true("all ask on their own", || {
        origin.release();
        origin.seen().len() == 4
    });
    for client in clients {
        while !client.is_finished() {
            origin.release();
            thread::yield_now();
        }
        assert_eq!(client.join().unwrap(), 200);
    }

    let shared = origins::scripted(&answer("Cache-Control: max-age=60\r\n", "hello"));
    let node = node("");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(get(&node, &shared, "/a", &[]).text(), "hello"));
        }
    });
    assert_eq!(shared.seen().len(), 1);
}

#[test]
fn a_request_that_changes_a_resource_removes_what_is_stored_of_it() {
    let fresh = Act::Say(answer("Cache-Control: max-age=60\r\n", "hello"));
    let origin = origins::acting(&[
        fresh.clone(),
        fresh.clone(),
        Act::status(204, "Location: /b\r\n"),
        fresh,
    ]);
    let node = node("");
    for path in ["/a", "/b"] {
        get(&node, &origin, path, &[]);
        assert!(is_hit(&get(&node, &origin, path, &[])));
    }
    let posted = get(&node, &origin, "/a", &["-X", "DELETE"]);
    assert_eq!(status(&posted), "hermes; fwd=method");
    for path in ["/a", "/b"] {
        assert_eq!(
            status(&get(&node, &origin, path, &[])),
            "hermes; fwd=miss; stored"
        );
    }
}

#[test]
fn a_request_that_wants_a_stored_response_only_gets_504_without_one() {
    let origin = origins::scripted(&answer("Cache-Control: max-age=60\r\n", "hello"));
    let node = node("");
    let only = ["-H", "Cache-Control: only-if-cached"];
    assert_eq!(get(&node, &origin, "/a", &only).status, 504);
    assert_eq!(origin.seen().len(), 0);
    get(&node, &origin, "/a", &[]);
    assert_eq!(get(&node, &origin, "/a", &only).status, 200);
}

#[test]
fn a_response_that_broke_off_is_not_stored() {
    let broken = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\nhello";
    let origin = origins::scripted_once(broken);
    let node = node("");
    for asked in 1..=2 {
        let got = get(&node, &origin, "/a", &[]);
        assert_ne!(got.exit, 0, "{got:?}");
        assert_eq!(origin.seen().len(), asked);
    }
}

#[test]
fn two_users_share_only_a_response_that_is_public() {
    for (control, asked) in [
        ("max-age=60", 2),
        ("public, max-age=60", 1),
        ("private, max-age=60", 4),
    ] {
        let origin = origins::scripted(&answer(&format!("Cache-Control: {control}\r\n"), "hello"));
        let node = node("");
        for user in ["alice", "bob", "alice", "bob"] {
            assert_eq!(ask_as(user, &node, &origin, &[]).text(), "hello");
        }
        assert_eq!(origin.seen().len(), asked, "{control}");
    }
}

#[test]
fn a_credential_of_the_origin_needs_a_public_answer() {
    for (control, asked) in [("max-age=60", 3), ("s-maxage=60", 1)] {
        let origin = origins::scripted(&answer(&format!("Cache-Control: {control}\r\n"), "hello"));
        let node = node("");
        for credential in ["a", "b", "a"] {
            get(
                &node,
                &origin,
                "/a",
                &["-H", &format!("Authorization: Bearer {credential}")],
            );
        }
        assert_eq!(origin.seen().len(), asked, "{control}");
    }
}
