//! The keys that secrets of nodes are sealed to, as nodes show them when they attend.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hermes_api::{Name, PublicSealingKey};
use serde::{Deserialize, Serialize};

use super::error::AuthorityError;
use super::root::Authority;
use super::sealed_texts::SealedText;
use crate::rates::Rates;
use crate::resources::Boxes;

/// Begins the keys of records.
const PREFIX: &str = "sealing/";

/// New keys of one node at once. A node has a new one only when it lost its folder.
#[doc(alias = "bound")]
const NEW_KEYS: u32 = 4;

/// The time after which a node may show another new key.
#[doc(alias = "bound")]
const NEW_KEY: Duration = Duration::from_secs(3600);

/// How often nodes may show new keys.
pub(super) fn rates() -> Rates<Name> {
    Rates::new(NEW_KEYS, NEW_KEY)
}

/// The key of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SealingRecord {
    node: Name,
    key: Vec<u8>,
}

impl Authority {
    /// Remembers the key of a node, in place of an earlier one.
    ///
    /// # Errors
    /// The node shows new keys all the time, or the store cannot be read or written.
    pub fn keep_sealing_key(
        &self,
        node: &Name,
        key: PublicSealingKey,
        now: u64,
    ) -> Result<(), AuthorityError> {
        let path = format!("{PREFIX}{node}");
        let before: Option<SealingRecord> = self.records.get(&path)?;
        let record = SealingRecord {
            node: node.clone(),
            key: key.as_bytes().to_vec(),
        };
        // Where two streams of one node come at once, either may write: each shows the same key again when it comes back.
        if before.as_ref() != Some(&record) {
            if !self
                .sealing_keys
                .take(node.clone(), Duration::from_secs(now))
            {
                return Err(AuthorityError::NewKeys(NEW_KEYS));
            }
            self.records.put(&path, before.as_ref(), Some(&record))?;
        }
        Ok(())
    }

    /// The boxes of a text that this process has sealed, for the same keys.
    pub fn sealed_before(&self, text: SealedText<'_>) -> Option<Boxes> {
        self.sealed_texts.boxes(text)
    }

    /// Remembers the boxes of a text.
    pub fn keep_sealed(&self, text: SealedText<'_>, boxes: &Boxes) {
        self.sealed_texts.keep(text, boxes);
    }

    /// The keys of these nodes: of those that are members, are not revoked and have shown one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn sealing_keys(
        &self,
        nodes: &BTreeSet<Name>,
    ) -> Result<BTreeMap<Name, PublicSealingKey>, AuthorityError> {
        let mut keys = BTreeMap::new();
        for node in nodes {
            let member = self.record_of(node)?;
            if member.is_none_or(|member| member.revoked.is_some()) {
                continue;
            }
            let record: Option<SealingRecord> = self.records.get(&format!("{PREFIX}{node}"))?;
            let key = record.and_then(|record| PublicSealingKey::try_from(&*record.key).ok());
            keys.extend(key.map(|key| (node.clone(), key)));
        }
        Ok(keys)
    }
}
