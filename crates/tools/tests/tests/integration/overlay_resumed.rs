//! A change that is under way when its controller dies: the next one goes on with it in waves.

use std::net::SocketAddr;

use hermes_harness::eventually::{eventually, eventually_true};
use hermes_harness::free;
use hermes_harness::overlay::{Hub, Joined};
use hermes_harness::resources::Resources;
use serde_json::Value;

/// Nodes of one class, the first of which tries changes for the others.
const NODES: [&str; 3] = ["a", "b", "c"];

/// Three nodes, each with an end of the service, and these names. Who tries a change is looked at for a while.
fn overlay(places: [SocketAddr; 3], names: &[&str]) -> String {
    let server = "127.0.0.1:9".parse().unwrap();
    let mut resources = Resources::new().with("Overlay", "hermes", "{ rollout: { bake: 8s } }");
    for (node, listen) in NODES.into_iter().zip(places) {
        resources = resources.ingress(node, listen);
    }
    resources = resources.service("s", &NODES.map(|node| (node, server)));
    for name in names {
        resources = resources.name(name, "s");
    }
    resources.allow("all", "user: alice").text()
}

/// Whether the document that a node has in force knows a name.
fn knows(node: &Joined, name: &str) -> bool {
    let read = |path: &str| std::fs::read_to_string(node.state().join(path)).ok();
    let known = || {
        let current: Value = serde_json::from_str(&read("current.json")?).ok()?;
        let statement: Value = serde_json::from_str(current["statement"].as_str()?).ok()?;
        let hash = statement["parts"]["document.json"].as_str()?;
        Some(
            read(&format!("parts/{hash}"))?
                .to_lowercase()
                .contains(name),
        )
    };
    known().unwrap_or(false)
}

#[test]
fn a_change_whose_controller_dies_goes_on_at_the_node_that_tries_it() {
    let mut controller = Hub::controller();
    let places = [free::tcp(), free::tcp(), free::tcp()];
    controller.apply(&overlay(places, &["FIRST"]), &["--now"]);
    let nodes = NODES.map(|node| controller.member(node));
    let knows_second = |node: &Joined| knows(node, "second");
    assert!(!nodes.iter().any(knows_second));

    let mut applying = controller.begin_apply(&overlay(places, &["FIRST", "SECOND"]), &[]);
    eventually_true("the first node has the change", || knows_second(&nodes[0]));
    controller.kill();
    applying.wait().unwrap();
    controller.run();

    // They come back, and each keeps the state that it has until its turn comes.
    for name in ["b", "c"] {
        let waits = |node: &Value| node["attends"] == true && node["state"] == "waits";
        eventually("a node waits for its turn", || {
            controller.node(name).filter(waits)
        });
    }
    let looked_at = eventually("the first node is looked at again", || {
        let status = controller.ask(&["status", "--overlay"])?;
        let spreading = status["spreading"].clone();
        (spreading["nodes"][0] == "a").then_some(spreading)
    });
    let known = nodes.each_ref().map(knows_second);
    assert_eq!(known, [true, false, false], "{looked_at}");
    // Another change waits for its end, and follows.
    let names = ["FIRST", "SECOND", "THIRD"];
    let mut next = controller.begin_apply(&overlay(places, &names), &["--now"]);
    eventually_true("all have it", || nodes.iter().all(knows_second));
    assert!(next.wait().unwrap().success());
    NODES.iter().for_each(|name| controller.await_step(name));
    assert!(nodes.iter().all(|node| knows(node, "third")));
}
