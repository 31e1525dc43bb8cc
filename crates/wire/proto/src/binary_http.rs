//! Messages as bytes that can be kept: Binary HTTP in its form of unknown length (RFC 9292, section 3.2).
//!
//! Sections of fields and contents end with a zero, so that a message can be written while it comes. Content that is passed on
//! is never held here; a head is, until it is whole. Trailing fields are kept, interim responses are skipped.

mod section;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method, StatusCode, Version};

use crate::fields::Fields;
use crate::head::{RequestHead, ResponseHead};
use crate::{path, varint};

pub use section::MAX_LINES;
use section::SectionProgress;

/// The framing indicator of a request of unknown length (RFC 9292, section 3.3).
const REQUEST: u64 = 2;

/// The framing indicator of a response of unknown length.
const RESPONSE: u64 = 3;

/// Bytes of a head, or of trailing fields: as many as HTTP/1.1 heads may have at most here.
#[doc(alias = "bound")]
pub const MAX_SECTION: usize = 256 * 1024;

/// Why a message cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BinaryHttpError {
    /// The message is of another kind than expected.
    #[error("the message is of another kind")]
    Kind,
    /// A head or a trailer section is above [`MAX_SECTION`].
    #[error("a section of the message is above {MAX_SECTION} bytes")]
    TooLong,
    /// A section has more than [`MAX_LINES`] field lines.
    #[error("a section of the message has more than {MAX_LINES} field lines")]
    TooManyLines,
    /// A part of it cannot have the value that it has.
    #[error("the {0} of the message is not valid")]
    Invalid(&'static str),
    /// The input ended within the message.
    #[error("the message is cut off")]
    Truncated,
}

/// The beginning of a request: everything before its content.
pub fn encode_request(head: &RequestHead) -> Bytes {
    let mut output = BytesMut::new();
    varint::encode(REQUEST, &mut output);
    put(head.method.as_str(), &mut output);
    put(head.scheme.as_ref().map_or("", Scheme::as_str), &mut output);
    put(
        head.authority.as_ref().map_or("", Authority::as_str),
        &mut output,
    );
    put(
        head.path.as_ref().map_or("", PathAndQuery::as_str),
        &mut output,
    );
    put_fields(&head.fields, &mut output);
    output.freeze()
}

/// The beginning of a response: everything before its content.
pub fn encode_response(head: &ResponseHead) -> Bytes {
    let mut output = BytesMut::new();
    varint::encode(RESPONSE, &mut output);
    varint::encode(head.status.as_u16().into(), &mut output);
    put_fields(&head.fields, &mut output);
    output.freeze()
}

/// The bytes before a piece of content of this length, which is at least 1.
pub fn encode_chunk(length: usize) -> Bytes {
    let mut output = BytesMut::with_capacity(varint::MAX_SIZE);
    varint::encode(length as u64, &mut output);
    output.freeze()
}

/// The bytes behind the content.
pub fn encode_end(trailers: Option<&Fields>) -> Bytes {
    let mut output = BytesMut::new();
    output.put_u8(0);
    match trailers {
        Some(trailers) => put_fields(trailers, &mut output),
        None => output.put_u8(0),
    }
    output.freeze()
}

fn put(text: impl AsRef<[u8]>, output: &mut BytesMut) {
    let text = text.as_ref();
    varint::encode(text.len() as u64, output);
    output.put_slice(text);
}

