//! The Connection and Upgrade fields (RFC 9110 7.6.1, 7.8).

use http::HeaderMap;
use http::header::{CONNECTION, UPGRADE};

use super::error::DecodeErrorKind as Kind;
use super::head::{is_token, trim};

/// The connection options that the codec itself knows.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Options {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
}

/// Reads every Connection line; empty list members are passed over (RFC 9110 5.6.1.2).
pub(super) fn options(fields: &HeaderMap) -> Result<Options, Kind> {
    let mut options = Options::default();
    for line in fields.get_all(CONNECTION) {
        for option in members(line.as_bytes()) {
            if !is_token(option) {
                return Err(Kind::BadConnection);
            }
            options.close |= option.eq_ignore_ascii_case(b"close");
            options.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            options.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
        }
    }
    Ok(options)
}

/// The first protocol that Upgrade offers, in lower case; the whole field is checked.
pub(super) fn first_protocol(fields: &HeaderMap) -> Result<Option<String>, Kind> {
    let mut first = None;
    for line in fields.get_all(UPGRADE) {
        for protocol in members(line.as_bytes()) {
            let mut parts = protocol.splitn(2, |byte| *byte == b'/');
            if !parts.all(is_token) {
                return Err(Kind::BadUpgrade);
            }
            if first.is_none() {
                let text = std::str::from_utf8(protocol).map_err(|_| Kind::BadUpgrade)?;
                first = Some(text.to_ascii_lowercase());
            }
        }
    }
    Ok(first)
}

/// The members of a comma-separated list, without white space and without empty ones.
fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(trim).filter(|member| !member.is_empty())
}
