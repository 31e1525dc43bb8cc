//! Files of private keys, as `openssl genpkey -algorithm ed25519` writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::key::SigningKey;

/// The first line of a private key in PEM (RFC 7468, section 10).
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";

/// The last line.
const END: &str = "-----END PRIVATE KEY-----";

/// A file has no key that signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFileError {
    /// It is not in PEM.
    #[error("it has no private key in PEM: make one with `openssl genpkey -algorithm ed25519`")]
    Pem,
    /// The key is of another algorithm.
    #[error("its key is not of Ed25519: make one with `openssl genpkey -algorithm ed25519`")]
    Algorithm,
}

/// The key in the text of a file.
///
/// # Errors
/// There is none, or one of another algorithm.
pub fn key_of_pem(text: &str) -> Result<SigningKey, KeyFileError> {
    let (_, behind) = text.split_once(BEGIN).ok_or(KeyFileError::Pem)?;
    let (encoded, _) = behind.split_once(END).ok_or(KeyFileError::Pem)?;
    let encoded: String = encoded.split_whitespace().collect();
    let document = STANDARD.decode(encoded).map_err(|_| KeyFileError::Pem)?;
    SigningKey::of_pkcs8(&document).ok_or(KeyFileError::Algorithm)
}
