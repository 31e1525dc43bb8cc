//! A store as one file: written while it is used, and read into an empty one.
//!
//! The file begins with [`MARK`]. Entries follow: a letter (`r` for a record, `b` for a blob), the lengths of key and content as 32 bits
//! in network order, the key, the content. The last entry is `e`, with the SHA-256 of all bytes before it as its content. Damage
//! anywhere is found before anything is written.

use std::io::{self, Read, Write};

use hermes_api::Hash;

use super::history::HEAD;
use super::schema::{SCHEMA, judge_schema};
use super::{RESTORING, RecordChange, Store, StoreError};

/// Begins every backup: its form, and the version of that.
const MARK: &[u8] = b"hermes backup 1\n";

/// Bytes of the largest backup that is read.
#[doc(alias = "bound")]
const LARGEST: u64 = 4 * 1024 * 1024 * 1024;

/// Entries that are written to a store at once.
const BATCH: usize = 64;

/// Bytes of records that are written to a store at once, but for one that is longer.
const BATCH_BYTES: usize = 512 * 1024;

const RECORD: u8 = b'r';
const BLOB: u8 = b'b';
const END: u8 = b'e';

/// One entry.
struct BackupEntry<'a> {
    kind: u8,
    key: &'a [u8],
    content: &'a [u8],
}

/// Writes all that a store has.
///
/// # Errors
/// The store cannot be read, or the file cannot be written.
pub(super) fn write(store: &dyn Store, out: &mut dyn Write) -> Result<(), StoreError> {
    let mut text = MARK.to_vec();
    // Records first: blobs that they lead to are there at the latest by then.
    for (key, content) in store.records("")? {
        add(&mut text, RECORD, key.as_bytes(), &content)?;
    }
    let hashes: Vec<_> = store.kept()?.iter().map(|kept| kept.hash).collect();
    for hashes in hashes.chunks(BATCH) {
        for (hash, content) in hashes.iter().zip(store.blobs(hashes)?) {
            let Some(content) = content else {
                continue;
            };
            add(&mut text, BLOB, hash.as_bytes(), &content)?;
        }
    }
    let sum = Hash::of(&text);
    add(&mut text, END, b"", sum.as_bytes())?;
    out.write_all(&text)
        .and_then(|()| out.flush())
        .map_err(failed)
}

fn add(text: &mut Vec<u8>, kind: u8, key: &[u8], content: &[u8]) -> Result<(), StoreError> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).map(u32::to_be_bytes);
    let too_long = |_| StoreError::new("an entry is longer than 4 GiB");
    text.push(kind);
    text.extend(length(key).map_err(too_long)?);
    text.extend(length(content).map_err(too_long)?);
    text.extend_from_slice(key);
    text.extend_from_slice(content);
    Ok(())
}

/// Reads a backup into an empty store, all but its head, which makes it a state. Returns that.
///
/// Until the head is there, the record [`RESTORING`] says that the rest may be incomplete: no controller begins with it, and the backup
/// can be read anew.
///
/// # Errors
/// The store is not empty, the file is damaged or none of ours, or one of the two cannot be used. A damaged file writes nothing.
pub(super) fn read(store: &dyn Store, file: &mut dyn Read) -> Result<Option<Vec<u8>>, StoreError> {
    let known = store.records("")?;
    let is_cut = known.iter().any(|(key, _)| key == RESTORING);
    if !known.is_empty() && !is_cut {
        return Err(StoreError::new("a backup is read into an empty store only"));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).map_err(failed)?;
    let entries = entries(&text)?;
    let is_schema =
        |entry: &&BackupEntry<'_>| entry.kind == RECORD && entry.key == SCHEMA.as_bytes();
    if let Some(schema) = entries.iter().find(is_schema) {
        judge_schema(schema.content)?;
    }

    // What an attempt that was cut has left is not that of this backup.
    let left = known.into_iter().filter(|(key, _)| key != RESTORING);
    let mut changes: Vec<_> = left
        .map(|(key, content)| change(key, Some(content), None))
        .collect();
    if !is_cut {
        changes.push(change(RESTORING.to_owned(), None, Some(Vec::new())));
    }
    swap_all(store, changes)?;
    let blobs: Vec<_> = entries.iter().filter(|entry| entry.kind == BLOB).collect();
    for blobs in blobs.chunks(BATCH) {
        let blobs: Vec<_> = blobs.iter().map(|entry| entry.content.to_vec()).collect();
        store.keep(&blobs)?;
    }
    let mut head = None;
    let mut changes = Vec::new();
    for entry in entries.iter().filter(|entry| entry.kind == RECORD) {
        let key = String::from_utf8_lossy(entry.key).into_owned();
        match key.as_str() {
            HEAD => head = Some(entry.content.to_vec()),
            _ => changes.push(change(key, None, Some(entry.content.to_vec()))),
        }
    }
    swap_all(store, changes)?;
    Ok(head)
}

/// The change that ends a restore, to be made with that of the head.
pub(super) fn restored() -> RecordChange {
    change(RESTORING.to_owned(), Some(Vec::new()), None)
}

fn change(key: String, expected: Option<Vec<u8>>, new: Option<Vec<u8>>) -> RecordChange {
    RecordChange { key, expected, new }
}

/// Makes many changes, some at a time.
fn swap_all(store: &dyn Store, changes: Vec<RecordChange>) -> Result<(), StoreError> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    let swap = |batch: &mut Vec<RecordChange>| match store.swap(batch)? {
        true => {
            batch.clear();
            Ok(())
        }
        false => Err(StoreError::new("another process writes to the store")),
    };
    for change in changes {
        let length = change.key.len() + change.new.as_ref().map_or(0, Vec::len);
        if !batch.is_empty() && (batch.len() >= BATCH || bytes + length > BATCH_BYTES) {
            swap(&mut batch)?;
            bytes = 0;
        }
        bytes += length;
        batch.push(change);
    }
    swap(&mut batch)
}

/// The entries of a backup whose sum is right.
fn entries(text: &[u8]) -> Result<Vec<BackupEntry<'_>>, StoreError> {
    let damaged = || StoreError::new("the backup is damaged, or none");
    let mut rest = text.strip_prefix(MARK).ok_or_else(damaged)?;
    let mut entries = Vec::new();
    loop {
        let before = text.len() - rest.len();
        let entry = take(&mut rest).ok_or_else(damaged)?;
        if entry.kind != END {
            entries.push(entry);
            continue;
        }
        let is_whole = entry.content == Hash::of(&text[..before]).as_bytes() && rest.is_empty();
        return is_whole.then_some(entries).ok_or_else(damaged);
    }
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<BackupEntry<'a>> {
    let (kind, tail) = rest.split_first()?;
    let (key, tail) = length(tail)?;
    let (content, tail) = length(tail)?;
    let (key, tail) = tail.split_at_checked(key)?;
    let (content, tail) = tail.split_at_checked(content)?;
    *rest = tail;
    Some(BackupEntry {
        kind: *kind,
        key,
        content,
    })
}

fn length(text: &[u8]) -> Option<(usize, &[u8])> {
    let (length, tail) = text.split_first_chunk()?;
    Some((usize::try_from(u32::from_be_bytes(*length)).ok()?, tail))
}

fn failed(error: io::Error) -> StoreError {
    StoreError::new(format!("the backup: {error}"))
}
