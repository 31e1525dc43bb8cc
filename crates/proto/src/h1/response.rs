//! Response heads (RFC 9112 4).

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode, Version};
use memchr::memchr;

use super::connection::{self, Options};
use super::error::{DecodeError, DecodeErrorKind as Kind};
use super::framing::{self, Framing};
use super::head::{HeadSection, cr_or, decode_fields, decode_version, find_section};
use super::limits::MessageLimits;
use crate::fields::names::{CONTENT_LENGTH, TRANSFER_ENCODING};
use crate::fields::{Fields, is_value};

/// The head of a response, checked. The reason phrase is not kept: it means nothing (RFC 9112 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// 100 to 599.
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields as they came, hop-by-hop ones included; without Content-Length and Transfer-Encoding where they
    /// mean nothing (204, and 2xx to CONNECT).
    pub fields: Fields,
    /// How long the content is.
    pub framing: Framing,
    /// Whether another request may be sent on this connection once the content was read.
    pub keep_alive: bool,
}

/// Takes one response head from the front of `buf`, and nothing after it; `None` means that more bytes are needed.
///
/// `method` is that of the request answered: it decides whether there is content (RFC 9112 6.3). After a 2xx to
/// CONNECT, and after 101, the bytes that follow belong to the tunnel or to the new protocol.
///
/// # Errors
/// The first rule that the head broke. What `buf` then holds is unspecified: close the connection.
pub fn decode_response(
    buf: &mut BytesMut,
    limits: &MessageLimits,
    method: &Method,
) -> Result<Option<ResponseHead>, DecodeError> {
    const PREFIX: &[u8] = b"HTTP/";
    let seen = buf.len().min(PREFIX.len());
    if buf[..seen] != PREFIX[..seen] {
        return Err(Kind::BadStatusLine.into());
    }

    match find_section(buf, 0, limits.head_bytes)? {
        HeadSection::Partial => Ok(None),
        HeadSection::TooLarge { .. } => Err(Kind::HeadTooLarge.into()),
        HeadSection::Complete { end, lines } => {
            let head = buf.split_to(end).freeze();
            Ok(Some(decode_head(&head, lines, limits, method)?))
        }
    }
}

fn decode_head(
    head: &Bytes,
    lines: usize,
    limits: &MessageLimits,
    method: &Method,
) -> Result<ResponseHead, Kind> {
    let line_end = memchr(b'\n', head).ok_or(Kind::BadStatusLine)?;
    let (version, status) = decode_line(&head[..line_end - 1])?;
    let mut fields = decode_fields(head, line_end + 1, lines, limits.fields)?;
    let framing = response_framing(method, status, version, &mut fields)?;
    let options = connection::options(&fields)?;

    Ok(ResponseHead {
        status,
        version,
        keep_alive: keeps_alive(version, options, framing),
        fields,
        framing,
    })
}

/// Reads `version SP status [SP reason]`; the space before an absent reason may be absent too, for many servers leave
/// it out and nothing hangs on it.
fn decode_line(line: &[u8]) -> Result<(Version, StatusCode), Kind> {
    let fault = cr_or(line, Kind::BadStatusLine);
    let (version, rest) = line.split_at_checked(8).ok_or(fault)?;
    let [b' ', hundreds @ b'1'..=b'5', tens, ones, reason @ ..] = rest else {
        return Err(fault);
    };

    let reason_fits = reason.is_empty() || reason[0] == b' ';
    if !reason_fits || !is_value(reason) {
        return Err(fault);
    }

    let version = decode_version(version)?;
    let status = StatusCode::from_bytes(&[*hundreds, *tens, *ones]).map_err(|_| fault)?;
    Ok((version, status))
}

/// The order of RFC 9112 6.3.
fn response_framing(
    method: &Method,
    status: StatusCode,
    version: Version,
    fields: &mut Fields,
) -> Result<Framing, Kind> {
    if *method == Method::CONNECT && status.is_success() {
        // RFC 9110 9.3.6: a client MUST ignore Content-Length and Transfer-Encoding here.
        fields.remove(CONTENT_LENGTH);
        fields.remove(TRANSFER_ENCODING);
        return Ok(Framing::Empty);
    }

    let declared = framing::declared(fields, version)?;
    if status == StatusCode::NO_CONTENT && declared == Some(Framing::Length(0)) {
        // A needless announcement, but one that cannot be misread.
        fields.remove(CONTENT_LENGTH);
        return Ok(Framing::Empty);
    }

    if status.is_informational() || status == StatusCode::NO_CONTENT {
        return match declared {
            None => Ok(Framing::Empty),
            Some(_) => Err(Kind::ContentNotAllowed),
        };
    }

    if *method == Method::HEAD || status == StatusCode::NOT_MODIFIED {
        return Ok(Framing::Empty);
    }
    Ok(declared.unwrap_or(Framing::UntilClose))
}

/// RFC 9112 9.3.
fn keeps_alive(version: Version, options: Options, framing: Framing) -> bool {
    let wanted = version == Version::HTTP_11 || options.keep_alive;
    wanted && !options.close && framing != Framing::UntilClose
}
