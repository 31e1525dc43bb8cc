//! The values of a template's variables: encoded, decoded and checked.

use http::StatusCode;

use crate::authority::{self, AuthorityError};
use crate::host::{self, HostError};

/// Why a path names no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The path does not have the shape of the template: there is no such resource.
    #[error("the path does not match a template of this proxy")]
    NotTemplate,
    /// A `%` without two hexadecimal digits, a byte that must be percent-encoded, or text that is not UTF-8.
    #[error("a variable of the path is not percent-encoded as it must be")]
    Encoding,
    /// The host does not hold.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The prefix of CONNECT-IP does not hold.
    #[error(
        "the target is neither an address, nor a prefix without bits beyond its length, nor a host"
    )]
    Prefix,
    /// The protocol of CONNECT-IP does not hold.
    #[error("the IP protocol is neither * nor a number from 0 to 255")]
    IpProtocol,
    /// The port does not hold.
    #[error("the target port is not a number from 1 to 65535")]
    Port,
}

impl TemplateError {
    /// The status to answer with: 404 for another path, 400 for a bad variable (RFC 9298, section 3.1).
    pub fn status(self) -> StatusCode {
        match self {
            Self::NotTemplate => StatusCode::NOT_FOUND,
            Self::Encoding | Self::Host(_) | Self::Prefix | Self::IpProtocol | Self::Port => {
                StatusCode::BAD_REQUEST
            }
        }
    }
}

impl From<AuthorityError> for TemplateError {
    fn from(_: AuthorityError) -> Self {
        Self::Port
    }
}

/// Host and port from the values as they are written.
pub(super) fn target(host: &str, port: &str) -> Result<(String, u16), TemplateError> {
    let host = host::parse(&decode(host)?)?;
    Ok((host, authority::parse_port(&decode(port)?)?))
}

/// Unreserved characters (RFC 3986, section 2.3): all that simple expansion leaves as it is (RFC 6570, section 3.2.2).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Whether a byte cannot be part of an encoded value, so that it shows where one ends.
pub(super) fn ends_a_value(byte: u8) -> bool {
    !is_unreserved(byte) && byte != b'%'
}

/// Appends a value in which all but unreserved characters are percent-encoded.
pub(crate) fn encode(value: &str, path: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in value.bytes() {
        if is_unreserved(byte) {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.push(char::from(DIGITS[usize::from(byte >> 4)]));
            path.push(char::from(DIGITS[usize::from(byte & 0xf)]));
        }
    }
}

/// The value that is written so.
pub(crate) fn decode(variable: &str) -> Result<String, TemplateError> {
    let mut decoded = Vec::with_capacity(variable.len());
    let mut bytes = variable.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => decoded.push(decode_hex(bytes.next())? << 4 | decode_hex(bytes.next())?),
            _ if is_unreserved(byte) => decoded.push(byte),
            _ => return Err(TemplateError::Encoding),
        }
    }

    String::from_utf8(decoded).map_err(|_| TemplateError::Encoding)
}

fn decode_hex(digit: Option<u8>) -> Result<u8, TemplateError> {
    let value = digit
        .and_then(|digit| char::from(digit).to_digit(16))
        .ok_or(TemplateError::Encoding)?;
    Ok(value as u8)
}
