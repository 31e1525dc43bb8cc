//! Secrets are sealed before a tree has them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hermes_api::{BadSealingKey, MAX_SECRET, Name, PublicSealingKey, SealingKey};
use hermes_config::Problem;
use serde_json::{Value as Json, json};

use super::{Findings, Key, Kind, SecretSpec, Spec, Tree};

/// Makes a fresh key, which seals one box.
pub type FreshKey<'a> = dyn Fn() -> Result<SealingKey, BadSealingKey> + 'a;

/// The boxes of a secret, by its nodes.
pub type Boxes = BTreeMap<Name, String>;

/// The nodes of secrets that have a text, and are not sealed yet.
pub fn unsealed_for(read: &Tree) -> BTreeSet<Name> {
    let secrets = read.of_kind(Kind::Secret);
    let unsealed = secrets.filter_map(|resource| match resource.spec() {
        Spec::Secret(secret) if secret.value.is_some() || secret.file.is_some() => {
            Some(&secret.nodes)
        }
        _ => None,
    });
    unsealed.flatten().cloned().collect()
}

/// Boxes that were made before of the same text for the same keys.
pub type KnownBoxes<'a> = dyn Fn(&Key, &SecretSpec, &str) -> Option<Boxes> + 'a;

/// The means of sealing.
pub struct Sealer<'a> {
    /// The keys of nodes.
    pub keys: &'a BTreeMap<Name, PublicSealingKey>,
    /// A key for each box.
    pub fresh: &'a FreshKey<'a>,
    /// The texts of the files that secrets name.
    pub files: &'a BTreeMap<Key, String>,
    /// Boxes that need not be made again: a secret that has not changed is the same resource.
    pub known: &'a KnownBoxes<'a>,
}

/// A secret whose text was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// The resource.
    pub key: Key,
    /// The text.
    pub text: SecretText,
    /// Its boxes.
    pub boxes: Boxes,
}

/// A text that is not to be seen.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(pub String);

impl fmt::Debug for SecretText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretText")
    }
}

/// Resources without a text in clear.
#[derive(Debug)]
pub struct Sealed {
    /// The resources.
    pub tree: Tree,
    /// The secrets among them that had a text.
    pub secrets: Vec<SealedSecret>,
}

impl Sealer<'_> {
    /// The resources with every secret sealed to the keys of its nodes, and no text in clear.
    ///
    /// # Errors
    /// A node has shown no key yet, a text is too long, or that of a file was not sent along.
    pub fn seal(&self, read: &Tree) -> Result<Sealed, Findings> {
        let mut tree = read.clone();
        let mut secrets = Vec::new();
        let mut findings = Findings::default();
        for resource in read.resources() {
            let Spec::Secret(spec) = resource.spec() else {
                continue;
            };
            let key = resource.key();
            match self.secret(key, spec) {
                Ok(None) => {}
                Ok(Some(secret)) => {
                    let mut whole = resource.to_json().clone();
                    whole["spec"] = json!({ "for": whole["spec"]["for"], "sealed": secret.boxes });
                    findings.extend(replace(read, key, &whole, &mut tree).err());
                    secrets.push(secret);
                }
                Err(problems) => {
                    findings.extend(
                        problems
                            .into_iter()
                            .map(|problem| read.finding(key, problem)),
                    );
                }
            }
        }
        findings.or(Sealed { tree, secrets })
    }

    /// A secret with its text; `None` if it is sealed already.
    fn secret(&self, key: &Key, spec: &SecretSpec) -> Result<Option<SealedSecret>, Vec<Problem>> {
        let text = match (&spec.value, &spec.file) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                let problem = Problem::new("spec.file", "there is a `value`, too");
                return Err(vec![problem.remedy("keep one of them")]);
            }
            (Some(value), None) => value,
            (None, Some(_)) => self.files.get(key).ok_or_else(|| {
                let problem = Problem::new("spec.file", "the text of the file did not come along");
                vec![problem.remedy("use `hermes apply` or `hermes diff`, which read it")]
            })?,
        };
        if text.len() > MAX_SECRET {
            let field = if spec.value.is_some() {
                "spec.value"
            } else {
                "spec.file"
            };
            let reason = format!("the text is longer than {} KiB", MAX_SECRET >> 10);
            return Err(vec![Problem::new(field, reason).remedy("divide it")]);
        }

        let boxes = match (self.known)(key, spec, text) {
            Some(known) => known,
            None => self.boxes(key, spec, text)?,
        };
        Ok(Some(SealedSecret {
            key: key.clone(),
            text: SecretText(text.clone()),
            boxes,
        }))
    }

    fn boxes(&self, key: &Key, spec: &SecretSpec, text: &str) -> Result<Boxes, Vec<Problem>> {
        let mut boxes = Boxes::new();
        let mut problems = Vec::new();
        for (index, node) in spec.nodes.iter().enumerate() {
            let mut tell = |reason: String, remedy: &str| {
                let problem = Problem::new(format!("spec.for[{index}]"), reason);
                problems.push(problem.remedy(remedy));
            };
            let place = format!("{node} {}", key.short());
            let box_of = |key: &PublicSealingKey| key.seal(&place, text, &(self.fresh)()?);
            match self.keys.get(node).map(box_of) {
                Some(Ok(sealed)) => drop(boxes.insert(node.clone(), sealed)),
                Some(Err(error)) => tell(error.to_string(), "join the node anew"),
                None => tell(
                    format!("the node `{node}` has shown no key to seal to"),
                    "let it join and attend first, then apply the secret",
                ),
            }
        }
        match problems.is_empty() {
            true => Ok(boxes),
            false => Err(problems),
        }
    }
}

fn replace(read: &Tree, key: &Key, whole: &Json, sealed: &mut Tree) -> Result<(), super::Finding> {
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

    fn sealed(tree: &Tree, keys: &BTreeMap<Name, PublicSealingKey>) -> Result<Sealed, Findings> {
        let sealer = Sealer {
            keys,
            fresh: &|| SealingKey::of([7; 32]),
            files: &BTreeMap::new(),
            known: &|_, _, _| None,
        };
        sealer.seal(tree)
    }

    #[test]
    fn a_tree_has_the_sealed_form_alone() {
        let source = Source {
            name: Path::new("overlay.yaml"),
            text: TEXT,
        };
        let tree = read(&[source]).unwrap();
        let said = check(&tree).unwrap_err().to_string();
        assert!(said.contains("is not sealed"), "{said}");

        let said = sealed(&tree, &BTreeMap::new()).unwrap_err().to_string();
        assert!(
            said.starts_with("overlay.yaml:10:") && said.contains("has shown no key"),
            "{said}"
        );

        let node = SealingKey::of([1; 32]).unwrap();
        let keys = BTreeMap::from([("hub".parse().unwrap(), node.public())]);
        let sealed = sealed(&tree, &keys).unwrap().tree;
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
