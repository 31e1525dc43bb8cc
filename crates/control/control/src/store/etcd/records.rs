//! Records in etcd, and their changes by compare-and-swap.
//!
//! A server may be lost between a transaction and its answer, and the repeated one would find that the records are not as expected any
//! more. So each transaction also changes a *slot*, a key of this client alone, and expects that it is as the last one left it: a
//! transaction that is repeated is carried out once, and the slot says whether it was.

use parking_lot::Mutex;

use super::blobs::remove_key;
use super::client::Client;
use super::keys::{Keys, rest};
use super::messages::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, Request, RequestOp, TxnRequest,
};
use super::ranges;
use crate::store::{RecordChange, StoreError};

/// Records of one transaction. With its slot and the leader they stay below etcd's 128 operations.
#[doc(alias = "bound")]
pub(super) const CHANGES: usize = 100;

/// Bytes of one transaction; etcd takes 1.5 MiB.
#[doc(alias = "bound")]
const BYTES: usize = 1400 * 1024;

/// Seconds after which the slot of a client that has written nothing is removed.
#[doc(alias = "bound")]
const IDLE: u64 = 24 * 60 * 60;

/// How often a transaction begins anew because its slot was removed.
const TRIES: usize = 3;

/// The slots of one client. There are as many as it made transactions at once.
pub(super) struct Slots {
    client: u64,
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    slots: Vec<Slot>,
    count: usize,
}

/// One slot.
struct Slot {
    number: usize,
    /// Its value after the last transaction.
    last: Option<Vec<u8>>,
}

impl Slots {
    pub(super) fn new() -> Self {
        Self {
            client: fastrand::u64(..),
            free: Mutex::default(),
        }
    }

    fn take(&self) -> Slot {
        let mut free = self.free.lock();
        if let Some(slot) = free.slots.pop() {
            return slot;
        }
        free.count += 1;
        Slot {
            number: free.count,
            last: None,
        }
    }

    fn give_back(&self, slot: Slot) {
        self.free.lock().slots.push(slot);
    }
}

/// Records of one overlay.
pub(super) struct EtcdRecords<'a> {
    pub(super) client: &'a Client,
    pub(super) keys: &'a Keys,
    pub(super) slots: &'a Slots,
}

/// The outcome of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Swapped {
    Yes,
    /// A record was not as expected.
    No,
    /// The controller does not lead any more.
    NotLeading,
}

impl EtcdRecords<'_> {
    pub(super) async fn one(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let found = ranges::one(self.client, self.keys.record(key)).await?;
        Ok(found.map(|found| found.value))
    }

    pub(super) async fn all(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let beginning = self.keys.record("");
        let found = ranges::all(self.client, &self.keys.record(prefix), false).await?;
        let found = found.into_iter();
        Ok(found
            .map(|found| (rest(&found.key, &beginning), found.value))
            .collect())
    }

    /// Makes changes, all or none, if each record is as expected, and if the leader of `term` still leads.
    pub(super) async fn swap(
        &self,
        changes: &[RecordChange],
        term: Option<i64>,
        now: u64,
    ) -> Result<Swapped, StoreError> {
        bounded(changes)?;
        let mut slot = self.slots.take();
        let swapped = self.swap_in(&mut slot, changes, term, now).await;
        // After a failure no one knows its value: a new slot takes its place.
        if swapped.is_ok() {
            self.slots.give_back(slot);
        }
        swapped
    }

    async fn swap_in(
        &self,
        slot: &mut Slot,
        changes: &[RecordChange],
        term: Option<i64>,
        now: u64,
    ) -> Result<Swapped, StoreError> {
        let key = self.keys.slot(self.slots.client, slot.number);
        let mark = format!("{:032x} {now}", fastrand::u128(..)).into_bytes();
        for _ in 0..TRIES {
            let request = self.request(&key, slot, &mark, changes, term);
            let answer = self.client.txn(request).await?;
            if answer.succeeded {
                slot.last = Some(mark);
                return Ok(Swapped::Yes);
            }
            let mut found = answer.found();
            let found_slot = found.next().flatten().map(|found| found.value);
            // An earlier attempt was carried out, whose answer was lost.
            if found_slot.as_ref() == Some(&mark) {
                slot.last = found_slot;
                return Ok(Swapped::Yes);
            }
            let leader = found.next().flatten().map(|leader| leader.create_revision);
            if term.is_some() && leader != term {
                return Ok(Swapped::NotLeading);
            }
            if found_slot == slot.last {
                return Ok(Swapped::No);
            }
            // It was idle for so long that it was removed.
            slot.last = found_slot;
        }
        Err(StoreError::new("its slots in etcd change all the time"))
    }

    fn request(
        &self,
        key: &[u8],
        slot: &Slot,
        mark: &[u8],
        changes: &[RecordChange],
        term: Option<i64>,
    ) -> TxnRequest {
        let leader = self.keys.leader();
        let mut compare = vec![Compare::is(key, slot.last.as_deref())];
        compare.extend(term.map(|term| Compare::created_at(&leader, term)));
        let mut success = vec![put(key.to_vec(), mark.to_vec())];
        for change in changes {
            let key = self.keys.record(&change.key);
            compare.push(Compare::is(&key, change.expected.as_deref()));
            success.push(match &change.new {
                Some(record) => put(key, record.clone()),
                None => Request::DeleteRange(DeleteRangeRequest {
                    key,
                    range_end: Vec::new(),
                })
                .into(),
            });
        }
        let range = |key: Vec<u8>| {
            Request::Range(RangeRequest {
                key,
                ..RangeRequest::default()
            })
            .into()
        };
        TxnRequest {
            compare,
            success,
            failure: vec![range(key.to_vec()), range(leader)],
        }
    }

    /// Removes the slots of clients that are gone.
    pub(super) async fn tend_slots(&self, now: u64) -> Result<(), StoreError> {
        for slot in ranges::all(self.client, &self.keys.slots(), false).await? {
            let text = String::from_utf8_lossy(&slot.value).into_owned();
            let time = text.split_once(' ').and_then(|(_, time)| time.parse().ok());
            if time.is_none_or(|time: u64| time + IDLE < now) {
                remove_key(self.client, slot.key).await?;
            }
        }
        Ok(())
    }
}

/// # Errors
/// The changes do not fit a transaction.
fn bounded(changes: &[RecordChange]) -> Result<(), StoreError> {
    let lengths = changes.iter().map(|change| {
        let length = |content: &Option<Vec<u8>>| content.as_ref().map_or(0, Vec::len);
        2 * change.key.len() + length(&change.expected) + length(&change.new)
    });
    let bytes: usize = lengths.sum();
    if changes.len() > CHANGES || bytes > BYTES {
        let first = changes.first().map_or("", |change| &change.key);
        return Err(StoreError::new(format!(
            "{} records with {bytes} bytes are too much for one change in etcd, which takes {CHANGES} and {BYTES} bytes; the first is {first:?}",
            changes.len()
        )));
    }
    Ok(())
}

fn put(key: Vec<u8>, value: Vec<u8>) -> RequestOp {
    Request::Put(PutRequest {
        key,
        value,
        lease: 0,
    })
    .into()
}
