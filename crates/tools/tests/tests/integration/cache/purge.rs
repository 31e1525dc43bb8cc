//! `hermes cache`, as an operator uses it beside traffic.

use std::process::Command;

use hermes_tests::{Node, curl, origins, program};
use serde_json::Value;

use super::{answer, ask_as, get, is_hit, node, status};

/// `hermes cache` with these arguments, for this node: its exit code and what it printed as JSON.
fn cache(node: &Node, arguments: &[&str]) -> (i32, Value) {
    let ran = Command::new(program::path())
        .args(["--json", "cache"])
        .args(arguments)
        .arg("--admin")
        .arg(node.socket())
        .output()
        .unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    (
        ran.status.code().unwrap(),
        serde_json::from_str(&said).unwrap_or_else(|_| panic!("{said}")),
    )
}

pub(super) fn purged(node: &Node, arguments: &[&str]) -> u64 {
    let (code, said) = cache(node, &[&["purge"], arguments].concat());
    assert_eq!(code, 0, "{said}");
    said["purged"].as_u64().unwrap()
}

#[test]
fn stored_responses_are_shown_and_purged_by_url_prefix_tag_and_user() {
    let fields =
        "Cache-Control: public, max-age=60\r\nCache-Tag: news, home\r\nSurrogate-Key: all\r\n";
    let origin = origins::scripted(&answer(fields, "hello"));
    let node = node("");
    let paths = ["/a", "/b/1", "/b/2", "/c"];
    let ask_all = || paths.map(|path| is_hit(&get(&node, &origin, path, &[])));
    ask_all();
    assert_eq!(ask_all(), [true; 4]);

    let (_, shown) = cache(&node, &["show", "--tag", "news"]);
    assert_eq!(
        (&shown["matching"], &shown["bytes"]),
        (&4.into(), &20.into())
    );
    let first = &shown["responses"][0];
    let url = format!("http://{}/a", origin.address());
    assert_eq!(first["url"], url.as_str());
    assert_eq!(first["tags"], serde_json::json!(["all", "home", "news"]));
    assert!(first["user"].is_null() && first["ttl"].as_i64().unwrap() <= 60);

    assert_eq!(purged(&node, &[&url]), 1);
    assert_eq!(ask_all(), [false, true, true, true]);
    let below = format!("http://{}/b/", origin.address());
    assert_eq!(purged(&node, &["--prefix", &below]), 2);
    assert_eq!(ask_all(), [true, false, false, true]);
    assert_eq!(purged(&node, &["--tag", "New"]), 0);
    assert_eq!(purged(&node, &["--tag", "all"]), 4);
    assert_eq!(ask_all(), [false; 4]);
    assert_eq!(purged(&node, &["--all"]), 4);

    let status = node.status();
    assert_eq!(status["plugs"]["cache"]["purged"], 11);
    let metrics = node.metrics();
    let ratio = metrics
        .lines()
        .find(|line| line.starts_with("hermes_cache_hit_permille"));
    assert_eq!(ratio, Some("hermes_cache_hit_permille{} 450"));
}

#[test]
fn a_purge_for_one_user_leaves_the_responses_of_another() {
    let origin = origins::scripted(&answer("Cache-Control: max-age=60\r\n", "hello"));
    let node = node("");
    for user in ["alice", "bob"] {
        ask_as(user, &node, &origin, &[]);
    }
    assert_eq!(purged(&node, &["--user", "alice"]), 1);
    assert!(is_hit(&ask_as("bob", &node, &origin, &[])));
    assert!(!is_hit(&ask_as("alice", &node, &origin, &[])));
}

/// Neither the methods and fields by which other caches are purged, nor the tags of another origin.
#[test]
fn no_request_and_no_origin_purges_the_responses_of_another() {
    let fields = "Cache-Control: public, max-age=60\r\nCache-Tag: news\r\n";
    let origin = origins::scripted(&answer(fields, "hello"));
    let evil = origins::scripted(&answer(
        &format!(
            "Clear-Site-Data: \"cache\"\r\nCache-Tag: news\r\nLocation: http://{0}/a\r\nContent-Location: http://{0}/a\r\n",
            origin.address()
        ),
        "evil",
    ));
    let node = node("");
    get(&node, &origin, "/a", &[]);
    for method in ["PURGE", "BAN", "POST", "DELETE"] {
        let got = get(
            &node,
            &evil,
            "/a",
            &[
                "-X",
                method,
                "-H",
                "Cache-Tag: news",
                "-H",
                "Surrogate-Key: news",
            ],
        );
        assert_eq!(got.status, 200, "{got:?}");
        assert!(is_hit(&get(&node, &origin, "/a", &[])), "{method}");
    }
    // Its own socket is no target of requests (SECURITY.md), and takes no vague orders from an operator either.
    let (code, said) = cache(&node, &["purge"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.to_string().contains("say which responses"), "{said}");
    assert!(is_hit(&get(&node, &origin, "/a", &[])));
}

#[test]
fn a_response_with_more_tags_than_a_purge_finds_is_not_stored() {
    let many: Vec<_> = (0..200).map(|at| format!("t{at}")).collect();
    let fields = format!(
        "Cache-Control: max-age=60\r\nCache-Tag: {}\r\n",
        many.join(",")
    );
    let origin = origins::scripted(&answer(&fields, "hello"));
    let node = node("");
    for _ in 0..2 {
        let got = get(&node, &origin, "/a", &[]);
        assert!(status(&got).contains("too many tags"), "{got:?}");
    }
}

#[test]
fn a_gateway_is_purged_by_the_urls_of_its_clients() {
    let origin = origins::scripted(&answer("Cache-Control: max-age=60\r\n", "hello"));
    let node = Node::start(
        "gateway",
        &format!(
            "listeners: {{ web: {{ http: 127.0.0.1:0, gateway: true }} }}\n\
             routes: [ {{ terminate: \"{}\", through: [cache] }} ]\n",
            origin.address()
        ),
    );
    let url = format!("{}/a", node.url("web"));
    let ask = || is_hit(&curl(&[&url]));
    assert!(!ask() && ask());
    assert_eq!(purged(&node, &[&url]), 1);
    assert!(!ask());
}
