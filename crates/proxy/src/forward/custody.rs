//! Requests that are taken into custody on their way to the next proxy, instead of a connection there.

use hermes_proto::proxy_status::ProxyError;

use super::departure::depart;
use super::{Failed, Unanswered, handle};
use crate::arrival::Arrival;
use crate::next::Next;
use crate::refusal::Refusal;
use crate::routed::Routed;

/// Has the plug of custody answer, with the request as it would leave for the next proxy.
pub(super) async fn forward(
    routed: &Routed,
    mut arrival: Arrival,
    next: &Next,
) -> Result<String, Failed> {
    let departing = depart(routed, arrival.head_mut().take(), next);
    let refusal = match (departing, arrival, next.custody()) {
        (Ok((head, _)), Arrival::Offered(mut offered), Some(handled)) => {
            offered.head = head;
            let onward = Some(next.name().clone());
            return handle::give(routed, *offered, handled, onward).await;
        }
        (Err(refusal), unanswered, _) => (refusal, unanswered),
        (Ok(_), unanswered, _) => {
            let details = "a datagram is no message";
            let refusal = Refusal::new(ProxyError::ProxyInternalError, details);
            (refusal, unanswered)
        }
    };

    let (refusal, unanswered) = refusal;
    Err(Failed {
        unanswered: Unanswered::Arrival(unanswered),
        refusal,
    })
}
