//! The store of several controllers: etcd v3.
//!
//! - `address`: where it is. `messages`, `client`: its API, and calls that try one server after the other. `runtime`: the thread on which
//!   they happen.
//! - `keys`: names of keys. `blobs`, `records`, `ranges`: their contents.
//! - `election`: who leads. `tending`: room in the database.
//!
//! Each call is bounded in time. A read sees all that was written before it began, by whichever controller: etcd answers reads by its
//! majority unless told otherwise.

mod address;
mod blobs;
mod client;
mod election;
mod keys;
mod messages;
mod ranges;
mod records;
mod runtime;
#[cfg(test)]
pub(crate) mod server;
mod tending;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hermes_api::Hash;
use hermes_net::clock::unix_seconds;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use self::address::{EtcdAddress, EtcdIdentity, EtcdTls};
use self::blobs::Blobs;
use self::client::Client;
use self::election::{Election, watch_keys};
use self::keys::Keys;
use self::records::{EtcdRecords, Slots, Swapped};
use self::runtime::Runtime;
use self::tending::tend;
use super::cache::BlobCache;
use super::{KeptBlob, Leadership, RecordChange, Store, StoreError};

/// A store in etcd, which several controllers have at once.
pub struct EtcdStore {
    runtime: Runtime,
    shared: Arc<Shared>,
    /// Ends the tasks beside the calls.
    ends: watch::Sender<bool>,
    election: Mutex<Option<JoinHandle<()>>>,
}

/// The parts that calls and the tasks beside them share.
struct Shared {
    client: Client,
    keys: Keys,
    slots: Slots,
    /// Contents that were read: they never change.
    cache: BlobCache,
    /// The revision that made this controller the leader.
    term: Mutex<Option<i64>>,
}

impl EtcdStore {
    /// Opens the part of an overlay.
    ///
    /// # Errors
    /// No server answers, or a file of TLS cannot be read.
    pub fn open(address: &EtcdAddress, tls: Option<&EtcdTls>) -> Result<Self, StoreError> {
        let tls = tls.map(EtcdTls::config).transpose()?;
        let failed = |error: std::io::Error| StoreError::new(error.to_string());
        let store = Self {
            runtime: Runtime::start().map_err(failed)?,
            shared: Arc::new(Shared {
                client: Client::new(address.endpoints.clone(), tls),
                keys: Keys::new(&address.overlay),
                slots: Slots::new(),
                cache: BlobCache::default(),
                term: Mutex::new(None),
            }),
            ends: watch::Sender::new(false),
            election: Mutex::new(None),
        };
        // A wrong address is told now, not by the first change.
        store.record("head")?;
        Ok(store)
    }

    /// Takes part in the election of a leader from now on, as a controller that nodes reach at this address.
    pub fn take_part(&self, url: &str) -> Leadership {
        let election = Election::new(self.shared.clone(), url);
        let leadership = election.leadership();
        let ends = self.ends.subscribe();
        let watch = watch_keys(self.shared.clone(), election.news(), ends.clone());
        self.runtime.spawn(watch);
        self.runtime.spawn(tend(self.shared.clone(), ends.clone()));
        let election = self.runtime.spawn(election.run(ends));
        *self.election.lock() = Some(election);
        leadership
    }

    /// Takes part no longer, so that another controller leads at once. It may block for a moment.
    pub fn resign(&self) {
        self.ends.send_replace(true);
        let Some(election) = self.election.lock().take() else {
            return;
        };
        let ended = async move {
            // A task that has failed has ended, too.
            let _ = election.await;
            Ok(())
        };
        let _ = self.runtime.wait(ended);
    }

    fn swap_in(&self, changes: &[RecordChange], term: Option<i64>) -> Result<bool, StoreError> {
        let shared = self.shared.clone();
        let changes = changes.to_vec();
        let now = unix_seconds();
        let swapped = self
            .runtime
            .wait(async move { shared.records().swap(&changes, term, now).await })?;
        match swapped {
            Swapped::Yes => Ok(true),
            Swapped::No => Ok(false),
            Swapped::NotLeading => Err(StoreError::NotLeading),
        }
    }

    fn term(&self) -> Result<i64, StoreError> {
        self.shared.term.lock().ok_or(StoreError::NotLeading)
    }
}

impl Shared {
    fn blobs(&self) -> Blobs<'_> {
        Blobs {
            client: &self.client,
            keys: &self.keys,
        }
    }

    fn records(&self) -> EtcdRecords<'_> {
        EtcdRecords {
            client: &self.client,
            keys: &self.keys,
            slots: &self.slots,
        }
    }
}

impl Store for EtcdStore {
    fn blob(&self, hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.blobs(&[*hash])?.pop().flatten())
    }

    fn blobs(&self, hashes: &[Hash]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let cache = &self.shared.cache;
        let mut found: Vec<_> = hashes.iter().map(|hash| cache.get(hash)).collect();
        let missing: Vec<_> = hashes
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.is_none())
            .map(|(hash, _)| *hash)
            .collect();
        if missing.is_empty() {
            return Ok(found);
        }
        let shared = self.shared.clone();
        let read = self
            .runtime
            .wait(async move { shared.blobs().read(&missing).await })?;
        let absent = found.iter_mut().filter(|found| found.is_none());
        for (slot, read) in absent.zip(read) {
            if let Some(read) = &read {
                cache.put(read);
            }
            *slot = read;
        }
        Ok(found)
    }

    fn keep(&self, blobs: &[Vec<u8>]) -> Result<(), StoreError> {
        let shared = self.shared.clone();
        let blobs = blobs.to_vec();
        self.runtime
            .wait(async move { shared.blobs().keep(blobs).await })
    }

    fn record(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let shared = self.shared.clone();
        let key = key.to_owned();
        self.runtime
            .wait(async move { shared.records().one(&key).await })
    }

    fn records(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let shared = self.shared.clone();
        let prefix = prefix.to_owned();
        self.runtime
            .wait(async move { shared.records().all(&prefix).await })
    }

    fn swap(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        self.swap_in(changes, None)
    }

    fn swap_as_leader(&self, changes: &[RecordChange]) -> Result<bool, StoreError> {
        let term = self.term()?;
        self.swap_in(changes, Some(term))
    }

    fn remove_blobs(&self, blobs: &[KeptBlob]) -> Result<(), StoreError> {
        let term = self.term()?;
        let shared = self.shared.clone();
        let gone = blobs.to_vec();
        blobs
            .iter()
            .for_each(|blob| self.shared.cache.remove(&blob.hash));
        let led = self
            .runtime
            .wait(async move { shared.blobs().remove(&gone, Some(term)).await })?;
        led.then_some(()).ok_or(StoreError::NotLeading)
    }

    fn kept(&self) -> Result<Vec<KeptBlob>, StoreError> {
        let shared = self.shared.clone();
        self.runtime
            .wait(async move { shared.blobs().kept().await })
    }
}