fn put_fields(fields: &Fields, output: &mut BytesMut) {
    for (name, value) in fields.iter() {
        put(&*name, output);
        put(value.as_bytes(), output);
    }
    output.put_u8(0);
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BinaryPiece {
    /// The head of a request, once.
    Request(Box<RequestHead>),
    /// The head of a response, once.
    Response(Box<ResponseHead>),
    /// Content, never empty.
    Data(Bytes),
    /// The end, once, and the trailing fields.
    End(Fields),
}

/// Reads one message.
#[derive(Debug)]
pub struct BinaryHttpDecoder {
    input: BytesMut,
    state: BinaryState,
    expected: u64,
    /// The head or the trailing fields, as far as they have come.
    section: SectionProgress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BinaryState {
    Head,
    Chunk,
    Data { left: u64 },
    Trailers,
    Over,
}

impl BinaryHttpDecoder {
    /// For a request.
    pub fn request() -> Self {
        Self::of(REQUEST)
    }

    /// For a response.
    pub fn response() -> Self {
        Self::of(RESPONSE)
    }

    fn of(expected: u64) -> Self {
        Self {
            input: BytesMut::new(),
            state: BinaryState::Head,
            expected,
            section: SectionProgress::head(expected),
        }
    }

    /// Bytes that it holds: those of a section that is not whole yet.
    pub fn held(&self) -> usize {
        self.input.len()
    }

    /// Adds received bytes, when [`next`](Self::next) has nothing left.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Whether all of it was taken.
    pub fn is_over(&self) -> bool {
        self.state == BinaryState::Over
    }

    /// Where a message that is cut off here stands: the bytes that are missing of the piece of content which has begun; `None` in the
    /// middle of anything else.
    pub fn missing(&self) -> Option<u64> {
        match self.state {
            BinaryState::Data { left } => Some(left),
            BinaryState::Chunk if self.input.is_empty() => Some(0),
            BinaryState::Head | BinaryState::Chunk | BinaryState::Trailers | BinaryState::Over => {
                None
            }
        }
    }

    /// The next piece, or `None` when more bytes are needed, or behind the end.
    ///
    /// # Errors
    /// The message is malformed, upon which it must not be used.
    #[expect(
        clippy::should_implement_trait,
        reason = "None is not the end: more may be pushed"
    )]
    pub fn next(&mut self) -> Result<Option<BinaryPiece>, BinaryHttpError> {
        loop {
            match self.state {
                BinaryState::Head => {
                    let expected = self.expected;
                    let head = self.section(|rest| decode_head(rest, expected))?;
                    if head.is_some() {
                        self.state = BinaryState::Chunk;
                    }
                    return Ok(head);
                }
                BinaryState::Chunk => match self.chunk() {
                    None => return Ok(None),
                    Some(0) => self.state = BinaryState::Trailers,
                    Some(left) => self.state = BinaryState::Data { left },
                },
                BinaryState::Data { left: 0 } => self.state = BinaryState::Chunk,
                BinaryState::Data { left } if self.input.is_empty() => {
                    debug_assert!(left > 0);
                    return Ok(None);
                }
                BinaryState::Data { left } => {
                    let most = usize::try_from(left).unwrap_or(usize::MAX);
                    let data = self.input.split_to(self.input.len().min(most)).freeze();
                    let left = left - data.len() as u64;
                    self.state = BinaryState::Data { left };
                    return Ok(Some(BinaryPiece::Data(data)));
                }
                BinaryState::Trailers => {
                    let trailers = self.section(decode_fields)?;
                    if trailers.is_some() {
                        self.state = BinaryState::Over;
                    }
                    return Ok(trailers.map(BinaryPiece::End));
                }
                BinaryState::Over => return self.padding(),
            }
        }
    }

    /// Reads a section once it is whole; until then its bytes are kept.
    fn section<T>(
        &mut self,
        read: impl FnOnce(&mut &[u8]) -> Result<T, BinaryHttpError>,
    ) -> Result<Option<T>, BinaryHttpError> {
        let Some(length) = self.section.look(&self.input)? else {
            return Ok(None);
        };
        let value = read(&mut &self.input[..length])?;
        self.input.advance(length);
        self.section = SectionProgress::trailers();
        Ok(Some(value))
    }

    /// The length of the next piece of content.
    fn chunk(&mut self) -> Option<u64> {
        let mut rest = &self.input[..];
        let length = varint::decode(&mut rest)?;
        let taken = self.input.len() - rest.len();
        self.input.advance(taken);
        Some(length)
    }

    /// RFC 9292, 3.8: padding behind a message must be zeros.
    fn padding(&mut self) -> Result<Option<BinaryPiece>, BinaryHttpError> {
        let zeros = self.input.iter().all(|byte| *byte == 0);
        self.input.clear();
        if zeros {
            Ok(None)
        } else {
            Err(BinaryHttpError::Invalid("padding"))
        }
    }
}

