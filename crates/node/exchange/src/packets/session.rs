//! Tunnels of a device that outlive the path to them: their client finds its addresses again on another.

use std::sync::Arc;
use std::time::Duration;

use hermes_admit::next::Next;
use hermes_admit::outliving::DeviceTunnel;
use hermes_admit::routed::Routed;
use hermes_config::model::PacketTermination;
use hermes_packet::tun::take;
use hermes_packet::{Asked, Claim, Destination, KEPT_FOR, SessionEntry, Token};
use hermes_packet::{Broken, Side};
use tokio::time::{sleep, timeout};

use crate::datagrams::resume::TAKEN_OVER;
use crate::packets::PacketTunnel;
use crate::reach::opening;

/// How long packets are still taken from a path whose tunnel has moved to another: longer than who moves it keeps it.
#[doc(alias = "bound")]
const LAST_PACKETS: Duration = Duration::from_secs(5);

/// Whose the tunnel is, and where it ends.
pub(crate) fn whose(routed: &Routed, next: &Next, end: PacketTermination<'_>) -> Destination {
    Destination {
        upstream: (&*end.name()).into(),
        ..opening::bound(routed, next, &routed.target)
    }
}

/// Takes over the tunnel of the session that is asked for, if it is there.
pub(crate) async fn take_over(
    routed: &Routed,
    whose: &Destination,
) -> Option<(Token, DeviceTunnel)> {
    let (Some(Asked::Again(token)) | Some(Asked::Only(token))) = routed.asked else {
        return None;
    };
    let sessions = &routed.worker.shared.outliving.packets;
    let taken = sessions.claim(&token, whose).await?;
    // The device may have been deleted, and made again.
    if taken.tunnel.is_over() {
        return None;
    }

    routed.exchange.resumed(taken.times);
    taken.tunnel.resumed();
    Some((token, taken))
}

/// Waits until someone takes the session over, if there is one.
pub(crate) async fn claimed(
    session: &mut Option<SessionEntry<DeviceTunnel>>,
) -> Claim<DeviceTunnel> {
    match session {
        Some(session) => session.claimed().await,
        None => std::future::pending().await,
    }
}

impl PacketTunnel {
    /// Gives the tunnel to its claimant, and takes packets that still come on the old path: a client that moves leaves that last.
    pub(crate) async fn hand_over(mut self, claim: Claim<DeviceTunnel>, routed: &Routed) -> String {
        self.give(claim);
        let source = &mut self.client.source;
        let last = take(&routed.exchange, self.tunnel, source, Side::Client);
        // The end, too, must not look like a broken path: a proxy on it would open it again, and take the session back.
        let _ = timeout(LAST_PACKETS, last).await;
        self.client.farewell().await;
        TAKEN_OVER.to_owned()
    }

    fn give(&self, claim: Claim<DeviceTunnel>) {
        let times = self.session.as_ref().map_or(0, |session| session.times) + 1;
        // A claimant that is gone meanwhile asks again, and finds none: it gets a new tunnel.
        let _ = claim.send(DeviceTunnel {
            tunnel: Arc::clone(&self.tunnel),
            times,
        });
    }

    /// Waits, without a path, until the tunnel is taken over; its addresses stay its own meanwhile.
    pub(crate) async fn wait(mut self, broken: Broken, routed: &Routed) -> String {
        let waiting = self.session.as_ref().and_then(SessionEntry::wait);
        let Some(_waiting) = waiting else {
            return broken.reason();
        };

        let state = self.guard.state().clone();
        let ended = tokio::select! {
            claim = claimed(&mut self.session) => {
                self.give(claim);
                return TAKEN_OVER.to_owned();
            }
            () = self.tunnel.replaced() => broken.note("its client has begun anew"),
            () = sleep(KEPT_FOR) => broken,
            // A client that comes for it is sent elsewhere.
            () = state.stops() => broken.note("the node stops"),
            reason = self.guard.ended() => Broken::policy(&reason),
            () = routed.exchange.evicted() => broken.note("others needed its room"),
        };
        ended.reason()
    }
}
