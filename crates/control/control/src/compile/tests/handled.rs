//! Services that nodes answer themselves, and the settings of their parts.

use super::super::{Compiled, Compiler, Network, Recipient, SupposedExchange, Walk, between};
use super::{DOMAIN, documents, tree};
use crate::resources::Tree;

/// An ingress and a relay behind it.
const RELAY: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: yard }
spec:
  listen: "0.0.0.0:8443"
  reach: ["10.0.0.2:8443"]
  plugs: { relay: { key_file: "${secret:relay}" } }
---
apiVersion: hermes/v1
kind: Secret
metadata: { name: relay }
spec: { for: [yard], sealed: { yard: BOX } }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: chat }
spec: { handle: { relay: { queue: 1MiB } }, at: [{ node: yard }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: chat }
spec: { name: CHAT, service: chat }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: chat }
spec: { rules: [{ match: { target: CHAT, user: "*" }, allow: true }] }
"#;

#[test]
fn a_service_of_nodes_is_a_part_of_theirs_and_its_paths_are_hidden_on_the_way() {
    let tree = tree(RELAY);
    let documents = documents(&tree);
    let of = |name: &str| {
        let recipient = Recipient::Node(name.parse().unwrap());
        let mut found = documents.iter().filter(|(known, _)| *known == recipient);
        &found.next().unwrap().1.document
    };
    let [hub, yard] = ["hub", "yard"].map(|name| &of(name)["routes"][0]);
    assert_eq!(hub["to"], "to-yard");
    assert_eq!(hub["hide_path"], true);
    assert_eq!(yard["handle"]["relay"]["queue"], "1MiB");
    assert!(yard.get("terminate").is_none() && yard.get("to").is_none());
    assert!(of("yard").get("upstreams").is_none());
    assert_eq!(
        of("yard")["plugs"]["relay"]["key_file"],
        "${HERMES_SECRETS}/relay"
    );
    assert!(of("hub").get("plugs").is_none());

    let all = documents
        .iter()
        .map(|(recipient, compiled)| (recipient, &compiled.document));
    let network = Network::new(DOMAIN, all);
    let walk: Walk = network.walk(
        &"hub".parse().unwrap(),
        SupposedExchange::get("alice", "CHAT"),
    );
    let ends = walk.ends().unwrap();
    assert_eq!(ends.into_iter().collect::<Vec<_>>(), [("relay", 1)]);
}

fn of(tree: &Tree, node: &str) -> Compiled {
    let compiler = Compiler::new(tree, DOMAIN).unwrap();
    let recipient = Recipient::Node(node.parse().unwrap());
    compiler.document(&recipient).unwrap()
}

#[test]
fn a_server_that_becomes_a_part_of_its_node_changes_the_nodes_before_it_and_is_there_in_each_stage()
{
    let [server, relay] = [
        RELAY
            .replace(
                "{ handle: { relay: { queue: 1MiB } }, at: [{ node: yard }] }",
                "{ at: [{ node: yard, address: '127.0.0.1:1' }] }",
            )
            .replace(
                "  plugs: { relay: { key_file: \"${secret:relay}\" } }\n",
                "",
            ),
        RELAY.to_owned(),
    ]
    .map(|text| tree(&text));
    let changed = server.differing(&relay);
    let compiler = Compiler::new(&relay, DOMAIN).unwrap();
    let touched = compiler.touched(&server, &changed);
    for node in ["hub", "yard"] {
        let recipient = Recipient::Node(node.parse().unwrap());
        assert!(
            touched.concerns(&recipient, &of(&server, node).reads),
            "{node}"
        );
    }
    assert!(
        of(&server, "hub").document["routes"][0]
            .get("hide_path")
            .is_none()
    );

    // Before the hub knows of it, and after.
    let stages = [
        between(&of(&relay, "yard"), &of(&server, "yard")),
        between(&of(&server, "yard"), &of(&relay, "yard")),
    ];
    for stage in stages {
        stage.prove(&relay).unwrap();
        assert!(
            stage.document["routes"]
                .as_array()
                .is_some_and(|routes| !routes.is_empty())
        );
    }
}
