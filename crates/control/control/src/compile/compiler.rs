//! Trees become documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hermes_api::{Hash, MAX_BLOB, Name, canonical};
use hermes_config::Problem;
use serde_json::Value as Json;

use super::draft::Draft;
use super::plan::Plan;
use super::proof::prove;
use super::reads::touched;
use super::secrets::SecretsOf;
use super::{Read, Reads, SourceMap, device, proxy};
use crate::resources::{Findings, Key, Kind, Tree, check};

/// Whom a document is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recipient {
    /// A node with a resource.
    Node(Name),
    /// Every device of a user that has none.
    Devices,
}

impl Recipient {
    /// The recipient of a member of this name, which is a user's device or not.
    pub fn of(tree: &Tree, name: &Name, is_device: bool) -> Self {
        match tree.node(name) {
            None if is_device => Self::Devices,
            // A name that a device and a proxy have is the proxy's: the device gets what all devices get.
            Some(node) if is_device && !node.is_device() => Self::Devices,
            _ => Self::Node(name.clone()),
        }
    }
}

impl fmt::Display for Recipient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => name.fmt(out),
            Self::Devices => out.write_str("devices"),
        }
    }
}

/// The document of a node, and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// The document, with variables; its blob is the canonical JSON.
    pub document: Json,
    /// The resource and field that each part comes from.
    pub places: SourceMap,
    /// The resources that it depends on.
    pub reads: Reads,
    /// Secrets that it names, each sealed to the node, by the names of their files.
    pub secrets: BTreeMap<String, String>,
    /// Nodes to which this one sends have a smaller rank where that is possible; devices have the greatest one. Receivers have to know
    /// of an addition before senders.
    pub rank: u32,
}

impl Compiled {
    /// The document's blob.
    pub fn blob(&self) -> Vec<u8> {
        canonical(&self.document)
    }

    /// The name of its blob.
    pub fn hash(&self) -> Hash {
        Hash::of(&self.blob())
    }

    /// Judges the document as a node would; returns warnings about parts without effect.
    ///
    /// # Errors
    /// A node would refuse it: with resource, field, file and line.
    pub fn prove(&self, tree: &Tree) -> Result<Findings, Findings> {
        let mut proof = prove(&self.document);
        let size = self.blob().len();
        if size > MAX_BLOB {
            let reason = format!(
                "the node's document has {size} bytes, more than {} MiB",
                MAX_BLOB >> 20
            );
            let remedy = "let fewer names lead through the node";
            proof.mistakes.push(Problem::new("", reason).remedy(remedy));
        }
        let found = |problems: Vec<Problem>| {
            let findings = problems.into_iter();
            Findings(
                findings
                    .map(|problem| self.places.finding(tree, problem))
                    .collect(),
            )
        };
        found(proof.mistakes).or(found(proof.warnings))
    }
}

/// The parts of a tree that a change touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    parts: BTreeSet<Read>,
    /// Nodes that resources lead through which are others by now.
    nodes: BTreeSet<Name>,
}

impl Touched {
    /// Whether a document that has read these parts may be another one after the change.
    pub fn concerns(&self, recipient: &Recipient, reads: &Reads) -> bool {
        let is_led_through =
            matches!(recipient, Recipient::Node(node) if self.nodes.contains(node));
        is_led_through || reads.any_of(&self.parts)
    }
}

/// A tree that was checked, ready to make documents.
pub struct Compiler<'t>(Plan<'t>);

impl<'t> Compiler<'t> {
    /// Checks a tree as a whole; `domain` is the trust domain of an overlay that names none.
    ///
    /// # Errors
    /// Everything that does not fit together.
    pub fn new(tree: &'t Tree, domain: &str) -> Result<Self, Findings> {
        check(tree)?;
        let own = tree
            .overlay()
            .and_then(|(_, overlay)| overlay.trust_domain.clone());
        let domain = own.unwrap_or_else(|| domain.to_owned());
        Plan::new(tree, domain).map(Self)
    }

    /// All that a document can be made for, in their order: nodes with a resource, and devices where they can enter.
    pub fn recipients(&self) -> BTreeSet<Recipient> {
        let nodes = self.0.tree.of_kind(Kind::Node);
        let mut recipients: BTreeSet<_> = nodes
            .map(|resource| Recipient::Node(resource.key().name.clone()))
            .collect();
        if self.0.graph.nodes().any(|(_, node)| node.ingress) {
            recipients.insert(Recipient::Devices);
        }
        recipients
    }

    /// The [rank](Compiled::rank) of a document. It depends on the ways of all, which no document says of itself.
    pub fn rank(&self, recipient: &Recipient) -> u32 {
        match recipient {
            Recipient::Node(name) if self.0.graph.node(name).is_some() => self.0.rank(name),
            _ => u32::MAX,
        }
    }

    /// The parts of the tree by which it differs from an earlier one, in these resources.
    pub fn touched(&self, before: &Tree, changed: &[Key]) -> Touched {
        let mut all = Touched::default();
        for key in changed {
            touched(
                before.resource(key),
                self.0.tree.resource(key),
                &mut all.parts,
            );
            // A service with the same nodes leads nowhere else.
            if key.kind != Kind::Service || all.parts.contains(&Read::Ends(key.clone())) {
                self.0.led_through(key, &mut all.nodes);
            }
        }
        all
    }

    /// Makes a document.
    ///
    /// # Errors
    /// There is no such node, or devices cannot enter the overlay.
    pub fn document(&self, recipient: &Recipient) -> Result<Compiled, Findings> {
        let plan = &self.0;
        let of_device =
            |own| device::document(plan, own).map_err(|finding| Findings(vec![finding]));
        match recipient {
            Recipient::Devices => Ok(compiled(of_device(None)?, u32::MAX)),
            Recipient::Node(name) => {
                let node = plan.tree.node(name).ok_or_else(|| unknown(name))?;
                let draft = match node.is_device() {
                    true => of_device(Some((name, node)))?,
                    false => proxy::document(plan, name, node),
                };
                let compiled = compiled(draft, self.rank(recipient));
                with_secrets(plan.tree, name, compiled)
            }
        }
    }
}

fn unknown(name: &Name) -> Findings {
    let problem = Problem::new("", format!("there is no node `{name}`"));
    Findings(vec![problem.into()])
}

/// A document with paths in place of references to secrets.
fn with_secrets(tree: &Tree, node: &Name, mut compiled: Compiled) -> Result<Compiled, Findings> {
    let secrets = SecretsOf::resolve(tree, node, &compiled.places, &mut compiled.document)?;
    let SecretsOf { boxes, keys, .. } = secrets;
    compiled.secrets = boxes;
    keys.iter().for_each(|key| compiled.reads.resource(key));
    Ok(compiled)
}

fn compiled(mut draft: Draft, rank: u32) -> Compiled {
    let reads = std::mem::take(&mut draft.reads);
    let (document, places) = draft.finish();
    Compiled {
        document,
        places,
        reads,
        secrets: BTreeMap::new(),
        rank,
    }
}

/// The document of one recipient, judged as a node would; `domain` is the trust domain of an overlay that names none.
///
/// # Errors
/// Everything that is wrong with the tree as a whole, or with this document.
pub fn compile(tree: &Tree, recipient: &Recipient, domain: &str) -> Result<Compiled, Findings> {
    let compiled = Compiler::new(tree, domain)?.document(recipient)?;
    compiled.prove(tree)?;
    Ok(compiled)
}
