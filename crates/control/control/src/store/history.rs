//! The states of an overlay, one after the other, as git has them: each names its tree and the state before it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hermes_api::{Hash, Revision, canonical};
use parking_lot::{Mutex, MutexGuard};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::awaited::Awaited;
use super::course::Course;
use super::entries::{Entry, reached_by, tree_blob, tree_entries};
use super::{Act, Audit, KeptBlob, RecordChange, Store, StoreError, backup};
use crate::resources::{Key, Origin, Resource, Tree};

/// The record that names the newest state.
pub(super) const HEAD: &str = "head";

/// States that are kept at most.
#[doc(alias = "bound")]
const KEPT: usize = 1000;

/// States that are younger are kept, up to [`KEPT`], in seconds.
#[doc(alias = "bound")]
const YOUNG: u64 = 90 * 24 * 60 * 60;

/// Seconds between the two times that a blob has to be found without a state that leads to it. A state that is being made has its blobs in
/// the store before its head, and other controllers make states, too.
#[doc(alias = "bound")]
const SETTLED: u64 = 10 * 60;

/// How long it may take to keep the blobs of a state: less than [`SETTLED`].
#[doc(alias = "bound")]
const COMMIT: Duration = Duration::from_secs(5 * 60);

/// Blobs that are read at once.
const BATCH: usize = 1024;

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
    /// It is returned from unless it is confirmed within so many seconds.
    pub confirm_seconds: Option<u32>,
    /// How it comes to its nodes.
    pub course: Course,
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
    unreached: Arc<Mutex<Unreached>>,
    newest: Arc<Mutex<NewestTree>>,
}

/// The tree of the state that was made last, and the blobs that it leads to: mostly the next one follows it.
#[derive(Default)]
struct NewestTree {
    tree: Option<Hash>,
    blobs: BTreeSet<Hash>,
}

/// Blobs that no state led to when they were listed.
#[derive(Default)]
struct Unreached {
    /// Unix seconds.
    listed: u64,
    blobs: BTreeSet<KeptBlob>,
}

