//! The documents that an operator allows a node to have, signed by a key that no controller has.
//!
//! A controller signs statements with a key of its own, so that who has a controller could push any document. A node that was told an
//! operator's key when it joined follows a statement only if the operator has signed its document, too. An endorsement lists the documents
//! of one change: those that the node has while the change spreads, and the one before, to which it returns if the change is stopped.
//!
//! It is about documents alone. Who has a controller still has the authority: he can issue certificates, and hold nodes back on documents of the
//! last endorsement that they have seen, but neither change what nodes do nor bring them back to an earlier one.

use std::collections::BTreeSet;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use serde::{Deserialize, Serialize};

use crate::statement::{BadStatement, SigningKey, VerifyingKey};
use crate::{Hash, Name, canonical};

/// Names its signature apart from a signature of anything else.
const CONTEXT: &[u8] = b"hermes endorsement 1\0";

/// Documents of one endorsement.
#[doc(alias = "bound")]
pub const MAX_DOCUMENTS: usize = 64;

/// The documents that a node may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endorsement {
    /// The overlay.
    pub overlay: Name,
    /// The node; `None`: devices of users, which share one document.
    pub node: Option<Name>,
    /// Milliseconds of Unix time at which it was signed. A node follows no earlier one than it has seen.
    pub signed: u64,
    /// The hashes of the documents.
    pub documents: BTreeSet<Hash>,
}

/// An endorsement as it travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedEndorsement {
    /// Canonical JSON of an [`Endorsement`].
    pub text: String,
    /// Ed25519 signature (RFC 8032), 64 bytes.
    pub signature: Vec<u8>,
}

impl Endorsement {
    /// Signs it.
    pub fn sign(&self, key: &SigningKey) -> SignedEndorsement {
        // Names, hashes and numbers are always JSON.
        let value = serde_json::to_value(self).unwrap_or_default();
        let bytes = canonical(&value);
        let signature = key.sign(&[CONTEXT, &bytes].concat());
        SignedEndorsement {
            text: String::from_utf8_lossy(&bytes).into_owned(),
            signature,
        }
    }
}

impl SignedEndorsement {
    /// Its content.
    ///
    /// # Errors
    /// It is signed by another key, or of another form.
    pub fn verify(&self, key: &VerifyingKey) -> Result<Endorsement, BadStatement> {
        let signed = [CONTEXT, self.text.as_bytes()].concat();
        UnparsedPublicKey::new(&ED25519, key.as_bytes())
            .verify(&signed, &self.signature)
            .map_err(|_| BadStatement::Signature)?;
        let read: Result<Endorsement, _> = serde_json::from_str(&self.text);
        let read = read.map_err(|error| BadStatement::Form(error.to_string()))?;
        if read.documents.len() > MAX_DOCUMENTS {
            return Err(BadStatement::Form(format!(
                "it has more than {MAX_DOCUMENTS} documents"
            )));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap()
    }

    #[test]
    fn no_changed_byte_and_no_other_key_is_accepted() {
        let key = key();
        let endorsement = Endorsement {
            overlay: "demo".parse().unwrap(),
            node: Some("edge".parse().unwrap()),
            signed: 1_800_000_000_000,
            documents: BTreeSet::from([Hash::of(b"a"), Hash::of(b"b")]),
        };
        let signed = endorsement.sign(&key);
        assert_eq!(signed.verify(&key.verifying()), Ok(endorsement));
        assert!(signed.verify(&self::key().verifying()).is_err());
        for index in 0..signed.text.len() {
            let mut bytes = signed.text.clone().into_bytes();
            bytes[index] ^= 1;
            let changed = SignedEndorsement {
                text: String::from_utf8(bytes).unwrap(),
                ..signed.clone()
            };
            assert!(changed.verify(&key.verifying()).is_err());
        }
    }
}
