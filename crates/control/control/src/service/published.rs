//! A state of the overlay as nodes get it: the documents of all, and the parts that all share.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermes_api::{Hash, Name, Revision, SignedEndorsement, Statement, canonical, parts};

use crate::compile::{Compiled, Recipient};
use crate::resources::Tree;

/// A part of statements.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) hash: Hash,
    pub(super) bytes: Arc<[u8]>,
}

impl Part {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self {
            hash: Hash::of(&bytes),
            bytes: bytes.into(),
        }
    }
}

/// The document of a node or of a class of nodes, with the places that it was made of.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) part: Part,
    /// Secrets of the node, if it has any.
    pub(super) secrets: Option<Part>,
    pub(super) compiled: Compiled,
}

impl Document {
    pub(super) fn new(compiled: Compiled) -> Arc<Self> {
        let part = Part::new(compiled.blob());
        let boxes = Some(&compiled.secrets).filter(|secrets| !secrets.is_empty());
        let secrets = boxes.map(|boxes| Part::new(canonical(&serde_json::json!(boxes))));
        Arc::new(Self {
            part,
            secrets,
            compiled,
        })
    }

    fn has_parts_of(&self, other: &Self) -> bool {
        let secrets = |document: &Self| document.secrets.as_ref().map(|part| part.hash);
        self.part.hash == other.part.hash && secrets(self) == secrets(other)
    }

    /// The same document at another place in the order of nodes.
    pub(super) fn ranked(self: &Arc<Self>, rank: u32) -> Arc<Self> {
        if self.compiled.rank == rank {
            return self.clone();
        }
        Arc::new(Self {
            part: self.part.clone(),
            secrets: self.secrets.clone(),
            compiled: Compiled {
                rank,
                ..self.compiled.clone()
            },
        })
    }
}

/// A state of the overlay.
#[derive(Debug, Clone)]
pub(super) struct Published {
    pub(super) revision: Revision,
    /// The resources that it is made of.
    pub(super) tree: Arc<Tree>,
    pub(super) documents: BTreeMap<Recipient, Arc<Document>>,
    pub(super) authorities: Part,
    pub(super) revoked: Part,
    /// Seconds after which nodes return from it unless it is confirmed.
    pub(super) confirm: Option<u32>,
    /// The operator's signatures of documents, by node; those of devices have none.
    pub(super) endorsements: Arc<Endorsements>,
}

/// Signatures of documents by an operator.
pub(super) type Endorsements = BTreeMap<Option<Name>, SignedEndorsement>;

impl Published {
    /// Whose document a member gets: its own, or that of all devices.
    pub(super) fn recipient(&self, node: &Name, user: Option<&Name>) -> Recipient {
        let described = self.tree.node(node).map(|node| node.user.as_ref());
        match (described, user) {
            (Some(described), user) if described == user => Recipient::Node(node.clone()),
            // A device that has the name of a node, or of another user's device, gets nothing that is theirs.
            (_, Some(_)) => Recipient::Devices,
            (_, None) => Recipient::Node(node.clone()),
        }
    }

    /// The document of a node.
    pub(super) fn document(&self, recipient: &Recipient) -> Option<&Arc<Document>> {
        self.documents.get(recipient)
    }

    /// The parts of a node in this state.
    pub(super) fn parts(&self, recipient: &Recipient) -> Option<BTreeMap<String, Hash>> {
        let document = self.document(recipient)?;
        let named = [
            (parts::DOCUMENT, &document.part),
            (parts::AUTHORITIES, &self.authorities),
            (parts::REVOKED, &self.revoked),
        ];
        let secrets = document.secrets.iter().map(|part| (parts::SECRETS, part));
        let named = named.into_iter().chain(secrets);
        Some(
            named
                .map(|(name, part)| (name.to_owned(), part.hash))
                .collect(),
        )
    }

    /// The statement of a node; `None` if the state has no such node.
    pub(super) fn statement(
        &self,
        overlay: &Name,
        node: &Name,
        recipient: &Recipient,
    ) -> Option<Statement> {
        Some(Statement {
            overlay: overlay.clone(),
            node: node.clone(),
            revision: self.revision,
            parts: self.parts(recipient)?,
            confirm_seconds: self.confirm,
        })
    }

    /// The operator's signature of the documents of a recipient, if there is one.
    pub(super) fn endorsement(&self, recipient: &Recipient) -> Option<&SignedEndorsement> {
        let node = match recipient {
            Recipient::Node(name) => Some(name.clone()),
            Recipient::Devices => None,
        };
        self.endorsements.get(&node)
    }

    /// A part of a node's statement: never one of another node's.
    pub(super) fn part(&self, recipient: &Recipient, hash: &Hash) -> Option<&Part> {
        let document = self.document(recipient)?;
        let parts = [&document.part, &self.authorities, &self.revoked].into_iter();
        let mut parts = parts.chain(&document.secrets);
        parts.find(|part| part.hash == *hash)
    }

    /// The hashes of a node's parts: what states are compared by, thousands of times for a change.
    pub(super) fn hashes(&self, recipient: &Recipient) -> Option<[Option<Hash>; 4]> {
        let document = self.document(recipient)?;
        let secrets = document.secrets.as_ref().map(|part| part.hash);
        let parts = [&document.part, &self.authorities, &self.revoked];
        let [document, authorities, revoked] = parts.map(|part| Some(part.hash));
        Some([document, authorities, revoked, secrets])
    }

    /// Whether the parts that all nodes have are the same in another state.
    pub(super) fn has_same_shared(&self, other: &Self) -> bool {
        let shared = |state: &Self| [state.authorities.hash, state.revoked.hash];
        shared(self) == shared(other)
    }

    /// Those whose parts are others than in an earlier state, or are in one of the two alone.
    pub(super) fn differing<'s>(&'s self, earlier: &'s Self) -> Vec<&'s Recipient> {
        let is_shared_same = self.has_same_shared(earlier);
        let is_same = |one: &Arc<Document>, other: &Arc<Document>| {
            // Mostly it is the same in memory: then nothing of it is looked at.
            is_shared_same && (Arc::ptr_eq(one, other) || one.has_parts_of(other))
        };
        let mut differing = Vec::new();
        let mut earlier = earlier.documents.iter().peekable();
        for (recipient, document) in &self.documents {
            // Both are in one order: neither is searched.
            while let Some((gone, _)) = earlier.next_if(|(earlier, _)| *earlier < recipient) {
                differing.push(gone);
            }
            match earlier.next_if(|(earlier, _)| *earlier == recipient) {
                Some((_, known)) if is_same(document, known) => {}
                _ => differing.push(recipient),
            }
        }
        differing.extend(earlier.map(|(gone, _)| gone));
        differing
    }
}
