//! Texts that were sealed, so that a secret which is applied again with the same text stays as it is.
//!
//! Fingerprints alone are kept, in memory, under a key that only this process has: neither store nor backup helps to guess a text. After a
//! start each secret is sealed anew once it is applied.

use std::collections::BTreeMap;

use aws_lc_rs::hmac;
use hermes_api::{Name, PublicSealingKey, canonical};
use parking_lot::Mutex;
use serde_json::json;

use super::encoding::random;
use super::error::AuthorityError;
use crate::resources::Boxes;

/// Secrets whose boxes are known: as many as an overlay may well have.
#[doc(alias = "bound")]
const KNOWN: usize = 10_000;

/// A text for some nodes, as it is sealed.
#[derive(Clone, Copy)]
pub struct SealedText<'a> {
    /// The secret.
    pub name: &'a str,
    /// The keys of its nodes.
    pub keys: &'a BTreeMap<&'a Name, &'a PublicSealingKey>,
    /// The text.
    pub text: &'a str,
}

/// The texts that this process has sealed, by their fingerprints.
pub(super) struct SealedTexts {
    key: hmac::Key,
    known: Mutex<BTreeMap<String, SealedEarlier>>,
}

struct SealedEarlier {
    fingerprint: hmac::Tag,
    boxes: Boxes,
}

impl SealedTexts {
    /// With a key that counts until the end of the process.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn new() -> Result<Self, AuthorityError> {
        let mut key = [0; 32];
        random(&mut key)?;
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            known: Mutex::default(),
        })
    }

    /// The boxes of the same text for the same keys.
    pub(super) fn boxes(&self, of: SealedText<'_>) -> Option<Boxes> {
        let known = self.known.lock();
        let last = known.get(of.name)?;
        let same = self.fingerprint(of).as_ref() == last.fingerprint.as_ref();
        same.then(|| last.boxes.clone())
    }

    /// Remembers the boxes of a text.
    pub(super) fn keep(&self, of: SealedText<'_>, boxes: &Boxes) {
        let mut known = self.known.lock();
        // Those that are gone are applied again as they come.
        if known.len() >= KNOWN {
            known.clear();
        }
        let last = SealedEarlier {
            fingerprint: self.fingerprint(of),
            boxes: boxes.clone(),
        };
        known.insert(of.name.to_owned(), last);
    }

    fn fingerprint(&self, of: SealedText<'_>) -> hmac::Tag {
        let keys = of.keys.iter();
        let keys: BTreeMap<&str, &[u8]> = keys
            .map(|(node, key)| (node.as_str(), key.as_bytes()))
            .collect();
        let whole = canonical(&json!([of.name, keys, of.text]));
        hmac::sign(&self.key, &whole)
    }
}
