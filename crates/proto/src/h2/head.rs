//! Heads of messages: what stands in a field section, and what must (RFC 9113, section 8; RFC 8441).

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::hpack::{LineName, PseudoName, encode_field, encode_pseudo};
use crate::field_rules::{is_connection_specific, is_secret, join_cookies};
use crate::path::{self, BadPath};
use crate::qpack::{LINE_OVERHEAD, Limits};
use crate::upgrade::Protocol;

/// The head of a request, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// `:scheme`; `None` for CONNECT without a protocol, and where there is no `:authority`.
    pub scheme: Option<Scheme>,
    /// `:authority`, or else `Host`.
    pub authority: Option<Authority>,
    /// `:path`; `None` for CONNECT without a protocol; `*` for `OPTIONS *`.
    pub path: Option<PathAndQuery>,
    /// `:protocol` of extended CONNECT.
    pub protocol: Option<Protocol>,
    /// The fields without `Host`.
    pub fields: HeaderMap,
}

/// The head of a response, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// `:status`, never 101.
    pub status: StatusCode,
    /// The fields.
    pub fields: HeaderMap,
}

/// A head that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadHead {
    /// It is malformed: its stream is reset (RFC 9113, section 8.1.1).
    Malformed(Cow<'static, str>),
    /// It is HTTP, and is refused with a status and the reason.
    Refused(StatusCode, Cow<'static, str>),
}

impl BadHead {
    const fn malformed(words: &'static str) -> Self {
        Self::Malformed(Cow::Borrowed(words))
    }

    fn refused(words: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, words.into())
    }

    /// What is wrong.
    pub fn words(&self) -> &Cow<'static, str> {
        match self {
            Self::Malformed(words) | Self::Refused(_, words) => words,
        }
    }
}

/// The pseudo-fields of a section, as they came.
#[derive(Debug, Default)]
struct PseudoFields {
    method: Option<Bytes>,
    scheme: Option<Bytes>,
    authority: Option<Bytes>,
    path: Option<Bytes>,
    protocol: Option<Bytes>,
    status: Option<Bytes>,
}

impl PseudoFields {
    fn place(&mut self, name: PseudoName) -> &mut Option<Bytes> {
        match name {
            PseudoName::Method => &mut self.method,
            PseudoName::Scheme => &mut self.scheme,
            PseudoName::Authority => &mut self.authority,
            PseudoName::Path => &mut self.path,
            PseudoName::Protocol => &mut self.protocol,
            PseudoName::Status => &mut self.status,
        }
    }

    /// Whether one is there that only requests have.
    fn has_request(&self) -> bool {
        let request = [
            &self.method,
            &self.scheme,
            &self.authority,
            &self.path,
            &self.protocol,
        ];
        request.into_iter().any(Option::is_some)
    }
}

/// The lines of a section on their way to a head. What follows the first mistake is not kept.
#[derive(Debug)]
pub(super) struct Lines {
    pseudo: PseudoFields,
    fields: HeaderMap,
    /// Bytes and fields that may still come.
    left: Limits,
    bad: Option<BadHead>,
}

const TOO_LARGE: BadHead = BadHead::Refused(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    Cow::Borrowed("the fields are too large"),
);

const TOO_MANY: BadHead = BadHead::Refused(
    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
    Cow::Borrowed("there are too many fields"),
);

