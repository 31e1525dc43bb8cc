//! The permits of accepted connections.

use std::sync::Arc;

use hermes_admit::admission::Admission;
use hermes_admit::entrance::Entrance;
use hermes_net::PeerAddress;
use hermes_net::host_capture::CaptureInForce;
use hermes_net::shares::Share;
use hermes_observe::ConnectionGuard;

/// The permits of a connection, for as long as it is there.
pub(crate) struct Held {
    /// One of the listener's connections.
    _open: Arc<()>,
    /// Its descriptor.
    _share: Share,
    /// In the metrics.
    _counted: ConnectionGuard,
    /// The rules by which its packets come here, if it was captured.
    _capture: Option<Arc<CaptureInForce>>,
}

impl Held {
    /// Of a connection that came in at this entrance, one of those that `open` counts.
    pub(crate) fn new(
        entrance: &Entrance,
        open: &Arc<()>,
        capture: Option<Arc<CaptureInForce>>,
    ) -> Self {
        Self {
            _open: open.clone(),
            _share: entrance.worker.shared.telemetry.shares().connection(),
            _counted: entrance.rules.telemetry.accepted(),
            _capture: capture,
        }
    }
}

/// Takes a place under the bound of the stream's source; false when that has too many already.
pub(crate) fn admit(entrance: &mut Entrance, peer: PeerAddress) -> bool {
    let rules = &entrance.rules;
    let peer = &peer;
    let admission = Admission::of(rules, peer);
    let admitted = admission
        .as_ref()
        .is_none_or(|own| own.enter(&entrance.worker.shared.shares, rules, peer));
    entrance.admission = admission;

    admitted
}
