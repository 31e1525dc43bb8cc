//! The head of a response on its way back.

use hermes_admit::alternative;
use hermes_admit::routed::Routed;
use hermes_http::ResponseHead;
use hermes_proto::hop;
use http::StatusCode;

use crate::reach::departure;

/// A response of the next hop as the client gets it.
pub(crate) fn returning(routed: &Routed, mut head: ResponseHead) -> ResponseHead {
    // A connection field that cannot be read names nothing that could be kept.
    if hop::strip(&mut head.fields).is_err() {
        head.fields.remove(http::header::CONNECTION);
    }
    // RFC 9110, 8.6: these announce no content.
    if head.status.is_informational() || head.status == StatusCode::NO_CONTENT {
        head.fields.remove(http::header::CONTENT_LENGTH);
    }
    departure::keep_own_challenge(&mut head);
    routed
        .snapshot
        .node
        .via
        .append(&mut head.fields, head.version);
    alternative::advertise(routed, &mut head.fields);

    head
}
