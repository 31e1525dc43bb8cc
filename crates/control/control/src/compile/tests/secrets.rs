//! Secrets in documents: each node gets its own, under the names of files.

use std::collections::BTreeMap;

use super::super::{Compiled, Compiler, Read, Recipient};
use super::{DOMAIN, tree};
use crate::resources::{Findings, Kind, Resource, Tree};

/// Two nodes, of which one has a secret.
const SECRETS: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec:
  listen: "0.0.0.0:8443"
  reach: ["hub.example.org:8443"]
  ingress: true
  listeners:
    web: { http: "127.0.0.1:443", tls: { cert_file: "${secret:web}", key_file: "${secret:web}" }, user: guest }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: yard }
spec: { listen: "0.0.0.0:8443", reach: ["10.0.0.2:8443"] }
---
apiVersion: hermes/v1
kind: Secret
metadata: { name: web }
spec: { for: [hub], sealed: { hub: BOX, yard: OTHER } }
"#;

fn of(tree: &Tree, node: &str) -> Result<Compiled, Findings> {
    let compiler = Compiler::new(tree, DOMAIN)?;
    compiler.document(&Recipient::Node(node.parse().unwrap()))
}

#[test]
fn a_node_gets_its_own_secrets_alone() {
    let tree = tree(SECRETS);
    let hub = of(&tree, "hub").unwrap();
    hub.prove(&tree).unwrap();
    let listener = &hub.document["listeners"]["web"];
    assert_eq!(listener["tls"]["key_file"], "${HERMES_SECRETS}/web");
    assert_eq!(
        hub.secrets,
        BTreeMap::from([("web".to_owned(), "BOX".to_owned())])
    );

    let secret = tree.of_kind(Kind::Secret).next().unwrap();
    let has_read = |compiled: &Compiled| {
        let read = Read::Resource(secret.key().clone());
        compiled.reads.any_of(&[read].into())
    };
    assert!(has_read(&hub));
    let yard = of(&tree, "yard").unwrap();
    assert!(yard.secrets.is_empty() && !has_read(&yard));
    assert!(!yard.document.to_string().contains("OTHER"));
}

#[test]
fn a_secret_that_a_node_cannot_open_is_told_where_it_is_named() {
    let said = |text: &str| of(&tree(text), "hub").unwrap_err().to_string();
    let unsealed = said(&SECRETS.replace("hub: BOX, ", ""));
    assert!(
        unsealed.starts_with("overlay.yaml:10:")
            && unsealed.contains("Secret/default/web is not sealed to the node `hub`"),
        "{unsealed}"
    );
    let unknown = said(&SECRETS.replace("${secret:web}", "${secret:wbe}"));
    assert!(
        unknown.contains("there is no Secret/default/wbe"),
        "{unknown}"
    );

    // A tenant's resource means secrets of its own.
    let resource = |text: &str| Resource::from_json(&serde_json::from_str(text).unwrap()).unwrap();
    let mut tenants = tree(SECRETS);
    for text in [
        r#"{ "apiVersion": "hermes/v1", "kind": "Tenant", "metadata": { "name": "red" }, "spec": { "members": ["alice"] } }"#,
        r#"{ "apiVersion": "hermes/v1", "kind": "Node", "metadata": { "name": "barn", "tenant": "red" },
             "spec": { "listeners": { "web": { "http": "127.0.0.1:80", "user": "${secret:web}" } } } }"#,
    ] {
        tenants.insert(resource(text), None).unwrap();
    }
    let said = of(&tenants, "barn").unwrap_err().to_string();
    assert!(said.contains("there is no Secret/red/web"), "{said}");
}
