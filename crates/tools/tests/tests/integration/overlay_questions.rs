//! Questions of operators about an overlay: what a change would do, why an exchange is refused, tokens and certificates.

use hermes_harness::eventually::eventually_true;
use hermes_harness::free;
use hermes_harness::overlay::Hub;
use hermes_harness::program::Said;
use serde_json::Value;

/// A hub by which devices enter, and a server beside it that these users may ask.
fn overlay(users: &str) -> String {
    let listen = free::tcp();
    format!(
        "apiVersion: hermes/v1
kind: Node
metadata: {{ name: edge }}
spec: {{ listen: {listen}, reach: [{listen}], ingress: true }}
---
apiVersion: hermes/v1
kind: Service
metadata: {{ name: video }}
spec: {{ at: [{{ node: edge, address: 127.0.0.1:9 }}] }}
---
apiVersion: hermes/v1
kind: Name
metadata: {{ name: video }}
spec: {{ name: VIDEO, service: video }}
---
apiVersion: hermes/v1
kind: Policy
metadata: {{ name: video }}
spec:
  rules:
    - {{ match: {{ target: VIDEO, user: {users} }}, allow: true }}
"
    )
}

fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

#[test]
fn a_diff_says_who_gains_and_who_loses_what_and_changes_nothing() {
    let controller = Hub::controller();
    let before = overlay("alice");
    controller.apply(&before, &[]);
    let revision = controller.ask(&["get"]).unwrap()["revision"].clone();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("next.yaml");
    std::fs::write(&file, before.replace("user: alice", "user: bob")).unwrap();
    let file = file.to_str().unwrap();
    let said = controller.say(&["diff", file]);
    assert_eq!(said.code, 1, "{said:?}");
    let diff = json(&said);
    assert_eq!(diff["base"], revision, "{diff:#}");
    assert_eq!(diff["documents"], serde_json::json!(["edge"]), "{diff:#}");
    let changed = &diff["resources"][0];
    assert_eq!(changed["resource"], "Policy/default/video", "{diff:#}");
    let field = &changed["fields"][0];
    assert_eq!(field["path"], "spec.rules[0].match.user", "{diff:#}");
    for (list, user) in [("gained", "bob"), ("lost", "alice")] {
        let list = diff["access"][list].as_array().unwrap();
        assert_eq!(list.len(), 1, "{diff:#}");
        assert_eq!(list[0]["user"], user, "{diff:#}");
        assert_eq!(list[0]["target"], "VIDEO", "{diff:#}");
    }

    assert_eq!(controller.ask(&["get"]).unwrap()["revision"], revision);
    let base = revision.as_str().unwrap();
    let made = controller.say(&["apply", "--base", base, "--force", file]);
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(controller.say(&["diff", "--overlay", file]).code, 0);
}

#[test]
fn resources_in_place_of_the_file_of_a_node_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overlay.yaml");
    std::fs::write(&file, overlay("alice")).unwrap();
    let file = file.to_str().unwrap();
    for command in ["check", "run"] {
        let said = hermes_harness::program::run(&[command, file]);
        assert_eq!(said.code, 2, "{said:?}");
        let all = said.stdout + &said.stderr;
        assert!(all.contains(&format!("hermes diff '{file}'")), "{all}");
    }
}

#[test]
fn why_names_the_rule_and_its_line_that_decides_about_a_user() {
    let controller = Hub::controller();
    controller.apply(&overlay("alice"), &[]);
    let said = controller.say(&["why", "--overlay", "VIDEO", "--user", "alice"]);
    assert_eq!(said.code, 0, "{said:?}");
    let way = &json(&said)[0];
    assert_eq!(way["from"], "edge", "{way:#}");
    assert_eq!(way["reaches"], serde_json::json!(["service-video"]));
    let steps = way["hops"][0]["steps"].as_array().unwrap();
    let of_policy = |step: &&Value| step["resource"] == "Policy/default/video";
    let rule = steps.iter().find(of_policy).unwrap();
    let place = rule["place"].as_str().unwrap();
    assert!(place.ends_with("overlay.yaml:21"), "{way:#}");

    let said = controller.say(&["why", "--overlay", "VIDEO", "--user", "bob"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(json(&said)[0]["hops"][0]["refused"], true, "{said:?}");
    let elsewhere = [
        "why",
        "--overlay",
        "VIDEO",
        "--user",
        "bob",
        "--from",
        "moon",
    ];
    let said = controller.say(&elsewhere);
    assert!(said.code == 1 && said.stdout.contains("edge"), "{said:?}");
}

#[test]
fn a_token_that_was_deleted_admits_no_one() {
    let controller = Hub::controller();
    let token = controller.token("alice");
    let listed = controller.ask(&["token", "list"]).unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["user"], "alice");
    assert!(listed[0].get("secret").is_none(), "{listed:?}");
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(controller.say(&["token", "delete", id]).code, 0);
    assert_eq!(controller.say(&["token", "delete", id]).code, 2);
    let audit = controller.ask(&["history", "--audit"]).unwrap();
    assert!(audit["broken"].is_null(), "{audit:#}");
    let newest = &audit["entries"][0];
    assert_eq!(newest["act"], "delete token", "{audit:#}");
    assert_eq!(newest["subject"], id, "{audit:#}");

    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().display().to_string();
    let url = controller.url();
    let join = ["join", &url, "--token", &token, "--state", &state, "--only"];
    let said = hermes_harness::program::run(&join);
    assert_eq!(said.code, 1, "{said:?}");
}

#[test]
fn status_and_certs_show_members_that_are_away_and_revoked() {
    let controller = Hub::controller();
    controller.apply(&overlay("alice"), &[]);
    let mut edge = controller.member("edge");
    let _device = controller.device("alice", "laptop");
    let status = controller.ask(&["status", "--overlay"]).unwrap();
    assert_eq!(status["in_step"], 2, "{status:#}");
    assert_eq!(status["ending"], serde_json::json!([]), "{status:#}");

    edge.kill();
    eventually_true("the node is away", || {
        let status = controller.ask(&["status", "--overlay"]).unwrap();
        status["others"][0]["node"] == "edge" && status["in_step"] == 1
    });
    controller.ask(&["revoke", "laptop"]).unwrap();
    let certs = controller.ask(&["certs"]).unwrap();
    let of = |name: &str| {
        let mut certs = certs.as_array().unwrap().iter();
        certs.find(|cert| cert["node"] == name).unwrap().clone()
    };
    assert!(of("laptop")["revoked"].is_u64(), "{certs:#}");
    let edge = of("edge");
    assert!(edge["revoked"].is_null(), "{certs:#}");
    assert_eq!(edge["renewed"], false, "{certs:#}");
    let days = edge["expires"].as_u64().unwrap() - edge["issued"].as_u64().unwrap();
    assert_eq!(days, 7 * 24 * 60 * 60, "{certs:#}");
}
