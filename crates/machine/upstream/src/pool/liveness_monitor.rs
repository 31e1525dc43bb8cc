//! Watches over a QUIC link: one that falls silent gets no new exchanges, and is given up once the peer was reached otherwise.
//!
//! Silence alone ends nothing. A peer that stands still for a moment, or a path that is gone as a whole, may come back, and with
//! it all that the link carries. Only when a connection that was begun later comes about, over TCP or over QUIC, is it certain
//! that waiting is of no use.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hermes_http::h3::Watched;
use hermes_net::quic::PathStats;
use tokio::time::{Instant, sleep};

use super::{Pool, Slot};
use crate::deaths::{NoticeReceiver, PeerNotice};
use crate::failure::{ConnectFailure, FailureKind};
use crate::link_use::Use;
use crate::liveness::{Liveness, SILENCE};
use crate::quic::SILENT;

/// How often a link with exchanges is looked at; the first look at a new one is at once.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_millis(100);

/// How often an idle link is looked at: a look takes a lock.
#[doc(alias = "bound")]
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// How long a silent link is waited for once the peer was reached otherwise: a peer that stood
/// still answers on both at once. Where the path as a whole was gone, the time begins when the link
/// has sent something on the path that came back.
#[doc(alias = "bound")]
const GRACE: Duration = Duration::from_millis(150);

/// A connection that took so long lost packets, of TCP too: the first is sent again after a second (RFC 6298, 2).
#[doc(alias = "bound")]
const LATE: Duration = Duration::from_millis(900);

/// How long responses on a silent link are waited for: as long as PING takes to find out over
/// HTTP/2.
#[doc(alias = "bound")]
const LOST: Duration = Duration::from_secs(8);

/// Time before the peer of a silent link is tried again.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_secs(1);

/// Why a link was given up.
const BLOCKED: &str =
    "UDP became blocked: nothing was acknowledged any more, while TCP reached the peer";
const DEAD: &str = "the connection died: nothing was acknowledged on it any more, while a new one reached the peer";

const GONE: &str = "the peer is gone: nothing listens on its port any more";

/// Why HTTP/3 is used again on the link that was there.
const RECOVERED: &str = "it was silent only for a moment";

/// A link that is watched over.
pub(super) struct LivenessMonitor {
    pub(super) link: Watched,
    pub(super) uses: Arc<Use>,
    pub(super) pool: Weak<Pool>,
    pub(super) slot: Weak<Slot>,
    /// The address that was dialled, if any.
    pub(super) address: Option<SocketAddr>,
}

/// How the peer of a silent link was reached otherwise.
#[derive(Debug, Clone, Copy)]
struct ReachedOtherwise {
    quic: bool,
    /// Whether that took so long that the path may have been gone as a whole.
    late: bool,
}

type Reaching = Pin<Box<dyn Future<Output = Result<ReachedOtherwise, ConnectFailure>> + Send>>;

/// The observations of a link.
struct LinkObservation<'a> {
    monitor: &'a LivenessMonitor,
    liveness: Liveness,
    reaching: Option<Reaching>,
    chance: Option<Chance>,
    /// The peer's machine has said that nothing listens there, and nothing was heard since.
    refused: bool,
}

/// The last chance of a silent link.
#[derive(Debug)]
struct Chance {
    /// Why it is given up if it does not take it.
    reason: &'static str,
    /// The bytes that the link had sent when the peer was reached.
    sent: u64,
    /// From when on an answer is waited for; `None` until the link has sent something. While nothing is heard it does so ever more
    /// rarely: the next time, at the latest, after as much time as it has been silent for.
    since: Option<Instant>,
    until: Instant,
}

impl Chance {
    /// For a link that has sent this much, and was silent since `heard_at`; `refused`: the peer's
    /// machine has reported a closed port since, so a process that listens now is another one.
    fn new(
        reached: ReachedOtherwise,
        refused: bool,
        sent: u64,
        heard_at: Instant,
        now: Instant,
    ) -> Self {
        // UDP that is blocked while TCP passes is told from a path that was gone by the time that it took.
        let waits = (reached.quic || reached.late) && !refused;
        let reason = if reached.quic { DEAD } else { BLOCKED };
        Self {
            reason,
            sent,
            since: (!waits).then_some(now),
            until: now + now.duration_since(heard_at),
        }
    }

    /// Of a link to a peer that another link has found gone: a round trip, and a moment.
    fn after_death(stats: PathStats, now: Instant) -> Self {
        Self {
            reason: GONE,
            sent: stats.sent,
            since: Some(now + stats.rtt),
            until: now + stats.rtt,
        }
    }

    /// Whether it is over.
    fn is_over(&mut self, sent: u64, now: Instant) -> bool {
        if self.since.is_none() && sent > self.sent {
            self.since = Some(now);
        }
        self.since.is_some_and(|since| now >= since + GRACE) || now >= self.until + GRACE
    }
}

