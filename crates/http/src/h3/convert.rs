//! Heads between our form and that of the codec.

use bytes::{Bytes, BytesMut};
use hermes_proto::h3::{
    self, BadRequest, Fault, Limits, RequestParts, Signal, encode_request, encode_response,
};
use http::uri::Scheme;
use http::{HeaderMap, Method, StatusCode, Version};

use crate::error::StreamError;
use crate::head::{Kind, RequestHead, ResponseHead};

/// A request's head.
pub(super) fn request(section: Bytes, limits: Limits) -> Result<RequestHead, BadRequest> {
    let h3::RequestHead {
        method,
        scheme,
        authority,
        path,
        protocol,
        fields,
    } = h3::decode_request(section, limits)?;
    let version = Version::HTTP_3;
    Ok(RequestHead {
        method,
        scheme,
        authority,
        path,
        protocol,
        fields,
        version,
        origin_form: false,
    })
}

/// An encoded request.
pub(super) fn from_request(head: &RequestHead) -> Result<BytesMut, StreamError> {
    let web = head.kind() != Kind::Connect;
    let scheme = head.scheme.clone().unwrap_or(Scheme::HTTP);
    let parts = RequestParts {
        method: &head.method,
        scheme: web.then_some(&scheme),
        authority: head.authority.as_ref(),
        path: head.path.as_ref().filter(|_| web),
        protocol: head.protocol.as_ref(),
        fields: &head.fields,
    };
    let mut section = BytesMut::new();
    encode_request(&parts, &mut section)?;
    Ok(section)
}

/// A response's head.
pub(super) fn response(section: Bytes, limits: Limits) -> Result<ResponseHead, Fault> {
    let h3::ResponseHead { status, fields } = h3::decode_response(section, limits)?;
    Ok(ResponseHead {
        status,
        fields,
        version: Version::HTTP_3,
    })
}

/// An encoded response.
pub(super) fn from_response(head: &ResponseHead) -> Result<BytesMut, StreamError> {
    let mut section = BytesMut::new();
    encode_response(head.status, &head.fields, &mut section)?;
    Ok(section)
}

/// What a head says of its priority (RFC 9218, 5); none where it says nothing that can be understood.
pub(super) fn priority(fields: &HeaderMap) -> Option<Signal> {
    let mut lines = fields
        .get_all("priority")
        .iter()
        .map(http::HeaderValue::as_bytes);
    let first = lines.next()?;
    let signal = match lines.next() {
        None => Signal::parse(first),
        Some(second) => Signal::parse(
            &[first, second]
                .into_iter()
                .chain(lines)
                .collect::<Vec<_>>()
                .join(&b", "[..]),
        ),
    };
    (signal != Signal::default()).then_some(signal)
}

/// The length of a response's content, where it is known: 0 where there must be none (RFC 9110, 6.4.1).
pub(super) fn response_length(method: &Method, head: &ResponseHead) -> Result<Option<u64>, Fault> {
    let announced = h3::content_length(&head.fields)?;
    let none = *method == Method::HEAD
        || matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        );
    Ok(if none { Some(0) } else { announced })
}
