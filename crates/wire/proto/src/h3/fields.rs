//! Field sections and their rules (RFC 9114, sections 4.2 and 4.3; RFC 9110, section 5).

use super::code::{Code, Fault};
use crate::field_rules::{self, is_connection_specific, is_secret, join_cookies};
use crate::fields::{Fields, LineName, NameId, PseudoName};
use crate::pseudo_fields::PseudoFields;
use crate::qpack::{FieldSectionLimits, LINE_OVERHEAD, QpackDecoder, QpackError, SectionEncoder};

/// Lines that most heads have.
const USUAL_LINES: usize = 10;

/// A received field section, and the context needed to read it.
#[derive(Debug)]
pub struct Received<'a> {
    /// The whole section.
    pub section: &'a [u8],
    /// The stream on which it came.
    pub stream: u64,
    /// Limits of the section.
    pub limits: FieldSectionLimits,
    /// The decoder of the connection.
    pub decoder: &'a mut QpackDecoder,
}

/// Reads a field section.
///
/// # Errors
/// The section cannot be read, is too large, or is malformed.
pub(super) fn decode(received: Received<'_>) -> Result<(PseudoFields, Fields), Fault> {
    let Received {
        section,
        stream,
        limits,
        decoder,
    } = received;

    let mut fields = Fields::with_capacity(USUAL_LINES, section.len());
    let section = decoder.section(stream, section, limits);
    let mut section = section.map_err(unreadable)?;
    let mut pseudo = PseudoFields::default();

    while let Some(line) = section.next().map_err(unreadable)? {
        let is_pseudo = line.name.as_bytes().first() == Some(&b':');
        // RFC 9114, section 4.3: pseudo-fields come first.
        if is_pseudo && !fields.is_empty() {
            return Err(Fault::message("a pseudo-field after a field"));
        }
        match line.name {
            LineName::Pseudo(name) => {
                let set = pseudo.set(name, line.value);
                set.map_err(|_| Fault::message("a pseudo-field appears twice"))?;
                continue;
            }
            _ if is_pseudo => return Err(Fault::message("an unknown pseudo-field")),
            // RFC 9114, section 4.2: in lower case.
            name if !name.is_field() => {
                return Err(Fault::message("a field name is not a token in lower case"));
            }
            _ => {}
        }

        check_value(line.value)?;
        let added = fields.append_line(line.name, line.value);
        let id = added.map_err(|_| Fault::message("a control character in a field value"))?;
        if is_connection_specific(id, line.value) {
            return Err(Fault::message(
                "a field that belongs to a connection of HTTP/1.1",
            ));
        }
    }

    join_cookies(&mut fields);
    Ok((pseudo, fields))
}

/// RFC 9114, section 10.3: no white space around it.
fn check_value(value: &[u8]) -> Result<(), Fault> {
    if value.trim_ascii().len() == value.len() {
        Ok(())
    } else {
        Err(Fault::message("white space around a field value"))
    }
}

fn unreadable(error: QpackError) -> Fault {
    match error {
        QpackError::TooMany => Fault::stream(Code::ExcessiveLoad, "there are too many fields"),
        error if error.is_limit() => {
            Fault::stream(Code::ExcessiveLoad, "a field section is too large")
        }
        QpackError::Dynamic => unreadable_because(
            "a field section refers to an entry that the dynamic table does not have",
        ),
        QpackError::Huffman => {
            unreadable_because("a string of a field section is not Huffman code")
        }
        _ => unreadable_because("a field section cannot be read"),
    }
}

const fn unreadable_because(reason: &'static str) -> Fault {
    Fault::connection(Code::QpackDecompressionFailed, reason)
}

/// The length of the content that `fields` announce.
///
/// # Errors
/// There are several lengths, or one that is no number (RFC 9114, section 4.1.2; RFC 9110, section 8.6).
pub fn content_length(fields: &Fields) -> Result<Option<u64>, Fault> {
    field_rules::content_length(fields)
        .map_err(|_| Fault::message("content-length is not one number"))
}

/// As [`content_length`], of a response: the same number may stand there several times.
///
/// # Errors
/// As for [`content_length`].
pub fn response_length(fields: &mut Fields) -> Result<Option<u64>, Fault> {
    field_rules::response_length(fields)
        .map_err(|_| Fault::message("content-length is not one number"))
}

/// Reads trailers.
///
/// # Errors
/// The trailers cannot be read, are too large, or hold a field that must not be in trailers.
pub fn decode_trailers(received: Received<'_>) -> Result<Fields, Fault> {
    let (pseudo, fields) = decode(received)?;
    if pseudo.has_request() || pseudo.has(PseudoName::Status) {
        return Err(Fault::message("a pseudo-field in trailers"));
    }
    Ok(fields)
}

/// A message that cannot be written as HTTP/3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldEncodeError {
    /// A field that belongs to a connection of HTTP/1.1.
    #[error("field `{0}` does not exist in HTTP/3")]
    ConnectionSpecific(String),
    /// A request without a required part, or with a forbidden one.
    #[error("the request cannot be sent: {0}")]
    Request(&'static str),
    /// 101, or an invalid status.
    #[error("the status does not exist in HTTP/3")]
    Status,
}

/// Writes trailers, or the regular fields of a head behind its pseudo-fields.
pub(super) fn encode(
    fields: &Fields,
    section: &mut SectionEncoder<'_>,
) -> Result<(), FieldEncodeError> {
    for (id, name, value) in fields.known() {
        if is_connection_specific(id, value.as_bytes()) {
            return Err(FieldEncodeError::ConnectionSpecific(name.to_string()));
        }
        // RFC 9114, section 4.3.1: `:authority` stands for it.
        if id != NameId::HOST {
            let name = LineName::of_field(id, name);
            section.line(name, value.as_bytes(), is_secret(id, value));
        }
    }
    Ok(())
}

/// Writes a section of trailers.
///
/// # Errors
/// A field cannot be written; the output is then as it was.
pub fn encode_trailers(
    fields: &Fields,
    mut section: SectionEncoder<'_>,
) -> Result<(), FieldEncodeError> {
    encode(fields, &mut section)?;
    section.finish();
    Ok(())
}

/// The size of a section as RFC 9114, section 4.2.2 counts it, without pseudo-fields.
pub fn section_size(fields: &Fields) -> usize {
    fields.size() + fields.len() * LINE_OVERHEAD
}
