//! The audit: who became a member, was given a token or was revoked, when, and by whom. (The states of [`history`](super::history) say
//! the same of changes of the overlay.)
//!
//! Each entry is a record, `audit/NUMBER`, with the hash of the one before; the record `audit-last` names the newest. An entry is written in
//! the transaction of the act that it tells of: there is neither one without the other. Who can write to the store can write another
//! chain; who has noted a hash of this one finds that out.

use std::sync::Arc;

use hermes_api::Hash;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{RecordChange, Store, StoreError};

/// The record of the newest entry.
const LAST: &str = "audit-last";

/// Begins the keys of entries.
const PREFIX: &str = "audit/";

/// Entries that are kept.
#[doc(alias = "bound")]
const KEPT: u64 = 100_000;

/// How often an act is tried again that another controller's came before.
#[doc(alias = "bound")]
const TRIES: u32 = 100;

/// Letters of each part of an entry.
#[doc(alias = "bound")]
const WORDS: usize = 200;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuditEntry {
    /// Its number; the first is 1.
    pub number: u64,
    /// The hash of the entry before; `None` for the first.
    pub previous: Option<Hash>,
    /// When, in Unix seconds.
    pub time: u64,
    /// Who: `operator`, `controller`, or a node.
    pub who: String,
    /// The act, such as `join` or `revoke`.
    pub act: String,
    /// Whom or which it concerns.
    pub subject: String,
}

/// An act that is to be told.
#[derive(Debug, Clone, Copy)]
pub struct Act<'a> {
    /// When, in Unix seconds.
    pub time: u64,
    /// Who.
    pub who: &'a str,
    /// The act.
    pub act: &'a str,
    /// Whom or which it concerns.
    pub subject: &'a str,
}

/// The newest entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastEntry {
    number: u64,
    hash: Hash,
}

/// The audit of a store.
#[derive(Clone)]
pub struct Audit {
    store: Arc<dyn Store>,
    /// Held while an entry is written, so that acts of this process do not come in each other's way.
    writing: Arc<Mutex<()>>,
}

impl Audit {
    /// The audit of this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            writing: Arc::default(),
        }
    }

    /// Makes changes as [`Store::swap`] does, and tells of them.
    ///
    /// # Errors
    /// The store cannot be read or written; then nothing has changed.
    pub fn swap(&self, changes: &[RecordChange], act: &Act<'_>) -> Result<bool, StoreError> {
        let _writing = self.writing.lock();
        for _ in 0..TRIES {
            let before = self.store.record(LAST)?;
            let all = [changes, &self.told(before.clone(), act)?].concat();
            if self.store.swap(&all)? {
                return Ok(true);
            }
            // Another controller has told of something; otherwise it is a change that was not as expected.
            if self.store.record(LAST)? == before {
                return Ok(false);
            }
        }
        Err(StoreError::new("other controllers act all the time"))
    }

    /// The changes that tell of an act.
    fn told(
        &self,
        before: Option<Vec<u8>>,
        act: &Act<'_>,
    ) -> Result<Vec<RecordChange>, StoreError> {
        let last = before.as_deref().map(parsed::<LastEntry>).transpose()?;
        let words = |text: &str| text.chars().take(WORDS).collect();
        let entry = AuditEntry {
            number: last.as_ref().map_or(0, |last| last.number) + 1,
            previous: last.map(|last| last.hash),
            time: act.time,
            who: words(act.who),
            act: words(act.act),
            subject: words(act.subject),
        };
        let text = text(&entry);
        let newest = LastEntry {
            number: entry.number,
            hash: Hash::of(&text),
        };
        let mut changes = vec![
            RecordChange {
                key: LAST.to_owned(),
                expected: before,
                new: Some(self::text(&newest)),
            },
            RecordChange {
                key: key(entry.number),
                expected: None,
                new: Some(text),
            },
        ];
        if let Some(old) = entry.number.checked_sub(KEPT) {
            let key = key(old);
            if let Some(expected) = self.store.record(&key)? {
                changes.push(RecordChange {
                    key,
                    expected: Some(expected),
                    new: None,
                });
            }
        }
        Ok(changes)
    }

    /// The last entries, the newest first.
    ///
    /// # Errors
    /// The store cannot be read, or an entry is none.
    pub fn list(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        let last = self.store.record(LAST)?;
        let last = last.as_deref().map(parsed::<LastEntry>).transpose()?;
        let newest = last.map_or(0, |last| last.number);
        let mut entries = Vec::new();
        for number in (1..=newest).rev().take(limit) {
            let Some(entry) = self.store.record(&key(number))? else {
                break;
            };
            entries.push(parsed(&entry)?);
        }
        Ok(entries)
    }

    /// Looks whether each entry follows the one before; returns how many there are.
    ///
    /// # Errors
    /// An entry is missing, was changed or was put between others, or the store cannot be read.
    pub fn verify(&self) -> Result<usize, StoreError> {
        // Before the entries: those that come meanwhile are not looked at.
        let last = self.store.record(LAST)?;
        let last = last.as_deref().map(parsed::<LastEntry>).transpose()?;
        let newest = last.as_ref().map_or(0, |last| last.number);
        let entries = self.store.records(PREFIX)?;
        let mut before: Option<(u64, Hash)> = None;
        let mut count = 0;
        for (key, bytes) in &entries {
            let entry: AuditEntry = parsed(bytes)?;
            if entry.number > newest {
                break;
            }
            let follows = match before {
                Some((number, hash)) => entry.number == number + 1 && entry.previous == Some(hash),
                // The oldest that is kept.
                None => entry.previous.is_none() == (entry.number == 1),
            };
            if !follows || *key != self::key(entry.number) {
                return Err(broken(entry.number));
            }
            before = Some((entry.number, Hash::of(bytes)));
            count += 1;
        }
        match before == last.map(|last| (last.number, last.hash)) {
            true => Ok(count),
            false => Err(broken(newest)),
        }
    }
}

fn key(number: u64) -> String {
    format!("{PREFIX}{number:016}")
}

fn broken(number: u64) -> StoreError {
    StoreError::new(format!(
        "the audit was changed: entry {number} does not follow the one before"
    ))
}

fn parsed<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::new(format!("the audit: {error}")))
}

fn text(content: &impl Serialize) -> Vec<u8> {
    // Texts and whole numbers are always JSON.
    serde_json::to_vec(content).unwrap_or_default()
}