impl<'a> LinkObservation<'a> {
    fn of(monitor: &'a LivenessMonitor) -> Self {
        let liveness = Liveness::new(monitor.link.path_stats(), Instant::now());
        Self {
            monitor,
            liveness,
            reaching: None,
            chance: None,
            refused: false,
        }
    }

    /// The peer's machine says that nothing listens there.
    fn refused(&mut self) {
        // Once: each packet to a peer that is gone brings a further notice.
        if !self.refused {
            self.monitor.link.probe();
        }
        self.liveness.refused(Instant::now());
        self.refused = true;
    }

    /// Another link found that the peer is gone: unless it answers this one in time, it is.
    fn gone(&mut self) {
        self.refused();
        self.chance = Some(Chance::after_death(
            self.monitor.link.path_stats(),
            Instant::now(),
        ));
    }

    /// A new connection has come about, or not. Returns whether the peer is gone.
    fn reached(&mut self, reached: Result<ReachedOtherwise, ConnectFailure>) -> bool {
        let monitor = self.monitor;
        match reached {
            Ok(reached) => {
                // Before the probe, which is to count as sent since.
                let sent = monitor.link.path_stats().sent;
                monitor.link.probe();
                let heard_at = self.liveness.heard_at();
                self.chance = Some(Chance::new(
                    reached,
                    self.refused,
                    sent,
                    heard_at,
                    Instant::now(),
                ));

                false
            }
            // Both the link and a new connection were refused: no one is there who knows it.
            Err(failure)
                if self.refused
                    && failure.kind == FailureKind::Refused
                    && !self.liveness.has_heard() =>
            {
                true
            }
            Err(failure) => {
                tracing::debug!(
                    reason = failure.reason,
                    "the peer of a silent link is not reached"
                );
                self.reaching = monitor.reach(PAUSE);
                false
            }
        }
    }

    /// Looks at the link; returns why it is to be given up, if it is.
    fn look(&mut self) -> Option<&'static str> {
        let link = &self.monitor.link;
        let now = Instant::now();
        let was_silent = link.is_silent();
        let path_stats = link.path_stats();
        let is_silent = self.liveness.handle(path_stats, now);
        self.refused &= is_silent;

        // Someone answers after all; a second time, and all is well.
        if self.refused && self.liveness.has_heard() {
            link.probe();
        }
        if self.monitor.uses.streams() > 0 && self.liveness.wants_probe(now) {
            link.probe();
        }

        link.set_silent(is_silent);
        link.set_lost(self.liveness.lasts(now) >= LOST);
        match (was_silent, is_silent) {
            (false, true) => self.reaching = self.monitor.reach(Duration::ZERO),
            (true, false) => {
                // An attempt under way is dropped: the link that came back is as good as a new one.
                (self.reaching, self.chance) = (None, None);
                self.monitor.recovered();
            }
            _ => {}
        }

        let over = self
            .chance
            .take_if(|chance| chance.is_over(path_stats.sent, now))?;
        if !self.liveness.has_heard() {
            return Some(over.reason);
        }

        self.reaching = self.monitor.reach(PAUSE);
        None
    }
}

impl LivenessMonitor {
    /// Watches until the link has ended.
    pub(super) async fn watch(self) {
        let link = self.link.clone();
        let mut closed = pin!(link.closed());
        let mut observation = LinkObservation::of(&self);
        let mut notices = self.notices();
        let mut refusals = link.refusals();

        loop {
            tokio::select! {
                () = self.next_look(&observation.liveness) => {}
                () = &mut closed => return,
                () = link.refused(refusals) => {
                    refusals = link.refusals();
                    observation.refused();
                    self.tell(PeerNotice::Refused);
                }
                notice = heard(&mut notices) => match notice {
                    PeerNotice::Refused => observation.refused(),
                    PeerNotice::Gone => observation.gone(),
                },
                reached = finished(&mut observation.reaching) => if observation.reached(reached) {
                    self.tell(PeerNotice::Gone);
                    return self.give_up(GONE);
                },
            }
            if let Some(reason) = observation.look() {
                return self.give_up(reason);
            }
        }
    }

    /// Receives other workers' messages about the peer.
    fn notices(&self) -> Option<NoticeReceiver> {
        let (upstream, index) = self.slot.upgrade()?.endpoint()?;
        Some(upstream.endpoints[index].deaths.subscribe(self.address?))
    }

    /// Tells the links of other workers, too.
    fn tell(&self, notice: PeerNotice) {
        let endpoint = self.slot.upgrade().and_then(|slot| slot.endpoint());
        if let (Some((upstream, index)), Some(address)) = (endpoint, self.address) {
            upstream.endpoints[index].deaths.tell(address, notice);
        }
    }

