//! One user who asks for much at a policy or at an authorisation server leaves others their turn, and leaves them the
//! policy.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hermes_tests::attacks::costly_policy::{POLICY, ask_until, costly_uri};
use hermes_tests::origins::{Answer, deciding};
use hermes_tests::raw::Raw;
use hermes_tests::{Node, curl};

/// Listeners of two users, and one of strangers.
const LISTENERS: &str = "listeners:\n  \
     alice: { http: 127.0.0.1:0, user: alice }\n  \
     bob: { http: 127.0.0.1:0, user: bob }\n  \
     web: { http: 127.0.0.1:0 }\n";

/// Bob, and a stranger, ask one after the other while Alice asks for as much as she can; no question of theirs fails.
fn others_are_served(node: &Node, flood: &str) {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                ask_until(node.address("alice"), flood, || {
                    ended.load(Ordering::SeqCst)
                })
            });
        }

        let bystanders = ["bob", "web"].map(|listener| {
            scope.spawn(move || {
                let ask = || curl(&["-x", &node.url(listener), "http://site/a"]).status;
                (0..10).map(|_| ask()).collect::<Vec<_>>()
            })
        });
        let statuses = bystanders.map(|asking| asking.join().unwrap());
        ended.store(true, Ordering::SeqCst);
        assert_eq!(statuses, [vec![200; 10], vec![200; 10]]);
    });
}

#[test]
fn at_a_server_that_takes_its_time() {
    let server = deciding(|_| Answer {
        after: Duration::from_millis(250),
        ..Answer::new(200, &[])
    });
    let yaml = format!(
        "{LISTENERS}\
         authorize: [ {{ name: check, upstream: authority, timeout: 3s, concurrency: 32 }} ]\n\
         routes: [ {{ respond: {{ status: 200 }} }} ]\n\
         upstreams: {{ authority: {{ endpoints: [\"{}\"] }} }}\n",
        server.address()
    );
    others_are_served(&Node::start("sap", &yaml), "http://site/flood");
}

#[test]
fn at_a_policy_whose_evaluation_takes_long() {
    let yaml = format!(
        "{LISTENERS}\
         authorize: [ {{ name: check, timeout: 10s, rego: {{ files: policy.rego, query: data.overlay.allow, steps: 1000000 }} }} ]\n\
         routes: [ {{ respond: {{ status: 200 }} }} ]\n"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), POLICY).unwrap();
    let node = Node::start_in(folder, "sap", &yaml, &[]);
    others_are_served(&node, &costly_uri());
}

/// A policy that does with fields of a client as policies do: a size with its unit, words put in place of others, a pattern.
const OF_FIELDS: &str = "package overlay\nimport rego.v1\ndefault allow := false\nf := input.fields\n\
    allow if not f[\"x-case\"]\n\
    allow if { f[\"x-case\"] == \"size\"; units.parse_bytes(f[\"x-a\"]) < 1000 }\n\
    allow if { f[\"x-case\"] == \"words\"; contains(replace(f[\"x-a\"], \"-\", f[\"x-b\"]), \"z\") }\n\
    allow if { f[\"x-case\"] == \"list\"; contains(concat(f[\"x-a\"], split(f[\"x-b\"], \"\")), \"z\") }\n\
    allow if { f[\"x-case\"] == \"glob\"; glob.match(f[\"x-a\"], [\".\"], \"a\") }\n";

#[test]
fn no_field_of_a_client_takes_a_policy_from_others() {
    let yaml = format!(
        "{LISTENERS}\
         authorize: [ {{ name: check, timeout: 10s, rego: {{ files: policy.rego, query: data.overlay.allow }} }} ]\n\
         routes: [ {{ respond: {{ status: 200 }} }} ]\n"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("policy.rego"), OF_FIELDS).unwrap();
    let node = Node::start_in(folder, "sap", &yaml, &[]);

    let size = "1e999999999Gi".to_owned();
    let many = "-".repeat(28_000);
    let nested = format!("{}{}", "{a,".repeat(400), "}".repeat(400));
    for (case, one, other) in [
        ("size", &size, &size),
        ("words", &many, &many),
        ("list", &many, &many),
        ("glob", &nested, &nested),
    ] {
        for _ in 0..4 {
            let fields = format!("x-case: {case}\r\nx-a: {one}\r\nx-b: {other}\r\n");
            let mut raw = Raw::connect(node.address("web"));
            raw.send(format!(
                "GET http://site/ HTTP/1.1\r\nHost: site\r\n{fields}\r\n"
            ));
            assert_eq!(raw.head().status(), 503, "{case}");
        }
        let bob = curl(&["-x", &node.url("bob"), "http://site/a"]);
        assert_eq!(bob.status, 200, "{case}");
    }
}
