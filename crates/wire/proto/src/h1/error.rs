//! Why bytes were refused, and why a message could not be written.

use http::StatusCode;

use crate::path::BadPath;

/// Bytes that broke a rule. The connection they came on must not be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct DecodeError {
    kind: DecodeErrorKind,
}

impl DecodeError {
    /// The rule that was broken.
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// The status to answer a bad *request* with. A bad response always becomes 502.
    pub fn status(&self) -> StatusCode {
        match self.kind {
            DecodeErrorKind::TargetTooLong | DecodeErrorKind::Path(BadPath::TooLong) => {
                StatusCode::URI_TOO_LONG
            }
            DecodeErrorKind::HeadTooLarge
            | DecodeErrorKind::TooManyFields
            | DecodeErrorKind::TrailersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            DecodeErrorKind::UnknownTransferCoding => StatusCode::NOT_IMPLEMENTED,
            DecodeErrorKind::UnsupportedVersion => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl From<DecodeErrorKind> for DecodeError {
    fn from(kind: DecodeErrorKind) -> Self {
        Self { kind }
    }
}

/// The rules of decoding; one variant is one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The head is larger than [`MessageLimits::head_bytes`](super::MessageLimits::head_bytes) (RFC 6585 5).
    #[error("the head is too large")]
    HeadTooLarge,
    /// The request line alone fills the head, or the target is longer than 65534 bytes (RFC 9112 3).
    #[error("the request target is too long")]
    TargetTooLong,
    /// More field lines than [`MessageLimits::fields`](super::MessageLimits::fields) (RFC 6585 5).
    #[error("there are too many fields")]
    TooManyFields,
    /// A line ends in LF without CR (RFC 9112 2.2, 7.1.1).
    #[error("a line ends in LF without CR")]
    BareLf,
    /// CR stands somewhere else than before LF (RFC 9112 2.2).
    #[error("CR stands without LF")]
    BareCr,
    /// More than one empty line stands before the request line (RFC 9112 2.2).
    #[error("more than one empty line stands before the request line")]
    LeadingEmptyLines,

    /// The request line is not method, space, target, space, version (RFC 9112 3).
    #[error("the request line is not `method target version` with single spaces")]
    BadRequestLine,
    /// The method is not a token (RFC 9110 9.1).
    #[error("the method is not a token")]
    BadMethod,
    /// The version is neither HTTP/1.0 nor HTTP/1.1 (RFC 9110 15.6.6).
    #[error("the HTTP version is neither 1.0 nor 1.1")]
    UnsupportedVersion,
    /// The version is not `HTTP/` digit `.` digit; it is case-sensitive (RFC 9112 2.3).
    #[error("the HTTP version is malformed")]
    BadVersion,
    /// The target holds a space, a control, a non-ASCII or another forbidden byte (RFC 9112 3.2).
    #[error("the request target holds a forbidden byte")]
    BadTarget,
    /// The path or the query cannot be taken (RFC 3986 3.3, 3.4).
    #[error(transparent)]
    Path(#[from] BadPath),
    /// The form of the target does not fit the method (RFC 9112 3.2).
    #[error("the form of the request target does not fit the method")]
    TargetForm,
    /// The scheme of an absolute-form target is neither http nor https (RFC 9112 3.2.2).
    #[error("the scheme of the request target is neither http nor https")]
    Scheme,
    /// The authority holds user information (RFC 9110 4.2.4).
    #[error("the authority holds user information")]
    Userinfo,
    /// The authority has no host or a malformed one (RFC 9110 4.2.1).
    #[error("the host of the authority is empty or malformed")]
    BadAuthority,
    /// The port is not 1 to 65535, or is missing in CONNECT (RFC 9110 9.3.6).
    #[error("the port is missing or not from 1 to 65535")]
    BadPort,

    /// The status line is not version, space, status from 100 to 999, reason (RFC 9112 4).
    #[error("the status line is malformed")]
    BadStatusLine,

    /// A field line begins with white space (RFC 9112 2.2, 5.2).
    #[error("a field line begins with white space")]
    ObsFold,
    /// A field line has no colon (RFC 9112 5).
    #[error("a field line has no colon")]
    MissingColon,
    /// A field name is empty (RFC 9110 5.1).
    #[error("a field name is empty")]
    EmptyName,
    /// White space stands between a field name and its colon (RFC 9112 5.1).
    #[error("white space stands before the colon of a field")]
    SpaceBeforeColon,
    /// A field name is not a token (RFC 9110 5.1).
    #[error("a field name is not a token")]
    BadName,
    /// A field value holds a control character (RFC 9110 5.5).
    #[error("a field value holds a control character")]
    BadValue,

    /// HTTP/1.1 without Host (RFC 9112 3.2).
    #[error("the Host field is missing")]
    MissingHost,
    /// Several Host lines (RFC 9112 3.2).
    #[error("there are several Host fields")]
    SeveralHosts,
    /// Host is not a host with an optional port (RFC 9112 3.2).
    #[error("the Host field is not `host` or `host:port`")]
    BadHost,

    /// Content-Length stands with Transfer-Encoding (RFC 9112 6.1, 11.2).
    #[error("Content-Length stands together with Transfer-Encoding")]
    LengthAndTransferEncoding,
    /// Several Content-Length lines, even when equal (RFC 9110 8.6).
    #[error("there are several Content-Length fields")]
    SeveralLengths,
    /// Content-Length is a list, even of equal numbers (RFC 9110 8.6).
    #[error("Content-Length is a list")]
    LengthList,
    /// Content-Length is not decimal digits (RFC 9110 8.6).
    #[error("Content-Length is not a decimal number")]
    BadLength,
    /// Content-Length does not fit 64 bits (RFC 9110 8.6).
    #[error("Content-Length is too large")]
    LengthOverflow,
    /// Transfer-Encoding in an HTTP/1.0 message (RFC 9112 6.1).
    #[error("Transfer-Encoding in an HTTP/1.0 message")]
    TransferEncodingInHttp10,
    /// Transfer-Encoding is empty or not a list of tokens (RFC 9112 6.1).
    #[error("Transfer-Encoding is malformed")]
    BadTransferEncoding,
    /// A transfer coding other than chunked (RFC 9112 6.1).
    #[error("a transfer coding other than chunked")]
    UnknownTransferCoding,
    /// The chunked coding is applied more than once (RFC 9112 6.1).
    #[error("the chunked coding is named more than once")]
    RepeatedChunked,
    /// CONNECT that announces content (RFC 9110 9.3.6, RFC 9931).
    #[error("CONNECT announces content")]
    ConnectWithContent,

    /// Connection is not a list of tokens (RFC 9110 7.6.1).
    #[error("the Connection field is not a list of tokens")]
    BadConnection,
    /// Upgrade is not a list of protocols (RFC 9110 7.8).
    #[error("the Upgrade field is not a list of protocols")]
    BadUpgrade,

    /// A chunk does not begin with hexadecimal digits, or something else follows them (RFC 9112 7.1).
    #[error("a chunk size is not a hexadecimal number")]
    BadChunkSize,
    /// A chunk size has more than 16 digits (RFC 9112 7.1).
    #[error("a chunk size is too large")]
    ChunkSizeOverflow,
    /// A chunk extension does not begin with `;` or holds a control character (RFC 9112 7.1.1).
    #[error("a chunk extension is malformed")]
    BadChunkExtension,
    /// A chunk extension is longer than the limit (RFC 9112 7.1.1).
    #[error("a chunk extension is too long")]
    ChunkExtensionTooLong,
    /// The bytes of a chunk are not followed by CRLF (RFC 9112 7.1).
    #[error("a chunk is not followed by CRLF")]
    MissingChunkEnd,
    /// The trailer section is larger than the limit (RFC 9112 7.1.2).
    #[error("the trailer section is too large")]
    TrailersTooLarge,
    /// A trailer field that must stand in the head (RFC 9110 6.5.1).
    #[error("a trailer field that must not be a trailer")]
    ForbiddenTrailer,
    /// The input ended within the content (RFC 9112 8).
    #[error("the input ended within the content")]
    Truncated,
}

/// A message that cannot be written as HTTP/1.1 without changing its meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageEncodeError {
    /// The method is not a token (RFC 9110 9.1).
    #[error("the method is not a token")]
    BadMethod,
    /// The target holds a forbidden byte or its form does not fit the method (RFC 9112 3.2).
    #[error("the request target does not fit the method or holds a forbidden byte")]
    BadTarget,
    /// Neither target nor fields name the host (RFC 9112 3.2).
    #[error("the Host field is missing")]
    MissingHost,
    /// Several Host values, or one that is no authority (RFC 9112 3.2).
    #[error("the Host field is not one `host` or `host:port`")]
    BadHost,
    /// The Content-Length or Connection to be kept is malformed (RFC 9110 7.6.1, 8.6).
    #[error("the Content-Length or Connection field is malformed")]
    BadField,
    /// This message cannot have this framing (RFC 9112 6).
    #[error("the message cannot have this framing")]
    BadFraming,
    /// More content than the framing allows (RFC 9110 8.6).
    #[error("there is more content than announced")]
    TooMuchContent,
    /// Less content than the framing announced (RFC 9110 8.6).
    #[error("there is less content than announced")]
    TooLittleContent,
    /// The content was already finished.
    #[error("the content was already finished")]
    Finished,
    /// This field must not be a trailer (RFC 9110 6.5.1).
    #[error("field `{0}` must not be a trailer")]
    ForbiddenTrailer(String),
}
