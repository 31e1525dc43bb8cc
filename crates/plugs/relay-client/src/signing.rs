//! The fields of a request that its sender signs.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hermes_certified::{
    APPROVE, CONTENT_DIGEST, SIGNATURE, SIGNATURE_INPUT, Signature, SigningKey, Statement,
};
use http::{HeaderMap, HeaderValue};

use crate::error::ClientError;

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

/// Adds the signature of a statement, and the fields that it is about, to those of a request.
pub(crate) fn sign(
    key: &SigningKey,
    statement: &Statement<'_>,
    headers: &mut HeaderMap,
) -> Result<(), ClientError> {
    let mut nonce = [0; 16];
    let filled = aws_lc_rs::rand::fill(&mut nonce);
    filled.map_err(|_| ClientError::Invalid("the system gives no random numbers".to_owned()))?;
    let nonce = URL_SAFE_NO_PAD.encode(nonce);
    let signature = Signature::make(key, statement, seconds(), &nonce);
    let fields = [
        (SIGNATURE_INPUT, Some(signature.input())),
        (SIGNATURE, Some(signature.value())),
        (CONTENT_DIGEST, statement.content_digest.map(str::to_owned)),
        (APPROVE, statement.approve.map(str::to_owned)),
    ];
    for (name, value) in fields {
        let Some(value) = value else {
            continue;
        };
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|error| ClientError::Invalid(format!("{name}: {error}")))?;
        headers.insert(name, value);
    }
    Ok(())
}
