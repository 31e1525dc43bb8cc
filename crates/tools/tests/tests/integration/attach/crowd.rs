//! Many nodes at once.

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, Pki, curl, origins};

use super::overlay::core;

/// Processes, and names under which each attaches.
const PROCESSES: usize = 10;
const NAMES: usize = 10;

#[test]
fn a_hundred_nodes_are_attached_and_each_gets_what_is_for_it() {
    let pki = Pki::new();
    let routes =
        "routes:\n  - { match: { protocol: ptth }, attach: \"~^n[0-9]+$\" }\n  - { to: users }\n";
    let core = Node::start("core", &core(&pki, routes));
    let issued = pki.issue(&["alice.overlay"]).yaml();
    let site = origins::http();
    let nodes: Vec<Node> = (0..PROCESSES)
        .map(|process| {
            let names = process * NAMES..(process + 1) * NAMES;
            let listeners: String =
                names.clone().map(|name| format!("  l{name}: {{ attach: {{ to: core, as: n{name} }} }}\n")).collect();
            let routes: String = names
                .map(|name| format!("  - {{ match: {{ listener: l{name} }}, set: {{ x-node: n{name} }}, terminate: site }}\n"))
                .collect();
            let (address, ca) = (core.address("overlay"), pki.ca());
            let file = format!(
                "workers: 1\nidentity: {{ user: alice }}\nlisteners:\n{listeners}routes:\n{routes}upstreams:\n  site: {{ endpoints: [\"{}\"] }}\n  \
                 core: {{ endpoints: [\"{address}\"], http: 2, tls: {{ ca_file: {}, {issued}, server_name: core.overlay }} }}\n",
                site.address(),
                ca.display()
            );
            Node::start(&format!("node{process}"), &file)
        })
        .collect();
    let count = PROCESSES * NAMES;
    eventually_true("all are attached", || {
        core.status()["attached"].as_array().unwrap().len() == 2 * count
    });
    let proxy = core.url("web");
    let askers: Vec<_> = (0..count)
        .map(|name| {
            let proxy = proxy.clone();
            std::thread::spawn(move || {
                let answer = curl(&["-x", &proxy, &format!("http://n{name}/")]);
                assert_eq!(answer.status, 200, "{answer:?}");
                let node = format!("n{name}");
                assert!(answer.text().contains(&node), "{answer:?}");
            })
        })
        .collect();
    askers.into_iter().for_each(|asker| asker.join().unwrap());
    assert!(
        core.metrics()
            .contains(&format!("\nhermes_attached {}\n", 2 * count))
    );
    drop(nodes);
    eventually_true("none is", || {
        core.status()["attached"].as_array().unwrap().is_empty()
    });
    core.idle();
}
