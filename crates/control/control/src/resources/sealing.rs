//! Secrets are sealed before a tree has them.

use std::collections::BTreeMap;

use hermes_api::{BadSealingKey, MAX_SECRET, Name, PublicSealingKey, SealingKey};
use hermes_config::Problem;
use serde_json::{Value as Json, json};

use super::{Findings, Spec, Tree};

/// Makes a fresh key, which seals one box.
pub type FreshKey<'a> = dyn Fn() -> Result<SealingKey, BadSealingKey> + 'a;

/// The resources with every secret sealed to the keys of its nodes, and no text in clear.
///
/// # Errors
/// A node has shown no key yet, or a text is too long.
pub fn seal(
    read: &Tree,
    keys: &BTreeMap<Name, PublicSealingKey>,
    fresh: &FreshKey<'_>,
) -> Result<Tree, Findings> {
    let mut sealed = read.clone();
    let mut findings = Findings::default();
    for resource in read.resources() {
        let Spec::Secret(secret) = resource.spec() else {
            continue;
        };
        let Some(value) = &secret.value else { continue };
        let key = resource.key();
        let mut tell = |field: &str, reason: String, remedy: &str| {
            findings.extend([read.finding(key, Problem::new(field, reason).remedy(remedy))]);
        };
        if value.len() > MAX_SECRET {
            let reason = format!("the text is longer than {} KiB", MAX_SECRET >> 10);
            tell("spec.value", reason, "divide it");
            continue;
        }

        let mut boxes: BTreeMap<&str, String> = BTreeMap::new();
        for (index, node) in secret.nodes.iter().enumerate() {
            let place = format!("{node} {}", key.short());
            let box_of = |key: &PublicSealingKey| key.seal(&place, value, &fresh()?);
            match keys.get(node).map(box_of) {
                Some(Ok(sealed)) => drop(boxes.insert(node.as_str(), sealed)),
                Some(Err(error)) => tell(
                    &format!("spec.for[{index}]"),
                    error.to_string(),
                    "join the node anew",
                ),
                None => {
                    let reason = format!("the node `{node}` has shown no key to seal to");
                    let remedy = "let it join and attend first, then apply the secret";
                    tell(&format!("spec.for[{index}]"), reason, remedy);
                }
            }
        }
        let mut whole = resource.to_json().clone();
        whole["spec"] = json!({ "for": whole["spec"]["for"], "sealed": boxes });
        match replaced(read, key, &whole, &mut sealed) {
            Ok(()) => {}
            Err(found) => findings.extend([found]),
        }
    }
    findings.or(sealed)
}

fn replaced(
    read: &Tree,
    key: &super::Key,
    whole: &Json,
    sealed: &mut Tree,
) -> Result<(), super::Finding> {
    let resource = super::Resource::from_json(whole)?;
    let origin = read.origin(key).cloned();
    // It takes the place of one that is there.
    sealed
        .insert(resource, origin)
        .map_err(|full| Problem::new("", full.to_string()).into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::resources::{Source, check, format, read};

    const TEXT: &str = r#"
apiVersion: hermes/v1
kind: Node
metadata: { name: hub }
spec: { listen: "0.0.0.0:8443", reach: ["hub.example.org:8443"], ingress: true }
---
apiVersion: hermes/v1
kind: Secret
metadata: { name: web }
spec: { for: [hub], value: "a password" }
"#;

    #[test]
    fn a_tree_has_the_sealed_form_alone() {
        let source = Source {
            name: Path::new("overlay.yaml"),
            text: TEXT,
        };
        let tree = read(&[source]).unwrap();
        let said = check(&tree).unwrap_err().to_string();
        assert!(said.contains("is not sealed"), "{said}");

        let fresh = || SealingKey::of([7; 32]);
        let said = seal(&tree, &BTreeMap::new(), &fresh)
            .unwrap_err()
            .to_string();
        assert!(
            said.starts_with("overlay.yaml:10:") && said.contains("has shown no key"),
            "{said}"
        );

        let node = SealingKey::of([1; 32]).unwrap();
        let keys = BTreeMap::from([("hub".parse().unwrap(), node.public())]);
        let sealed = seal(&tree, &keys, &fresh).unwrap();
        check(&sealed).unwrap();
        let text = format(sealed.resources());
        assert!(!text.contains("a password"), "{text}");
        let secret = sealed
            .resources()
            .find_map(|resource| match resource.spec() {
                Spec::Secret(secret) => Some(secret.clone()),
                _ => None,
            });
        let secret = secret.unwrap();
        let (_, boxed) = secret.sealed.first_key_value().unwrap();
        assert_eq!(node.open("hub web", boxed).unwrap(), "a password");
        assert!(!format!("{:?}", tree).contains("SecretSpec { nodes: [Name(\"hub\")], value"));
    }
}
