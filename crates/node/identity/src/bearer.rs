//! JSON Web Tokens as Bearer credentials (RFC 6750), signed by an issuer with public keys in a
//! file.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_config::Problem;
use hermes_config::model::Bearer;
use jsonwebtoken::{Algorithm, AlgorithmFamily, crypto};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

use crate::cache::Cache;
use crate::claims::{Expected, LEEWAY};
use crate::keys::KeySet;
use crate::proof::TokenProof;

/// Verified tokens that are remembered, by their digest, so that not every request pays for a
/// signature.
#[doc(alias = "bound")]
const REMEMBERED: usize = 4096;

/// Checks tokens for one listener.
pub(crate) struct BearerAuth {
    keys: KeySet,
    expected: Expected,
    /// By SHA-256 of the token.
    verified: Mutex<Cache<Vec<u8>, Verified>>,
}

/// The proof of a token.
#[derive(Clone)]
pub(crate) struct Verified {
    pub user: String,
    /// Unix time in seconds.
    pub expires: u64,
    pub proof: Arc<TokenProof>,
}

/// The part of a JOSE header (RFC 7515 section 4.1) that we act on. An `alg` of `none` is not an [`Algorithm`].
#[derive(Deserialize)]
struct Header {
    alg: Algorithm,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

impl BearerAuth {
    /// Reads the key set; `path` is the path of `config`.
    pub fn build(config: &Bearer, path: &str) -> Result<Self, Vec<Problem>> {
        // One provider everywhere; that it is already installed is no error.
        let _ = crypto::aws_lc::DEFAULT_PROVIDER.install_default();
        let keys = KeySet::read(&config.jwks_file, &format!("{path}.jwks_file"))?;
        let expected = Expected {
            issuer: config.issuer.clone(),
            audience: config.audience.clone(),
            user_claim: config
                .user_claim
                .clone()
                .unwrap_or_else(|| "sub".to_owned()),
        };

        Ok(Self {
            keys,
            expected,
            verified: Mutex::new(Cache::new(REMEMBERED)),
        })
    }

    /// The proof of a token, or why it is not valid at `now`.
    pub fn verify(&self, token: &str, now: u64) -> Result<Verified, &'static str> {
        let name = digest(&SHA256, token.as_bytes()).as_ref().to_vec();
        if let Some(known) = self.verified.lock().find(name.as_slice(), now) {
            return Ok(known.clone());
        }

        let proof = Arc::new(self.proof(token)?);
        let (user, expires) = self.expected.check(&proof.claims, now)?;
        let verified = Verified {
            user,
            expires,
            proof,
        };

        self.verified
            .lock()
            .insert(name, verified.clone(), expires.saturating_add(LEEWAY));
        Ok(verified)
    }

    /// The user that a token, which was verified once, would name at `now`; or why it would not be valid.
    pub fn again(&self, proof: &TokenProof, now: u64) -> Result<String, &'static str> {
        let mut known = self.keys.candidates(proof.kid.as_deref(), proof.algorithm);
        if !known.any(|key| key.print == proof.key) {
            return Err("the key of the token is not known any more");
        }
        self.expected
            .check(&proof.claims, now)
            .map(|(user, _)| user)
    }

    /// The claims of a token, if its signature is right (RFC 7515 section 5.2).
    fn proof(&self, token: &str) -> Result<TokenProof, &'static str> {
        const MALFORMED: &str = "the token is not a signed JSON Web Token";
        let (message, signature) = token.rsplit_once('.').ok_or(MALFORMED)?;
        let (header, claims) = message
            .split_once('.')
            .filter(|(_, claims)| !claims.contains('.'))
            .ok_or(MALFORMED)?;
        let header: Header = decode(header).ok_or("the header of the token cannot be used")?;

        // RFC 7515, 4.1.11: extensions that are critical and not understood make a token invalid.
        if header.crit.is_some() {
            return Err("the token demands extensions that are not known here");
        }
        // RFC 8725, 2.1: else the public key would serve an attacker as the secret of an HMAC.
        if header.alg.family() == AlgorithmFamily::Hmac {
            return Err("the token is not signed with a public key");
        }

        let mut tried = self
            .keys
            .candidates(header.kid.as_deref(), header.alg)
            .peekable();
        tried.peek().ok_or("the key of the token is not known")?;
        let right = |key| {
            matches!(
                crypto::verify(signature, message.as_bytes(), key, header.alg),
                Ok(true)
            )
        };

        let signer = tried
            .find(|candidate| right(&candidate.key))
            .ok_or("the signature of the token is wrong")?;
        let key = signer.print.clone();
        let kid = header.kid.clone();

        Ok(TokenProof {
            kid,
            algorithm: header.alg,
            key,
            claims: decode(claims).ok_or(MALFORMED)?,
        })
    }
}

/// base64url without padding, and JSON in it.
fn decode<T: for<'a> Deserialize<'a>>(part: &str) -> Option<T> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

impl fmt::Debug for BearerAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerAuth")
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}