impl Lines {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            pseudo: PseudoFields::default(),
            fields: HeaderMap::new(),
            left: limits,
            bad: None,
        }
    }

    /// One more line.
    pub(super) fn push(&mut self, name: &LineName, value: Bytes) {
        if self.bad.is_none() {
            self.bad = self.take(name, value).err();
        }
    }

    fn take(&mut self, name: &LineName, value: Bytes) -> Result<(), BadHead> {
        // RFC 9113, section 6.5.2: as the size of a header list is counted.
        let size = name.as_bytes().len() + value.len() + LINE_OVERHEAD;
        self.left.bytes = self.left.bytes.checked_sub(size).ok_or(TOO_LARGE)?;
        let name = match name {
            LineName::Field(name) => name,
            LineName::Pseudo(name) => return self.take_pseudo(*name, value),
            LineName::Bad(name) if name.starts_with(b":") => {
                return Err(BadHead::malformed("an unknown pseudo-field"));
            }
            // RFC 9113, section 8.2.1.
            LineName::Bad(_) => {
                return Err(BadHead::malformed("a field name is no token in lower case"));
            }
        };
        self.left.lines = self.left.lines.checked_sub(1).ok_or(TOO_MANY)?;
        let is_spaced = value.trim_ascii().len() != value.len();
        let value = HeaderValue::from_maybe_shared(value)
            .map_err(|_| BadHead::malformed("a control character in a field value"))?;
        // RFC 9113, section 8.2.1: HTTP/1.1 cannot say it, so that two readers behind us could read different values.
        if is_spaced {
            return Err(BadHead::refused(format!(
                "white space around the value of field `{name}`"
            )));
        }
        // RFC 9113, section 8.2.2.
        if is_connection_specific(name, &value) {
            return Err(BadHead::malformed(
                "a field that belongs to a connection of HTTP/1.1",
            ));
        }
        let added = self.fields.try_append(name.clone(), value);
        added.map(drop).map_err(|_| TOO_MANY)
    }

    /// RFC 9113, section 8.3: they come first, and once.
    fn take_pseudo(&mut self, name: PseudoName, value: Bytes) -> Result<(), BadHead> {
        if !self.fields.is_empty() {
            return Err(BadHead::malformed("a pseudo-field after a field"));
        }
        match self.pseudo.place(name).replace(value) {
            Some(_) => Err(BadHead::malformed("a pseudo-field appears twice")),
            None => Ok(()),
        }
    }

    /// The head of a request that they are.
    pub(super) fn request(mut self) -> Result<Request, BadHead> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        if self.pseudo.status.is_some() {
            return Err(BadHead::malformed("a request with :status"));
        }
        let method = self.pseudo.method.as_deref();
        let method = method.ok_or(BadHead::malformed("a request without :method"))?;
        let method =
            Method::from_bytes(method).map_err(|_| BadHead::malformed(":method is no token"))?;
        join_cookies(&mut self.fields);
        let has_authority = self.pseudo.authority.is_some();
        let is_plain_connect = method == Method::CONNECT && self.pseudo.protocol.is_none();
        let scheme = self.scheme(is_plain_connect)?;
        let path = self.pseudo.path.take();
        if path.is_some() == is_plain_connect || path.as_ref().is_some_and(Bytes::is_empty) {
            return Err(BadHead::malformed(
                "CONNECT with :path, or another request without",
            ));
        }
        let protocol = self.protocol(&method)?;
        let authority = settle_authority(self.pseudo.authority.take(), &mut self.fields)?;
        if is_plain_connect && authority.is_none() {
            return Err(BadHead::malformed("CONNECT without :authority"));
        }
        Ok(Request {
            path: path.map(|path| target(&method, path)).transpose()?,
            method,
            // A scheme says nothing without an authority.
            scheme: scheme.filter(|_| has_authority),
            authority,
            protocol,
            fields: self.fields,
        })
    }

    /// RFC 9113, sections 8.3.1 and 8.5.
    fn scheme(&self, is_plain_connect: bool) -> Result<Option<Scheme>, BadHead> {
        match &self.pseudo.scheme {
            Some(_) if is_plain_connect => Err(BadHead::malformed("CONNECT with :scheme")),
            Some(scheme) => Scheme::try_from(&scheme[..])
                .map(Some)
                .map_err(|_| BadHead::malformed(":scheme is no scheme")),
            None if is_plain_connect => Ok(None),
            None => Err(BadHead::malformed("a request without :scheme")),
        }
    }

    /// RFC 8441, section 4.
    fn protocol(&self, method: &Method) -> Result<Option<Protocol>, BadHead> {
        let Some(protocol) = &self.pseudo.protocol else {
            return Ok(None);
        };
        if method != Method::CONNECT {
            return Err(BadHead::malformed(":protocol without CONNECT"));
        }
        let protocol = Protocol::parse(protocol);
        protocol
            .map(Some)
            .map_err(|error| BadHead::refused(error.to_string()))
    }

    /// The head of a response that they are.
    pub(super) fn response(mut self) -> Result<Response, BadHead> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        if self.pseudo.has_request() {
            return Err(BadHead::malformed(
                "a response with a pseudo-field of requests",
            ));
        }
        let status = self.pseudo.status.as_deref();
        let status = status.ok_or(BadHead::malformed("a response without :status"))?;
        let status = StatusCode::from_bytes(status)
            .map_err(|_| BadHead::malformed(":status is no status"))?;
        // RFC 9113, section 8.6: passed on, it would switch the protocol of a connection that knows nothing of it.
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(BadHead::malformed("101 over HTTP/2"));
        }
        join_cookies(&mut self.fields);
        Ok(Response {
            status,
            fields: self.fields,
        })
    }

    /// The trailers that they are.
    pub(super) fn trailers(self) -> Result<HeaderMap, BadHead> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        if self.pseudo.has_request() || self.pseudo.status.is_some() {
            return Err(BadHead::malformed("a pseudo-field in trailers"));
        }
        Ok(self.fields)
    }
}