impl History {
    /// The states in this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            writing: Arc::default(),
            unreached: Arc::default(),
            newest: Arc::default(),
        }
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
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
        let began = Instant::now();
        let before = self.store.record(HEAD)?;
        let parent = before.as_deref().map(hash_of).transpose()?;
        let state = parent.map(|parent| self.state(&parent)).transpose()?;
        let head = state
            .as_ref()
            .map_or(Revision::FIRST, |state| state.revision);
        if head != commit.expected {
            return Err(NotCommitted::Moved(head));
        }

        // Those of the state before are there as long as it is the newest, and the others are written even if they are: they may be about to
        // be let go of.
        let mut newest = self.newest(state.map(|state| state.tree))?;
        let mut blobs = Vec::new();
        let entries = tree_entries(commit.tree, &newest.blobs, &mut blobs);
        let tree = tree_blob(&entries);
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
        if began.elapsed() > COMMIT {
            let slow = format!("it took longer than {COMMIT:?} to keep a state");
            return Err(StoreError::new(slow).into());
        }
        let head = RecordChange {
            key: HEAD.to_owned(),
            expected: before,
            new: Some(name),
        };
        let records = [
            Some(head),
            Awaited::change(&*self.store, state.revision, commit)?,
            commit.course.change(&*self.store, commit.expected)?,
        ];
        self.move_head(&records.into_iter().flatten().collect::<Vec<_>>())?;
        newest.tree = Some(state.tree);
        newest.blobs = reached_by(&entries).collect();
        Ok(state.revision)
    }

    /// Makes a state the newest one, and records the confirmation that it waits for, and how it spreads.
    fn move_head(&self, changes: &[RecordChange]) -> Result<(), NotCommitted> {
        if self.store.swap_as_leader(changes)? {
            return Ok(());
        }
        let newest = self.head()?;
        let revision = newest.map_or(Revision::FIRST, |state| state.revision);
        Err(NotCommitted::Moved(revision))
    }

    /// The blobs of the newest tree.
    fn newest(&self, tree: Option<Hash>) -> Result<MutexGuard<'_, NewestTree>, StoreError> {
        let mut newest = self.newest.lock();
        if newest.tree != tree {
            newest.blobs = match &tree {
                Some(tree) => reached_by(&self.entries(tree)?).collect(),
                None => BTreeSet::new(),
            };
            newest.tree = tree;
        }
        Ok(newest)
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

    /// The last tree before that of a revision. Some states differ in their certificates only.
    ///
    /// # Errors
    /// It is not kept, or the store cannot be read.
    pub fn tree_before(&self, revision: Revision) -> Result<Tree, StoreError> {
        let states = self.list(KEPT)?;
        let mut states = states.iter().skip_while(|state| state.revision != revision);
        let current = states.next().map(|state| state.tree);
        let before = states.find(|state| Some(state.tree) != current);
        let before = before.ok_or_else(|| {
            StoreError::new(format!("no state before revision {revision} is kept"))
        })?;
        self.tree(before)
    }

    /// The state of a revision.
    ///
    /// # Errors
    /// It is not kept, or the store cannot be read.
    pub fn at(&self, revision: Revision) -> Result<State, StoreError> {
        let states = self.list(KEPT)?;
        let found = states.into_iter().find(|state| state.revision == revision);
        found.ok_or_else(|| StoreError::new(format!("revision {revision} is not kept")))
    }

    /// The resources of a state.
    ///
    /// # Errors
    /// The store cannot be read, or lacks a part.
    pub fn tree(&self, state: &State) -> Result<Tree, StoreError> {
        let entries = self.entries(&state.tree)?;
        let hashes: BTreeSet<Hash> = reached_by(&entries).collect();
        let blobs = self.blobs(&hashes.into_iter().collect::<Vec<_>>())?;
        let mut tree = Tree::default();
        for (key, entry) in entries {
            let json = blobs.get(&entry.hash).ok_or_else(|| lost(&key))?;
            let json = parsed(&entry.hash, json)?;
            let resource = Resource::from_json(&json)
                .map_err(|finding| StoreError::new(format!("{key}: {finding}")))?;
            let origin = entry
                .origin
                .and_then(|hash| Some((hash, blobs.get(&hash)?)));
            let origin = origin.map(|(hash, blob)| parsed::<Origin>(&hash, blob));
            tree.insert(resource, origin.transpose()?)
                .map_err(|full| StoreError::new(full.to_string()))?;
        }
        Ok(tree)
    }

    /// Blobs by their hashes; those that are not there are left out.
    fn blobs(&self, hashes: &[Hash]) -> Result<BTreeMap<Hash, Vec<u8>>, StoreError> {
        let mut found = BTreeMap::new();
        for hashes in hashes.chunks(BATCH) {
            for (hash, blob) in hashes.iter().zip(self.store.blobs(hashes)?) {
                if let Some(blob) = blob {
                    found.insert(*hash, checked(hash, blob)?);
                }
            }
        }
        Ok(found)
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
        let Some(record) = backup::read(&*self.store, file)? else {
            self.store.swap(&[backup::restored()])?;
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
        let head = RecordChange {
            key: HEAD.to_owned(),
            expected: None,
            new: Some(name),
        };
        let revision = state.revision.to_string();
        let act = Act {
            time,
            who: "operator",
            act: "restore",
            subject: &revision,
        };
        match Audit::new(self.store.clone()).swap(&[head, backup::restored()], &act)? {
            true => Ok(Some(state.revision)),
            false => Err(StoreError::new("another process writes to the store")),
        }
    }

    /// Acts that are no states: joins, tokens, revocations, restores.
    pub fn audit(&self) -> Audit {
        Audit::new(self.store.clone())
    }

    /// Lets go of states that are not among the last 1,000, or older than 90 days; the newest stays. Only the second call after some
    /// minutes lets go of anything.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn collect_garbage(&self, now: u64) -> Result<(), StoreError> {
        let _writing = self.writing.lock();
        let mut unreached = self.unreached.lock();
        // A clock that was turned back begins anew.
        let is_waiting = unreached.listed <= now && now < unreached.listed + SETTLED;
        if is_waiting && unreached.listed > 0 {
            return Ok(());
        }
        // Before the states are read: a blob that is kept anew after this has another mark, and stays.
        let all = self.store.kept()?;
        let reached = self.reached(now)?;
        let found = all.into_iter().filter(|blob| !reached.contains(&blob.hash));
        let found: BTreeSet<KeptBlob> = found.collect();

        let gone: Vec<_> = found.intersection(&unreached.blobs).copied().collect();
        *unreached = Unreached {
            listed: now,
            blobs: found,
        };
        match gone.is_empty() {
            true => Ok(()),
            false => self.store.remove_blobs(&gone),
        }
    }

    /// The blobs of the states that are kept.
    fn reached(&self, now: u64) -> Result<BTreeSet<Hash>, StoreError> {
        let states = self.list(KEPT)?;
        let is_young = |state: &&State| now.saturating_sub(state.time) < YOUNG;
        let newest = states.first().into_iter();
        let kept = newest.chain(states.iter().skip(1).take_while(is_young));
        let mut reached = BTreeSet::new();
        for state in kept {
            reached.insert(Hash::of(&blob_of(state)));
            // Most states have the tree of the one before, or much of it.
            if reached.insert(state.tree) {
                reached.extend(reached_by(&self.entries(&state.tree)?));
            }
        }
        Ok(reached)
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
        parsed(hash, &checked(hash, bytes)?).map(Some)
    }
}

fn checked(hash: &Hash, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    match Hash::of(&bytes) == *hash {
        true => Ok(bytes),
        false => Err(StoreError::new(format!("blob {hash} is damaged"))),
    }
}

fn parsed<T: DeserializeOwned>(hash: &Hash, bytes: &[u8]) -> Result<T, StoreError> {
    let read = serde_json::from_slice(bytes);
    read.map_err(|error| StoreError::new(format!("blob {hash}: {error}")))
}

fn blob_of(content: &impl Serialize) -> Vec<u8> {
    // All that is kept is JSON: maps have texts as keys, and numbers are whole.
    canonical(&serde_json::to_value(content).unwrap_or_default())
}

fn hash_of(record: &[u8]) -> Result<Hash, StoreError> {
    let text = std::str::from_utf8(record).unwrap_or_default();
    text.parse()
        .map_err(|_| StoreError::new("the head is damaged"))
}

fn lost(what: &impl std::fmt::Display) -> StoreError {
    StoreError::new(format!("{what} is missing"))
}
