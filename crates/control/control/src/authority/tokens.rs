//! Permissions to join.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use hermes_api::{Hash, Name};
use serde::{Deserialize, Serialize};

use super::error::{AuthorityError, DAY};
use super::records::Records;

/// Begins the keys of their records.
pub(super) const PREFIX: &str = "token/";

/// Tokens at once.
#[doc(alias = "bound")]
pub(super) const MOST: usize = 10_000;

/// The longest time that one counts, in seconds.
#[doc(alias = "bound")]
pub(super) const LONGEST: u64 = 30 * DAY;

/// How long a count of open tokens is believed, in seconds.
const COUNTED: u64 = 60;

/// Open tokens, as they were counted, with those that this controller has made since then.
#[derive(Debug, Default)]
pub(super) struct OpenTokens {
    pub(super) count: usize,
    /// Unix seconds; `None` before the first count.
    pub(super) counted: Option<u64>,
}

impl OpenTokens {
    /// Whether the count holds now. One that leaves no room is made again: tokens were redeemed or have expired.
    pub(super) fn is_known(&self, now: u64) -> bool {
        let is_fresh = |counted: u64| (counted..counted + COUNTED).contains(&now);
        self.counted.is_some_and(is_fresh) && self.count < MOST
    }
}

/// The purpose of a new token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The user whose device it is; `None` for a node of the overlay's own.
    pub user: Option<Name>,
    /// The name that the node will have; `None` for its own choice.
    pub name: Option<Name>,
    /// How long it counts, in seconds.
    pub lifetime_seconds: u64,
}

/// A token as operators see it, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSummary {
    /// By which it is found and deleted.
    pub id: String,
    /// The user whose device may join.
    pub user: Option<Name>,
    /// The name that the node will have.
    pub name: Option<Name>,
    /// Unix seconds at which it ends.
    pub until: u64,
    /// The node that has joined with it.
    pub node: Option<Name>,
}

impl From<TokenRecord> for TokenSummary {
    fn from(token: TokenRecord) -> Self {
        Self {
            id: token.id,
            user: token.user,
            name: token.name,
            until: token.until,
            node: token.redeemed.map(|redeemed| redeemed.node),
        }
    }
}

/// There is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// There are too many.
    #[error("there are {MOST} tokens already; they end by themselves")]
    TooMany,
    /// It would count too long, or not at all.
    #[error("a token counts for a second to 30 days")]
    Lifetime,
    /// No node may have the name.
    #[error("the name {0} is the controller's own")]
    Reserved(Name),
    /// The authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// A token as the controller keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenRecord {
    pub(super) id: String,
    /// SHA-256 of the secret.
    pub(super) secret: Hash,
    pub(super) user: Option<Name>,
    pub(super) name: Option<Name>,
    pub(super) until: u64,
    pub(super) redeemed: Option<Redeemed>,
}

/// The one key that may use a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Redeemed {
    /// SHA-256 of the public key.
    pub(super) key: Hash,
    pub(super) node: Name,
    /// Its membership, since the name may become another's.
    pub(super) membership: String,
}

impl TokenRecord {
    pub(super) fn key(id: &str) -> String {
        format!("{PREFIX}{id}")
    }

    /// The same token as one key's own.
    pub(super) fn redeemed_by(&self, redeemed: Redeemed) -> Self {
        Self {
            redeemed: Some(redeemed),
            ..self.clone()
        }
    }

    /// Compares in a time that says nothing of how much is right.
    pub(super) fn has_secret(&self, secret: &str) -> bool {
        let shown = Hash::of(secret.as_bytes());
        verify_slices_are_equal(shown.as_bytes(), self.secret.as_bytes()).is_ok()
    }
}

/// Removes a token; the member that joined with it stays. Returns whether there was one.
pub(super) fn remove_token(records: &Records, id: &str) -> Result<bool, AuthorityError> {
    let key = TokenRecord::key(id);
    while let Some(token) = records.get::<TokenRecord>(&key)? {
        if records.remove(&key, &token)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes all tokens of a user. Returns whether there was one that no key had redeemed.
pub(super) fn drop_tokens_of(records: &Records, user: &Name) -> Result<bool, AuthorityError> {
    let mut had_open = false;
    for token in records.all::<TokenRecord>(PREFIX)? {
        if token.user.as_ref() == Some(user) {
            had_open |= token.redeemed.is_none();
            remove_token(records, &token.id)?;
        }
    }
    Ok(had_open)
}

/// Removes tokens whose time is over.
pub(super) fn drop_expired(records: &Records, now: u64) -> Result<(), AuthorityError> {
    let all = records.all::<TokenRecord>(PREFIX)?;
    for expired in all.iter().filter(|token| token.until <= now) {
        records.remove(&TokenRecord::key(&expired.id), expired)?;
    }
    Ok(())
}
