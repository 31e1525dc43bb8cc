//! The public keys of a JSON Web Key Set (RFC 7517).

use aws_lc_rs::digest::{SHA256, digest};
use hermes_config::Problem;
use hermes_config::model::DataSource;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;

use crate::users::read_bounded;

/// Bytes of a key set: issuers publish a few keys.
#[doc(alias = "bound")]
const FILE_LIMIT: u64 = 1 << 20;

/// Keys in a set: issuers publish a few.
#[doc(alias = "bound")]
const KEY_LIMIT: usize = 64;

/// Keys tried for one token; more than one only where keys or tokens carry no `kid`.
#[doc(alias = "bound")]
const TRY_LIMIT: usize = 4;

/// Digits of the base64 form of the shortest RSA modulus, 2048 bits (RFC 7518 section 3.3).
const RSA_DIGITS: usize = 342;

/// One key, and the algorithms that it may verify.
pub(crate) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub key: DecodingKey,
    /// Digest of the key itself, without its name and use.
    pub print: Vec<u8>,
}

/// The keys that can verify a token. Never empty, and never symmetric.
pub(crate) struct KeySet(Vec<Key>);

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Reads `file`; `path` is its path in the configuration. Keys for other purposes than verifying signatures, and
    /// of kinds that are not known, are passed over (RFC 7517 section 5).
    ///
    /// # Errors
    /// When the file is not a key set, holds a symmetric key, or no usable one.
    pub fn read(file: &DataSource, path: &str) -> Result<Self, Vec<Problem>> {
        let error = |reason: String| {
            Problem::new(path, format!("{file}: {reason}"))
                .remedy("take the key set that the issuer publishes (its `jwks_uri`)")
        };

        let text = read_bounded(file, FILE_LIMIT, path).map_err(|error| vec![error])?;
        let parsed: Result<Document, _> = serde_json::from_str(&text);
        let document = parsed.map_err(|why| {
            // Its own words would quote a value, which may be a private key that was put here by mistake.
            let line = why.line();
            let column = why.column();
            let place = format!("line {line} column {column}");
            vec![error(format!("not a JSON Web Key Set: see {place}"))]
        })?;

        if document.keys.len() > KEY_LIMIT {
            return Err(vec![error(format!("more than {KEY_LIMIT} keys"))]);
        }
        let mut keys = Vec::new();
        let mut refused = Vec::new();
        for (index, value) in document.keys.into_iter().enumerate() {
            match parse(value) {
                Ok(key) => keys.extend(key),
                Err(Unusable::Ignored(why)) => refused.push(error(format!("keys[{index}]: {why}"))),
                Err(Unusable::Mistake(why)) => {
                    return Err(vec![error(format!("keys[{index}]: {why}"))]);
                }
            }
        }

        if !keys.is_empty() {
            // RFC 7517, 5: an issuer may publish keys that this program does not understand; the
            // others are used.
            for ignored in refused {
                tracing::warn!("{path}: {}; this key is ignored", ignored.reason);
            }
            return Ok(Self(keys));
        }
        if refused.is_empty() {
            refused.push(error(
                "no key can verify a signature (RSA, P-256, P-384 or Ed25519)".to_owned(),
            ));
        }
        Err(refused)
    }

    /// The keys that a token with this header may be signed with.
    pub fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> impl Iterator<Item = &Key> {
        let fits = move |key: &&Key| {
            let named = match (id, key.id.as_deref()) {
                (Some(wanted), Some(id)) => wanted == id,
                _ => true,
            };
            named && key.algorithms.contains(&algorithm)
        };
        self.0.iter().filter(fits).take(TRY_LIMIT)
    }
}

/// Why a key cannot be used.
#[derive(Debug)]
enum Unusable {
    /// The key is not understood, broken or too weak: only tokens that it signed are refused.
    Ignored(String),
    /// The file is not one that an issuer publishes.
    Mistake(String),
}

/// A key; `None` if it is for something else.
fn parse(value: serde_json::Value) -> Result<Option<Key>, Unusable> {
    let kind = value
        .get("kty")
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
        .to_owned();
    // Refused before it is parsed: a shared secret in this file is a mistake even if never used.
    if kind == "oct" {
        let reason = "a symmetric key: anyone who verifies with it can sign with it as well";
        return Err(Unusable::Mistake(reason.to_owned()));
    }

    let jwk: Jwk = serde_json::from_value(value)
        .map_err(|_| Unusable::Ignored("not a JSON Web Key".to_owned()))?;
    if !verifies(&jwk) {
        return Ok(None);
    }

    let mut algorithms: Vec<Algorithm> = match &jwk.algorithm {
        AlgorithmParameters::RSA(rsa) if rsa.n.len() < RSA_DIGITS => {
            let reason = "an RSA key of less than 2048 bits";
            return Err(Unusable::Ignored(reason.to_owned()));
        }
        AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa.algorithms().to_vec(),
        AlgorithmParameters::EllipticCurve(ec) => match ec.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            // RFC 7517, 5: keys that are not understood are ignored, not refused.
            _ => return Ok(None),
        },
        AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ if ["RSA", "EC", "OKP"].contains(&kind.as_str()) => {
            return Err(Unusable::Ignored(format!("a broken {kind} key")));
        }
        _ => return Ok(None),
    };

    // RFC 8725, 3.1: a key is used with one algorithm; `alg` says which.
    if let Some(only) = jwk.common.key_algorithm {
        algorithms.retain(|algorithm| only == (*algorithm).into());
    }
    let key = DecodingKey::from_jwk(&jwk).map_err(|why| Unusable::Ignored(why.to_string()))?;
    let print = serde_json::to_vec(&jwk.algorithm);
    let print = print.map_err(|why| Unusable::Ignored(why.to_string()))?;
    let print = digest(&SHA256, &print).as_ref().to_vec();

    Ok(Some(Key {
        id: jwk.common.key_id,
        algorithms,
        key,
        print,
    })
    .filter(|key| !key.algorithms.is_empty()))
}

/// Whether a key is meant to verify signatures (RFC 7517 sections 4.2 and 4.3).
fn verifies(jwk: &Jwk) -> bool {
    let used = jwk
        .common
        .public_key_use
        .as_ref()
        .is_none_or(|usage| *usage == PublicKeyUse::Signature);
    let operations = jwk.common.key_operations.as_ref();
    used && operations.is_none_or(|operations| operations.contains(&KeyOperations::Verify))
}
