//! Errors of the authority, and constants that its parts share.

use crate::store::StoreError;

/// Seconds of a day.
pub(super) const DAY: u64 = 24 * 60 * 60;

/// Name that no node may have: the controller's own.
pub(super) const CONTROLLER: &str = "controller";

/// Who acts by a command, in the audit.
pub(super) const OPERATOR: &str = "operator";

/// The authority cannot do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Cryptography.
    #[error("the authority: {0}")]
    Crypto(String),
    /// A node shows other keys for its secrets all the time.
    #[error("the node had {0} new keys for its secrets of late; show the next one later")]
    NewKeys(u32),
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Crypto(error.to_string())
    }
}
