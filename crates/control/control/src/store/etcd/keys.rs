//! Keys in etcd. All of an overlay begin with `/hermes/OVERLAY/`.
//!
//! - `blob/HASH`: a blob, or how many chunks it has. `chunk/HASH/NUMBER`: those.
//! - `record/KEY`: a record.
//! - `slot/CLIENT/NUMBER`: the last transaction of a client, by which it learns whether one that it repeats was carried out.
//! - `live/leader`, `live/controller/ID`: who leads, and who is there. Only these hang on leases.

use hermes_api::{Hash, Name};

/// The keys of one overlay.
#[derive(Debug, Clone)]
pub(super) struct Keys(String);

impl Keys {
    pub(super) fn new(overlay: &Name) -> Self {
        Self(format!("/hermes/{overlay}/"))
    }

    #[cfg(test)]
    pub(super) fn overlay(&self) -> String {
        let name = self.0.trim_start_matches("/hermes/");
        name.trim_end_matches('/').to_owned()
    }

    pub(super) fn blobs(&self) -> Vec<u8> {
        format!("{}blob/", self.0).into_bytes()
    }

    pub(super) fn blob(&self, hash: &Hash) -> Vec<u8> {
        format!("{}blob/{hash}", self.0).into_bytes()
    }

    pub(super) fn chunks(&self, hash: &Hash) -> Vec<u8> {
        format!("{}chunk/{hash}/", self.0).into_bytes()
    }

    pub(super) fn chunk(&self, hash: &Hash, number: usize) -> Vec<u8> {
        format!("{}chunk/{hash}/{number:06}", self.0).into_bytes()
    }

    pub(super) fn record(&self, key: &str) -> Vec<u8> {
        format!("{}record/{key}", self.0).into_bytes()
    }

    pub(super) fn slot(&self, client: u64, number: usize) -> Vec<u8> {
        format!("{}slot/{client:016x}/{number}", self.0).into_bytes()
    }

    pub(super) fn slots(&self) -> Vec<u8> {
        format!("{}slot/", self.0).into_bytes()
    }

    pub(super) fn leader(&self) -> Vec<u8> {
        format!("{}live/leader", self.0).into_bytes()
    }

    pub(super) fn controllers(&self) -> Vec<u8> {
        format!("{}live/controller/", self.0).into_bytes()
    }

    pub(super) fn controller(&self, id: &str) -> Vec<u8> {
        format!("{}live/controller/{id}", self.0).into_bytes()
    }
}

/// The first key after all that begin with this.
pub(super) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // All keys.
    vec![0]
}

/// The rest of a key after the beginning that it was looked for by.
pub(super) fn rest(key: &[u8], prefix: &[u8]) -> String {
    let rest = key.strip_prefix(prefix).unwrap_or(key);
    String::from_utf8_lossy(rest).into_owned()
}
