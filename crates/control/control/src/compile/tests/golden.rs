//! The documents of five nodes and of devices.

use super::{documents, tree};

/// Two ingresses, a relay, and two nodes beside the servers.
pub(super) const FIVE: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true, zone: north }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: harbour }
spec: { listen: "0.0.0.0:8443", reach: ["harbour.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: relay }
spec: { listen: "[::]:8443", reach: ["10.0.0.3:8443", "[2001:db8::3]:8443"] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: edge }
spec: { listen: "0.0.0.0:8443", reach: ["10.0.0.4:8443"] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: cliff }
spec:
  listen: "0.0.0.0:8443"
  reach: ["10.0.0.5:8443"]
  listeners:
    stream: { udp: "127.0.0.1:5006", target: "VIDEO:5006", user: camera }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: hub-relay }
spec: { from: hub, to: relay, http: [3, 2] }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: harbour-relay }
spec: { from: harbour, to: relay }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: relay-edge }
spec: { from: relay, to: edge }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: relay-cliff }
spec: { from: relay, to: cliff }
---
apiVersion: hermes/v1
kind: Link
metadata: { name: harbour-cliff }
spec: { from: harbour, to: cliff }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video }
spec:
  at:
    - { node: edge, address: "127.0.0.1:8000", weight: 3 }
    - { node: cliff, address: "127.0.0.1:8000" }
  health: { kind: http, path: /healthz }
  expose: [user]
---
apiVersion: hermes/v1
kind: Service
metadata: { name: db }
spec: { at: [{ node: cliff, address: "10.1.0.7:5432" }], tls: { server_name: db.example.org } }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { name: VIDEO, service: video }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: db }
spec: { name: ["DB:5432", "*.db.example.org"], for: "group:staff", service: db }
---
apiVersion: hermes/v1
kind: Route
metadata: { name: carol }
spec: { match: { target: VIDEO, user: carol }, via: [relay, edge], to: video, retry: { attempts: 2 } }
---
apiVersion: hermes/v1
kind: User
metadata: { name: alice }
spec: { names: [alice@example.org] }
---
apiVersion: hermes/v1
kind: Group
metadata: { name: staff }
spec: { members: [alice, "ops-*"] }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: services }
spec:
  rules:
    - { match: { target: VIDEO, user: "*" }, allow: true }
    - { name: db, match: { target: "DB:5432", user: "group:staff" }, allow: true }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: guests }
spec:
  order: -1
  rules:
    - { match: { user: guest }, deny: { reason: "guests wait outside" } }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: office }
spec:
  at: [hub]
  rules:
    - { match: { source: 192.0.2.0/24, target: VIDEO }, deny: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: tablet }
spec: { user: carol, listeners: { web: { http: "127.0.0.1:3128" } } }
"#;

#[test]
fn five_nodes_have_these_documents() {
    let tree = tree(FIVE);
    let mut all = String::new();
    for (recipient, compiled) in documents(&tree) {
        let document = compiled.document.as_object().unwrap();
        let text = hermes_config::format_as_written(document);
        all.push_str(&format!("# {recipient:?}\n{text}\n"));
    }
    insta::assert_snapshot!(all);
}

#[test]
fn no_part_of_the_documents_is_without_effect() {
    let tree = tree(FIVE);
    for (recipient, compiled) in documents(&tree) {
        let warnings = compiled.prove(&tree).unwrap();
        assert_eq!(warnings.to_string(), "", "{recipient:?}");
    }
}

#[test]
fn an_overlay_of_one_new_node_has_documents() {
    let text = "
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: \"0.0.0.0:8443\", reach: [\"hub.example.org:8443\"], ingress: true }
";
    let documents = documents(&tree(text));
    assert_eq!(documents.len(), 2);
    let hub = documents[0].1.document.as_object().unwrap();
    insta::assert_snapshot!("alone", hermes_config::format_as_written(hub));
}

/// Two nodes that no one can connect to keep connections to the hub.
pub(super) const ATTACHED: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: cabin }
spec: { attach: [hub] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: boat }
spec: { attach: [hub] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video }
spec: { at: [{ node: cabin, address: "127.0.0.1:8000" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { service: video }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: video }
spec: { rules: [{ match: { target: VIDEO, user: alice }, allow: true }] }
"#;

#[test]
fn nodes_that_no_one_can_connect_to_attach_themselves() {
    let tree = tree(ATTACHED);
    let mut all = String::new();
    for (recipient, compiled) in documents(&tree) {
        let document = compiled.document.as_object().unwrap();
        let text = hermes_config::format_as_written(document);
        all.push_str(&format!("# {recipient:?}\n{text}\n"));
        let warnings = compiled.prove(&tree).unwrap();
        assert_eq!(warnings.to_string(), "", "{recipient:?}");
    }
    insta::assert_snapshot!("attached", all);
}
