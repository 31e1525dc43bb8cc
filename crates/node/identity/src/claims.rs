//! The claims of a verified token (RFC 7519 section 4.1).

use serde_json::{Map, Value};

use crate::user_name::is_user;

/// Seconds by which the issuer's clock and ours may differ.
pub const LEEWAY: u64 = 30;

/// The last second that a date can show (9999-12-31T23:59:59Z). A later time counts as this one, so that code that adds to it need
/// not fear the end of numbers.
const LATEST: u64 = 253_402_300_799;

/// The claims that a token must have.
#[derive(Debug)]
pub(crate) struct Expected {
    pub issuer: String,
    pub audience: String,
    pub user_claim: String,
}

impl Expected {
    /// The user and the expiry time, at Unix time `now` in seconds.
    pub fn check(
        &self,
        claims: &Map<String, Value>,
        now: u64,
    ) -> Result<(String, u64), &'static str> {
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err("the token is not from the expected issuer");
        }
        if !claims
            .get("aud")
            .is_some_and(|audience| self.is_for_us(audience))
        {
            return Err("the token is not for this audience");
        }

        let expires = claims
            .get("exp")
            .and_then(seconds)
            .ok_or("the token does not say when it expires")?;
        if now >= expires.saturating_add(LEEWAY) {
            return Err("the token has expired");
        }

        if let Some(before) = claims.get("nbf") {
            let before = seconds(before).ok_or("the token's nbf is not a time")?;
            if before > now.saturating_add(LEEWAY) {
                return Err("the token is not valid yet");
            }
        }

        let user = claims
            .get(&self.user_claim)
            .and_then(Value::as_str)
            .filter(|user| is_user(user));

        Ok((
            user.ok_or("the token does not name a user")?.to_owned(),
            expires,
        ))
    }

    /// `aud` is a string or a list of strings (RFC 7519 section 4.1.3).
    fn is_for_us(&self, audience: &Value) -> bool {
        match audience {
            Value::String(one) => *one == self.audience,
            Value::Array(several) => several
                .iter()
                .any(|one| one.as_str() == Some(&self.audience)),
            _ => false,
        }
    }
}

/// A NumericDate (RFC 7519 section 2), fractions cut off.
fn seconds(value: &Value) -> Option<u64> {
    let fraction = || {
        value
            .as_f64()
            .filter(|seconds| *seconds >= 0.0)
            .map(|seconds| seconds as u64)
    };
    value
        .as_u64()
        .or_else(fraction)
        .map(|seconds| seconds.min(LATEST))
}