fn target(method: &Method, path: Bytes) -> Result<PathAndQuery, BadHead> {
    if path == "*" {
        return match *method {
            Method::OPTIONS => Ok(PathAndQuery::from_static("*")),
            _ => Err(BadHead::refused("`*` is for OPTIONS only")),
        };
    }
    path::decode(path).map_err(|error| {
        let status = match error {
            BadPath::TooLong => StatusCode::URI_TOO_LONG,
            _ => StatusCode::BAD_REQUEST,
        };
        BadHead::Refused(status, error.to_string().into())
    })
}

/// RFC 9113, section 8.3.1: `Host` must not contradict `:authority`, which names no user.
fn settle_authority(
    authority: Option<Bytes>,
    fields: &mut HeaderMap,
) -> Result<Option<Authority>, BadHead> {
    let authority = authority.map(Authority::from_maybe_shared).transpose();
    let authority = authority.map_err(|_| BadHead::malformed(":authority is none"))?;
    let mut hosts = fields.get_all(HOST).iter();
    let host = hosts.next();
    let host = host
        .map(|host| Authority::try_from(host.as_bytes()))
        .transpose();
    if hosts.next().is_some() {
        return Err(BadHead::refused("several host fields"));
    }
    let host = host.map_err(|_| BadHead::refused("host is no authority"))?;
    fields.remove(HOST);
    let authority = match (authority, host) {
        (Some(authority), Some(host)) if authority != host => {
            return Err(BadHead::refused("host differs from :authority"));
        }
        (authority, host) => authority.or(host),
    };
    match &authority {
        Some(some) if some.as_str().contains('@') => {
            Err(BadHead::refused("userinfo in :authority"))
        }
        _ => Ok(authority),
    }
}

/// A head to be written.
#[derive(Debug, Clone, Copy)]
pub enum HeadParts<'a> {
    /// Of a request; what is absent is not written.
    Request {
        /// `:method`
        method: &'a Method,
        /// `:scheme`
        scheme: Option<&'a Scheme>,
        /// `:authority`
        authority: Option<&'a Authority>,
        /// `:path`
        path: Option<&'a PathAndQuery>,
        /// `:protocol`
        protocol: Option<&'a Protocol>,
        /// The fields; `Host` is passed over where there is `:authority`.
        fields: &'a HeaderMap,
    },
    /// Of a response.
    Response(StatusCode, &'a HeaderMap),
    /// Trailers.
    Trailers(&'a HeaderMap),
}

/// A message that HTTP/2 does not have; the text says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsendable(pub String);

impl HeadParts<'_> {
    /// Appends the section. `output` is as it was when it cannot be sent.
    ///
    /// # Errors
    /// The message would be malformed.
    pub fn encode(&self, output: &mut BytesMut) -> Result<(), Unsendable> {
        let fields = match *self {
            Self::Request { fields, .. } | Self::Response(_, fields) | Self::Trailers(fields) => {
                fields
            }
        };
        let specific = fields
            .iter()
            .find(|(name, value)| is_connection_specific(name, value));
        if let Some((name, _)) = specific {
            let words = format!("field `{name}` does not exist in HTTP/2");
            return Err(Unsendable(words));
        }
        let has_authority = self.encode_pseudo(output);
        for (name, value) in fields {
            if has_authority && name == HOST {
                continue;
            }
            let sensitive = value.is_sensitive() || is_secret(name);
            encode_field(name, value.as_bytes().trim_ascii(), sensitive, output);
        }
        Ok(())
    }

    /// Whether `:authority` is among them.
    fn encode_pseudo(&self, output: &mut BytesMut) -> bool {
        match self {
            Self::Request {
                method,
                scheme,
                authority,
                path,
                protocol,
                ..
            } => {
                let pseudo = [
                    (PseudoName::Method, Some(method.as_str())),
                    (PseudoName::Scheme, scheme.map(Scheme::as_str)),
                    (PseudoName::Authority, authority.map(Authority::as_str)),
                    (PseudoName::Path, path.map(PathAndQuery::as_str)),
                    (PseudoName::Protocol, protocol.map(Protocol::as_str)),
                ];
                for (name, value) in pseudo {
                    if let Some(value) = value {
                        encode_pseudo(name, value.as_bytes(), output);
                    }
                }
                authority.is_some()
            }
            Self::Response(status, _) => {
                encode_pseudo(PseudoName::Status, status.as_str().as_bytes(), output);
                false
            }
            Self::Trailers(_) => false,
        }
    }
}
