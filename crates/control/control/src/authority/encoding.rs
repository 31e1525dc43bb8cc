//! Random bytes, hexadecimal digits, and times as certificates have them.

use time::OffsetDateTime;

use super::error::AuthorityError;

/// Fills bytes from the system's randomness.
pub(super) fn random(bytes: &mut [u8]) -> Result<(), AuthorityError> {
    aws_lc_rs::rand::fill(bytes)
        .map_err(|_| AuthorityError::Crypto("there is no randomness".to_owned()))
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a text in hexadecimal that we wrote.
pub(super) fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    let digits = pairs.filter_map(|pair| std::str::from_utf8(pair).ok());
    digits
        .filter_map(|pair| u8::from_str_radix(pair, 16).ok())
        .collect()
}

/// A Unix time as X.509 has it; the last that it can say where it says more.
pub(super) fn time(seconds: u64) -> OffsetDateTime {
    i64::try_from(seconds)
        .ok()
        .and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok())
        .unwrap_or(rcgen::date_time_ymd(9999, 12, 31))
}
