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

/// The points whose order divides 8, by their y coordinates, in all encodings that decoders take: anyone makes signatures of such a key.
const WEAK: [[u8; 32]; 7] = [
    edge(0x00, 0x00, 0x00),
    edge(0x01, 0x00, 0x00),
    edge(0xec, 0xff, 0x7f),
    edge(0xed, 0xff, 0x7f),
    edge(0xee, 0xff, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98,
        0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53,
        0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67,
        0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac,
        0x03, 0x7a,
    ],
];

/// A number next to zero or to the order of the field: its first byte, those between, and its last one.
const fn edge(first: u8, between: u8, last: u8) -> [u8; 32] {
    let mut bytes = [between; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

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

    /// Whether anyone can sign by it: its point has an order that divides 8.
    fn is_weak(&self) -> bool {
        let mut y = self.0;
        // The last bit is the sign of the other coordinate.
        y[31] &= 0x7f;
        WEAK.contains(&y)
    }

    /// Whether this is its signature of the text. No text is signed by a key by which anyone can sign.
    #[must_use]
    pub fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        if self.is_weak() {
            return false;
        }
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

    #[test]
    fn a_key_by_which_anyone_can_sign_signs_nothing() {
        // The neutral point: with it and 0 as the number, the equation of a signature holds for every text.
        let mut forged = [0; 64];
        forged[0] = 1;
        for sign in [0, 0x80] {
            for mut key in WEAK {
                key[31] |= sign;
                for text in [&b"one"[..], b"two", b"three"] {
                    assert!(!PublicKey(key).has_signed(text, &forged), "{key:?}");
                }
            }
        }
    }
}
