//! `hermes why`: what it says of an exchange is what a node with the same file does.

use std::process::Command;

use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl, origins, program};
use serde_json::Value;

/// Routes by user, field and path; targets that end here are loopback addresses, of which one may be chosen.
fn yaml(origin: &str) -> String {
    format!(
        r#"
        listeners:
          web: {{ http: 127.0.0.1:0, user: alice, accepts: [service], set: {{ room: "{{user}}-{{listener}}" }} }}
          other: {{ http: 127.0.0.1:0 }}
        routes:
          - {{ name: bobs, match: {{ user: bob }}, respond: {{ status: 418 }} }}
          - {{ name: films, match: {{ path: /films/*, fields: {{ room: alice-web }} }}, to: films }}
          - {{ name: served, match: {{ fields: {{ service: web }} }}, respond: {{ status: 204 }} }}
          - {{ name: here, match: {{ listener: web }}, terminate: true }}
        upstreams: {{ films: {{ endpoints: ["{origin}"] }} }}
        egress: {{ allow: [127.0.0.1/32] }}
        "#
    )
}

/// What `hermes why` answers, and its exit code.
fn why(node: &Node, words: &[&str]) -> (Value, i32) {
    let output = Command::new(program::path())
        .arg("why")
        .arg(node.file())
        .args(words)
        .arg("--json")
        .output()
        .unwrap();
    let answer = serde_json::from_slice(&output.stdout);
    (answer.unwrap(), output.status.code().unwrap())
}

#[test]
fn what_it_says_is_what_the_node_does() {
    let origin = origins::http();
    let node = Node::start("edge", &yaml(&origin.address().to_string()));
    let url = format!("http://{}", origin.address());
    let cases = [
        ("web", "/films/one", vec![], "films"),
        ("web", "/two", vec!["user: bob"], "here"),
        ("web", "/three", vec!["service: web"], "served"),
        ("web", "/four", vec!["room: alice-web"], "here"),
    ];
    for (listener, path, fields, route) in cases {
        let url = format!("{url}{path}");
        let mut asked = vec!["GET", url.as_str(), "--listener", listener];
        let proxy = node.url(listener);
        let mut sent = vec!["-x", proxy.as_str(), url.as_str()];
        for field in &fields {
            asked.extend(["-H", field]);
            sent.extend(["-H", field]);
        }

        let (said, code) = why(&node, &asked);
        assert_eq!((&said["route"], code), (&route.into(), 0), "{said}");
        assert_eq!(said["user"], "alice");

        curl(&sent);
        let is_this = |record: &Value| record["target"].as_str().unwrap().ends_with(path);
        let record = node.record(is_this);
        assert_eq!(
            (&record["route"], &record["user"]),
            (&said["route"], &said["user"])
        );
    }
}

#[test]
fn a_refusal_says_why_and_where() {
    let origin = origins::http();
    let node = Node::start("edge", &yaml(&origin.address().to_string()));

    let (said, code) = why(&node, &["CONNECT", "127.0.0.2:80"]);
    assert_eq!((&said["allowed"], code), (&false.into(), 1));
    let egress = said["egress"].as_str().unwrap();
    assert!(egress.contains("127.0.0.2:80 is denied"), "{egress}");
    let refused = Raw::tunnel(node.address("web"), "127.0.0.2:80", "").unwrap_err();
    assert_eq!(refused.status(), 502);

    let url = format!("http://{}/one", origin.address());
    let (said, code) = why(&node, &[&url, "--listener", "other"]);
    assert_eq!((&said["refused"], code), (&"no route matches".into(), 1));
    let steps = said["steps"].as_array().unwrap();
    let last = steps.last().unwrap();
    assert_eq!(last["path"], "routes[3].match");
    let place = last["place"].as_str().unwrap();
    let file = node.file();
    let name = file.file_name().unwrap().to_str().unwrap();
    assert!(place.starts_with(&format!("{name}:")), "{place}");
    assert_eq!(curl(&["-x", &node.url("other"), &url]).status, 404);
}
