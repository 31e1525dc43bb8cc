//! Heads of messages: allowed and required fields of a section (RFC 9113, section 8; RFC 8441).

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Version};

use super::hpack::HpackEncoder;
use crate::field_rules::{is_connection_specific, is_secret, join_cookies};
use crate::fields::names::HOST;
use crate::fields::{Fields, LineName, NameId, PseudoName};
use crate::head::{RequestHead, ResponseHead};
use crate::path::{self, BadPath};
use crate::pseudo_fields::PseudoFields;
use crate::qpack::{FieldSectionLimits, LINE_OVERHEAD};
use crate::upgrade::Protocol;

/// A head that cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadHead {
    /// Malformed: the stream is reset (RFC 9113, section 8.1.1).
    Malformed(Cow<'static, str>),
    /// Valid HTTP, but refused with a status and the reason.
    Refused(StatusCode, Cow<'static, str>),
}

impl BadHead {
    const fn malformed(words: &'static str) -> Self {
        Self::Malformed(Cow::Borrowed(words))
    }

    fn refused(words: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(StatusCode::BAD_REQUEST, words.into())
    }

    /// The mistake.
    pub fn words(&self) -> &Cow<'static, str> {
        match self {
            Self::Malformed(words) | Self::Refused(_, words) => words,
        }
    }
}

/// The lines of a section on their way to a head. Lines behind the first mistake are not kept.
#[derive(Debug)]
pub struct HeadLines {
    pseudo: PseudoFields,
    fields: Fields,
    /// Bytes and fields that may still come.
    left: FieldSectionLimits,
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

impl HeadLines {
    /// No lines.
    pub fn new(limits: FieldSectionLimits) -> Self {
        Self {
            pseudo: PseudoFields::default(),
            fields: Fields::new(),
            left: limits,
            bad: None,
        }
    }

    /// Bytes that may still come.
    pub fn room(&self) -> usize {
        self.left.bytes
    }

    /// One more line.
    pub fn push(&mut self, name: LineName<'_>, value: &[u8]) {
        if self.bad.is_none() {
            self.bad = self.take(name, value).err();
        }
    }

    fn take(&mut self, name: LineName<'_>, value: &[u8]) -> Result<(), BadHead> {
        // RFC 9113, section 6.5.2: as the size of a header list is counted.
        let size = name.as_bytes().len() + value.len() + LINE_OVERHEAD;
        self.left.bytes = self.left.bytes.checked_sub(size).ok_or(TOO_LARGE)?;
        match name {
            LineName::Pseudo(name) => return self.take_pseudo(name, value),
            LineName::Other(name) if name.starts_with(b":") => {
                return Err(BadHead::malformed("an unknown pseudo-field"));
            }
            // RFC 9113, section 8.2.1.
            name if !name.is_field() => {
                return Err(BadHead::malformed(
                    "a field name is not a token in lower case",
                ));
            }
            _ => {}
        }

        self.left.lines = self.left.lines.checked_sub(1).ok_or(TOO_MANY)?;
        let is_spaced = value.trim_ascii().len() != value.len();
        let added = self.fields.append_line(name, value);
        let id = added.map_err(|_| BadHead::malformed("a control character in a field value"))?;

        // RFC 9113, section 8.2.1: HTTP/1.1 cannot say it, so that two readers behind us could read different values.
        if is_spaced {
            let name = String::from_utf8_lossy(name.as_bytes());
            return Err(BadHead::refused(format!(
                "white space around the value of field `{name}`"
            )));
        }

        // RFC 9113, section 8.2.2.
        if is_connection_specific(id, value) {
            return Err(BadHead::malformed(
                "a field that belongs to a connection of HTTP/1.1",
            ));
        }
        Ok(())
    }

    /// RFC 9113, section 8.3: they come first, and once.
    fn take_pseudo(&mut self, name: PseudoName, value: &[u8]) -> Result<(), BadHead> {
        if !self.fields.is_empty() {
            return Err(BadHead::malformed("a pseudo-field after a field"));
        }
        let set = self.pseudo.set(name, value);
        set.map_err(|_| BadHead::malformed("a pseudo-field appears twice"))
    }

    /// The head of a request that they are. The scheme is `None` for CONNECT without a protocol, and where there is no
    /// `:authority`.
    ///
    /// # Errors
    /// The lines are not a request, or not one that is served.
    pub fn request(mut self) -> Result<RequestHead, BadHead> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        if self.pseudo.has(PseudoName::Status) {
            return Err(BadHead::malformed("a request with :status"));
        }

        let method = self.pseudo.get(PseudoName::Method);
        let method = method.ok_or(BadHead::malformed("a request without :method"))?;
        let method =
            Method::from_bytes(method).map_err(|_| BadHead::malformed(":method is not a token"))?;
        join_cookies(&mut self.fields);
        let has_authority = self.pseudo.has(PseudoName::Authority);
        let is_plain_connect = method == Method::CONNECT && !self.pseudo.has(PseudoName::Protocol);
        let scheme = self.scheme(is_plain_connect)?;
        let path = self.pseudo.bytes(PseudoName::Path);

