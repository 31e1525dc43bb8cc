//! Keys of X25519, as they are written: 32 bytes in Base64.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::agreement::{PrivateKey as AgreementKey, X25519};
use aws_lc_rs::rand::fill;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

/// The length of a key, in bytes.
pub const KEY: usize = 32;

/// Characters of a public key that tell it from others in a log.
const SHOWN: usize = 8;

/// The private key of one end.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey {
    bytes: [u8; KEY],
    public: PublicKey,
}

/// The public part of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; KEY]);

/// A secret that two peers share beside their keys, and mix in.
#[derive(Clone, PartialEq, Eq)]
pub struct PresharedKey(pub [u8; KEY]);

/// A text that is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key is 32 bytes in Base64")]
pub struct NoKey;

impl PrivateKey {
    /// A new random key.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, NoKey> {
        let mut key = [0; KEY];
        fill(&mut key).map_err(|_| NoKey)?;
        // As `wg genkey` does, so that the file holds the number that is used (RFC 7748, section 5).
        key[0] &= 0xf8;
        key[31] = (key[31] & 0x7f) | 0x40;
        Self::of(key)
    }

    /// The key with these bytes: X25519 takes any (RFC 7748, section 5).
    ///
    /// # Errors
    /// The primitives have no memory.
    pub fn of(bytes: [u8; KEY]) -> Result<Self, NoKey> {
        let key = AgreementKey::from_private_key(&X25519, &bytes).map_err(|_| NoKey)?;
        let public = key.compute_public_key().map_err(|_| NoKey)?;
        let public = public.as_ref().try_into().map_err(|_| NoKey)?;
        Ok(Self {
            bytes,
            public: PublicKey(public),
        })
    }

    /// Its bytes, which are secret.
    pub fn bytes(&self) -> &[u8; KEY] {
        &self.bytes
    }

    /// The key in Base64, for a file that no one else may read.
    pub fn to_text(&self) -> String {
        BASE64.encode(self.bytes)
    }

    /// The public key to give to peers.
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

impl PublicKey {
    /// Its first characters, by which a log names a peer.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(SHOWN);
        text
    }
}

impl FromStr for PrivateKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        decode(text).and_then(Self::of)
    }
}

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        decode(text).map(Self)
    }
}

impl FromStr for PresharedKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        decode(text).map(Self)
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey")
    }
}

impl fmt::Debug for PresharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PresharedKey")
    }
}

fn decode(text: &str) -> Result<[u8; KEY], NoKey> {
    let bytes = BASE64.decode(text.trim()).map_err(|_| NoKey)?;
    bytes.try_into().map_err(|_| NoKey)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_as_rfc_7748_section_6_1_says() {
        let alice: PrivateKey = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo="
            .parse()
            .unwrap();
        let public = alice.public();
        assert_eq!(
            public.to_string(),
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="
        );
        assert_eq!(public.short(), "hSDwCYkw");
        assert!("short".parse::<PublicKey>().is_err());
    }

    #[test]
    fn no_private_key_is_shown() {
        let key = PrivateKey::generate().unwrap();
        assert_eq!(format!("{key:?}"), "PrivateKey");
        assert_eq!(key.to_text().parse::<PrivateKey>().unwrap(), key);
    }
}
