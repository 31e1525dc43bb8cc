//! A store as one file: written while it is used, and read into an empty one.
//!
//! The file begins with [`MARK`]. Entries follow: a letter (`r` for a record, `b` for a blob), the lengths of key and content as 32 bits
//! in network order, the key, the content. The last entry is `e`, with the SHA-256 of all bytes before it as its content. Damage
//! anywhere is found before anything is written.

use std::io::{self, Read, Write};

use hermes_api::Hash;

use super::{RecordChange, Store, StoreError};

/// Begins every backup: its form, and the version of that.
const MARK: &[u8] = b"hermes backup 1\n";

/// Bytes of the largest backup that is read.
#[doc(alias = "bound")]
const LARGEST: u64 = 4 * 1024 * 1024 * 1024;

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
    for hash in store.hashes()? {
        if let Some(content) = store.blob(&hash)? {
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
    let too_long = |_| StoreError("an entry is longer than 4 GiB".to_owned());
    text.push(kind);
    text.extend(length(key).map_err(too_long)?);
    text.extend(length(content).map_err(too_long)?);
    text.extend_from_slice(key);
    text.extend_from_slice(content);
    Ok(())
}

/// Reads a backup into an empty store.
///
/// # Errors
/// The store is not empty, the file is damaged or none of ours, or one of the two cannot be used. Then nothing was written.
pub(super) fn read(store: &dyn Store, file: &mut dyn Read) -> Result<(), StoreError> {
    if !store.records("")?.is_empty() {
        return Err(StoreError(
            "a backup is read into an empty store only".to_owned(),
        ));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).map_err(failed)?;
    let entries = entries(&text)?;

    let blobs = entries.iter().filter(|entry| entry.kind == BLOB);
    let blobs: Vec<_> = blobs.map(|entry| entry.content.to_vec()).collect();
    store.keep(&blobs)?;
    // All records at once, the head among them: a restore that is cut leaves an empty store.
    let records = entries.iter().filter(|entry| entry.kind == RECORD);
    let records: Vec<_> = records
        .map(|entry| RecordChange {
            key: String::from_utf8_lossy(entry.key).into_owned(),
            expected: None,
            new: Some(entry.content.to_vec()),
        })
        .collect();
    match store.swap(&records)? {
        true => Ok(()),
        false => Err(StoreError("another process writes to the store".to_owned())),
    }
}

/// The entries of a backup whose sum is right.
fn entries(text: &[u8]) -> Result<Vec<BackupEntry<'_>>, StoreError> {
    let damaged = || StoreError("the backup is damaged, or none".to_owned());
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
    StoreError(format!("the backup: {error}"))
}
