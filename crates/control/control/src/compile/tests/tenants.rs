//! Tenants of one overlay: each sees and reaches what is its own.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde_json::{Value as Json, json};

use super::super::{Compiler, SupposedExchange};
use super::overlay::{Fate, Sketch, TARGETS, USERS, adder};
use super::walk::{follow, is_sound, network, seeds};
use super::{DOMAIN, documents, tree};
use crate::resources::{Kind, Tree};

/// Two tenants and the operator on the same nodes.
pub(super) struct Composed {
    nodes: Sketch,
    operator: Sketch,
    tenants: BTreeMap<&'static str, Tenant>,
}

struct Tenant {
    members: Vec<&'static str>,
    sketch: Sketch,
}

impl Composed {
    pub(super) fn random(random: &mut Rng) -> Self {
        let nodes = Sketch::random(random);
        let tenants = ["blue", "red"].map(|name| {
            let members: Vec<_> = USERS.into_iter().filter(|_| random.u8(0..3) > 0).collect();
            let sketch = nodes.renamed(random).of_members(&members);
            (name, Tenant { members, sketch })
        });
        Self {
            operator: nodes.renamed(random),
            nodes,
            tenants: tenants.into(),
        }
    }

    /// The resources of these tenants and of the operator.
    pub(super) fn tree(&self, tenants: &[&str]) -> Tree {
        let mut tree = Tree::default();
        self.nodes.add_nodes(tenants, &mut tree);
        self.operator.add_others("default", &mut tree);
        for name in tenants {
            let tenant = &self.tenants[name];
            let spec = json!({ "members": tenant.members });
            adder("default", &mut tree)(Kind::Tenant, (*name).to_owned(), spec);
            tenant.sketch.add_others(name, &mut tree);
        }
        tree
    }

    /// What becomes of a request where these tenants are, by their resources alone.
    fn fate(&self, tenants: &[&str], user: &str, target: &str) -> Result<String, ()> {
        let own = |name: &&&str| self.tenants[**name].members.contains(&user);
        let of = |tenant: &str, fate: Fate| match fate {
            Fate::Refused => Err(()),
            Fate::Reaches(service) if tenant.is_empty() => Ok(format!("service-s{service}")),
            Fate::Reaches(service) => Ok(format!("{tenant}.service-s{service}")),
        };
        if let Some((plain, tenant)) = target.split_once('.') {
            let is_known = tenants.contains(&tenant) && own(&&tenant);
            let sketch = &self.tenants[tenant].sketch;
            return match is_known && sketch.knows(plain) {
                true => of(tenant, sketch.fate(user, plain)),
                false => Err(()),
            };
        }
        let owners: Vec<&&str> = tenants
            .iter()
            .filter(own)
            .filter(|name| self.tenants[**name].sketch.knows(target))
            .collect();
        match owners.as_slice() {
            [] => of("", self.operator.fate(user, target)),
            [only] => of(only, self.tenants[**only].sketch.fate(user, target)),
            _ => Err(()),
        }
    }
}

/// A random composition of which nodes would take all documents.
fn composed(random: &mut Rng) -> Composed {
    loop {
        let composed = Composed::random(random);
        let all: [&[&str]; 3] = [&["blue", "red"], &["red"], &["blue"]];
        let is_sound = |tenants: &&[&str]| {
            let tree = composed.tree(tenants);
            Compiler::new(&tree, DOMAIN).is_ok_and(|compiler| is_sound(&compiler, &tree))
        };
        if all.iter().all(is_sound) {
            return composed;
        }
    }
}

#[test]
fn users_reach_what_is_their_tenants_with_and_without_other_tenants() {
    let targets: Vec<String> = TARGETS
        .into_iter()
        .flat_map(|target| ["", ".red", ".blue"].map(|tenant| format!("{target}{tenant}")))
        .collect();
    let mut counts = BTreeMap::new();
    for seed in seeds() {
        let composed = composed(&mut Rng::with_seed(seed));
        for tenants in [&["blue", "red"][..], &["red"], &["blue"]] {
            let documents = documents(&composed.tree(tenants));
            let network = network(&documents);
            let ingresses = composed.nodes.nodes.iter().enumerate();
            let ingresses = ingresses.filter(|(_, node)| node.ingress);
            for (ingress, _) in ingresses {
                for (user, target) in USERS
                    .iter()
                    .flat_map(|user| targets.iter().map(move |target| (user, target)))
                {
                    let exchange = SupposedExchange::get(user, target);
                    let end = follow(&network, &format!("n{ingress}"), exchange);
                    let said =
                        format!("seed {seed}, {tenants:?}: {user} {target} at n{ingress}: {end:?}");
                    match composed.fate(tenants, user, target) {
                        Ok(service) => {
                            let end = end.unwrap_or_else(|_| panic!("{said}, not {service}"));
                            assert_eq!(end.keys().collect::<Vec<_>>(), [&service], "{said}");
                            let kind = service.split_once('.').map(|(tenant, _)| tenant.to_owned());
                            *counts.entry(kind).or_insert(0) += 1;
                        }
                        Err(()) => assert!(
                            end.is_err_and(|refusal| refusal.starts_with("0 ")),
                            "{said}"
                        ),
                    }
                }
            }
        }
    }
    // None: a service of the operator.
    for kind in [None, Some("red".to_owned()), Some("blue".to_owned())] {
        assert!(
            counts.get(&kind).is_some_and(|count| *count > 50),
            "{counts:?}"
        );
    }
}

