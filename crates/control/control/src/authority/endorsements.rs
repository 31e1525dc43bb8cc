//! Signatures of an operator, kept for nodes that come later.

use hermes_api::{Endorsement, SignedEndorsement};

use super::error::AuthorityError;
use super::records::change;
use super::root::Authority;
use crate::store::StoreError;

/// Begins the keys of their records.
const PREFIX: &str = "endorsement/";

/// The name of those of devices: no node can be called so.
const DEVICES: &str = "*";

/// Records of one transaction: etcd takes no more than 128 comparisons.
const AT_ONCE: usize = 64;

impl Authority {
    /// Keeps the newest signatures of each node.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn keep_endorsements(&self, signed: &[SignedEndorsement]) -> Result<(), AuthorityError> {
        let mut changes = Vec::new();
        for signed in signed {
            // One that cannot be read would be refused by every node.
            let Ok(endorsement) = serde_json::from_str::<Endorsement>(&signed.text) else {
                continue;
            };
            let node = endorsement.node.map(|node| node.to_string());
            let key = format!("{PREFIX}{}", node.as_deref().unwrap_or(DEVICES));
            let before: Option<SignedEndorsement> = self.records.get(&key)?;
            changes.push(change(&key, before.as_ref(), Some(signed)));
        }
        for some in changes.chunks(AT_ONCE) {
            if !self.records.swap(some)? {
                let reason = "another controller keeps signatures at the same time";
                return Err(StoreError::new(reason).into());
            }
        }
        Ok(())
    }

    /// The signatures of all nodes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn endorsements(&self) -> Result<Vec<SignedEndorsement>, AuthorityError> {
        Ok(self.records.all(PREFIX)?)
    }
}
