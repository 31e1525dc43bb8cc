//! The state of the overlay that the last change leads to, compiled for all nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_api::Revision;

use super::endorsing;
use super::published::{Document, Endorsements, Part, Published};
use crate::authority::Authority;
use crate::compile::{Compiler, Recipient};
use crate::resources::{Findings, Tree};
use crate::store::history::History;
use crate::store::{Awaited, StoreError};

/// The state that the last change leads to.
pub(super) struct InForce {
    pub(super) published: Arc<Published>,
    /// The resources before the last change, which is returned to if that is stopped or not confirmed.
    pub(super) before: Arc<Tree>,
    /// The change in force is returned from unless it is confirmed.
    pub(super) awaiting: Option<Awaiting>,
}

/// A change that is to be confirmed.
pub(super) struct Awaiting {
    /// `None` until it is in force everywhere.
    pub(super) until: Option<Instant>,
    pub(super) time: Duration,
}

impl InForce {
    /// The state of the store. Documents of `before` that are the same are not made again.
    pub(super) fn read(
        history: &History,
        authority: &Authority,
        domain: &str,
        now: u64,
        before: Option<&Published>,
    ) -> Result<Self, String> {
        let said = |error: StoreError| error.to_string();
        let head = history.head().map_err(said)?;
        let tree = head.as_ref().map(|head| history.tree(head)).transpose();
        let tree = tree.map_err(said)?.unwrap_or_default();
        let revision = head.map_or(Revision::FIRST, |head| head.revision);
        let awaited = history.awaited(revision).map_err(said)?;
        let documents = compiled(&tree, domain, before)
            .map_err(|findings| format!("revision {revision} cannot be compiled:\n{findings}"))?;
        authority.set_grace(grace(&tree));
        let endorsements = authority.endorsements();
        let endorsements = endorsements.map_err(|error| error.to_string())?;
        let endorsements = endorsing::merged(&Endorsements::new(), &endorsements);
        let tree = Arc::new(tree);
        let published = Published {
            revision,
            tree: tree.clone(),
            documents,
            authorities: authorities(authority)?,
            revoked: revoked(authority, now)?,
            confirm: awaited.map(|awaited| awaited.seconds),
            endorsements: Arc::new(endorsements),
        };
        let before = match awaited {
            Some(_) => Arc::new(history.tree_before(revision).map_err(said)?),
            None => tree,
        };
        Ok(Self {
            published: Arc::new(published),
            before,
            awaiting: awaited.map(|awaited| Awaiting::resumed(&awaited, now)),
        })
    }
}

impl Awaiting {
    /// One that an earlier controller has begun. Its nodes have returned if it is long ago; otherwise the operator has the whole time again, since
    /// no one knows when all nodes had the change.
    fn resumed(awaited: &Awaited, now: u64) -> Self {
        let time = Duration::from_secs(u64::from(awaited.seconds));
        let is_over = now >= awaited.since.saturating_add(u64::from(awaited.seconds));
        Self {
            until: Some(match is_over {
                true => Instant::now(),
                false => Instant::now() + time,
            }),
            time,
        }
    }
}

impl InForce {
    /// Whether the time to confirm it is over.
    pub(super) fn is_overdue(&self) -> bool {
        let until = self.awaiting.as_ref().and_then(|awaiting| awaiting.until);
        until.is_some_and(|until| Instant::now() >= until)
    }
}

/// How long nodes believe each other's certificates that should have been renewed, if a tree says it.
pub(super) fn grace(tree: &Tree) -> Option<Duration> {
    let (_, overlay) = tree.overlay()?;
    overlay.grace.map(|grace| grace.0)
}

pub(super) fn authorities(authority: &Authority) -> Result<Part, String> {
    let pem = authority
        .authorities_pem()
        .map_err(|error| error.to_string())?;
    Ok(Part::new(pem.into_bytes()))
}

pub(super) fn revoked(authority: &Authority, now: u64) -> Result<Part, String> {
    let pem = authority
        .revoked_pem(now)
        .map_err(|error| error.to_string())?;
    Ok(Part::new(pem.into_bytes()))
}

/// The documents of a tree, each judged as its nodes will. Those that read nothing that differs are taken from before.
pub(super) fn compiled(
    tree: &Tree,
    domain: &str,
    before: Option<&Published>,
) -> Result<BTreeMap<Recipient, Arc<Document>>, Findings> {
    let compiler = Compiler::new(tree, domain)?;
    let touched = before.map(|before| {
        let changed = before.tree.differing(tree);
        compiler.touched(&before.tree, &changed)
    });
    let mut documents = BTreeMap::new();
    let mut findings = Findings::default();
    for recipient in compiler.recipients() {
        let earlier = before.and_then(|before| before.document(&recipient));
        let stays = |known: &&Arc<Document>| {
            let touched = touched.as_ref();
            touched.is_some_and(|touched| !touched.concerns(&recipient, &known.compiled.reads))
        };
        if let Some(known) = earlier.filter(stays) {
            let known = known.ranked(compiler.rank(&recipient));
            documents.insert(recipient, known);
            continue;
        }
        match document(&compiler, &recipient, tree, earlier) {
            Ok(document) => drop(documents.insert(recipient, document)),
            Err(found) => findings.extend(found.0),
        }
        // To judge a document takes long: one mistake may be in thousands of them.
        if findings.are_enough() {
            break;
        }
    }
    findings.or(documents)
}

/// The document of one recipient. To judge it takes much longer than to make it: one that turns out as it was is not judged again.
fn document(
    compiler: &Compiler<'_>,
    recipient: &Recipient,
    tree: &Tree,
    earlier: Option<&Arc<Document>>,
) -> Result<Arc<Document>, Findings> {
    let compiled = compiler.document(recipient)?;
    let is_same = |earlier: &&Arc<Document>| {
        let earlier = &earlier.compiled;
        earlier.document == compiled.document && earlier.secrets == compiled.secrets
    };
    if let Some(same) = earlier.filter(is_same) {
        // Its places may be others.
        return Ok(Arc::new(Document {
            part: same.part.clone(),
            secrets: same.secrets.clone(),
            compiled,
        }));
    }
    compiled.prove(tree)?;
    Ok(Document::new(compiled))
}
