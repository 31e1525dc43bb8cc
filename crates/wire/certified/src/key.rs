//! Keys of Ed25519 (RFC 8032).

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::name::KeyName;

/// A `SubjectPublicKeyInfo` of Ed25519 up to the key (RFC 8410, section 4).
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// A public key. Its text is that of a JWK's `x`: base64url.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// A key that signs.
pub struct SigningKey(Ed25519KeyPair);

impl PublicKey {
    /// Reads its text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> KeyName {
        let mut info = SPKI.to_vec();
        info.extend_from_slice(&self.0);
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &info).as_ref());
        KeyName(hash)
    }

    /// Whether this is its signature of the text.
    #[must_use]
    pub fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(text, signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl SigningKey {
    /// The key of a seed.
    #[must_use]
    pub fn of_seed(seed: &[u8; 32]) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed).ok().map(Self)
    }

    /// The key of a document of PKCS #8, as OpenSSL writes it.
    pub(crate) fn of_pkcs8(document: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(document);
        pair.ok().map(Self)
    }

    /// The public key that belongs to it.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs a text.
    pub(crate) fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.sign(text).as_ref().to_vec()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.public()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_named_by_the_hash_of_its_subject_public_key_info() {
        // The key of RFC 9421, appendix B.1.4, and the hash that `openssl dgst` has of its DER.
        let key = PublicKey::parse("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs").unwrap();
        let name = key.name().to_string();
        assert_eq!(
            name,
            "ni:sha-256;NFcWBst6DXG-N35nHdzMrioWntdzNZghQSkjHNMMSjw"
        );
        assert_eq!(
            key.to_string(),
            "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"
        );
    }
}
