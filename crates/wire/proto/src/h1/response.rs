//! Response heads (RFC 9112 4).

use bytes::{Bytes, BytesMut};
use http::{Method, StatusCode, Version};
use memchr::memchr;

use super::connection::{self, Options};
use super::error::{DecodeError, DecodeErrorKind as Kind};
use super::framing::{self, Framing};
use super::head::{HeadSection, cr_or, decode_version, find_section};
use super::limits::MessageLimits;
use super::repair;
use crate::field_rules::join_lengths;
use crate::fields::names::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use crate::fields::{Fields, is_value};

/// The head of a response, checked. The reason phrase is not kept: it means nothing (RFC 9112 4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseHead {
    /// 100 to 999; a status above 599 counts as 5xx (RFC 9110 15).
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// All fields as they came, hop-by-hop ones included; without Content-Length and Transfer-Encoding where they
    /// mean nothing (1xx, 204, and 2xx to CONNECT).
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
/// The first rule that the head broke. The content of `buf` is then unspecified: close the
/// connection.
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
    let mut fields = repair::decode_fields(head, line_end + 1, lines, limits.fields)?;
    let content = response_content(method, status, version, &mut fields)?;
    let options = settle_options(&mut fields);

    Ok(ResponseHead {
        status,
        version,
        keep_alive: keeps_alive(version, options, content),
        fields,
        framing: content.framing,
    })
}

/// Reads `version SP status [SP reason]`; the space before an absent reason may be absent too, for many servers leave
/// it out and nothing hangs on it.
///
/// Statuses from 600 mean nothing, and large sites answer with them: they pass, as RFC 9110 15 allows.
fn decode_line(line: &[u8]) -> Result<(Version, StatusCode), Kind> {
    let fault = cr_or(line, Kind::BadStatusLine);
    let (version, rest) = line.split_at_checked(8).ok_or(fault)?;
    let [b' ', hundreds @ b'1'..=b'9', tens, ones, reason @ ..] = rest else {
        return Err(fault);
    };

    let reason_fits = reason.is_empty() || reason[0] == b' ';
    if !reason_fits || !is_value(reason) {
        return Err(fault);
    }

    let version = decode_minor_version(version)?;
    let status = StatusCode::from_bytes(&[*hundreds, *tens, *ones]).map_err(|_| fault)?;
    Ok((version, status))
}

/// RFC 9110 6.2: a higher minor version is read as the highest that we know.
fn decode_minor_version(bytes: &[u8]) -> Result<Version, Kind> {
    match bytes {
        b"HTTP/1.2" | b"HTTP/1.3" | b"HTTP/1.4" | b"HTTP/1.5" | b"HTTP/1.6" | b"HTTP/1.7"
        | b"HTTP/1.8" | b"HTTP/1.9" => Ok(Version::HTTP_11),
        known => decode_version(known),
    }
}

/// Where the content of a response ends.
#[derive(Debug, Clone, Copy)]
struct ResponseContent {
    framing: Framing,
    /// Content was announced where it is not allowed: a sender that sends it all the same would
    /// have it read as the next head.
    is_doubtful: bool,
}

/// The order of RFC 9112 6.3.
fn response_content(
    method: &Method,
    status: StatusCode,
    version: Version,
    fields: &mut Fields,
) -> Result<ResponseContent, Kind> {
    let is_tunnel = *method == Method::CONNECT && status.is_success();
    let ends_at_head = status.is_informational() || status == StatusCode::NO_CONTENT;
    if is_tunnel || ends_at_head {
        // RFC 9110 9.3.6: a client MUST ignore Content-Length and Transfer-Encoding of the first. The others always end at the
        // empty line, whatever they announce.
        let is_harmless = matches!(
            framing::declared(fields, version),
            Ok(None | Some(Framing::Length(0)))
        );
        fields.remove(CONTENT_LENGTH);
        fields.remove(TRANSFER_ENCODING);
        return Ok(ResponseContent {
            framing: Framing::Empty,
            is_doubtful: !is_harmless,
        });
    }

    let declared = declared(fields, version);
    if *method == Method::HEAD || status == StatusCode::NOT_MODIFIED {
        // The length describes the content of another response: an unreadable one describes none, and is not
        // passed on.
        if declared.is_err() {
            fields.remove(CONTENT_LENGTH);
            fields.remove(TRANSFER_ENCODING);
        }
        return Ok(ResponseContent {
            framing: Framing::Empty,
            is_doubtful: declared.is_err(),
        });
    }

    Ok(ResponseContent {
        framing: declared?.unwrap_or(Framing::UntilClose),
        is_doubtful: false,
    })
}

/// The declared framing. Several lengths that are the same number are one (RFC 9112 6.3, 5).
fn declared(fields: &mut Fields, version: Version) -> Result<Option<Framing>, Kind> {
    match framing::declared(fields, version) {
        Err(Kind::SeveralLengths | Kind::LengthList) if join_lengths(fields) => {
            framing::declared(fields, version)
        }
        declared => declared,
    }
}

/// The options of the connection. A Connection field that is no list of tokens names nothing, and the connection ends.
fn settle_options(fields: &mut Fields) -> Options {
    connection::options(fields).unwrap_or_else(|_| {
        fields.remove(CONNECTION);
        Options {
            close: true,
            ..Options::default()
        }
    })
}

/// RFC 9112 9.3.
fn keeps_alive(version: Version, options: Options, content: ResponseContent) -> bool {
    let is_wanted = version == Version::HTTP_11 || options.keep_alive;
    let is_clear = content.framing != Framing::UntilClose && !content.is_doubtful;
    is_wanted && is_clear && !options.close
}
