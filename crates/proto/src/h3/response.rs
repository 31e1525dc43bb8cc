//! Heads of responses (RFC 9114, section 4.3.2).

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use super::code::Fault;
use super::fields::{self, EncodeError, all_or_nothing};
use crate::qpack::{self, Limits};

/// The head of a response, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// `:status`, from 100 to 599, and never 101.
    pub status: StatusCode,
    /// The fields.
    pub fields: HeaderMap,
}

/// Reads the head of a response.
///
/// # Errors
/// The section cannot be read, is too large, or the response is malformed.
pub fn decode_response(section: Bytes, limits: Limits) -> Result<ResponseHead, Fault> {
    let (pseudo, fields) = fields::decode(section, limits)?;
    if pseudo.has_request() {
        return Err(Fault::message("a response with a pseudo-field of requests"));
    }
    let status = pseudo
        .status
        .as_deref()
        .ok_or(Fault::message("a response without :status"))?;
    let status = StatusCode::from_bytes(status)
        .ok()
        .filter(|status| exists(*status));
    Ok(ResponseHead {
        status: status.ok_or(Fault::message(":status is no status of HTTP/3"))?,
        fields,
    })
}

/// Appends the encoded head of a response to `output`.
///
/// # Errors
/// The response does not exist in HTTP/3; `output` is then as it was.
pub fn encode_response(
    status: StatusCode,
    fields: &HeaderMap,
    output: &mut BytesMut,
) -> Result<(), EncodeError> {
    if !exists(status) {
        return Err(EncodeError::Status);
    }
    all_or_nothing(output, |output| {
        qpack::encode_prefix(output);
        qpack::encode_line(b":status", status.as_str().as_bytes(), false, output);
        fields::encode(fields, output)
    })
}

/// RFC 9110, section 15; RFC 9114, section 4.5: nothing switches protocols.
fn exists(status: StatusCode) -> bool {
    (100..=599).contains(&status.as_u16()) && status != StatusCode::SWITCHING_PROTOCOLS
}
