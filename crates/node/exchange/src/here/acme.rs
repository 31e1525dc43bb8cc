//! Challenges of the authorities that issue this node's certificates, as far as they come as requests (http-01).

use bytes::Bytes;
use hermes_admit::snapshot::Snapshot;
use hermes_http::ResponseHead;
use hermes_plug::arrival::Arrival;
use hermes_proto::fields::names::CONTENT_TYPE;
use http::{HeaderValue, Method, StatusCode};

/// The answer to a request for a token that this node has asked an authority to look for (RFC 8555 section 8.3); `None` for all others.
/// It comes before everything that is decided: an authority has no credentials, and no route knows it.
pub(crate) fn answer(snapshot: &Snapshot, arrival: &Arrival) -> Option<(ResponseHead, Bytes)> {
    let Arrival::Offered(offered) = arrival else {
        return None;
    };
    let head = &offered.head;
    if !head.origin_form || head.method != Method::GET {
        return None;
    }
    let answer = snapshot
        .node
        .credentials
        .certificates
        .tokens
        .answer(head.path())?;

    let mut head = ResponseHead::new(StatusCode::OK);
    head.fields.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("application/octet-stream"),
    );
    Some((head, Bytes::from(answer)))
}
