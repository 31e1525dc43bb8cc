//! An issuer of JSON Web Tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};

/// An issuer with a key of its own.
pub struct Issuer {
    algorithm: Algorithm,
    key: EncodingKey,
    public: Value,
}

impl Issuer {
    /// One that signs with Ed25519 (RFC 8037).
    pub fn eddsa() -> Self {
        let pair = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let public = URL_SAFE_NO_PAD.encode(pair.public_key_raw());
        Self {
            algorithm: Algorithm::EdDSA,
            key: EncodingKey::from_ed_der(pair.serialized_der()),
            public: json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": "1", "x": public }),
        }
    }

    /// One that signs with RSA (RFC 7518, 3.3).
    pub fn rs256() -> Self {
        let pair = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        // RFC 5208 wraps RFC 8017's key, whose first integer but one is the modulus; both have a fixed length at 2048 bits.
        let inner = &pair.serialized_der()[26..];
        let modulus = URL_SAFE_NO_PAD.encode(&inner[12..268]);
        let public = json!({ "kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": modulus, "e": "AQAB" });
        Self {
            algorithm: Algorithm::RS256,
            key: EncodingKey::from_rsa_der(inner),
            public,
        }
    }

    /// What it publishes.
    pub fn key_set(&self) -> String {
        json!({ "keys": [self.public] }).to_string()
    }

    /// Claims that a node with `issuer: https://issuer.test` and `audience: hermes` believes for an hour.
    pub fn claims(&self, user: &str) -> Value {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        json!({ "iss": "https://issuer.test", "aud": "hermes", "sub": user, "exp": now + 3600 })
    }

    /// A token with these claims.
    pub fn token(&self, claims: &Value) -> String {
        let header = Header {
            kid: Some("1".to_owned()),
            ..Header::new(self.algorithm)
        };
        jsonwebtoken::encode(&header, claims, &self.key).unwrap()
    }
}

/// One part of a token.
pub fn part(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}
