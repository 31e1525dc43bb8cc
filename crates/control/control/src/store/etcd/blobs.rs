//! Blobs in etcd: written in batches that fit a request, the large ones in chunks.
//!
//! The value of `blob/HASH` begins with [`WHOLE`] and the content, or with [`CHUNKED`] and the number of chunks in decimal. Chunks are
//! written after the key that speaks of them, and removed with it; a blob that lacks some is not there.

use std::collections::BTreeMap;

use hermes_api::Hash;

use super::client::Client;
use super::keys::{Keys, after, rest};
use super::messages::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, Request, RequestOp, TxnRequest, methods,
};
use super::ranges;
use crate::store::{KeptBlob, StoreError};

/// Operations of one transaction; etcd takes 128.
#[doc(alias = "bound")]
const BATCH: usize = 64;

/// Bytes of the blobs in one request; etcd takes 1.5 MiB with all that is around them.
#[doc(alias = "bound")]
const BATCH_BYTES: usize = 1024 * 1024;

/// Bytes of one value.
#[doc(alias = "bound")]
const CHUNK: usize = 512 * 1024;

const WHOLE: u8 = b'w';
const CHUNKED: u8 = b'c';

/// Blobs of one overlay.
pub(super) struct Blobs<'a> {
    pub(super) client: &'a Client,
    pub(super) keys: &'a Keys,
}

impl Blobs<'_> {
    /// Writes blobs, also those that are there: each write makes them younger.
    pub(super) async fn keep(&self, blobs: Vec<Vec<u8>>) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        for blob in blobs {
            let hash = Hash::of(&blob);
            if blob.len() < CHUNK {
                let put = put(self.keys.blob(&hash), WHOLE, &blob);
                self.add(&mut batch, put).await?;
                continue;
            }
            // Before its chunks, so that a removal under way leaves them alone. No one reads it before all of this is over.
            let chunks = blob.chunks(CHUNK);
            let count = chunks.len().to_string();
            let put_count = put(self.keys.blob(&hash), CHUNKED, count.as_bytes());
            self.add(&mut batch, put_count).await?;
            self.send(&mut batch).await?;
            for (number, chunk) in chunks.enumerate() {
                let put = put(self.keys.chunk(&hash, number), WHOLE, chunk);
                self.add(&mut batch, put).await?;
            }
        }
        self.send(&mut batch).await
    }

    async fn add(&self, batch: &mut Batch, put: PutRequest) -> Result<(), StoreError> {
        let bytes = put.key.len() + put.value.len();
        if batch.puts.len() >= BATCH || batch.bytes + bytes > BATCH_BYTES {
            self.send(batch).await?;
        }
        batch.bytes += bytes;
        // One transaction changes a key once.
        batch.puts.insert(put.key.clone(), put);
        Ok(())
    }

    async fn send(&self, batch: &mut Batch) -> Result<(), StoreError> {
        let batch = std::mem::take(batch);
        if batch.puts.is_empty() {
            return Ok(());
        }
        let puts = batch.puts.into_values();
        let request = TxnRequest {
            success: puts.map(|put| Request::Put(put).into()).collect(),
            ..TxnRequest::default()
        };
        self.client.txn(request).await.map(drop)
    }

    /// The blobs of these hashes, in their order.
    pub(super) async fn read(&self, hashes: &[Hash]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let mut found = Vec::with_capacity(hashes.len());
        for batch in hashes.chunks(BATCH) {
            let range = |hash: &Hash| -> RequestOp {
                let key = self.keys.blob(hash);
                Request::Range(RangeRequest {
                    key,
                    ..RangeRequest::default()
                })
                .into()
            };
            let request = TxnRequest {
                success: batch.iter().map(range).collect(),
                ..TxnRequest::default()
            };
            let values: Vec<_> = self.client.txn(request).await?.found().collect();
            for (hash, value) in batch.iter().zip(values) {
                found.push(match value {
                    Some(value) => self.content(hash, value.value).await?,
                    None => None,
                });
            }
        }
        Ok(found)
    }

    /// The content of a blob by its value.
    async fn content(
        &self,
        hash: &Hash,
        mut value: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        if value.first() == Some(&WHOLE) {
            value.remove(0);
            return Ok(Some(value));
        }
        let count = value
            .get(1..)
            .and_then(|count| std::str::from_utf8(count).ok());
        let count: Option<usize> = count.and_then(|count| count.parse().ok());
        let chunks = ranges::all(self.client, &self.keys.chunks(hash), false).await?;
        // It was removed meanwhile, or another program has written it.
        if value.first() != Some(&CHUNKED) || count != Some(chunks.len()) {
            return Ok(None);
        }
        let chunks = chunks.iter().flat_map(|chunk| chunk.value.iter().skip(1));
        Ok(Some(chunks.copied().collect()))
    }

    pub(super) async fn kept(&self) -> Result<Vec<KeptBlob>, StoreError> {
        let prefix = self.keys.blobs();
        let found = ranges::all(self.client, &prefix, true).await?;
        let found = found.iter().filter_map(|found| {
            Some(KeptBlob {
                hash: rest(&found.key, &prefix).parse().ok()?,
                mark: found.mod_revision.unsigned_abs(),
            })
        });
        Ok(found.collect())
    }

    /// Removes blobs that no one has written since they were listed, while the leader of `term` leads. Returns whether it did all along.
    pub(super) async fn remove(
        &self,
        blobs: &[KeptBlob],
        term: Option<i64>,
    ) -> Result<bool, StoreError> {
        let leader = self.keys.leader();
        let leads: Vec<_> = term
            .iter()
            .map(|term| Compare::created_at(&leader, *term))
            .collect();
        for batch in blobs.chunks(BATCH / 2) {
            let request = TxnRequest {
                compare: leads.clone(),
                success: batch.iter().map(|blob| self.removal(blob)).collect(),
                failure: Vec::new(),
            };
            if !self.client.txn(request).await?.succeeded {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The removal of one blob. Its chunks go with it: who has written it anew has changed its mark.
    fn removal(&self, blob: &KeptBlob) -> RequestOp {
        let key = self.keys.blob(&blob.hash);
        let chunks = self.keys.chunks(&blob.hash);
        let removed = DeleteRangeRequest {
            key: key.clone(),
            range_end: Vec::new(),
        };
        let with_it = DeleteRangeRequest {
            range_end: after(&chunks),
            key: chunks,
        };
        Request::Txn(TxnRequest {
            compare: vec![Compare::changed_at(&key, blob.mark.cast_signed())],
            success: vec![
                Request::DeleteRange(removed).into(),
                Request::DeleteRange(with_it).into(),
            ],
            failure: Vec::new(),
        })
        .into()
    }
}

/// Puts of one transaction.
#[derive(Default)]
struct Batch {
    puts: BTreeMap<Vec<u8>, PutRequest>,
    bytes: usize,
}

fn put(key: Vec<u8>, form: u8, content: &[u8]) -> PutRequest {
    let mut value = Vec::with_capacity(content.len() + 1);
    value.push(form);
    value.extend_from_slice(content);
    PutRequest {
        key,
        value,
        lease: 0,
    }
}

/// Removes a key.
pub(super) async fn remove_key(client: &Client, key: Vec<u8>) -> Result<(), StoreError> {
    let request = DeleteRangeRequest {
        key,
        range_end: Vec::new(),
    };
    client
        .ask::<_, super::messages::DeleteRangeResponse>(methods::DELETE_RANGE, request)
        .await
        .map(drop)
}
