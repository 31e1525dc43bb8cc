//! The Connection and Upgrade fields (RFC 9110 7.6.1, 7.8).

use super::error::DecodeErrorKind as Kind;
use super::head::{is_token, trim};
use crate::fields::Fields;
use crate::fields::names::{CONNECTION, UPGRADE};
use crate::upgrade::Protocol;

/// The connection options that the codec itself knows.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Options {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
}

/// Reads every Connection line; empty list members are passed over (RFC 9110 5.6.1.2).
pub(super) fn options(fields: &Fields) -> Result<Options, Kind> {
    let mut options = Options::default();
    for line in fields.values(CONNECTION) {
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

/// The protocol of those that Upgrade offers which could be spoken; the whole field is checked.
pub(super) fn protocol(fields: &Fields) -> Result<Option<Protocol>, Kind> {
    let mut offered = Vec::new();
    for line in fields.values(UPGRADE) {
        for member in members(line.as_bytes()) {
            offered.push(Protocol::parse(member).map_err(|_| Kind::BadUpgrade)?);
        }
    }
    Ok(Protocol::choose(offered))
}

/// The members of a comma-separated list, without white space and without empty ones.
fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',')
        .map(trim)
        .filter(|member| !member.is_empty())
}
