//! Signatures of an operator, with a key that no controller has: which documents a change brings to which node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hermes_api::{Endorsement, Name, Revision, SignedEndorsement, SigningKey};

use super::in_force::compiled;
use super::published::{Endorsements, Part, Published};
use super::stages::states;
use crate::compile::Recipient;
use crate::resources::{Findings, Tree};

/// A change of an overlay.
pub struct ChangedOverlay<'a> {
    /// The overlay.
    pub overlay: &'a Name,
    /// Its trust domain, unless the resources name one.
    pub domain: &'a str,
    /// The resources before the change.
    pub before: &'a Tree,
    /// Those after it.
    pub next: &'a Tree,
    /// Whether the resources before it were not signed yet.
    pub adopts: bool,
}

/// Signs the documents of a change, those on the way included, and those of before, to which nodes return if it is stopped. `signed` is the time
/// in Unix milliseconds.
///
/// # Errors
/// One of the two states cannot be compiled.
pub fn endorse(
    change: &ChangedOverlay<'_>,
    key: &SigningKey,
    signed: u64,
) -> Result<Vec<SignedEndorsement>, Findings> {
    let before = published(change.before, change.domain)?;
    let next = published(change.next, change.domain)?;
    let mut documents: BTreeMap<Recipient, BTreeSet<_>> = BTreeMap::new();
    let between = states(&before, &next, change.domain);
    for state in std::iter::once(&before).chain(&between) {
        for (recipient, document) in &state.documents {
            let known = documents.entry(recipient.clone()).or_default();
            known.insert(document.part.hash);
        }
    }

    // A node whose document stays has a signature of it, unless all of the overlay is signed for the first time.
    let mut each: Vec<_> = documents.into_iter().collect();
    each.retain(|(recipient, documents)| {
        change.adopts || documents.len() > 1 || before.document(recipient).is_none()
    });
    let each = each.into_iter();
    let endorsements = each.map(|(recipient, documents)| Endorsement {
        overlay: change.overlay.clone(),
        node: match recipient {
            Recipient::Node(name) => Some(name),
            Recipient::Devices => None,
        },
        signed,
        documents,
    });
    Ok(endorsements
        .map(|endorsement| endorsement.sign(key))
        .collect())
}

/// A state with nothing but its documents.
fn published(tree: &Tree, domain: &str) -> Result<Arc<Published>, Findings> {
    Ok(Arc::new(Published {
        revision: Revision::FIRST,
        tree: Arc::new(tree.clone()),
        documents: compiled(tree, domain, None)?,
        authorities: Part::new(Vec::new()),
        revoked: Part::new(Vec::new()),
        confirm: None,
        endorsements: Arc::default(),
    }))
}

/// The newest signatures of each node. Only nodes can judge them: no controller has to know the key.
pub(super) fn merged(before: &Endorsements, added: &[SignedEndorsement]) -> Endorsements {
    let mut all = before.clone();
    for signed in added {
        if let Ok(endorsement) = serde_json::from_str::<Endorsement>(&signed.text) {
            all.insert(endorsement.node, signed.clone());
        }
    }
    all
}
