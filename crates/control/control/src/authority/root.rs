//! The authority as a whole: its generations, its keys, its days.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermes_api::lifetime::{GRACE, LIFETIME, LONGEST_GRACE};
use hermes_api::{Hash, Name, SigningKey};
use parking_lot::Mutex;

use super::error::{AuthorityError, CONTROLLER};
use super::generation::{self, Generation};
use super::issue;
use super::records::{Records, change};
use super::sealed_texts::SealedTexts;
use super::sealing;
use super::tokens::{OpenTokens, drop_expired};
use crate::rates::Rates;
use crate::store::{Act, Store};

/// The record of the key that signs statements.
const SIGNING_KEY: &str = "statement-key";

/// The authority of an overlay.
#[derive(Clone)]
pub struct Authority {
    pub(super) records: Records,
    pub(super) overlay: Name,
    pub(super) trust_domain: String,
    /// Seconds for which others believe a certificate that should have been renewed.
    grace: Arc<AtomicU64>,
    pub(super) open_tokens: Arc<Mutex<OpenTokens>>,
    pub(super) sealed_texts: Arc<SealedTexts>,
    /// New keys for secrets, by node: each is written to the disk.
    pub(super) sealing_keys: Arc<Rates<Name>>,
}

/// The controller's own certificates and key, as PEM.
pub struct ControllerIdentity {
    /// Its certificate, then those of the authority.
    pub certificates: String,
    /// Its key.
    pub key: String,
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
            grace: Arc::new(AtomicU64::new(GRACE)),
            open_tokens: Arc::default(),
            sealed_texts: Arc::new(SealedTexts::new()?),
            sealing_keys: Arc::new(sealing::rates()),
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

    /// How long nodes believe each other's certificates that should have been renewed, of those that are made from now on. `None`: 30 days.
    pub fn set_grace(&self, grace: Option<Duration>) {
        let seconds = grace.map_or(GRACE, |grace| grace.as_secs());
        self.grace
            .store(seconds.min(LONGEST_GRACE), Ordering::Relaxed);
    }

    pub(super) fn grace(&self) -> u64 {
        self.grace.load(Ordering::Relaxed)
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
            membership: issue::membership()?,
            uri: format!("spiffe://{}/{CONTROLLER}", self.trust_domain),
            dns: format!("{CONTROLLER}.{}", self.trust_domain),
        };
        let issued = issue::certificate(&generation, &key, &names, 0, now)?;
        let mut certificates = format!("{}{}", issued.pem, generation.certificate);
        // Tokens last longer than the change from one generation to the next: those that pin an earlier one still lead here.
        let earlier = self.generations()?;
        for earlier in earlier.iter().filter(|one| one.number < generation.number) {
            certificates += &generation.vouched_by(earlier, &self.overlay)?;
            certificates += &earlier.certificate;
        }
        Ok(ControllerIdentity {
            certificates,
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
        drop_expired(&self.records, now)
    }

    /// All generations, the oldest first.
    pub(super) fn generations(&self) -> Result<Vec<Generation>, AuthorityError> {
        Ok(self.records.all(generation::PREFIX)?)
    }

    /// The generation that issues certificates.
    pub(super) fn issuing(&self, now: u64) -> Result<Generation, AuthorityError> {
        let mut generations = self.generations()?;
        // A new one is known to all nodes before it issues anything; but one that ends itself before its certificates would issues none.
        let lasts = |one: &Generation| one.until > now + LIFETIME + self.grace();
        let known = generations
            .iter()
            .rposition(|one| one.is_known(now) && lasts(one));
        let first = generations.iter().position(lasts);
        let issuing = known.or(first).or(generations.len().checked_sub(1));
        let issuing =
            issuing.ok_or_else(|| AuthorityError::Crypto("there is no authority".to_owned()))?;
        Ok(generations.swap_remove(issuing))
    }

    fn add_generation(&self, number: u32, now: u64) -> Result<(), AuthorityError> {
        let generation = Generation::make(&self.overlay, number, now)?;
        // Where another controller was faster its generation counts.
        let subject = format!("authority {number}");
        let act = Act {
            time: now,
            who: CONTROLLER,
            act: "rotate",
            subject: &subject,
        };
        let made = change(&generation.key(), None::<&Generation>, Some(&generation));
        self.records.swap_told(&[made], &act)?;
        Ok(())
    }
}
