//! Field sections and what must hold in each (RFC 9114, sections 4.2 and 4.3; RFC 9110, section 5).

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::code::{Code, Fault};
use crate::field_rules::{self, is_connection_specific, is_secret, join_cookies};
use crate::qpack::{self, FieldSection, LINE_OVERHEAD, Limits, QpackError};

/// Pseudo-fields as they came (RFC 9114, section 4.3; RFC 9220).
#[derive(Debug, Default)]
pub(super) struct Pseudo {
    pub(super) method: Option<Bytes>,
    pub(super) scheme: Option<Bytes>,
    pub(super) authority: Option<Bytes>,
    pub(super) path: Option<Bytes>,
    pub(super) protocol: Option<Bytes>,
    pub(super) status: Option<Bytes>,
}

impl Pseudo {
    fn set(&mut self, name: &[u8], value: Bytes) -> Result<(), Fault> {
        let place = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            b":protocol" => &mut self.protocol,
            b":status" => &mut self.status,
            _ => return Err(Fault::message("an unknown pseudo-field")),
        };
        match place.replace(value) {
            Some(_) => Err(Fault::message("a pseudo-field appears twice")),
            None => Ok(()),
        }
    }

    /// Whether one is there that only requests have.
    pub(super) fn has_request(&self) -> bool {
        [
            &self.method,
            &self.scheme,
            &self.authority,
            &self.path,
            &self.protocol,
        ]
        .into_iter()
        .any(Option::is_some)
    }
}

/// Reads a field section.
///
/// # Errors
/// The section cannot be read, is too large, or is malformed.
pub(super) fn decode(section: Bytes, limits: Limits) -> Result<(Pseudo, HeaderMap), Fault> {
    let mut section = FieldSection::new(section, limits).map_err(unreadable)?;
    let mut pseudo = Pseudo::default();
    let mut fields = HeaderMap::new();
    while let Some(line) = section.next().map_err(unreadable)? {
        if line.name.first() == Some(&b':') {
            // RFC 9114, section 4.3: pseudo-fields come first.
            if !fields.is_empty() {
                return Err(Fault::message("a pseudo-field after a field"));
            }
            pseudo.set(&line.name, line.value)?;
            continue;
        }
        // RFC 9114, section 4.2: in lower case.
        let name = HeaderName::from_lowercase(&line.name);
        let name = name.map_err(|_| Fault::message("a field name is no token in lower case"))?;
        let value = decode_value(line.value)?;
        if is_connection_specific(&name, &value) {
            return Err(Fault::message(
                "a field that belongs to a connection of HTTP/1.1",
            ));
        }
        fields
            .try_append(name, value)
            .map_err(|_| unreadable(QpackError::TooMany))?;
    }
    join_cookies(&mut fields);
    Ok((pseudo, fields))
}

/// RFC 9110, section 5.5, and RFC 9114, section 10.3: no control characters, and no white space around it.
fn decode_value(value: Bytes) -> Result<HeaderValue, Fault> {
    if value.trim_ascii().len() != value.len() {
        return Err(Fault::message("white space around a field value"));
    }
    HeaderValue::from_maybe_shared(value)
        .map_err(|_| Fault::message("a control character in a field value"))
}

fn unreadable(error: QpackError) -> Fault {
    match error {
        QpackError::TooMany => Fault::stream(Code::ExcessiveLoad, "there are too many fields"),
        error if error.is_limit() => {
            Fault::stream(Code::ExcessiveLoad, "a field section is too large")
        }
        QpackError::Dynamic => unreadable_because("a field section refers to the dynamic table"),
        QpackError::Huffman => unreadable_because("a string of a field section is no Huffman code"),
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
pub fn content_length(fields: &HeaderMap) -> Result<Option<u64>, Fault> {
    field_rules::content_length(fields)
        .map_err(|_| Fault::message("content-length is not one number"))
}

/// Reads trailers.
///
/// # Errors
/// They cannot be read, are too large, or hold what must not be in trailers.
pub fn decode_trailers(section: Bytes, limits: Limits) -> Result<HeaderMap, Fault> {
    let (pseudo, fields) = decode(section, limits)?;
    if pseudo.has_request() || pseudo.status.is_some() {
        return Err(Fault::message("a pseudo-field in trailers"));
    }
    Ok(fields)
}

/// A message that cannot be written as HTTP/3.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A field that belongs to a connection of HTTP/1.1.
    #[error("field `{0}` does not exist in HTTP/3")]
    ConnectionSpecific(String),
    /// A request without what it needs, or with what it must not have.
    #[error("the request cannot be sent: {0}")]
    Request(&'static str),
    /// 101, or a status that is none.
    #[error("the status does not exist in HTTP/3")]
    Status,
}

/// Writes trailers, or the regular fields of a head behind its pseudo-fields.
pub(super) fn encode(fields: &HeaderMap, output: &mut BytesMut) -> Result<(), EncodeError> {
    for (name, value) in fields {
        if is_connection_specific(name, value) {
            return Err(EncodeError::ConnectionSpecific(name.to_string()));
        }
        // RFC 9114, section 4.3.1: `:authority` stands for it.
        if name != HOST {
            let sensitive = value.is_sensitive() || is_secret(name);
            qpack::encode_line(
                name.as_str().as_bytes(),
                value.as_bytes().trim_ascii(),
                sensitive,
                output,
            );
        }
    }
    Ok(())
}

/// Appends an encoded section of trailers to `output`.
///
/// # Errors
/// A field cannot be written; `output` is then as it was.
pub fn encode_trailers(fields: &HeaderMap, output: &mut BytesMut) -> Result<(), EncodeError> {
    all_or_nothing(output, |output| {
        qpack::encode_prefix(output);
        encode(fields, output)
    })
}

/// Undoes what was written when not all could be.
pub(super) fn all_or_nothing(
    output: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = output.len();
    write(output).inspect_err(|_| output.truncate(start))
}

/// The size of a section as RFC 9114, section 4.2.2 counts it, without pseudo-fields.
pub fn section_size(fields: &HeaderMap) -> usize {
    fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + LINE_OVERHEAD)
        .sum()
}
