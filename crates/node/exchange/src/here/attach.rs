//! `attach`: the client becomes a node that exchanges are sent to, over the connection that it opened.

use hermes_admit::reevaluate::{Opened, enter};
use hermes_admit::routed::Routed;
use hermes_config::model::AttachAs;
use hermes_http::RequestHead;
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::asks_to_attach;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::ptth;
use hermes_rules::attach::permits;
use hermes_upstream::{Carried, Detached, Full, Place};
use http::{StatusCode, Version};

use crate::failed::Failed;

/// Stands for an upstream in the record of an attachment.
const UPSTREAM: &str = "(attached)";

/// Lets the client be attached, until it leaves or may not stay.
pub(crate) async fn accept(
    routed: &Routed,
    arrival: Arrival,
    rule: &AttachAs,
) -> Result<String, Failed> {
    let (place, name) = match admit(routed, arrival.head(), rule) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    let exchange = &routed.exchange;
    let shared = &routed.worker.shared;
    exchange.upstream(&UPSTREAM.into(), &place.text(), None);
    exchange.status(arrival.head().opening_status().as_u16());
    let mut guard = enter(
        routed,
        Opened::attached(routed, arrival.head(), name),
        false,
    );
    let version = match arrival.head().version {
        Version::HTTP_3 => "h3",
        Version::HTTP_2 => "h2",
        _ => "h1",
    };

    let tunnel = match arrival
        .accept(Fields::from_iter([(ptth::ALPN, ptth::H2)]))
        .await
    {
        Ok(End::Stream(incoming, outgoing)) => (incoming, outgoing),
        Ok(End::Packets(_)) => return Ok("proxy_internal_error: an attachment over UDP".to_owned()),
        Err(error) => return Ok(format!("client_closed: {error}")),
    };

    let counted = exchange.clone();
    let count = Box::new(move |from: u64, to: u64| {
        counted.counters().from_client(from);
        counted.counters().to_client(to);
    });
    let carried = Carried {
        source: routed.source.clone(),
        version,
        user: routed.user.clone(),
        count,
    };

    // The gauge falls when this is dropped, however the attachment ends.
    let _counted = shared.telemetry.attached();
    let dismissed = async {
        tokio::select! {
            reason = guard.ended() => format!("policy_changed: {reason}"),
            () = shared.drain.graceful() => "done: this node stops".to_owned(),
        }
    };

    Ok(match place.serve(tunnel, carried, dismissed).await {
        Detached::NeverBegan => "http_protocol_error: the node did not begin HTTP/2".to_owned(),
        Detached::Gone => "done: the node is gone".to_owned(),
        Detached::Worn => "done: it has served its time".to_owned(),
        Detached::Dismissed(reason) => reason,
    })
}

/// Whether the request may be attached, and its place under the name that it asks for.
fn admit(routed: &Routed, head: &RequestHead, rule: &AttachAs) -> Result<(Place, String), Refusal> {
    let bad = |reason: String| {
        Refusal::new(ProxyError::HttpRequestError, reason).status(StatusCode::BAD_REQUEST)
    };
    if !asks_to_attach(head) {
        return Err(bad(
            "the route takes only requests to be attached".to_owned()
        ));
    }

    let name = ptth::name(head.path(), &head.fields).map_err(|error| bad(error.to_string()))?;
    permits(rule, &name, routed.user.as_deref()).map_err(|reason| {
        Refusal::new(ProxyError::HttpRequestDenied, reason).status(StatusCode::FORBIDDEN)
    })?;
    let place = routed
        .worker
        .shared
        .attachments
        .attached
        .reserve(&name, routed.user.as_deref())
        .map_err(|full| {
            let status = if full == Full::Name {
                StatusCode::TOO_MANY_REQUESTS
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            Refusal::new(ProxyError::ConnectionLimitReached, full.to_string()).status(status)
        })?;

    Ok((place, name))
}
