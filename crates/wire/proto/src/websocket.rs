//! The opening handshake of WebSocket (RFC 6455, section 4), as far as a proxy between HTTP versions takes part in it.
//!
//! HTTP/1.1 proves with `Sec-WebSocket-Key` and `Sec-WebSocket-Accept` that both sides mean WebSocket. HTTP/2 proves it
//! with `:protocol` and needs neither field (RFC 8441, section 5). Everything else of the handshake, subprotocols and extensions above all, is
//! between client and server and passes as it is.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

use crate::fields::Fields;
use crate::fields::names::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};

/// The upgrade token, and `:protocol`.
pub const TOKEN: &str = "websocket";

/// The text that is hashed after the key (RFC 6455, section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// There is no `Sec-WebSocket-Key`, or more than one, or it is not 16 bytes in base64: answer 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a WebSocket handshake needs one Sec-WebSocket-Key of 16 bytes")]
pub struct BadKey;

/// The server did not prove that it means WebSocket: treat its answer as a failed handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the answer to a WebSocket handshake has no matching Sec-WebSocket-Accept, or another Upgrade"
)]
pub struct BadAccept;

/// A key that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(HeaderValue);

impl Key {
    /// The key of a request (RFC 6455, section 4.2.1).
    ///
    /// # Errors
    /// [`BadKey`].
    pub fn of(fields: &Fields) -> Result<Self, BadKey> {
        let mut keys = fields.values(SEC_WEBSOCKET_KEY);
        let (Some(key), None) = (keys.next(), keys.next()) else {
            return Err(BadKey);
        };

        match STANDARD.decode(key.as_bytes()) {
            Ok(nonce) if nonce.len() == 16 => Ok(Self(key.to_value())),
            _ => Err(BadKey),
        }
    }

    /// A key of our own; `nonce` must be random.
    pub fn new(nonce: [u8; 16]) -> Self {
        Self(value(&STANDARD.encode(nonce)))
    }

    /// Puts the key into a request.
    pub fn write(&self, fields: &mut Fields) {
        fields.insert(SEC_WEBSOCKET_KEY, self.0.clone());
    }

    /// The `Sec-WebSocket-Accept` that answers this key; `sha1` is that digest.
    pub fn accept(&self, sha1: impl FnOnce(&[u8]) -> [u8; 20]) -> HeaderValue {
        value(&STANDARD.encode(sha1(&[self.0.as_bytes(), GUID].concat())))
    }
}

/// Checks the fields of a 101 against the answer that [`Key::accept`] expects (RFC 6455, section 4.1).
///
/// # Errors
/// [`BadAccept`].
pub fn check_accept(fields: &Fields, expected: &HeaderValue) -> Result<(), BadAccept> {
    let mut upgrades = fields.values(UPGRADE);
    let mut accepts = fields.values(SEC_WEBSOCKET_ACCEPT);
    let upgraded = upgrades
        .next()
        .is_some_and(|token| token.as_bytes().eq_ignore_ascii_case(TOKEN.as_bytes()));
    let accepted = accepts.next().is_some_and(|accept| accept == expected);
    let alone = upgrades.next().is_none() && accepts.next().is_none();

    if upgraded && accepted && alone {
        Ok(())
    } else {
        Err(BadAccept)
    }
}

/// Removes the answer to a key from a response.
pub fn strip(fields: &mut Fields) {
    fields.remove(SEC_WEBSOCKET_ACCEPT);
}

fn value(text: &str) -> HeaderValue {
    // Base64 is visible ASCII.
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

/// Reads arbitrary bytes as a key: an accepted key is 24 characters, unchanged.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let Ok(key) = HeaderValue::from_bytes(data) else {
        return;
    };
    let mut fields = Fields::from_iter([(SEC_WEBSOCKET_KEY, key)]);
    if let Ok(key) = Key::of(&fields) {
        assert_eq!(key.0.len(), 24);
        key.write(&mut fields);
        assert_eq!(Key::of(&fields), Ok(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455, section 1.3: the digest of the example, so that no SHA-1 is needed here.
    const DIGEST: [u8; 20] = [
        0xb3, 0x7a, 0x4f, 0x2c, 0xc0, 0x62, 0x4f, 0x16, 0x90, 0xf6, 0x46, 0x06, 0xcf, 0x38, 0x59,
        0x45, 0xb2, 0xbe, 0xc4, 0xea,
    ];

    fn with(keys: &[&'static str]) -> Fields {
        let key = |key: &&'static str| (SEC_WEBSOCKET_KEY, HeaderValue::from_static(key));
        keys.iter()
            .map(key)
            .fold(Fields::new(), |mut fields, (name, key)| {
                fields.append(name, key);
                fields
            })
    }

    #[test]
    fn answers_the_key_of_the_specification() {
        let key = Key::of(&with(&["dGhlIHNhbXBsZSBub25jZQ=="])).unwrap();
        assert_eq!(key, Key::new(*b"the sample nonce"));
        let accept = key.accept(|hashed| {
            assert_eq!(
                hashed,
                b"dGhlIHNhbXBsZSBub25jZQ==258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            );
            DIGEST
        });
        assert_eq!(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn refuses_what_is_no_key() {
        for keys in [
            &[][..],
            &["dGhlIHNhbXBsZSBub25jZQ==", "dGhlIHNhbXBsZSBub25jZQ=="],
            &["short"],
            &["dGhlIHNhbXBsZSBub25jZQ"],
        ] {
            assert_eq!(Key::of(&with(keys)), Err(BadKey), "{keys:?}");
        }
    }

    #[test]
    fn takes_only_the_answer_to_its_own_key() {
        let expected = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let answer = |upgrade: &str, accept: &str| {
            let fields = [(UPGRADE, upgrade), (SEC_WEBSOCKET_ACCEPT, accept)];
            let fields = fields.map(|(name, value)| (name, HeaderValue::from_str(value).unwrap()));
            check_accept(&Fields::from_iter(fields), &expected)
        };
        assert_eq!(answer("WebSocket", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), Ok(()));
        assert_eq!(
            answer("websocket", "S3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            Err(BadAccept)
        );
        assert_eq!(
            answer("h2c", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            Err(BadAccept)
        );
        assert_eq!(check_accept(&Fields::new(), &expected), Err(BadAccept));
    }
}
