//! Keys and algorithms of signed tokens (RFC 7517, RFC 7518, RFC 8037).

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{
    self as sign, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value as Json;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, SubjectPublicKeyInfo};

/// Keys of a set: those of an issuer are a handful.
#[doc(alias = "bound")]
const KEYS: usize = 64;

/// A key, and its name in a set.
#[derive(Debug)]
pub(crate) struct TokenKey {
    pub(crate) kid: Option<String>,
    material: KeyMaterial,
}

#[derive(Debug)]
enum KeyMaterial {
    /// A secret that both sides know.
    Secret(Vec<u8>),
    /// An RSAPublicKey (RFC 8017, A.1.1), a point of a curve, or the key of Ed25519.
    Public(Vec<u8>),
    /// Modulus and exponent.
    Rsa { n: Vec<u8>, e: Vec<u8> },
}

impl TokenKey {
    pub(crate) fn secret(text: &str) -> Self {
        Self {
            kid: None,
            material: KeyMaterial::Secret(text.as_bytes().to_vec()),
        }
    }

    fn public(bytes: &[u8]) -> Self {
        Self {
            kid: None,
            material: KeyMaterial::Public(bytes.to_vec()),
        }
    }
}

/// How a token is signed, by its name of RFC 7518.
#[derive(Clone, Copy)]
pub(crate) struct Algorithm {
    /// As in `HS256`.
    name: &'static str,
    check: Check,
}

