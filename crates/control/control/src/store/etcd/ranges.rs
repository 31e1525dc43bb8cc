//! Reading many keys: page after page of one state.

use super::client::Client;
use super::keys::after;
use super::messages::{KeyValue, RangeRequest};
use crate::store::StoreError;

/// Keys of one answer, with their values.
#[doc(alias = "bound")]
const PAGE: i64 = 500;

/// Keys of one answer, without their values.
#[doc(alias = "bound")]
const NAMES: i64 = 10_000;

/// How often a listing begins anew because etcd has forgotten its state meanwhile.
const TRIES: usize = 3;

/// All keys that begin so, in their order.
pub(super) async fn all(
    client: &Client,
    prefix: &[u8],
    keys_only: bool,
) -> Result<Vec<KeyValue>, StoreError> {
    let mut tries = 0;
    loop {
        tries += 1;
        match pages(client, prefix, keys_only).await {
            Err(StoreError::Other(reason)) if reason.contains("compacted") && tries < TRIES => {}
            listed => return listed,
        }
    }
}

async fn pages(
    client: &Client,
    prefix: &[u8],
    keys_only: bool,
) -> Result<Vec<KeyValue>, StoreError> {
    let mut found: Vec<KeyValue> = Vec::new();
    let mut request = RangeRequest {
        key: prefix.to_vec(),
        range_end: after(prefix),
        limit: if keys_only { NAMES } else { PAGE },
        revision: 0,
        keys_only,
    };
    loop {
        let page = client.range(request.clone()).await?;
        // Later pages are of the state of the first.
        if request.revision == 0 {
            request.revision = page.header.map_or(0, |header| header.revision);
        }
        found.extend(page.kvs);
        let Some(last) = found.last().filter(|_| page.more) else {
            return Ok(found);
        };
        request.key = last.key.clone();
        request.key.push(0);
    }
}

/// The value of one key.
pub(super) async fn one(client: &Client, key: Vec<u8>) -> Result<Option<KeyValue>, StoreError> {
    let request = RangeRequest {
        key,
        ..RangeRequest::default()
    };
    let found = client.range(request).await?;
    Ok(found.kvs.into_iter().next())
}