fn decode_head(rest: &mut &[u8], expected: u64) -> Result<BinaryPiece, BinaryHttpError> {
    if number(rest)? != expected {
        return Err(BinaryHttpError::Kind);
    }
    if expected == REQUEST {
        decode_request(rest).map(|head| BinaryPiece::Request(Box::new(head)))
    } else {
        decode_response(rest).map(|head| BinaryPiece::Response(Box::new(head)))
    }
}

fn decode_request(rest: &mut &[u8]) -> Result<RequestHead, BinaryHttpError> {
    let method = Method::from_bytes(text(rest)?);
    let method = method.map_err(|_| BinaryHttpError::Invalid("method"))?;
    let scheme = optional(text(rest)?, "scheme", |bytes| Scheme::try_from(bytes).ok())?;
    let authority = optional(text(rest)?, "authority", |bytes| {
        Authority::try_from(bytes).ok()
    })?;
    let path = decode_path(&method, text(rest)?)?;
    let fields = decode_fields(rest)?;

    Ok(RequestHead {
        method,
        scheme,
        authority,
        path,
        protocol: None,
        fields,
        version: Version::HTTP_11,
        origin_form: false,
    })
}

/// A path in the form that rules are about, as those of requests that come over HTTP: its writer may be no node of ours.
fn decode_path(method: &Method, text: &[u8]) -> Result<Option<PathAndQuery>, BinaryHttpError> {
    if text.is_empty() {
        return Ok(None);
    }
    if text == b"*" && *method == Method::OPTIONS {
        return Ok(Some(PathAndQuery::from_static("*")));
    }
    let path = path::decode(Bytes::copy_from_slice(text));
    path.map(Some).map_err(|_| BinaryHttpError::Invalid("path"))
}

fn decode_response(rest: &mut &[u8]) -> Result<ResponseHead, BinaryHttpError> {
    loop {
        let status = u16::try_from(number(rest)?).ok();
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        let status = status.ok_or(BinaryHttpError::Invalid("status"))?;
        let fields = decode_fields(rest)?;
        // RFC 9292, 3.5.1: interim responses come before the final one.
        if status.is_informational() {
            continue;
        }
        return Ok(ResponseHead {
            status,
            fields,
            version: Version::HTTP_11,
        });
    }
}

fn decode_fields(rest: &mut &[u8]) -> Result<Fields, BinaryHttpError> {
    let mut fields = Fields::new();
    loop {
        let name = text(rest)?;
        if name.is_empty() {
            return Ok(fields);
        }
        // RFC 9292, 3.6: names are in lower case.
        let name = HeaderName::from_lowercase(name);
        let name = name.map_err(|_| BinaryHttpError::Invalid("name of a field"))?;
        let value = HeaderValue::from_bytes(text(rest)?);
        let value = value.map_err(|_| BinaryHttpError::Invalid("value of a field"))?;
        fields.append(name, value);
    }
}

fn number(rest: &mut &[u8]) -> Result<u64, BinaryHttpError> {
    varint::decode(rest).ok_or(BinaryHttpError::Truncated)
}

fn text<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], BinaryHttpError> {
    let length = number(rest)?;
    if length > MAX_SECTION as u64 {
        return Err(BinaryHttpError::TooLong);
    }
    let (text, after) = rest
        .split_at_checked(length as usize)
        .ok_or(BinaryHttpError::Truncated)?;
    *rest = after;
    Ok(text)
}

