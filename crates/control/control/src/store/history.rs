//! The states of an overlay, one after the other, as git has them: each names its tree and the state before it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::Arc;

use hermes_api::{Hash, Revision, canonical};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{RecordChange, Store, StoreError, backup};
use crate::resources::{Key, Origin, Resource, Tree};

/// The record that names the newest state.
const HEAD: &str = "head";

/// States that are kept at most.
#[doc(alias = "bound")]
const KEPT: usize = 1000;

/// States that are younger are kept, up to [`KEPT`], in seconds.
#[doc(alias = "bound")]
const YOUNG: u64 = 90 * 24 * 60 * 60;

/// Letters of a message that are kept.
#[doc(alias = "bound")]
const MESSAGE: usize = 1000;

/// One state of the overlay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Its revision.
    pub revision: Revision,
    /// The blob of the state before it; `None` for the first.
    pub parent: Option<Hash>,
    /// The blob of its tree.
    pub tree: Hash,
    /// Who made it.
    pub author: String,
    /// When, in Unix seconds.
    pub time: u64,
    /// Why.
    pub message: String,
}

/// A resource in the blob of a tree.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    hash: Hash,
    /// Where it was written, so that mistakes can be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Hash>,
}

/// A state to be made.
#[derive(Debug, Clone)]
pub struct Commit<'a> {
    /// The revision that it follows.
    pub expected: Revision,
    /// Its resources.
    pub tree: &'a Tree,
    /// Who makes it.
    pub author: &'a str,
    /// When, in Unix seconds.
    pub time: u64,
    /// Why.
    pub message: &'a str,
}

/// Why a state was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotCommitted {
    /// Another one came first.
    #[error("revision {0} came first")]
    Moved(Revision),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The states of an overlay.
#[derive(Clone)]
pub struct History {
    store: Arc<dyn Store>,
    /// Held while a state is made, and while unreached blobs are let go: those of a state that is being made are not reached yet.
    writing: Arc<Mutex<()>>,
}

