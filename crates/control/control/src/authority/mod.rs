//! Who is a member of an overlay: an authority of its own, tokens to join with, certificates that are short, and the end of both.
//!
//! Everything is in records of the store, each changed by compare-and-swap, so that several controllers can serve one overlay. Time is an
//! argument, in Unix seconds.
//!
//! - `generation`: certificates of the authority, of which a later one replaces an earlier one unattended.
//! - `tokens`: permissions to join. `joining`: a token and a key become a member. `issue`: certificates of members.
//! - `membership`: whose certificate it is. `revocation`: whose it was.
//!
//! Specifications: RFC 5280, RFC 2986, SPIFFE X.509-SVID.

mod generation;
mod issue;
mod joining;
mod membership;
mod records;
mod revocation;
mod tokens;

use std::sync::Arc;

use hermes_api::{Hash, Name, SigningKey};

use crate::store::{Store, StoreError};

use self::generation::Generation;
pub use self::joining::JoinRefused;
pub use self::membership::{Member, MemberRecord, NotMember};
use self::records::Records;
pub use self::revocation::{NotRevoked, Revoked};
pub use self::tokens::{NoToken, TokenRequest};

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// The record of the key that signs statements.
const SIGNING_KEY: &str = "statement-key";

/// Name that no node may have: the controller's own.
const CONTROLLER: &str = "controller";

/// The authority of an overlay.
#[derive(Clone)]
pub struct Authority {
    records: Records,
    overlay: Name,
    trust_domain: String,
}

/// The controller's own certificates and key, as PEM.
pub struct ControllerIdentity {
    /// Its certificate, then those of the authority.
    pub certificates: String,
    /// Its key.
    pub key: String,
}

/// The authority cannot do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Cryptography.
    #[error("the authority: {0}")]
    Crypto(String),
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Crypto(error.to_string())
    }
}

impl Authority {
    /// The authority of the overlay in a store, made if there is none.
    ///
    /// # Errors
    /// The store cannot be read or written, or keys cannot be made.
    pub fn open_or_make(
        store: Arc<dyn Store>,
        overlay: Name,
        trust_domain: String,
        now: u64,
    ) -> Result<Self, AuthorityError> {
        let authority = Self {
            records: Records::new(store),
            overlay,
            trust_domain,
        };
        if authority.generations()?.is_empty() {
            authority.add_generation(1, now)?;
        }
        if authority.records.raw(SIGNING_KEY)?.is_none() {
            let key = SigningKey::generate()
                .map_err(|error| AuthorityError::Crypto(error.to_string()))?;
            // Where another controller was faster its key counts.
            authority.records.put_raw(SIGNING_KEY, None, Some(key))?;
        }
        Ok(authority)
    }

    /// The key of statements, which is apart from the authority's: who has one of the two can only do half.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn signing_key(&self) -> Result<SigningKey, AuthorityError> {
        let document = self.records.raw(SIGNING_KEY)?.unwrap_or_default();
        SigningKey::from_pkcs8(&document).map_err(|error| AuthorityError::Crypto(error.to_string()))
    }

    /// Certificates of all generations that count, as PEM, the oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn authorities_pem(&self) -> Result<String, AuthorityError> {
        let generations = self.generations()?;
        Ok(generations
            .iter()
            .map(|one| one.certificate.as_str())
            .collect())
    }

    /// A new certificate and key for the controller itself.
    ///
    /// # Errors
    /// The store cannot be read, or keys cannot be made.
    pub fn controller_identity(&self, now: u64) -> Result<ControllerIdentity, AuthorityError> {
        let generation = self.issuing(now)?;
        let key = rcgen::KeyPair::generate()?;
        let names = issue::Names {
            uri: format!("spiffe://{}/{CONTROLLER}", self.trust_domain),
            dns: format!("{CONTROLLER}.{}", self.trust_domain),
        };
        let issued = issue::certificate(&generation, &key, &names, now)?;
        Ok(ControllerIdentity {
            certificates: format!("{}{}", issued.pem, generation.certificate),
            key: key.serialize_pem(),
        })
    }

    /// The hash of the certificate that a joining node is told to believe.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn pin(&self, now: u64) -> Result<Hash, AuthorityError> {
        self.issuing(now)?.pin()
    }

    /// Does what comes with the days: a new generation when the newest has had half of its time, and the end of expired ones.
    ///
    /// # Errors
    /// The store cannot be read or written, or keys cannot be made.
    pub fn tend(&self, now: u64) -> Result<(), AuthorityError> {
        let generations = self.generations()?;
        if let Some(newest) = generations.last().filter(|newest| newest.is_half_over(now)) {
            self.add_generation(newest.number + 1, now)?;
        }
        for expired in generations.iter().filter(|one| one.until <= now) {
            self.records.remove(&expired.key(), expired)?;
        }
        self.drop_expired_tokens(now)
    }

    /// All generations, the oldest first.
    fn generations(&self) -> Result<Vec<Generation>, AuthorityError> {
        Ok(self.records.all(generation::PREFIX)?)
    }

    /// The generation that issues certificates.
    fn issuing(&self, now: u64) -> Result<Generation, AuthorityError> {
        let mut generations = self.generations()?;
        // A new one is known to all nodes before it issues anything.
        let known = generations.iter().rposition(|one| one.is_known(now));
        if generations.is_empty() {
            return Err(AuthorityError::Crypto("there is no authority".to_owned()));
        }
        Ok(generations.swap_remove(known.unwrap_or(0)))
    }

    fn add_generation(&self, number: u32, now: u64) -> Result<(), AuthorityError> {
        let generation = Generation::make(&self.overlay, number, now)?;
        // Where another controller was faster its generation counts.
        self.records
            .put(&generation.key(), None::<&Generation>, Some(&generation))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
