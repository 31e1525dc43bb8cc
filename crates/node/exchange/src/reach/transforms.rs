//! The transforms of a route, as they are asked about a tunnel.

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_http::RequestHead;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_plug::{Payload, TunnelSubject};

/// Asks the transforms of a route about a tunnel of datagrams or of packets, which they do not change.
///
/// # Errors
/// One refuses it.
pub(crate) async fn admit_packets(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
) -> Result<(), Refusal> {
    let target = routed.target.canonical();
    let subject = subject(routed, head, &target);
    for (_, transform) in &next.through.own {
        transform.begin(&subject).await?;
    }
    Ok(())
}

/// What transforms see of a tunnel.
pub(crate) fn subject<'a>(
    routed: &'a Routed,
    head: &'a RequestHead,
    target: &'a Target,
) -> TunnelSubject<'a> {
    TunnelSubject {
        head,
        target,
        user: routed.user.as_deref(),
        source: &routed.source,
        listener: &routed.listener.name,
        payload: if head.kind().carries_packets() {
            Payload::Packets
        } else {
            Payload::Bytes
        },
    }
}