#[derive(Clone, Copy)]
enum Check {
    Hmac(&'static hmac::Algorithm),
    Rsa(&'static RsaParameters),
    Other(&'static dyn VerificationAlgorithm),
}

static HMACS: [hmac::Algorithm; 3] = [hmac::HMAC_SHA256, hmac::HMAC_SHA384, hmac::HMAC_SHA512];

/// All of them.
pub(crate) static ALGORITHMS: &[Algorithm] = &[
    Algorithm::new("HS256", Check::Hmac(&HMACS[0])),
    Algorithm::new("HS384", Check::Hmac(&HMACS[1])),
    Algorithm::new("HS512", Check::Hmac(&HMACS[2])),
    Algorithm::new("RS256", Check::Rsa(&sign::RSA_PKCS1_2048_8192_SHA256)),
    Algorithm::new("RS384", Check::Rsa(&sign::RSA_PKCS1_2048_8192_SHA384)),
    Algorithm::new("RS512", Check::Rsa(&sign::RSA_PKCS1_2048_8192_SHA512)),
    Algorithm::new("PS256", Check::Rsa(&sign::RSA_PSS_2048_8192_SHA256)),
    Algorithm::new("PS384", Check::Rsa(&sign::RSA_PSS_2048_8192_SHA384)),
    Algorithm::new("PS512", Check::Rsa(&sign::RSA_PSS_2048_8192_SHA512)),
    Algorithm::new("ES256", Check::Other(&sign::ECDSA_P256_SHA256_FIXED)),
    Algorithm::new("ES384", Check::Other(&sign::ECDSA_P384_SHA384_FIXED)),
    Algorithm::new("ES512", Check::Other(&sign::ECDSA_P521_SHA512_FIXED)),
    Algorithm::new("EdDSA", Check::Other(&sign::ED25519)),
];

impl Algorithm {
    const fn new(name: &'static str, check: Check) -> Self {
        Self { name, check }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        let known = ALGORITHMS.iter().find(|known| known.name == name);
        known.copied()
    }

    /// Whether its key is a secret of both sides.
    pub(crate) fn takes_secret(self) -> bool {
        matches!(self.check, Check::Hmac(_))
    }

    /// Whether this key made the signature; `false` for a key that does not fit the algorithm.
    pub(crate) fn verifies(self, key: &TokenKey, message: &[u8], signature: &[u8]) -> bool {
        let verified = match (self.check, &key.material) {
            (Check::Hmac(algorithm), KeyMaterial::Secret(secret)) => {
                hmac::verify(&hmac::Key::new(*algorithm, secret), message, signature)
            }
            (Check::Rsa(parameters), KeyMaterial::Rsa { n, e }) => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            (Check::Rsa(parameters), KeyMaterial::Public(key)) => {
                UnparsedPublicKey::new(parameters, key).verify(message, signature)
            }
            (Check::Other(algorithm), KeyMaterial::Public(key)) => {
                UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
            // A public key used as the secret of an HMAC would let anybody forge tokens.
            _ => return false,
        };
        verified.is_ok()
    }
}

/// The keys of a text: a certificate or a public key in PEM, a JWK, or a JWK set. Unknown keys of a set are skipped (RFC 7517,
/// section 5).
pub(crate) fn keys(text: &str) -> Option<Vec<TokenKey>> {
    let text = text.trim();
    if text.starts_with("-----BEGIN ") {
        return pem(text).map(|key| vec![key]);
    }
    let json: Json = serde_json::from_str(text).ok()?;
    let Some(set) = json.get("keys") else {
        return jwk(&json).map(|key| vec![key]);
    };
    // A signature is tried with every key, so a set of any size would cost any time.
    let set = set.as_array().filter(|set| set.len() <= KEYS)?;
    let keys: Vec<TokenKey> = set.iter().filter_map(jwk).collect();
    (!keys.is_empty()).then_some(keys)
}

/// The key of a text that is exactly one block of PEM.
fn pem(text: &str) -> Option<TokenKey> {
    let (_, end) = text.split_once("-----END ")?;
    let (_, behind) = end.split_once("-----")?;
    if !behind.trim().is_empty() {
        return None;
    }
    let mut blocks = Pem::iter_from_buffer(text.as_bytes());
    let block = blocks.next()?.ok()?;
    match block.label.as_str() {
        "CERTIFICATE" => {
            let certificate = block.parse_x509().ok()?;
            let key = &certificate.public_key().subject_public_key;
            Some(TokenKey::public(&key.data))
        }
        "PUBLIC KEY" => {
            let (_, info) = SubjectPublicKeyInfo::from_der(&block.contents).ok()?;
            Some(TokenKey::public(&info.subject_public_key.data))
        }
        "RSA PUBLIC KEY" => Some(TokenKey::public(&block.contents)),
        _ => None,
    }
}

fn jwk(json: &Json) -> Option<TokenKey> {
    let text = |key: &str| json.get(key).and_then(Json::as_str);
    let bytes = |key: &str| URL_SAFE_NO_PAD.decode(text(key)?).ok();
    let material = match text("kty")? {
        "RSA" => KeyMaterial::Rsa {
            n: bytes("n")?,
            e: bytes("e")?,
        },
        "EC" => {
            // SEC 1, 2.3.3: a point that is not compressed.
            let mut point = vec![4];
            point.extend(bytes("x")?);
            point.extend(bytes("y")?);
            KeyMaterial::Public(point)
        }
        "OKP" if text("crv") == Some("Ed25519") => KeyMaterial::Public(bytes("x")?),
        "oct" => KeyMaterial::Secret(bytes("k")?),
        _ => return None,
    };
    Some(TokenKey {
        kid: text("kid").map(str::to_owned),
        material,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8037, appendix A: a key of Ed25519, a signed text, and the signature.
    #[test]
    fn the_token_of_rfc_8037_is_verified() {
        let key =
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
        let message = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc";
        let signature = "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let keys = keys(key).unwrap();
        let verifies = |name, message: &str| {
            let algorithm = Algorithm::named(name).unwrap();
            algorithm.verifies(&keys[0], message.as_bytes(), &signature)
        };
        assert!(verifies("EdDSA", message));
        assert!(!verifies("EdDSA", "other"));
        assert!(!verifies("ES256", message) && !verifies("RS256", message));
        assert!(!verifies("HS256", message));
    }

    #[test]
    fn each_curve_and_each_way_to_write_its_key_is_taken() {
        use aws_lc_rs::encoding::AsDer as _;
        use aws_lc_rs::rand::SystemRandom;
        use aws_lc_rs::signature::{
            ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
            ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
        };
        for (name, algorithm) in [
            ("ES256", &ECDSA_P256_SHA256_FIXED_SIGNING),
            ("ES384", &ECDSA_P384_SHA384_FIXED_SIGNING),
            ("ES512", &ECDSA_P521_SHA512_FIXED_SIGNING),
        ] {
            let pair = EcdsaKeyPair::generate(algorithm).unwrap();
            let signature = pair.sign(&SystemRandom::new(), b"message").unwrap();
            let der = pair.public_key().as_der().unwrap();
            let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
            let pem = format!("-----BEGIN PUBLIC KEY-----\n{text}\n-----END PUBLIC KEY-----\n");
            let point = pair.public_key().as_ref();
            let half = point.len() / 2;
            let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
            let one = serde_json::json!({ "kty": "EC", "kid": "a", "x": part(&point[1..=half]), "y": part(&point[half + 1..]) });
            let set = serde_json::json!({ "keys": [{ "kty": "new" }, one] }).to_string();

            for text in [pem, one.to_string(), set] {
                let found = keys(&text).unwrap();
                let algorithm = Algorithm::named(name).unwrap();
                assert!(
                    algorithm.verifies(&found[0], b"message", signature.as_ref()),
                    "{name} {text}"
                );
                assert!(!algorithm.verifies(&found[0], b"another", signature.as_ref()));
            }
        }
    }

    #[test]
    fn what_is_no_key_is_none() {
        for text in [
            "",
            "{}",
            "{\"keys\": []}",
            "{\"kty\": \"RSA\"}",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
            "-----BEGIN CERTIFICATE-----\nAAAA\n",
            "-----BEGIN RSA PUBLIC KEY-----\nAAAA\n-----END RSA PUBLIC KEY-----\nmore",
        ] {
            assert!(keys(text).is_none(), "{text}");
        }
        let many = format!("{{\"keys\": [{}]}}", vec!["{}"; KEYS + 1].join(","));
        assert!(keys(&many).is_none());
    }
}
