//! The state that a node should be in, signed.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::{Hash, Name, Revision, canonical};

/// Names of parts that every node has.
pub mod parts {
    /// The node's configuration: canonical JSON in the language of a configuration file.
    pub const DOCUMENT: &str = "document.json";
    /// Certificates of the overlay's authorities, as PEM.
    pub const AUTHORITIES: &str = "authorities.pem";
    /// Lists of revoked certificates, as PEM.
    pub const REVOKED: &str = "revoked.pem";
    /// Secrets of the node, each sealed to its key: a JSON object of boxes by the names of their files.
    pub const SECRETS: &str = "secrets.json";
}

/// Names a signature of a statement apart from a signature of anything else.
const CONTEXT: &[u8] = b"hermes statement 1\0";

/// The parts of one node in one revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The overlay.
    pub overlay: Name,
    /// The node that it is for; another one refuses it.
    pub node: Name,
    /// The state of the overlay that it belongs to.
    pub revision: Revision,
    /// Hashes of the node's parts, by the names of their files.
    pub parts: BTreeMap<String, Hash>,
    /// The node returns to the revision before unless this one is confirmed within so many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_seconds: Option<u32>,
}

/// A statement as it travels and as a node keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedStatement {
    /// Canonical JSON of a [`Statement`].
    pub bytes: Vec<u8>,
    /// Ed25519 signature (RFC 8032), 64 bytes.
    pub signature: Vec<u8>,
}

/// A statement that is not to be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadStatement {
    /// Someone else has signed it, or it was changed.
    #[error("the statement is not signed by the key that this node was told when it joined")]
    Signature,
    /// It is signed, but of another version.
    #[error("the statement cannot be read: {0}")]
    Form(String),
    /// A key that is none.
    #[error("this is no key of Ed25519")]
    Key,
}

/// The key that a controller signs statements with.
pub struct SigningKey(Ed25519KeyPair);

/// The other half, which nodes have.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey([u8; 32]);

impl Statement {
    /// The hash of its parts: two statements with the same parts leave a node as it is.
    pub fn content(&self) -> Hash {
        // A map of text to text is always JSON.
        Hash::of(&canonical(
            &serde_json::to_value(&self.parts).unwrap_or_default(),
        ))
    }

    /// Signs it.
    pub fn sign(&self, key: &SigningKey) -> SignedStatement {
        // A statement has no map with keys other than text, and no number that JSON lacks.
        let value = serde_json::to_value(self).unwrap_or_default();
        let bytes = canonical(&value);
        let signature = key.sign(&signed(&bytes));
        SignedStatement { bytes, signature }
    }
}

impl SignedStatement {
    /// Its content.
    ///
    /// # Errors
    /// It is signed by another key, or of another form.
    pub fn verify(&self, key: &VerifyingKey) -> Result<Statement, BadStatement> {
        UnparsedPublicKey::new(&ED25519, key.0)
            .verify(&signed(&self.bytes), &self.signature)
            .map_err(|_| BadStatement::Signature)?;
        serde_json::from_slice(&self.bytes).map_err(|error| BadStatement::Form(error.to_string()))
    }
}

fn signed(bytes: &[u8]) -> Vec<u8> {
    [CONTEXT, bytes].concat()
}

impl SigningKey {
    /// A key from its PKCS #8 document.
    ///
    /// # Errors
    /// It is none.
    pub fn from_pkcs8(document: &[u8]) -> Result<Self, BadStatement> {
        Ed25519KeyPair::from_pkcs8(document)
            .map(Self)
            .map_err(|_| BadStatement::Key)
    }

    /// A new key as a PKCS #8 document, from the randomness of aws-lc.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn generate() -> Result<Vec<u8>, BadStatement> {
        let made = Ed25519KeyPair::generate().and_then(|key| key.to_pkcs8());
        made.map(|document| document.as_ref().to_vec())
            .map_err(|_| BadStatement::Key)
    }

    /// Signs bytes that name their own context.
    pub(crate) fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.0.sign(bytes).as_ref().to_vec()
    }

    /// The half that nodes are told.
    pub fn verifying(&self) -> VerifyingKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        VerifyingKey(key)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SigningKey({:?})", self.verifying())
    }
}

impl VerifyingKey {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its bytes in base64.
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// The key of such a text.
    ///
    /// # Errors
    /// It is none.
    pub fn from_text(text: &str) -> Result<Self, BadStatement> {
        let bytes = STANDARD.decode(text).map_err(|_| BadStatement::Key)?;
        bytes.try_into().map(Self).map_err(|_| BadStatement::Key)
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.to_text())
    }
}

impl fmt::Debug for SignedStatement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&String::from_utf8_lossy(&self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap()
    }

    fn statement() -> Statement {
        Statement {
            overlay: "demo".parse().unwrap(),
            node: "hub".parse().unwrap(),
            revision: Revision::FIRST.next(),
            parts: BTreeMap::from([(parts::DOCUMENT.to_owned(), Hash::of(b"{}"))]),
            confirm_seconds: None,
        }
    }

    #[test]
    fn is_read_by_who_has_the_key() {
        let key = key();
        let signed = statement().sign(&key);
        assert_eq!(signed.verify(&key.verifying()), Ok(statement()));
        let text = key.verifying().to_text();
        assert_eq!(VerifyingKey::from_text(&text), Ok(key.verifying()));
    }

    #[test]
    fn no_changed_byte_is_accepted() {
        let key = key();
        let signed = statement().sign(&key);
        for index in 0..signed.bytes.len() {
            let mut changed = signed.clone();
            changed.bytes[index] ^= 1;
            assert_eq!(
                changed.verify(&key.verifying()),
                Err(BadStatement::Signature)
            );
        }
        for index in 0..signed.signature.len() {
            let mut changed = signed.clone();
            changed.signature[index] ^= 1;
            assert_eq!(
                changed.verify(&key.verifying()),
                Err(BadStatement::Signature)
            );
        }
    }

    #[test]
    fn the_key_of_another_is_refused() {
        let signed = statement().sign(&key());
        assert_eq!(
            signed.verify(&key().verifying()),
            Err(BadStatement::Signature)
        );
    }
}
