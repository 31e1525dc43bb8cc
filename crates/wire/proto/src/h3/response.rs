//! Heads of responses (RFC 9114, section 4.3.2).

use http::{StatusCode, Version};

use super::code::Fault;
use super::fields::{self, FieldEncodeError, Received};
use crate::fields::{Fields, LineName, PseudoName};
use crate::head::ResponseHead;
use crate::qpack::SectionEncoder;

/// Reads the head of a response; its status is from 100 to 999, and never 101.
///
/// # Errors
/// The section cannot be read, is too large, or the response is malformed.
pub fn decode_response(received: Received<'_>) -> Result<ResponseHead, Fault> {
    let (pseudo, fields) = fields::decode(received)?;
    if pseudo.has_request() {
        return Err(Fault::message("a response with a pseudo-field of requests"));
    }

    let status = pseudo
        .get(PseudoName::Status)
        .ok_or(Fault::message("a response without :status"))?;
    let status = StatusCode::from_bytes(status)
        .ok()
        .filter(|status| exists(*status));
    Ok(ResponseHead {
        status: status.ok_or(Fault::message(":status is not a status of HTTP/3"))?,
        fields,
        version: Version::HTTP_3,
    })
}

/// Writes the head of a response.
///
/// # Errors
/// The response does not exist in HTTP/3; the output is then as it was.
pub fn encode_response(
    status: StatusCode,
    fields: &Fields,
    mut section: SectionEncoder<'_>,
) -> Result<(), FieldEncodeError> {
    if !exists(status) {
        return Err(FieldEncodeError::Status);
    }
    let name = LineName::Pseudo(PseudoName::Status);
    section.line(name, status.as_str().as_bytes(), false);
    fields::encode(fields, &mut section)?;
    section.finish();
    Ok(())
}

/// RFC 9114, section 4.5: nothing switches protocols. Statuses from 600 mean nothing, and pass (RFC 9110, section 15).
fn exists(status: StatusCode) -> bool {
    status != StatusCode::SWITCHING_PROTOCOLS
}