        if path.is_some() == is_plain_connect || path.as_ref().is_some_and(Bytes::is_empty) {
            return Err(BadHead::malformed(
                "CONNECT with :path, or another request without",
            ));
        }

        let protocol = self.protocol(&method)?;
        let authority =
            settle_authority(self.pseudo.bytes(PseudoName::Authority), &mut self.fields)?;
        if is_plain_connect && authority.is_none() {
            return Err(BadHead::malformed("CONNECT without :authority"));
        }

        Ok(RequestHead {
            path: path.map(|path| target(&method, path)).transpose()?,
            method,
            // A scheme says nothing without an authority.
            scheme: scheme.filter(|_| has_authority),
            authority,
            protocol,
            fields: self.fields,
            version: Version::HTTP_2,
            origin_form: false,
        })
    }

    /// RFC 9113, sections 8.3.1 and 8.5.
    fn scheme(&self, is_plain_connect: bool) -> Result<Option<Scheme>, BadHead> {
        match self.pseudo.get(PseudoName::Scheme) {
            Some(_) if is_plain_connect => Err(BadHead::malformed("CONNECT with :scheme")),
            Some(scheme) => Scheme::try_from(scheme)
                .map(Some)
                .map_err(|_| BadHead::malformed(":scheme is not a scheme")),
            None if is_plain_connect => Ok(None),
            None => Err(BadHead::malformed("a request without :scheme")),
        }
    }

    /// RFC 8441, section 4.
    fn protocol(&self, method: &Method) -> Result<Option<Protocol>, BadHead> {
        let Some(protocol) = self.pseudo.get(PseudoName::Protocol) else {
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

    /// The head of a response that they are; its status is never 101.
    ///
    /// # Errors
    /// They are no response.
    pub fn response(mut self) -> Result<ResponseHead, BadHead> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        if self.pseudo.has_request() {
            return Err(BadHead::malformed(
                "a response with a pseudo-field of requests",
            ));
        }

        let status = self.pseudo.get(PseudoName::Status);
        let status = status.ok_or(BadHead::malformed("a response without :status"))?;
        let status = StatusCode::from_bytes(status)
            .map_err(|_| BadHead::malformed(":status is not a status"))?;

        // RFC 9113, section 8.6: passed on, it would switch the protocol of a connection that knows nothing of it.
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(BadHead::malformed("101 over HTTP/2"));
        }
        join_cookies(&mut self.fields);
        Ok(ResponseHead {
            status,
            fields: self.fields,
            version: Version::HTTP_2,
        })
    }

    /// The trailers that they are.
    ///
    /// # Errors
    /// The lines are not trailers.
    pub fn trailers(self) -> Result<Fields, BadHead> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        if self.pseudo.has_request() || self.pseudo.has(PseudoName::Status) {
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
    fields: &mut Fields,
) -> Result<Option<Authority>, BadHead> {
    let authority = authority.map(Authority::from_maybe_shared).transpose();
    let authority = authority.map_err(|_| BadHead::malformed(":authority is not valid"))?;
    let mut hosts = fields.values(HOST);
    let host = hosts.next();
    let host = host
        .map(|host| Authority::try_from(host.as_bytes()))
        .transpose();

    if hosts.next().is_some() {
        return Err(BadHead::refused("several host fields"));
    }
    let host = host.map_err(|_| BadHead::refused("host is not an authority"))?;
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
    /// A request's; absent fields are not written.
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
        fields: &'a Fields,
    },
    /// Of a response.
    Response(StatusCode, &'a Fields),
    /// Trailers.
    Trailers(&'a Fields),
}

/// A message that HTTP/2 does not have; the text says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsendable(pub String);

impl HeadParts<'_> {
    /// Appends the section. `output` and `encoder` are as they were when it cannot be sent.
    ///
    /// # Errors
    /// The message would be malformed.
    pub fn encode(
        &self,
        encoder: &mut HpackEncoder,
        output: &mut BytesMut,
    ) -> Result<(), Unsendable> {
        let fields = match *self {
            Self::Request { fields, .. } | Self::Response(_, fields) | Self::Trailers(fields) => {
                fields
            }
        };

        let specific = fields
            .known()
            .find(|(id, _, value)| is_connection_specific(*id, value.as_bytes()));
        if let Some((_, name, _)) = specific {
            let words = format!("field `{name}` does not exist in HTTP/2");
            return Err(Unsendable(words));
        }

        encoder.begin(output);
        let has_authority = self.encode_pseudo(encoder, output);
        for (id, name, value) in fields.known() {
            if has_authority && id == NameId::HOST {
                continue;
            }
            let name = LineName::of_field(id, name);
            encoder.line(name, value.as_bytes(), is_secret(id, value), output);
        }

        Ok(())
    }

    /// Whether `:authority` is among them.
    fn encode_pseudo(&self, encoder: &mut HpackEncoder, output: &mut BytesMut) -> bool {
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
                        encoder.line(LineName::Pseudo(name), value.as_bytes(), false, output);
                    }
                }

                authority.is_some()
            }
            Self::Response(status, _) => {
                let name = LineName::Pseudo(PseudoName::Status);
                encoder.line(name, status.as_str().as_bytes(), false, output);
                false
            }
            Self::Trailers(_) => false,
        }
    }
}
