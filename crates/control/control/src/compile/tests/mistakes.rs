//! Mistakes in documents are told as mistakes in resources.

use super::super::Compiler;
use super::{DOMAIN, tree};

const HUB: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video }
spec: { at: [{ node: hub, address: "127.0.0.1:8000" }] }
---
"#;

/// Everything that is wrong with the hub and some more resources, from line 11 on.
fn said(more: &str) -> Vec<String> {
    let tree = tree(&format!("{HUB}{more}"));
    let compiler = match Compiler::new(&tree, DOMAIN) {
        Ok(compiler) => compiler,
        Err(findings) => return findings.0.iter().map(ToString::to_string).collect(),
    };
    let recipients = compiler.recipients().into_iter();
    let found = recipients
        .filter_map(|recipient| compiler.document(&recipient).unwrap().prove(&tree).err());
    found
        .flat_map(|findings| findings.0)
        .map(|finding| finding.to_string())
        .collect()
}

#[test]
fn a_mistake_in_a_document_has_its_resource_field_and_line() {
    let found = said(
        "
apiVersion: hermes/v1
kind: Policy
metadata: { name: p }
spec:
  rules:
    - { match: { user: alice }, allow: true }
    - { match: { target: VIDEO, user: alice }, deny: true }
    - match: { user: bob }
      allow: false
---
apiVersion: hermes/v1
kind: Node
metadata: { name: tablet }
spec:
  user: alice
  listeners:
    web: { http: \"127.0.0.1:3128\", target: \"VIDEO:80\" }
    sock: { tcp: \"127.0.0.1:1080\", target: \"VIDEO:80\", user: \"${WHO}\" }
    open: { http: \"0.0.0.0:80\" }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video }
spec: { service: video }
---
apiVersion: hermes/v1
kind: User
metadata: { name: alice }
spec: { names: [bob, bob] }
",
    );
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn routes_that_lead_nowhere_or_in_a_circle_are_refused() {
    let node = |name: &str| {
        format!(
            "apiVersion: hermes/v1\nkind: Node\nmetadata: {{ name: {name} }}\nspec: {{ listen: \"0.0.0.0:1\", reach: [\"{name}:1\"] }}\n---\n"
        )
    };
    let link = |from: &str, to: &str| {
        format!(
            "apiVersion: hermes/v1\nkind: Link\nmetadata: {{ name: {from}-{to} }}\nspec: {{ from: {from}, to: {to} }}\n---\n"
        )
    };
    let route = |name: &str, via: &str| {
        format!(
            "apiVersion: hermes/v1\nkind: Route\nmetadata: {{ name: {name} }}\nspec: {{ match: {{ user: {name} }}, via: [{via}], to: video }}\n---\n"
        )
    };
    let text = [
        node("a"),
        node("b"),
        node("c"),
        link("hub", "a"),
        link("a", "b"),
        link("b", "a"),
        link("a", "hub"),
        route("circle", "b"),
        route("lost", "c"),
        route("deep", "a, hub"),
    ];
    insta::assert_snapshot!(said(&text.concat()).join("\n"));
}

#[test]
fn two_policies_may_allow_the_same_and_one_may_not_hide_a_denial() {
    let policy = |name: &str, verb: &str, user: &str| {
        format!(
            "apiVersion: hermes/v1\nkind: Policy\nmetadata: {{ name: {name} }}\nspec: {{ rules: [{{ match: {{ target: VIDEO, user: {user} }}, {verb}: true }}] }}\n---\n"
        )
    };
    let name = "apiVersion: hermes/v1\nkind: Name\nmetadata: { name: video }\nspec: { service: video }\n---\n";
    let all = policy("a", "allow", "\"*\"");
    assert_eq!(
        said(&format!("{name}{all}{}", policy("b", "allow", "alice"))),
        [""; 0]
    );
    let found = said(&format!("{name}{all}{}", policy("b", "deny", "alice")));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("Policy/default/b: spec.rules[0]: the rule can never match"),
        "{found:?}"
    );
}
