//! Heads as the machine sends them.

use hermes_proto::h2::HeadParts;
use http::uri::Scheme;

use crate::head::{Kind, RequestHead, ResponseHead};

/// A request to be sent.
pub(crate) fn request_parts(head: &RequestHead) -> HeadParts<'_> {
    let is_connect = head.kind() == Kind::Connect;
    let scheme = head.scheme.as_ref().unwrap_or(&Scheme::HTTP);
    HeadParts::Request {
        method: &head.method,
        scheme: (!is_connect).then_some(scheme),
        authority: head.authority.as_ref(),
        path: head.path.as_ref().filter(|_| !is_connect),
        protocol: head.protocol.as_ref(),
        fields: &head.fields,
    }
}

/// A response to be sent.
pub(crate) fn response_parts(head: &ResponseHead) -> HeadParts<'_> {
    HeadParts::Response(head.status, &head.fields)
}
