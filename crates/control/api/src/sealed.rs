//! Secrets that one node alone can open.
//!
//! A box is the public part of a key of X25519 that is used once, and the text under ChaCha20-Poly1305 with a key that both derive
//! (RFC 7748, RFC 5869, RFC 8439). It is bound to its place, so that a box of another node or secret opens nothing.

use std::fmt;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// Bytes of a key.
const KEY: usize = 32;

/// Bytes of the longest secret.
#[doc(alias = "bound")]
pub const MAX_SECRET: usize = 64 * 1024;

/// Names a box apart from anything else that such keys are used for.
const CONTEXT: &[u8] = b"hermes secret 1";

/// The key by which a node opens its secrets. It never leaves the node.
#[derive(Clone)]
pub struct SealingKey {
    bytes: [u8; KEY],
    public: PublicSealingKey,
}

/// The part of a node's key that seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicSealingKey([u8; KEY]);

/// A box that cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not sealed to this key and place, or was changed")]
pub struct NotOpened;

/// A text or bytes that are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sealing key is 32 bytes, in Base64 where it is written")]
pub struct BadSealingKey;

impl SealingKey {
    /// The key of these random bytes.
    ///
    /// # Errors
    /// The primitives have no memory.
    pub fn of(bytes: [u8; KEY]) -> Result<Self, BadSealingKey> {
        let key = PrivateKey::from_private_key(&X25519, &bytes).map_err(|_| BadSealingKey)?;
        let public = key.compute_public_key().map_err(|_| BadSealingKey)?;
        let public = PublicSealingKey::try_from(public.as_ref())?;
        Ok(Self { bytes, public })
    }

    /// A key as its file has it.
    ///
    /// # Errors
    /// The text is none.
    pub fn from_text(text: &str) -> Result<Self, BadSealingKey> {
        let bytes = BASE64.decode(text.trim()).map_err(|_| BadSealingKey)?;
        Self::of(bytes.try_into().map_err(|_| BadSealingKey)?)
    }

    /// As its file has it.
    pub fn to_text(&self) -> String {
        BASE64.encode(self.bytes)
    }

    /// The part that seals.
    pub fn public(&self) -> PublicSealingKey {
        self.public
    }

    /// Opens a box at its place.
    ///
    /// # Errors
    /// It is another node's or place's, or was changed.
    pub fn open(&self, place: &str, text: &str) -> Result<String, NotOpened> {
        // A box is read before it is proved: what is too long is none.
        if text.len() > 2 * MAX_SECRET {
            return Err(NotOpened);
        }
        let mut bytes = BASE64.decode(text).map_err(|_| NotOpened)?;
        let (once, sealed) = bytes.split_at_mut_checked(KEY).ok_or(NotOpened)?;
        let once = PublicSealingKey::try_from(&*once).map_err(|_| NotOpened)?;
        let key = shared(self, once, [once, self.public]).map_err(|_| NotOpened)?;
        let plain = key
            .open_in_place(nonce(), Aad::from(place.as_bytes()), sealed)
            .map_err(|_| NotOpened)?;
        String::from_utf8(plain.to_vec()).map_err(|_| NotOpened)
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SealingKey({})", self.public)
    }
}

impl PublicSealingKey {
    /// Seals a secret for its place, such as `hub Secret/default/web`. `once` is a fresh key that is used for nothing else.
    ///
    /// # Errors
    /// The node's key is one that no private key belongs to.
    pub fn seal(
        self,
        place: &str,
        secret: &str,
        once: &SealingKey,
    ) -> Result<String, BadSealingKey> {
        let key = shared(once, self, [once.public, self]).map_err(|_| BadSealingKey)?;
        let mut sealed = secret.as_bytes().to_vec();
        key.seal_in_place_append_tag(nonce(), Aad::from(place.as_bytes()), &mut sealed)
            .map_err(|_| BadSealingKey)?;
        let mut bytes = once.public.0.to_vec();
        bytes.extend(sealed);
        Ok(BASE64.encode(bytes))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&[u8]> for PublicSealingKey {
    type Error = BadSealingKey;

    fn try_from(bytes: &[u8]) -> Result<Self, BadSealingKey> {
        bytes.try_into().map(Self).map_err(|_| BadSealingKey)
    }
}

impl fmt::Display for PublicSealingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&BASE64.encode(self.0))
    }
}

/// The key of a box between two ends, whose public keys are `ends`.
fn shared(
    own: &SealingKey,
    other: PublicSealingKey,
    ends: [PublicSealingKey; 2],
) -> Result<LessSafeKey, Unspecified> {
    let private = PrivateKey::from_private_key(&X25519, &own.bytes).map_err(|_| Unspecified)?;
    let other = UnparsedPublicKey::new(&X25519, other.0);
    // It fails where the other key gives the same for every private key (RFC 7748, section 6.1).
    agree(&private, other, Unspecified, |secret| {
        let salt = Salt::new(HKDF_SHA256, &[ends[0].0, ends[1].0].concat());
        let key = salt.extract(secret);
        let key = key.expand(&[CONTEXT], &CHACHA20_POLY1305)?;
        Ok(LessSafeKey::new(UnboundKey::from(key)))
    })
}

/// Each key seals one box, so that its nonce may be the same always.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(seed: u8) -> SealingKey {
        SealingKey::of([seed; KEY]).unwrap()
    }

    #[test]
    fn a_box_opens_for_its_key_and_place_alone() {
        let node = key(1);
        let sealed = node
            .public()
            .seal("hub web", "a password", &key(7))
            .unwrap();
        assert_eq!(node.open("hub web", &sealed).unwrap(), "a password");
        assert!(!sealed.contains(&BASE64.encode("a password")));
        assert_eq!(node.open("hub other", &sealed), Err(NotOpened));
        assert_eq!(key(2).open("hub web", &sealed), Err(NotOpened));

        let written = SealingKey::from_text(&node.to_text()).unwrap();
        assert_eq!(written.open("hub web", &sealed).unwrap(), "a password");
        assert!(!format!("{node:?}").contains(&node.to_text()));
    }

    #[test]
    fn a_changed_box_opens_nothing() {
        let node = key(1);
        let sealed = node.public().seal("p", "secret", &key(7)).unwrap();
        let bytes = BASE64.decode(&sealed).unwrap();
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            assert_eq!(
                node.open("p", &BASE64.encode(changed)),
                Err(NotOpened),
                "{index}"
            );
            assert_eq!(
                node.open("p", &BASE64.encode(&bytes[..index])),
                Err(NotOpened)
            );
        }
        for text in ["", "%", &"A".repeat(3 * MAX_SECRET)] {
            assert_eq!(node.open("p", text), Err(NotOpened));
        }
        // The key of which every agreement is zero.
        let none = PublicSealingKey::try_from(&[0; KEY][..]).unwrap();
        assert!(none.seal("p", "secret", &key(7)).is_err());
    }
}
