//! Paths for bytes by a route's carrier: a CONNECT that the plug answers, in place of a connection to the next proxy.

use std::sync::Arc;

use hermes_admit::next::{Handled, Next};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Incoming, RequestHead, ResponseHead, pipe};
use hermes_plug::refusal::Refusal;
use hermes_plug::{HandlerRequest, Onward, RequestContent, Response};
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_upstream::Active;
use http::Method;

use super::byte_end::BytePath;
use super::departure::depart;
use super::next_tunnel;
use super::plug_request;

/// Opens a path by the carrier for a tunnel that goes on: its request has these fields as well.
pub(crate) async fn path(
    routed: &Routed,
    head: &RequestHead,
    fields: &Fields,
    next: &Next,
    handled: &Handled,
) -> Result<BytePath, Refusal> {
    let mut head = connect(routed, head, next)?;
    head.fields.replace(fields);
    let (outgoing, content) = pipe(None);
    let asked = ask(routed, head, content, next);
    let (head, incoming) = answer(handled, asked).await?;
    if !head.status.is_success() {
        return Err(next_tunnel::refused(routed, next, &head));
    }

    Ok(BytePath {
        streams: Duplex { incoming, outgoing },
        fields: head.fields,
        active: Active::default(),
    })
}

/// The endpoint in the record of an exchange that this plug carries.
pub(crate) fn endpoint(carrier: &Handled) -> Arc<str> {
    format!("({})", carrier.name).into()
}

/// The CONNECT that leaves, whatever form the tunnel came in.
pub(crate) fn connect(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
) -> Result<RequestHead, Refusal> {
    let (mut head, target) = depart(routed, head.clone(), next)?;
    head.method = Method::CONNECT;
    head.protocol = None;
    (head.scheme, head.path) = (None, None);
    head.fields.remove(CAPSULE_PROTOCOL);
    target.write_into(&mut head)?;
    Ok(head)
}

/// The request that the plug gets for a tunnel with this head and content.
pub(crate) fn ask(
    routed: &Routed,
    head: RequestHead,
    content: Incoming,
    next: &Next,
) -> HandlerRequest {
    let content = RequestContent::counted(content);
    plug_request::message(
        routed,
        head,
        content,
        Some(Onward::by_carrier(next.name().clone())),
    )
}

/// The answer to the CONNECT, and the content behind it.
pub(crate) async fn answer(
    handled: &Handled,
    asked: HandlerRequest,
) -> Result<(ResponseHead, Incoming), Refusal> {
    Ok(match handled.handler.handle(asked).await? {
        Response::Stream(head, content) => (head, content),
        Response::Whole(head, _) => (head, Incoming::Empty),
        Response::Feed(..) => {
            let details = "a carried tunnel cannot be answered with a feed";
            return Err(Refusal::new(ProxyError::ProxyInternalError, details));
        }
    })
}