/// Two tenants with a name VIDEO each, on a hub of the operator and a node of one of them.
const TWO: &str = r#"
apiVersion: hermes/v1
kind: Tenant
metadata: { name: red }
spec: { members: [alice, carol] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true, tenants: [red, blue] }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: barn, tenant: red }
spec: { attach: [hub] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video, tenant: red }
spec: { at: [{ node: barn, address: "127.0.0.1:8000" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video, tenant: red }
spec: { name: VIDEO, service: video }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: all, tenant: red }
spec: { rules: [{ match: { user: "*" }, allow: true }] }
---
"#;

/// A second tenant, of which carol is a member, too.
const BLUE: &str = r#"
apiVersion: hermes/v1
kind: Tenant
metadata: { name: blue }
spec: { members: [bob, carol] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: video, tenant: blue }
spec: { at: [{ node: hub, address: "127.0.0.1:9000" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: video, tenant: blue }
spec: { name: VIDEO, service: video }
---
apiVersion: hermes/v1
kind: Group
metadata: { name: staff, tenant: blue }
spec: { members: ["*"] }
---
apiVersion: hermes/v1
kind: Policy
metadata: { name: staff, tenant: blue }
spec: { rules: [{ match: { user: "group:staff" }, allow: true }] }
"#;

fn of_node(text: &str, node: &str) -> Json {
    let found = documents(&tree(text))
        .into_iter()
        .find(|(_, compiled)| compiled.document["node"] == node);
    found.unwrap().1.document
}

#[test]
fn two_tenants_share_a_node_and_no_name() {
    let both = of_node(&format!("{TWO}{BLUE}"), "hub");
    insta::assert_snapshot!(
        "two_tenants",
        hermes_config::format_as_written(both.as_object().unwrap())
    );

    // What the other one has changes nothing at a node of this one.
    let alone = TWO.replace(", blue]", "]");
    assert_eq!(
        of_node(&format!("{TWO}{BLUE}"), "barn"),
        of_node(&alone, "barn")
    );
}

/// The mistakes of two tenants and some more resources.
fn said(more: &str) -> Vec<String> {
    let tree = tree(&format!("{TWO}{BLUE}---\n{more}"));
    let findings = Compiler::new(&tree, DOMAIN).err().unwrap_or_default();
    findings.0.iter().map(ToString::to_string).collect()
}

#[test]
fn a_tenant_uses_nothing_of_others() {
    let found = said(
        r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: office }
spec: { listen: "0.0.0.0:8443", reach: ["10.0.0.9:8443"] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: stolen, tenant: blue }
spec: { at: [{ node: barn, address: "127.0.0.1:1" }, { node: office, address: "127.0.0.1:1" }] }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: stolen, tenant: blue }
spec: { name: [VIDEO.red, "~v"], for: [alice, "group:red"], service: video }
---
apiVersion: hermes/v1
kind: Node
metadata: { name: barn, tenant: blue }
spec: { listen: "0.0.0.0:8443", reach: ["10.0.0.8:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: User
metadata: { name: bob, tenant: blue }
spec: { names: [alice] }
---
apiVersion: hermes/v1
kind: Group
metadata: { name: all, tenant: green }
spec: { members: [bob] }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: far }
spec: { at: [{ node: barn, address: "127.0.0.1:1" }] }
"#,
    );
    insta::assert_snapshot!("strangers", found.join("\n"));
}

#[test]
fn a_tenants_node_speaks_for_no_user_of_another_tenant() {
    let gate = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: gate, tenant: red }
spec: { listeners: { web: { http: "127.0.0.1:8080", user: alice } } }
---
apiVersion: hermes/v1
kind: Name
metadata: { name: shared, tenant: red }
spec: { service: shared }
---
apiVersion: hermes/v1
kind: Service
metadata: { name: shared, tenant: red }
spec: { at: [{ node: hub, address: "127.0.0.1:1" }] }
"#;
    let hub = of_node(&format!("{TWO}{BLUE}---\n{gate}"), "hub");
    assert_eq!(hub["peers"]["node-gate"]["speaks_for"], json!(["alice"]));
}