fn optional<T>(
    text: &[u8],
    what: &'static str,
    read: impl FnOnce(&[u8]) -> Option<T>,
) -> Result<Option<T>, BinaryHttpError> {
    if text.is_empty() {
        return Ok(None);
    }
    read(text).map(Some).ok_or(BinaryHttpError::Invalid(what))
}

/// Decodes arbitrary bytes as both kinds, whole and in pieces: both find the same, and that survives encoding.
///
/// The first byte sets the length of the pieces.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let [piece, message @ ..] = data else { return };
    for decoder in [BinaryHttpDecoder::request, BinaryHttpDecoder::response] {
        let whole = decode_all(decoder(), message, message.len().max(1));
        let pieces = decode_all(decoder(), message, usize::from(*piece).max(1));
        // Before a mistake is found, the pieces in front of it may have been given.
        let (Ok(whole), Ok(pieces)) = (whole, pieces) else {
            continue;
        };
        assert_eq!(whole, pieces);
        let again = encode_all(&whole);
        let decoded = decode_all(decoder(), &again, again.len().max(1));
        assert_eq!(decoded, Ok(whole));
    }
}

/// The pieces of a message, with the data joined.
#[cfg(test)]
fn decode_all(
    mut decoder: BinaryHttpDecoder,
    message: &[u8],
    piece: usize,
) -> Result<Vec<BinaryPiece>, BinaryHttpError> {
    let mut found: Vec<BinaryPiece> = Vec::new();
    for chunk in message.chunks(piece) {
        decoder.push(chunk);
        while let Some(piece) = decoder.next()? {
            match (found.last_mut(), piece) {
                (Some(BinaryPiece::Data(before)), BinaryPiece::Data(data)) => {
                    *before = [&before[..], &data[..]].concat().into();
                }
                (_, piece) => found.push(piece),
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
fn encode_all(pieces: &[BinaryPiece]) -> Vec<u8> {
    let mut output = Vec::new();
    for piece in pieces {
        match piece {
            BinaryPiece::Request(head) => output.extend_from_slice(&encode_request(head)),
            BinaryPiece::Response(head) => output.extend_from_slice(&encode_response(head)),
            BinaryPiece::Data(data) => {
                output.extend_from_slice(&encode_chunk(data.len()));
                output.extend_from_slice(data);
            }
            BinaryPiece::End(trailers) => output.extend_from_slice(&encode_end(Some(trailers))),
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request() -> RequestHead {
        let mut fields = Fields::new();
        fields.append("user-agent", HeaderValue::from_static("curl/7.16.3"));
        fields.append("accept-language", HeaderValue::from_static("en, mi"));
        RequestHead {
            method: Method::GET,
            scheme: Some(Scheme::HTTPS),
            authority: Some(Authority::from_static("www.example.com")),
            path: Some(PathAndQuery::from_static("/hello.txt")),
            protocol: None,
            fields,
            version: Version::HTTP_11,
            origin_form: false,
        }
    }

    #[test]
    fn a_request_has_the_layout_of_rfc_9292_section_3() {
        let beginning =
            b"\x02\x03GET\x05https\x0fwww.example.com\x0a/hello.txt\x0auser-agent\x0bcurl/7.16.3";
        let encoded = encode_request(&request());
        assert_eq!(encoded[..beginning.len()], *beginning);
        assert_eq!(encoded.last(), Some(&0));

        let message = [&encoded[..], &encode_end(None)].concat();
        let found = decode_all(BinaryHttpDecoder::request(), &message, 1).unwrap();
        let expected = [
            BinaryPiece::Request(Box::new(request())),
            BinaryPiece::End(Fields::new()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn interim_responses_are_skipped_and_trailers_kept() {
        let message = b"\x03\x40\x66\x00\x40\xc8\x00\x05hello\x00\x01a\x01b\x00\x00\x00";
        let found = decode_all(BinaryHttpDecoder::response(), message, 3).unwrap();
        let [
            BinaryPiece::Response(head),
            BinaryPiece::Data(data),
            BinaryPiece::End(trailers),
        ] = &found[..]
        else {
            panic!("{found:?}");
        };
        assert_eq!(head.status, StatusCode::OK);
        assert_eq!(&data[..], b"hello");
        assert_eq!(trailers.get("a").unwrap().as_bytes(), b"b");
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let request = |bytes: &[u8]| decode_all(BinaryHttpDecoder::request(), bytes, bytes.len());
        assert_eq!(request(b"\x03"), Err(BinaryHttpError::Kind));
        assert_eq!(
            request(b"\x00"),
            Err(BinaryHttpError::Kind),
            "of known length"
        );
        for (bytes, what) in [
            (&b"\x02\x01 \x00\x00\x00\x00"[..], "method"),
            (b"\x02\x03GET\x01:\x00\x00\x00", "scheme"),
            (b"\x02\x03GET\x04http\x01/\x00\x00", "authority"),
            (b"\x02\x03GET\x04http\x01a\x02 b\x00", "path"),
            (b"\x02\x03GET\x04http\x01a\x01b\x00", "path"),
            (b"\x02\x03GET\x04http\x01a\x01*\x00", "path"),
            (b"\x02\x03GET\x00\x00\x00\x01A\x00\x00", "name of a field"),
            (
                b"\x02\x03GET\x00\x00\x00\x01a\x01\n\x00",
                "value of a field",
            ),
            (b"\x02\x03GET\x00\x00\x00\x00\x00\x00\x01", "padding"),
        ] {
            assert_eq!(request(bytes), Err(BinaryHttpError::Invalid(what)));
        }
        assert_eq!(
            request(b"\x02\x80\x10\x00\x00"),
            Err(BinaryHttpError::TooLong)
        );
    }

    #[test]
    fn a_head_without_an_end_is_bounded() {
        let mut decoder = BinaryHttpDecoder::request();
        decoder.push(b"\x02\x03GET\x00\x00\x00");
        let line = [&b"\x01a\x43\xe8"[..], &[b'x'; 1000]].concat();
        let mut result = Ok(None);
        for _ in 0..=MAX_SECTION / line.len() {
            decoder.push(&line);
            result = decoder.next();
        }
        assert_eq!(result, Err(BinaryHttpError::TooLong));
    }

    #[test]
    fn a_path_has_the_form_that_rules_are_about() {
        let message = b"\x02\x03GET\x04http\x01a\x0b/a/../admin\x00";
        let found = decode_all(BinaryHttpDecoder::request(), message, 1).unwrap();
        let [BinaryPiece::Request(head)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(head.path(), "/admin");
    }

    #[test]
    fn lines_of_fields_are_bounded_however_short_they_are() {
        let head = b"\x02\x03GET\x00\x00\x00";
        let lines = |count: usize| [&head[..], &b"\x01a\x00".repeat(count), b"\x00"].concat();
        let read = |bytes: &[u8]| decode_all(BinaryHttpDecoder::request(), bytes, 1);
        assert!(read(&lines(MAX_LINES)).is_ok());
        assert_eq!(
            read(&lines(MAX_LINES + 1)),
            Err(BinaryHttpError::TooManyLines)
        );
    }

    #[test]
    fn a_head_that_comes_byte_by_byte_is_looked_at_once() {
        let value = vec![b'x'; MAX_SECTION - 64];
        let mut message = b"\x02\x03GET\x00\x00\x00".to_vec();
        message.extend(b"\x01a\x00".repeat(16));
        message.extend(b"\x01b");
        let mut length = BytesMut::new();
        varint::encode(value.len() as u64, &mut length);
        message.extend(&length);

        let mut section = SectionProgress::head(REQUEST);
        for end in 1..=message.len() {
            assert_eq!(section.look(&message[..end]), Ok(None));
        }
        // All but the value that is missing lies behind it.
        assert_eq!(section.at(), message.len() - length.len());
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_danger(data in proptest::collection::vec(any::<u8>(), 0..100)) {
            fuzz_one(&data);
        }
    }
}
