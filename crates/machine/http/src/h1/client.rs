//! How a request is written in HTTP/1.1.

use std::borrow::Cow;

use bytes::BytesMut;
use hermes_proto::fields::names::{CONNECTION, TE, UPGRADE};
use hermes_proto::h1::{self as codec, Framing, RequestTarget};
use hermes_proto::head::{Kind, RequestHead};
use hermes_proto::websocket::Key;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method};

use crate::error::{Cause, StreamError};

/// The receiver of a request, which decides the form of its target (RFC 9112, 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receiver {
    /// A proxy: absolute form.
    Proxy,
    /// The origin: origin form.
    Origin,
}

pub(crate) fn framing(head: &RequestHead, length: Option<u64>) -> Framing {
    match length {
        _ if head.kind() != Kind::Message => Framing::Empty,
        Some(0) => Framing::Empty,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    }
}

pub(crate) fn encode(
    head: &RequestHead,
    framing: Framing,
    receiver: Receiver,
    key: Option<&Key>,
    out: &mut BytesMut,
) -> Result<(), StreamError> {
    let host = head
        .authority
        .as_ref()
        .ok_or_else(|| invalid("a request needs an authority"))?;
    let authority = host.clone();
    let mut fields = Cow::Borrowed(&head.fields);

    if let Some(key) = key {
        key.write(fields.to_mut());
    }

    // RFC 9110, 10.1.4: TE is a connection's own field, also where it only says that trailers are welcome.
    if fields.contains_key(TE) {
        fields
            .to_mut()
            .insert(CONNECTION, HeaderValue::from_static("te"));
    }

    let path = || {
        head.path
            .clone()
            .unwrap_or_else(|| PathAndQuery::from_static("/"))
    };

    let (method, target) = match (head.kind(), &head.protocol) {
        (Kind::Message, _) => (
            head.method.clone(),
            message_target(head, authority, path(), receiver),
        ),
        (Kind::Connect, _) | (_, None) => (Method::CONNECT, RequestTarget::Authority(authority)),
        // RFC 9298, 3.2: an extended CONNECT is GET with Upgrade.
        (_, Some(protocol)) => {
            let fields = fields.to_mut();
            fields.append(CONNECTION, HeaderValue::from_static("upgrade"));
            fields.insert(
                UPGRADE,
                HeaderValue::from_str(protocol.as_str())
                    .map_err(|_| invalid("the protocol is not a token"))?,
            );

            // A proxy is the origin of its template; any other protocol runs at the origin of the URI.
            let receiver = if head.kind().is_templated() {
                Receiver::Origin
            } else {
                receiver
            };

            (
                Method::GET,
                message_target(head, authority, path(), receiver),
            )
        }
    };

    Ok(codec::encode_request_for(
        &method,
        &target,
        host.as_str().as_bytes(),
        &fields,
        framing,
        out,
    )?)
}

fn message_target(
    head: &RequestHead,
    authority: Authority,
    path: PathAndQuery,
    receiver: Receiver,
) -> RequestTarget {
    match receiver {
        _ if path.as_str() == "*" => RequestTarget::Asterisk,
        Receiver::Origin => RequestTarget::Origin(path),
        Receiver::Proxy => {
            let scheme = head.scheme.clone().unwrap_or(Scheme::HTTP);
            RequestTarget::Absolute {
                scheme,
                authority,
                path,
            }
        }
    }
}

fn invalid(reason: &str) -> StreamError {
    StreamError::unprocessed(Cause::Invalid(reason.to_owned()))
}