    async fn next_look(&self, liveness: &Liveness) {
        if self.uses.streams() > 0 || liveness.is_waiting() {
            return sleep(LOOK).await;
        }
        tokio::select! {
            () = sleep(IDLE_LOOK) => {}
            () = self.uses.began() => {}
        }
    }

    /// Begins to reach the peer otherwise.
    fn reach(&self, pause: Duration) -> Option<Reaching> {
        let pool = self.pool.upgrade()?;
        let slot = self.slot.upgrade()?;
        let dialer = pool.dialer.upgrade()?;
        let (upstream, index) = slot.endpoint()?;
        upstream.endpoints[index].quic.doubted(Instant::now());

        // Later than the silent link itself; links that fall silent together share the new
        // connection.
        let since = Instant::now().checked_sub(SILENCE / 2)?;
        Some(Box::pin(async move {
            sleep(pause).await;
            let began = Instant::now();
            let quic = pool
                .reach_upstream(&*dialer, &upstream, index, &slot, since)
                .await?;

            Ok(ReachedOtherwise {
                quic,
                late: !pause.is_zero() || began.elapsed() >= LATE,
            })
        }))
    }

    /// The link carries its exchanges again, and new ones, rather than a TCP link that was made
    /// meanwhile.
    fn recovered(&self) {
        let Some((slot, (upstream, index))) = self
            .slot
            .upgrade()
            .and_then(|slot| Some((slot.clone(), slot.endpoint()?)))
        else {
            return;
        };
        if upstream.prefers_h3() {
            let endpoint = &upstream.endpoints[index];
            endpoint.quic.worked_again();
            endpoint.hop.returned(RECOVERED);
            slot.links.prefer_quic();
        }
    }

    fn give_up(&self, reason: &'static str) {
        self.link.give_up(reason);
        let endpoint = self.slot.upgrade().and_then(|slot| slot.endpoint());
        if let Some((upstream, index)) = endpoint.filter(|_| reason == BLOCKED) {
            let endpoint = &upstream.endpoints[index];
            let first = endpoint.quic.fell_silent(Instant::now());
            endpoint.hop.explain(SILENT);

            if first {
                let upstream = upstream.name();
                let endpoint = &*endpoint.text;
                tracing::warn!(upstream, endpoint, "UDP became silent; HTTP/3 is left out");
            }
        }
    }
}

async fn finished(reaching: &mut Option<Reaching>) -> Result<ReachedOtherwise, ConnectFailure> {
    match reaching {
        Some(running) => {
            let reached = running.await;
            *reaching = None;
            reached
        }
        None => std::future::pending().await,
    }
}

async fn heard(notices: &mut Option<NoticeReceiver>) -> PeerNotice {
    match notices {
        Some(notices) => notices.next().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(quic: bool, late: bool) -> (Chance, Instant) {
        let heard_at = Instant::now();
        let now = heard_at + Duration::from_secs(4);
        (
            Chance::new(ReachedOtherwise { quic, late }, false, 10, heard_at, now),
            now,
        )
    }

    #[test]
    fn where_udp_alone_is_blocked_a_link_is_given_up_soon() {
        let (mut chance, now) = chance(false, false);
        assert!(!chance.is_over(10, now) && chance.is_over(10, now + GRACE));
    }

    #[test]
    fn where_no_one_listened_meanwhile_a_link_is_given_up_soon() {
        let (heard_at, reached) = (
            Instant::now(),
            ReachedOtherwise {
                quic: true,
                late: true,
            },
        );
        let mut chance = Chance::new(reached, true, 10, heard_at, heard_at);
        assert!(!chance.is_over(10, heard_at) && chance.is_over(10, heard_at + GRACE));
    }

    #[test]
    fn where_another_link_found_the_peer_gone_a_link_has_a_round_trip_to_say_otherwise() {
        let (now, rtt) = (Instant::now(), Duration::from_millis(300));
        let mut chance = Chance::after_death(
            PathStats {
                sent: 10,
                acknowledged: 10,
                rtt,
            },
            now,
        );
        assert!(!chance.is_over(11, now + rtt) && chance.is_over(11, now + rtt + GRACE));
    }

    #[test]
    fn where_the_path_was_gone_a_link_is_given_up_when_it_has_sent_something_in_vain() {
        for (quic, late) in [(true, false), (true, true), (false, true)] {
            let (mut chance, now) = chance(quic, late);
            let later = now + Duration::from_secs(3);
            assert!(!chance.is_over(10, later), "nothing was sent");
            assert!(!chance.is_over(11, later) && chance.is_over(11, later + GRACE));
        }
        let (mut chance, now) = chance(true, true);
        assert!(
            chance.is_over(10, now + Duration::from_secs(4) + GRACE),
            "it has had time to"
        );
    }
}