impl History {
    /// The states in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            writing: Arc::default(),
        }
    }

    /// The newest state; `None` where the overlay has not begun.
    ///
    /// # Errors
    /// The store cannot be read, or lacks a part.
    pub fn head(&self) -> Result<Option<State>, StoreError> {
        match self.store.record(HEAD)? {
            None => Ok(None),
            Some(record) => self.state(&hash_of(&record)?).map(Some),
        }
    }

    /// Makes a state; it is on the disk when this returns. Returns its revision.
    ///
    /// # Errors
    /// Another one came first, or the store cannot be written.
    pub fn commit(&self, commit: &Commit<'_>) -> Result<Revision, NotCommitted> {
        let _writing = self.writing.lock();
        let before = self.store.record(HEAD)?;
        let parent = before.as_deref().map(hash_of).transpose()?;
        let state = parent.map(|parent| self.state(&parent)).transpose()?;
        let head = state.map_or(Revision::FIRST, |state| state.revision);
        if head != commit.expected {
            return Err(NotCommitted::Moved(head));
        }

        let mut blobs = Vec::new();
        // Blobs that are there already cost one look at their hash.
        let tree = tree_blob(commit.tree, &mut blobs);
        let state = State {
            revision: head.next(),
            parent,
            tree: Hash::of(&tree),
            author: commit.author.chars().take(MESSAGE).collect(),
            time: commit.time,
            message: commit.message.chars().take(MESSAGE).collect(),
        };
        let text = blob_of(&state);
        let name = Hash::of(&text).to_string().into_bytes();
        blobs.extend([tree, text]);
        // Blobs first: a head never names one that is not there.
        self.store.keep(&blobs)?;
        let moved = self.store.swap(&[RecordChange {
            key: HEAD.to_owned(),
            expected: before,
            new: Some(name),
        }])?;
        if !moved {
            let head = self.head()?.map_or(Revision::FIRST, |state| state.revision);
            return Err(NotCommitted::Moved(head));
        }
        Ok(state.revision)
    }

    /// The last states, the newest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn list(&self, limit: usize) -> Result<Vec<State>, StoreError> {
        let mut states = Vec::new();
        let mut next = self
            .store
            .record(HEAD)?
            .as_deref()
            .map(hash_of)
            .transpose()?;
        while let Some(hash) = next.filter(|_| states.len() < limit) {
            // States that were let go of are not there.
            let Some(state) = self.read::<State>(&hash)? else {
                break;
            };
            next = state.parent;
            states.push(state);
        }
        Ok(states)
    }

    /// The state of a revision.
    ///
    /// # Errors
    /// It is not kept, or the store cannot be read.
    pub fn at(&self, revision: Revision) -> Result<State, StoreError> {
        let states = self.list(KEPT)?;
        let found = states.into_iter().find(|state| state.revision == revision);
        found.ok_or_else(|| StoreError(format!("revision {revision} is not kept")))
    }

    /// The resources of a state.
    ///
    /// # Errors
    /// The store cannot be read, or lacks a part.
    pub fn tree(&self, state: &State) -> Result<Tree, StoreError> {
        let mut tree = Tree::default();
        for (key, entry) in self.entries(&state.tree)? {
            let json = self.read(&entry.hash)?.ok_or_else(|| lost(&key))?;
            let resource = Resource::from_json(&json)
                .map_err(|finding| StoreError(format!("{key}: {finding}")))?;
            let origin = match entry.origin {
                Some(hash) => self.read::<Origin>(&hash)?,
                None => None,
            };
            tree.insert(resource, origin)
                .map_err(|full| StoreError(full.to_string()))?;
        }
        Ok(tree)
    }

    /// Writes the whole store as one file, keys of the authority included.
    ///
    /// # Errors
    /// The store cannot be read, or the file cannot be written.
    pub fn back_up(&self, out: &mut dyn Write) -> Result<(), StoreError> {
        // No blob is let go of between the record that leads to it and itself.
        let _writing = self.writing.lock();
        backup::write(&*self.store, out)
    }

    /// Reads a backup into an empty store. Its newest state is made anew in a new epoch: nodes may have seen later revisions of the old one,
    /// and follow none that is older.
    ///
    /// # Errors
    /// The store is not empty, or the file is damaged.
    pub fn restore(&self, file: &mut dyn Read, time: u64) -> Result<Option<Revision>, StoreError> {
        backup::read(&*self.store, file)?;
        let Some(record) = self.store.record(HEAD)? else {
            return Ok(None);
        };
        let parent = hash_of(&record)?;
        let before = self.state(&parent)?;
        let state = State {
            revision: Revision {
                epoch: before.revision.epoch + 1,
                number: 0,
            },
            parent: Some(parent),
            author: "controller".to_owned(),
            time,
            message: format!("restored from a backup of revision {}", before.revision),
            ..before
        };
        let blob = blob_of(&state);
        let name = Hash::of(&blob).to_string().into_bytes();
        self.store.keep(&[blob])?;
        self.store.swap(&[RecordChange {
            key: HEAD.to_owned(),
            expected: Some(record),
            new: Some(name),
        }])?;
        Ok(Some(state.revision))
    }

    /// Lets go of states that are not among the last 1,000, or older than 90 days; the newest stays.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn collect_garbage(&self, now: u64) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        let states = self.list(KEPT)?;
        let is_young = |state: &&State| now.saturating_sub(state.time) < YOUNG;
        let newest = states.first().into_iter();
        let kept = newest.chain(states.iter().skip(1).take_while(is_young));

        let mut reached = BTreeSet::new();
        for state in kept {
            reached.insert(Hash::of(&blob_of(state)));
            reached.insert(state.tree);
            for entry in self.entries(&state.tree)?.values() {
                reached.insert(entry.hash);
                reached.extend(entry.origin);
            }
        }
        let all = self.store.hashes()?;
        let unreached: Vec<_> = all
            .into_iter()
            .filter(|hash| !reached.contains(hash))
            .collect();
        if unreached.is_empty() {
            return Ok(());
        }
        self.store.remove_blobs(&unreached)
    }

    fn state(&self, hash: &Hash) -> Result<State, StoreError> {
        self.read(hash)?.ok_or_else(|| lost(hash))
    }

    fn entries(&self, tree: &Hash) -> Result<BTreeMap<Key, Entry>, StoreError> {
        self.read(tree)?.ok_or_else(|| lost(tree))
    }

    fn read<T: DeserializeOwned>(&self, hash: &Hash) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self.store.blob(hash)? else {
            return Ok(None);
        };
        if Hash::of(&bytes) != *hash {
            return Err(StoreError(format!("blob {hash} is damaged")));
        }
        let read = serde_json::from_slice(&bytes);
        read.map(Some)
            .map_err(|error| StoreError(format!("blob {hash}: {error}")))
    }
}

/// The blob of a tree; those of its resources are added to `blobs`.
fn tree_blob(tree: &Tree, blobs: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let mut entries = BTreeMap::new();
    for resource in tree.resources() {
        let origin = tree.origin(resource.key()).map(blob_of);
        let entry = Entry {
            hash: resource.hash(),
            origin: origin.as_deref().map(Hash::of),
        };
        blobs.push(resource.canonical());
        blobs.extend(origin);
        entries.insert(resource.key().clone(), entry);
    }
    blob_of(&entries)
}

fn blob_of(content: &impl Serialize) -> Vec<u8> {
    // All that is kept is JSON: maps have texts as keys, and numbers are whole.
    canonical(&serde_json::to_value(content).unwrap_or_default())
}

fn hash_of(record: &[u8]) -> Result<Hash, StoreError> {
    let text = std::str::from_utf8(record).unwrap_or_default();
    text.parse()
        .map_err(|_| StoreError("the head is damaged".to_owned()))
}

fn lost(what: &impl std::fmt::Display) -> StoreError {
    StoreError(format!("{what} is missing"))
}
