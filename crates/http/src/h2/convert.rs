//! Heads between our form and that of the machine.

use hermes_proto::h2::{HeadParts, Request, Response};
use http::Version;
use http::uri::Scheme;

use crate::head::{Kind, RequestHead, ResponseHead};

/// A request's head.
pub(super) fn request(request: Request) -> RequestHead {
    let Request {
        method,
        scheme,
        authority,
        path,
        protocol,
        fields,
    } = request;
    RequestHead {
        method,
        scheme,
        authority,
        path,
        protocol,
        fields,
        version: Version::HTTP_2,
        origin_form: false,
    }
}

/// A request to be sent.
pub(super) fn request_parts(head: &RequestHead) -> HeadParts<'_> {
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

/// A response's head.
pub(super) fn response(response: Response) -> ResponseHead {
    ResponseHead {
        status: response.status,
        fields: response.fields,
        version: Version::HTTP_2,
    }
}

/// A response to be sent.
pub(super) fn response_parts(head: &ResponseHead) -> HeadParts<'_> {
    HeadParts::Response(head.status, &head.fields)
}
