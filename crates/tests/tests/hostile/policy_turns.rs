//! One user who asks for much at a policy or at an authorisation server leaves others their turn.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hermes_tests::attacks::costly_policy::{POLICY, ask_until, costly_uri};
use hermes_tests::origins::{Answer, deciding};
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
