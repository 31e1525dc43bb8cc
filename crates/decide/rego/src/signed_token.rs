//! Tokens that a policy verifies itself: `io.jwt.decode_verify` and `io.jwt.verify_*`, as OPA has them.
//!
//! A node verifies the tokens of users by itself. These are for policies that come from OPA, and for tokens that a listener does not know of. A
//! token or a constraint that is malformed makes the call undefined; one that does not hold gives `false`.
//!
//! Specifications: RFC 7515, RFC 7518, RFC 7519, and the builtins of OPA 1.x.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use regorus::Value;
use serde_json::{Map, Value as Json, json};

use crate::input::value_of;
use crate::outcome::to_json;
use crate::times;
use crate::token_keys::{Algorithm, TokenKey, keys};

/// Nanoseconds of a second.
const SECOND: f64 = 1e9;

/// A token in its three parts.
struct SignedToken<'a> {
    header: Map<String, Json>,
    payload: Map<String, Json>,
    /// The signed text: header and payload as they are written.
    message: &'a str,
    signature: Vec<u8>,
}

impl<'a> SignedToken<'a> {
    fn parse(token: &'a str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let object = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
            serde_json::from_slice::<Map<String, Json>>(&bytes).ok()
        };
        Some(Self {
            header: object(header)?,
            payload: object(payload)?,
            message,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    fn is_signed_by(&self, key: &TokenKey, algorithm: Algorithm) -> bool {
        algorithm.verifies(key, self.message.as_bytes(), &self.signature)
    }

    /// Whether one of these keys signed the token: only keys with its `kid` are tried, if there are any.
    fn is_signed_by_one(&self, keys: &[TokenKey], algorithm: Algorithm) -> bool {
        let kid = self.header.get("kid").and_then(Json::as_str);
        let named = |key: &&TokenKey| kid.is_some() && key.kid.as_deref() == kid;
        // A token without `kid`, or with an unknown one, may still be signed by any of the keys, as in OPA.
        let any = keys.iter().any(|key| named(&key));
        let mut candidates = keys.iter().filter(|key| !any || named(key));
        candidates.any(|key| self.is_signed_by(key, algorithm))
    }
}

/// The conditions on a token.
#[derive(Debug)]
struct Constraints {
    keys: Vec<TokenKey>,
    alg: Option<String>,
    iss: Option<String>,
    aud: Option<String>,
    /// Seconds of Unix time.
    time: f64,
}

impl Constraints {
    /// Parses an object with exactly one of `cert` and `secret`, and without unknown keys.
    fn parse(value: &Value) -> Option<Self> {
        let Ok(Some(Json::Object(given))) = to_json(value) else {
            return None;
        };
        const KNOWN: [&str; 6] = ["cert", "secret", "alg", "iss", "aud", "time"];
        if given.keys().any(|key| !KNOWN.contains(&key.as_str())) {
            return None;
        }
        let text = |key: &str| match given.get(key) {
            None => Some(None),
            Some(Json::String(text)) => Some(Some(text.clone())),
            Some(_) => None,
        };

        let keys = match (text("cert")?, text("secret")?) {
            (Some(cert), None) => keys(&cert)?,
            (None, Some(secret)) => vec![TokenKey::secret(&secret)],
            _ => return None,
        };
        let time = match given.get("time") {
            Some(time) => time.as_f64()?,
            // This many nanoseconds exceed the precision of floating point; a rounded number is
            // near enough.
            None => times::now(&[])?.as_i64().ok()? as f64,
        };
        Some(Self {
            keys,
            alg: text("alg")?,
            iss: text("iss")?,
            aud: text("aud")?,
            time: time / SECOND,
        })
    }

    /// Whether a token meets the constraints; `None` if a claim is malformed.
    fn hold(&self, token: &SignedToken<'_>) -> Option<bool> {
        let Some(alg) = token.header.get("alg").and_then(Json::as_str) else {
            return Some(false);
        };
        let is_asked_for = self.alg.as_deref().is_none_or(|wanted| wanted == alg);
        // RFC 7515, 4.1.11: a token with critical extensions that we do not understand is invalid, and we know no extension.
        if !is_asked_for || token.header.contains_key("crit") {
            return Some(false);
        }
        let Some(algorithm) = Algorithm::named(alg) else {
            return Some(false);
        };
        if !token.is_signed_by_one(&self.keys, algorithm) {
            return Some(false);
        }

        let seconds = |claim: &str| match token.payload.get(claim) {
            None => Some(None),
            Some(value) => value.as_f64().map(Some),
        };
        // RFC 7519, 4.1.4 and 4.1.5: invalid from `exp` on, valid from `nbf` on.
        let is_over = seconds("exp")?.is_some_and(|until| self.time >= until);
        let is_early = seconds("nbf")?.is_some_and(|from| self.time < from);
        Some(!is_over && !is_early && self.is_from(token) && self.is_for(token))
    }

    fn is_from(&self, token: &SignedToken<'_>) -> bool {
        let wanted = self.iss.as_deref();
        wanted.is_none_or(|wanted| token.payload.get("iss").and_then(Json::as_str) == Some(wanted))
    }

    /// A token with an audience is valid for that audience only, and never where the constraints name none.
    fn is_for(&self, token: &SignedToken<'_>) -> bool {
        match (token.payload.get("aud"), self.aud.as_deref()) {
            (None, wanted) => wanted.is_none(),
            (Some(_), None) => false,
            (Some(Json::Array(list)), Some(wanted)) => list.iter().any(|one| one == wanted),
            (Some(one), Some(wanted)) => one == wanted,
        }
    }
}

/// `io.jwt.decode_verify(token, constraints)`: whether it holds, and then its header and payload.
pub(crate) fn decode_verify(operands: &[Value]) -> Option<Value> {
    let [token, constraints] = operands else {
        return None;
    };
    let token = token.as_string().ok()?;
    let constraints = Constraints::parse(constraints)?;
    let token = SignedToken::parse(token)?;

    let answer = match constraints.hold(&token)? {
        true => json!([true, token.header, token.payload]),
        false => json!([false, {}, {}]),
    };
    Some(value_of(answer))
}

/// Whether a token has a signature of this kind by this key, regardless of the algorithm in its
/// header.
pub(crate) fn verify(operands: &[Value], algorithm: Algorithm) -> Option<Value> {
    let [token, key] = operands else { return None };
    let token = SignedToken::parse(token.as_string().ok()?)?;
    let key = key.as_string().ok()?;
    let keys = match algorithm.takes_secret() {
        true => vec![TokenKey::secret(key)],
        false => keys(key)?,
    };
    Some(Value::from(token.is_signed_by_one(&keys, algorithm)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"alg":"HS256","typ":"JWT"}`.
    const HEADER: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9";

    /// A token with this payload, signed by the secret `s3cret`.
    fn token(payload: &Json) -> String {
        let payload = URL_SAFE_NO_PAD.encode(payload.to_string());
        let message = format!("{HEADER}.{payload}");
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, b"s3cret");
        let tag = aws_lc_rs::hmac::sign(&key, message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()))
    }

    fn of(token: &str, constraints: Json) -> Option<String> {
        let operands = [Value::from(token), Value::from(constraints)];
        decode_verify(&operands).map(|value| value.to_string())
    }

    const NOT: &str = "[false,{},{}]";

    #[test]
    fn a_token_holds_while_all_that_is_asked_does() {
        let claims = json!({ "iss": "me", "aud": ["a", "b"], "exp": 100, "nbf": 10 });
        let token = token(&claims);
        let asked = |changes: Json| {
            let mut asked = json!({ "secret": "s3cret", "aud": "b", "iss": "me", "time": 50e9, "alg": "HS256" });
            for (key, value) in changes.as_object().unwrap() {
                asked[key] = value.clone();
            }
            of(&token, asked).unwrap()
        };
        assert!(asked(json!({})).starts_with("[true,{\"alg\":\"HS256\""));
        for changes in [
            json!({ "secret": "other" }),
            json!({ "aud": "c" }),
            json!({ "iss": "you" }),
            json!({ "time": 100e9 }),
            json!({ "time": 9e9 }),
            json!({ "alg": "HS512" }),
        ] {
            assert_eq!(asked(changes.clone()), NOT, "{changes}");
        }
    }

    #[test]
    fn a_token_for_someone_is_not_for_everyone() {
        let asked = || json!({ "secret": "s3cret", "time": 1 });
        assert_eq!(of(&token(&json!({ "aud": "a" })), asked()).unwrap(), NOT);
        assert!(
            of(&token(&json!({})), asked())
                .unwrap()
                .starts_with("[true")
        );
        // A claim that is no time is an error, as of OPA.
        assert_eq!(of(&token(&json!({ "exp": "soon" })), asked()), None);
    }

    #[test]
    fn what_is_malformed_is_undefined() {
        let good = token(&json!({}));
        let secret = || json!({ "secret": "s3cret" });
        for bad in ["", "a.b", "a.b.c", &good[1..], &good.replace('.', "")] {
            assert_eq!(of(bad, secret()), None, "{bad}");
        }
        for constraints in [
            json!({}),
            json!({ "secret": "s3cret", "cert": "x" }),
            json!({ "cert": "x" }),
            json!({ "secret": "s3cret", "issuer": "me" }),
            json!({ "secret": 1 }),
            json!([]),
        ] {
            assert_eq!(of(&good, constraints.clone()), None, "{constraints}");
        }
    }

    #[test]
    fn a_secret_is_not_taken_for_a_public_key_nor_the_reverse() {
        // The classic confusion: a token by HS256 with the text of a public key as secret.
        let key = public_key();
        let payload = URL_SAFE_NO_PAD.encode("{}");
        let message = format!("{HEADER}.{payload}");
        let hmac = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key.as_bytes());
        let tag = aws_lc_rs::hmac::sign(&hmac, message.as_bytes());
        let forged = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag.as_ref()));
        assert_eq!(of(&forged, json!({ "cert": key })).unwrap(), NOT);
    }

    /// A key of P-256 as JWK, made here.
    fn public_key() -> String {
        use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let point = pair.public_key().as_ref();
        let part = |range| URL_SAFE_NO_PAD.encode(&point[range]);
        json!({ "kty": "EC", "crv": "P-256", "x": part(1..33), "y": part(33..65) }).to_string()
    }
}
