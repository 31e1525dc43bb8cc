//! What nodes have agreed on: a value for a key, that of the first who proposed one. Without input or output but for its records.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use hermes_api::{Hash, Name, Proposed};
use serde_json::json;

use crate::store::{RecordChange, Store, StoreError};

/// Begins the keys of its records.
const RECORDS: &str = "agreed/";

/// Keys in all.
#[doc(alias = "bound")]
const KEYS: usize = 100_000;

/// Keys that one node has proposed first.
#[doc(alias = "bound")]
const OF_NODE: usize = 50_000;

/// Keys of one record: four times of what each has if keys are spread, and less than a store takes at once.
#[doc(alias = "bound")]
const OF_RECORD: usize = 1600;

/// Bytes of the longest key and of the longest value.
#[doc(alias = "bound")]
const LONGEST: (usize, usize) = (64, 255);

/// Records that are written in one turn: where everything changes, each of them comes up every eighth turn.
const AT_ONCE: usize = 32;

/// Milliseconds after which a key for which no one asks is forgotten.
const KEPT: u64 = 25 * 60 * 60 * 1000;

/// The record of a key: one of 256, so that a change writes a small part of them.
type Record = u8;

/// All that was agreed.
#[derive(Default)]
pub(super) struct Agreed {
    records: BTreeMap<Record, BTreeMap<String, AgreedValue>>,
    /// How many keys each node has.
    of_nodes: HashMap<Name, usize>,
    keys: usize,
    /// Records that differ from those of the store.
    changed: BTreeSet<Record>,
    /// The last one that was taken to be written.
    last: Record,
}

/// The value of a key.
struct AgreedValue {
    value: Arc<str>,
    /// Who proposed the key.
    node: Name,
    /// Milliseconds since the controller started.
    asked: u64,
}

impl Agreed {
    /// What the store has, as of now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn read(store: &dyn Store, now: u64) -> Result<Self, StoreError> {
        let mut agreed = Self::default();
        for (name, record) in store.records(RECORDS)? {
            // It is soft: what cannot be read is agreed on anew.
            let read: Result<BTreeMap<String, (String, Name)>, _> = serde_json::from_slice(&record);
            let Ok(read) = read else {
                tracing::warn!("the record {name} of what nodes agreed on cannot be read");
                continue;
            };
            for (key, (value, node)) in read {
                agreed.keep(key, value.into(), &node, now);
            }
        }
        agreed.changed.clear();
        Ok(agreed)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.keys
    }

    /// A proposal of a node: the value that its key has now. Where there is no room for the key, it is the one that was proposed, and nothing is
    /// kept.
    ///
    /// # Errors
    /// The proposal has no right form.
    pub(super) fn propose(
        &mut self,
        node: &Name,
        proposed: &Proposed,
        now: u64,
    ) -> Result<Arc<str>, &'static str> {
        let Proposed { key, value, .. } = proposed;
        if !is_key(key) {
            return Err("a key has 1 to 64 letters, digits, `-` and `_`");
        }
        if value.is_empty() || value.len() > LONGEST.1 || value.chars().any(char::is_control) {
            return Err("a value has 1 to 255 bytes, and no controls");
        }
        let record = record_of(key);
        let known = self.records.get_mut(&record);
        if let Some(known) = known.and_then(|known| known.get_mut(key)) {
            known.asked = now;
            if *known.value == *proposed.instead_of && *known.value != **value {
                known.value = value.as_str().into();
                self.changed.insert(record);
            }
            return Ok(known.value.clone());
        }
        let value: Arc<str> = value.as_str().into();
        self.keep(key.clone(), value.clone(), node, now);
        Ok(value)
    }

    /// Keeps a new key, if there is room for it.
    fn keep(&mut self, key: String, value: Arc<str>, node: &Name, asked: u64) {
        let record = record_of(&key);
        let of_node = self.of_nodes.get(node).copied().unwrap_or_default();
        let in_record = self.records.get(&record).map_or(0, BTreeMap::len);
        if self.keys >= KEYS || of_node >= OF_NODE || in_record >= OF_RECORD {
            return;
        }
        let agreed = AgreedValue {
            value,
            node: node.clone(),
            asked,
        };
        self.records.entry(record).or_default().insert(key, agreed);
        self.of_nodes.insert(node.clone(), of_node + 1);
        self.keys += 1;
        self.changed.insert(record);
    }

    /// Forgets keys for which no one has asked for long.
    pub(super) fn forget(&mut self, now: u64) {
        for (record, keys) in &mut self.records {
            let before = keys.len();
            keys.retain(|_, agreed| {
                let stays = now.saturating_sub(agreed.asked) < KEPT;
                if !stays && let Some(count) = self.of_nodes.get_mut(&agreed.node) {
                    *count -= 1;
                }
                stays
            });
            if keys.len() < before {
                self.keys -= before - keys.len();
                self.changed.insert(*record);
            }
        }
        self.of_nodes.retain(|_, count| *count > 0);
    }

    /// Takes the records that are to be written next: each with its content, or `None` where nothing is left of it.
    pub(super) fn take_changed(&mut self) -> Vec<(Record, Option<Vec<u8>>)> {
        let behind = (Bound::Excluded(self.last), Bound::Unbounded);
        let behind = self.changed.range(behind);
        let turn: Vec<Record> = behind
            .chain(self.changed.range(..=self.last))
            .copied()
            .take(AT_ONCE)
            .collect();
        let mut written = Vec::new();
        for record in turn {
            self.changed.remove(&record);
            self.last = record;
            let keys = self.records.get(&record).filter(|keys| !keys.is_empty());
            written.push((record, keys.map(content)));
        }
        written
    }

    /// Has records written again.
    pub(super) fn changed_again(&mut self, records: impl Iterator<Item = Record>) {
        self.changed.extend(records);
    }
}

