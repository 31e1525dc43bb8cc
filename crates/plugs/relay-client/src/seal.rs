//! Messages that only those can read, and make, who have the key in the fragment of the channel's URL. A fragment is sent to no one.
//!
//! ```text
//! Sealed { Nonce (96), AES-256-GCM { Length (varint), Content-Type, Content }, Tag (128) }
//! ```

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::{Bytes, BytesMut};
use hermes_proto::varint;

/// The media type of sealed messages.
pub(crate) const SEALED: &str = "application/hermes-sealed";

/// The purpose of the key, which is authenticated with each message.
const PURPOSE: &[u8] = b"hermes relay sealed 1";

/// Bytes of a key.
const KEY: usize = 32;

/// A key that seals messages and opens them.
#[derive(Clone)]
pub(crate) struct Seal(Arc<RandomizedNonceKey>);

/// A message that was opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OpenedMessage {
    pub(crate) content_type: Option<Bytes>,
    pub(crate) data: Bytes,
}

impl Seal {
    /// The key of a fragment.
    pub(crate) fn new(fragment: &str) -> Result<Self, String> {
        let malformed =
            || "the fragment of the URL is no key: 32 bytes in base64url, 43 characters".to_owned();
        let key = URL_SAFE_NO_PAD.decode(fragment).map_err(|_| malformed())?;
        if key.len() != KEY {
            return Err(malformed());
        }
        let key = RandomizedNonceKey::new(&AES_256_GCM, &key).map_err(|_| malformed())?;
        Ok(Self(Arc::new(key)))
    }

    /// Seals a message; `None` if the system gives no random numbers.
    pub(crate) fn seal(&self, content_type: Option<&str>, data: &[u8]) -> Option<Bytes> {
        let kind = content_type.unwrap_or_default().as_bytes();
        let mut length = BytesMut::new();
        varint::encode(kind.len() as u64, &mut length);
        let mut sealed = Vec::with_capacity(data.len() + kind.len() + 64);
        sealed.extend_from_slice(&length);
        sealed.extend_from_slice(kind);
        sealed.extend_from_slice(data);
        let nonce = self
            .0
            .seal_in_place_append_tag(Aad::from(PURPOSE), &mut sealed)
            .ok()?;
        let mut message = nonce.as_ref().to_vec();
        message.append(&mut sealed);
        Some(message.into())
    }

    /// Opens a message; `None` if it was not sealed by this key.
    pub(crate) fn open(&self, message: &[u8]) -> Option<OpenedMessage> {
        let (nonce, sealed) = message.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let opened = self
            .0
            .open_in_place(nonce, Aad::from(PURPOSE), &mut sealed)
            .ok()?;
        let mut rest = &*opened;
        let length = usize::try_from(varint::decode(&mut rest)?).ok()?;
        let (kind, data) = rest.split_at_checked(length)?;
        Some(OpenedMessage {
            content_type: (!kind.is_empty()).then(|| Bytes::copy_from_slice(kind)),
            data: Bytes::copy_from_slice(data),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAGMENT: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    #[test]
    fn a_message_is_opened_by_its_key_alone_and_only_as_it_was_sealed() {
        let seal = Seal::new(FRAGMENT).unwrap();
        let sealed = seal.seal(Some("text/plain"), b"hi").unwrap();
        let opened = seal.open(&sealed).unwrap();
        assert_eq!(opened.content_type.as_deref(), Some(&b"text/plain"[..]));
        assert_eq!(&opened.data[..], b"hi");
        assert_ne!(seal.seal(Some("text/plain"), b"hi").unwrap(), sealed);

        let other = Seal::new(&FRAGMENT.replace("AAEC", "AAED")).unwrap();
        assert_eq!(other.open(&sealed), None);
        for at in 0..sealed.len() {
            let mut flipped = sealed.to_vec();
            flipped[at] ^= 1;
            assert_eq!(seal.open(&flipped), None, "{at}");
            assert_eq!(seal.open(&sealed[..at]), None, "{at}");
        }
    }
}
