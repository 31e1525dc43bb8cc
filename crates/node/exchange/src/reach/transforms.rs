//! The transforms of a route, as they are asked about a tunnel.

use hermes_admit::next::Next;
use hermes_admit::routed::Routed;
use hermes_http::RequestHead;
use hermes_plug::arrival::Arrival;
use hermes_plug::refusal::Refusal;
use hermes_plug::target::Target;
use hermes_plug::{Payload, TunnelSubject};
use hermes_proto::proxy_status::ProxyError;
use tokio::time::timeout;

/// When a client left whose tunnel was to begin with transforms.
pub(crate) const BEFORE: &str = "before its transforms had begun";

/// Asks the transforms of a route about a tunnel of datagrams or of packets that arrives. They do not change it.
///
/// # Errors
/// One refuses it or does not begin, or the client is gone.
pub(crate) async fn admit_arrival(
    routed: &Routed,
    arrival: &mut Arrival,
    next: &Next,
) -> Result<(), Refusal> {
    let head = arrival.head().clone();
    let admitting = admit_packets(routed, &head, next);
    arrival.unless_gone(admitting, BEFORE).await
}

/// The same for one that was open before.
///
/// # Errors
/// One refuses it, or does not begin.
pub(crate) async fn admit_packets(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
) -> Result<(), Refusal> {
    let target = routed.target.canonical();
    let subject = subject(routed, head, &target);
    let beginning = async {
        for (_, transform) in &next.through.own {
            transform.begin(&subject).await?;
        }
        Ok(())
    };
    in_time(next, beginning).await
}

/// Waits for transforms to begin, no longer than the route waits for connections.
///
/// # Errors
/// One refuses the tunnel, or does not begin.
pub(crate) async fn in_time<T>(
    next: &Next,
    beginning: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let begun = timeout(next.timeouts.connect, beginning).await;
    begun.unwrap_or_else(|_| {
        let details = "a transform has not begun in `timeouts.connect`";
        Err(Refusal::new(ProxyError::ConnectionTimeout, details))
    })
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