fn content(keys: &BTreeMap<String, AgreedValue>) -> Vec<u8> {
    let keys = keys.iter();
    let written: BTreeMap<_, _> = keys
        .map(|(key, agreed)| (key, (&agreed.value, &agreed.node)))
        .collect();
    hermes_api::canonical(&json!(written))
}

/// Writes a record as the leader; returns whether it did.
///
/// # Errors
/// The store cannot be written, or another controller leads.
pub(super) fn write(
    store: &dyn Store,
    record: Record,
    new: Option<Vec<u8>>,
) -> Result<bool, StoreError> {
    let key = format!("{RECORDS}{record:02x}");
    let expected = store.record(&key)?;
    if expected == new {
        return Ok(true);
    }
    store.swap_as_leader(&[RecordChange { key, expected, new }])
}

fn record_of(key: &str) -> Record {
    Hash::of(key.as_bytes()).as_bytes()[0]
}

fn is_key(key: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST.0).contains(&key.len()) && key.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    fn proposed(key: &str, value: &str, instead_of: &str) -> Proposed {
        Proposed {
            number: 1,
            key: key.to_owned(),
            value: value.to_owned(),
            instead_of: instead_of.to_owned(),
        }
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn the_first_value_counts_until_it_is_replaced_by_name() {
        let mut agreed = Agreed::default();
        let mut say = |node: &str, value: &str, instead_of: &str| {
            let proposed = proposed("k", value, instead_of);
            let said = agreed.propose(&name(node), &proposed, 0).unwrap();
            said.to_string()
        };
        assert_eq!(say("a", "one", ""), "one");
        assert_eq!(say("b", "two", ""), "one");
        // Both have seen that it is gone, and one is first.
        assert_eq!(say("b", "two", "one"), "two");
        assert_eq!(say("a", "three", "one"), "two");
        assert_eq!(agreed.len(), 1);
    }

    #[test]
    fn what_has_no_right_form_is_refused() {
        let mut agreed = Agreed::default();
        let long = "x".repeat(65);
        for key in ["", &long, "a/b", "a b", "\u{e4}", "a\n"] {
            let refused = agreed.propose(&name("a"), &proposed(key, "v", ""), 0);
            assert!(refused.is_err(), "{key}");
        }
        let long = "x".repeat(256);
        for value in ["", &long, "a\nb"] {
            let refused = agreed.propose(&name("a"), &proposed("k", value, ""), 0);
            assert!(refused.is_err(), "{value}");
        }
        assert_eq!(agreed.len(), 0);
    }

    #[test]
    fn one_node_does_not_take_the_room_of_others_and_room_comes_back() {
        let mut agreed = Agreed::default();
        let greedy = name("greedy");
        for number in 0..OF_NODE + 500 {
            let proposed = proposed(&format!("k{number}"), "v", "");
            assert!(agreed.propose(&greedy, &proposed, 0).is_ok());
        }
        assert_eq!(agreed.len(), OF_NODE);
        let said = agreed.propose(&name("b"), &proposed("own", "w", ""), KEPT - 1);
        assert_eq!(said.as_deref(), Ok("w"));
        assert_eq!(agreed.len(), OF_NODE + 1);
        agreed.forget(KEPT);
        assert_eq!(agreed.len(), 1);
        assert_eq!(agreed.of_nodes.len(), 1);
        let _ = agreed.propose(&greedy, &proposed("k1", "v", ""), KEPT);
        assert_eq!(agreed.len(), 2);
    }

    #[test]
    fn no_record_grows_longer_than_a_store_takes() {
        let mut agreed = Agreed::default();
        let all = (0..).map(|number| format!("{number:064}"));
        let same = all.filter(|key| record_of(key) == 7).take(OF_RECORD + 10);
        for (number, key) in same.enumerate() {
            let node = name(&format!("n{}", number % 8));
            let value = "v".repeat(LONGEST.1);
            assert!(
                agreed
                    .propose(&node, &proposed(&key, &value, ""), 0)
                    .is_ok()
            );
        }
        assert_eq!(agreed.len(), OF_RECORD);
        let written = agreed.take_changed();
        let content = written[0].1.as_ref().unwrap();
        assert!(content.len() < 1024 * 1024, "{}", content.len());
    }

    #[test]
    fn the_next_leader_knows_what_was_written() {
        let store = MemoryStore::default();
        let mut agreed = Agreed::default();
        for number in 0..5000 {
            let key = format!("k{number}");
            let value = format!("v{number}");
            let _ = agreed.propose(&name("a"), &proposed(&key, &value, ""), 0);
        }
        // All in turns of a few.
        for _ in 0..8 {
            let turn = agreed.take_changed();
            assert_eq!(turn.len(), AT_ONCE);
            for (record, content) in turn {
                assert!(write(&store, record, content).unwrap());
            }
        }
        assert!(agreed.take_changed().is_empty());
        store
            .swap(&[RecordChange {
                key: format!("{RECORDS}zz"),
                expected: None,
                new: Some(b"{".to_vec()),
            }])
            .unwrap();

        let mut next = Agreed::read(&store, 5).unwrap();
        assert_eq!(next.len(), 5000);
        assert!(next.take_changed().is_empty());
        let said = next.propose(&name("b"), &proposed("k7", "other", ""), 5);
        assert_eq!(said.as_deref(), Ok("v7"));
        next.forget(5 + KEPT);
        while !next.changed.is_empty() {
            for (record, content) in next.take_changed() {
                assert_eq!(content, None);
                assert!(write(&store, record, content).unwrap());
            }
        }
        assert_eq!(store.records(RECORDS).unwrap().len(), 1);
    }
}
