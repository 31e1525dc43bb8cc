//! The blob of a tree: its resources by name, each with the hash of its own blob.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use hermes_api::Hash;
use serde::{Deserialize, Serialize};

use crate::resources::{Key, Origin, Tree};

/// A resource in the blob of a tree.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) hash: Hash,
    /// Where it was written, so that mistakes can be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Hash>,
}

/// The blobs that a tree leads to.
pub(super) fn reached_by(entries: &BTreeMap<Key, Entry>) -> impl Iterator<Item = Hash> + '_ {
    let entries = entries.values();
    entries.flat_map(|entry| std::iter::once(entry.hash).chain(entry.origin))
}

/// The entries of a tree; the blobs of its resources that are not known are added to `blobs`.
pub(super) fn tree_entries(
    tree: &Tree,
    known: &BTreeSet<Hash>,
    blobs: &mut Vec<Vec<u8>>,
) -> BTreeMap<Key, Entry> {
    let mut entries = BTreeMap::new();
    for resource in tree.resources() {
        let key = resource.key();
        let entry = Entry {
            hash: resource.hash(),
            origin: tree.origin_hash(key),
        };
        if !known.contains(&entry.hash) {
            blobs.push(resource.canonical());
        }
        if entry.origin.is_some_and(|hash| !known.contains(&hash)) {
            blobs.extend(tree.origin(key).map(Origin::canonical));
        }
        entries.insert(key.clone(), entry);
    }
    entries
}

/// The blob of a tree. It is as long as the overlay is large and made anew with each change, so it is written without a tree of JSON
/// between: names of resources and hashes have no letters that JSON writes otherwise.
pub(super) fn tree_blob(entries: &BTreeMap<Key, Entry>) -> Vec<u8> {
    let entries = entries.iter();
    let mut sorted: Vec<(String, &Entry)> = entries
        .map(|(key, entry)| (key.to_string(), entry))
        .collect();
    sorted.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));

    let mut blob = String::from("{");
    for (index, (key, Entry { hash, origin })) in sorted.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        // Writing to a text does not fail.
        let _ = write!(blob, "{comma}\"{key}\":{{\"hash\":\"{hash}\"");
        if let Some(origin) = origin {
            let _ = write!(blob, ",\"origin\":\"{origin}\"");
        }
        blob.push('}');
    }
    blob.push('}');
    blob.into_bytes()
}

#[cfg(test)]
mod tests {
    use hermes_api::canonical;

    use super::*;

    #[test]
    fn a_tree_has_the_spelling_of_every_blob() {
        let mut entries = BTreeMap::new();
        assert_eq!(tree_blob(&entries), b"{}");
        for (number, key) in ["Node/hub", "Name/red/a", "Name/default/a-1", "Name/a"]
            .iter()
            .enumerate()
        {
            let origin = (number % 2 == 0).then(|| Hash::of(b"origin"));
            let hash = Hash::of(key.as_bytes());
            entries.insert(key.parse().unwrap(), Entry { hash, origin });
            let json = serde_json::to_value(&entries).unwrap();
            assert_eq!(tree_blob(&entries), canonical(&json));
        }
    }
}
