//! No request decides the answer to the request of another.

use hermes_tests::origins;

use super::{answer, get, is_hit, node};

const FRESH: &str = "Cache-Control: public, max-age=60\r\n";

/// Whether a second client gets the answer to a request with this field, and whether the origin has seen the field.
fn reaches(evil: &str) -> Reach {
    let origin = origins::scripted(&answer(FRESH, "hello"));
    let node = node("");
    get(&node, &origin, "/a", &["-H", evil]);
    let seen = origin.last().to_lowercase();
    let name = evil.split(':').next().unwrap().to_lowercase();
    let is_shared = is_hit(&get(&node, &origin, "/a", &[]));
    assert!(is_hit(&get(&node, &origin, "/a", &[])), "{evil}");
    Reach {
        is_shared,
        is_seen: seen.contains(&format!("\r\n{name}:")),
    }
}

struct Reach {
    is_shared: bool,
    is_seen: bool,
}

#[test]
fn a_field_that_the_cache_does_not_know_reaches_no_other_answer() {
    for evil in ["X-Any: evil", "Cookie: a=b", "Origin: http://evil"] {
        let reach = reaches(evil);
        assert!(reach.is_seen, "{evil}");
        assert!(!reach.is_shared, "{evil}");
    }
    // Some of these the node takes from strangers, before the cache or an origin sees them.
    for evil in [
        "X-Forwarded-Host: evil",
        "Forwarded: host=evil",
        "X-Original-URL: /evil",
        "X-HTTP-Method-Override: POST",
    ] {
        let reach = reaches(evil);
        assert!(!reach.is_seen || !reach.is_shared, "{evil}");
    }
}

#[test]
fn a_field_that_is_said_to_change_nothing_is_no_part_of_the_key() {
    let origin = origins::scripted(&answer(FRESH, "hello"));
    let node = node("unkeyed: [x-trial]");
    get(&node, &origin, "/a", &["-H", "X-Trial: 1"]);
    assert!(is_hit(&get(&node, &origin, "/a", &["-H", "X-Trial: 2"])));
}

#[test]
fn vary_keeps_answers_apart_and_cannot_grow_without_bound() {
    let origin = origins::scripted(&answer(
        &format!("{FRESH}Vary: Accept-Language\r\n"),
        "hello",
    ));
    let node = node("");
    get(&node, &origin, "/a", &["-H", "Accept-Language: de"]);
    assert!(!is_hit(&get(
        &node,
        &origin,
        "/a",
        &["-H", "Accept-Language: en"]
    )));
    assert!(is_hit(&get(
        &node,
        &origin,
        "/a",
        &["-H", "Accept-Language: de"]
    )));
    for at in 0..40 {
        get(
            &node,
            &origin,
            "/a",
            &["-H", &format!("Accept-Language: x-{at}")],
        );
    }
    assert_eq!(node.status()["plugs"]["cache"]["responses"], 16);
}

#[test]
fn a_get_with_content_neither_stores_nor_is_answered() {
    let origin = origins::acting(&[origins::Act::Say(answer(FRESH, "hello"))]);
    let node = node("");
    let fat = ["-X", "GET", "-d", "evil"];
    assert_eq!(get(&node, &origin, "/a", &fat).status, 200);
    assert!(!is_hit(&get(&node, &origin, "/a", &[])));
    assert!(!is_hit(&get(&node, &origin, "/a", &fat)));
    assert_eq!(origin.seen().len(), 3);
}

#[test]
fn spellings_of_a_path_that_an_origin_may_tell_apart_are_apart() {
    let origin = origins::scripted(&answer(FRESH, "hello"));
    let node = node("");
    get(&node, &origin, "/a/b?c=1", &[]);
    for other in [
        "/a/b",
        "/a/b?c=2",
        "/a/b?C=1",
        "/A/b?c=1",
        "/a/b/?c=1",
        "/a%2fb?c=1",
        "/a//b?c=1",
        "/a/b;x?c=1",
    ] {
        assert!(!is_hit(&get(&node, &origin, other, &[])), "{other}");
    }
    // A dot segment means the same to everyone.
    assert!(is_hit(&get(&node, &origin, "/a/x/../b?c=1", &[])));
}

#[test]
fn a_host_field_beside_the_target_reaches_no_other_answer() {
    let origin = origins::scripted(&answer(FRESH, "hello"));
    let node = node("");
    get(&node, &origin, "/a", &["-H", "Host: evil.example"]);
    let seen = origin.last().to_lowercase();
    assert!(!seen.contains("evil.example"), "{seen}");
}

#[test]
fn an_answer_that_sets_a_cookie_is_for_one_client() {
    let origin = origins::scripted(&answer(&format!("{FRESH}Set-Cookie: a=b\r\n"), "hello"));
    let node = node("");
    for _ in 0..2 {
        assert!(!is_hit(&get(&node, &origin, "/a", &[])));
    }
}
