//! Secrets that the sockets of one port share.

use std::sync::Arc;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::hmac;

/// Domain of the derivation, so that the secret serves nothing else.
const SALT: &[u8] = b"hermes quic keys 1";
/// Bytes of the key of stateless resets: a block of SHA-256.
const RESET_KEY: usize = 64;
/// Bytes of a secret that no one else knows.
const SECRET: usize = 32;

/// The keys of Retry tokens (RFC 9000 section 8.1.2) and of stateless resets (section 10.3). Every worker of a port needs the
/// same, and so does the process after a restart: a peer then learns at once that its connection is gone.
#[derive(Clone)]
pub struct Keys {
    reset: Arc<hmac::Key>,
    token: Arc<Prk>,
}

impl Keys {
    /// Derives the keys (HKDF, RFC 5869) from something that stays the same and that only we know, e.g. a private key.
    #[must_use]
    pub fn derive(secret: &[u8]) -> Self {
        let secret = Salt::new(HKDF_SHA256, SALT).extract(secret);
        let mut reset = [0; RESET_KEY];
        expand(&secret, b"stateless reset", &mut reset);
        let mut token = [0; RESET_KEY];
        expand(&secret, b"token", &mut token);

        Self {
            reset: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset)),
            token: Arc::new(Salt::new(HKDF_SHA256, &[]).extract(&token)),
        }
    }

    /// Keys that end with the process.
    #[must_use]
    pub fn random() -> Self {
        let mut secret = [0; SECRET];
        // This fails only without random numbers of the system, and then TLS has none either.
        let _ = aws_lc_rs::rand::fill(&mut secret);
        Self::derive(&secret)
    }

    pub(super) fn reset(&self) -> Arc<hmac::Key> {
        self.reset.clone()
    }

    pub(super) fn token(&self) -> Arc<Prk> {
        self.token.clone()
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys")
    }
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Fills `into`, which is shorter than HKDF's limit of 255 blocks: it cannot fail.
fn expand(secret: &Prk, label: &[u8], into: &mut [u8]) {
    let labels = [label];
    let _ = secret
        .expand(&labels, Length(into.len()))
        .and_then(|okm| okm.fill(into));
}
