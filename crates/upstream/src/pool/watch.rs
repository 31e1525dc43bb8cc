//! Watches over a QUIC link: one that falls silent gets no new exchanges, and is given up once the peer was reached otherwise.
//!
//! Silence alone ends nothing. A peer that stands still for a moment, or a path that is gone as a whole, may come back, and with
//! it all that the link carries. Only when a connection that was begun later comes about, over TCP or over QUIC, is it certain
//! that waiting is of no use.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hermes_http::h3::Watched;
use tokio::time::{Instant, sleep};

use super::links::Use;
use super::{Pool, Slot};
use crate::failure::ConnectFailure;
use crate::keeping;
use crate::quic::SILENT;
use crate::silence::{SILENCE, Silence};

/// How often a link is looked at that carries something, and one that does not. The first look at what begins is at once.
const LOOK: Duration = Duration::from_millis(100);
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// How long a silent link is waited for once the peer was reached otherwise: one that stood still answers on both at once. Where
/// the path was gone as a whole, the time begins when the link has sent something on the path that came back.
const GRACE: Duration = Duration::from_millis(150);

/// A connection that took so long lost packets, of TCP too: the first is sent again after a second (RFC 6298, 2).
const LATE: Duration = Duration::from_millis(900);

/// Before the peer of a silent link is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Why a link was given up.
const BLOCKED: &str = "UDP became blocked: nothing was acknowledged any more, while TCP reached the peer";
const DEAD: &str = "the connection died: nothing was acknowledged on it any more, while a new one reached the peer";

/// Why HTTP/3 is used again on the link that was there.
const RECOVERED: &str = "it was silent for a moment only";

/// A link that is watched over.
pub(super) struct Ward {
    pub(super) link: Watched,
    pub(super) uses: Arc<Use>,
    pub(super) pool: Weak<Pool>,
    pub(super) slot: Weak<Slot>,
}

/// How the peer of a silent link was reached otherwise.
#[derive(Debug, Clone, Copy)]
struct Reached {
    quic: bool,
    /// Whether that took so long that the path may have been gone as a whole.
    late: bool,
}

type Reaching = Pin<Box<dyn Future<Output = Result<Reached, ConnectFailure>> + Send>>;

/// The last chance of a silent link.
#[derive(Debug)]
struct Chance {
    reached: Reached,
    /// What the link had sent when the peer was reached.
    sent: u64,
    /// From when on an answer is waited for; `None` until the link has sent something. While nothing is heard it does so ever more
    /// seldom: the next time, at the latest, after as much time as it has been silent for.
    since: Option<Instant>,
    until: Instant,
}

impl Chance {
    /// Of a link that has sent so much, and was not heard of since `heard_at`.
    fn new(reached: Reached, sent: u64, heard_at: Instant, now: Instant) -> Self {
        // UDP that is blocked while TCP passes is told from a path that was gone by the time that it took.
        let waits = reached.quic || reached.late;
        Self { reached, sent, since: (!waits).then_some(now), until: now + now.duration_since(heard_at) }
    }

    /// Whether it is over.
    fn is_over(&mut self, sent: u64, now: Instant) -> bool {
        if self.since.is_none() && sent > self.sent {
            self.since = Some(now);
        }
        self.since.is_some_and(|since| now >= since + GRACE) || now >= self.until + GRACE
    }
}

impl Ward {
    /// Watches until the link has ended.
    pub(super) async fn watch(self) {
        let (link, mut silence) = (self.link.clone(), Silence::new(self.link.pulse(), Instant::now()));
        let mut closed = pin!(link.closed());
        let (mut reaching, mut chance): (Option<Reaching>, Option<Chance>) = (None, None);
        loop {
            tokio::select! {
                () = self.next_look(&silence) => {}
                () = &mut closed => return,
                reached = finished(&mut reaching) => match reached {
                    Ok(reached) => {
                        let sent = self.link.pulse().sent;
                        self.link.probe();
                        chance = Some(Chance::new(reached, sent, silence.heard_at(), Instant::now()));
                    }
                    Err(failure) => {
                        tracing::debug!(reason = failure.reason, "the peer of a silent link is not reached");
                        reaching = self.reach(PAUSE);
                    }
                },
            }
            let (was_silent, pulse, now) = (self.link.is_silent(), self.link.pulse(), Instant::now());
            let is_silent = silence.handle(pulse, now);
            if self.uses.streams() > 0 && silence.wants_probe(now) {
                self.link.probe();
            }
            self.link.set_silent(is_silent);
            match (was_silent, is_silent) {
                (false, true) => reaching = self.reach(Duration::ZERO),
                (true, false) => {
                    (reaching, chance) = (None, None);
                    self.recovered();
                }
                _ => {}
            }
            if let Some(over) = chance.take_if(|chance| chance.is_over(pulse.sent, now)) {
                if !silence.has_heard() {
                    return self.give_up(over.reached.quic);
                }
                reaching = self.reach(PAUSE);
            }
        }
    }

    async fn next_look(&self, silence: &Silence) {
        if self.uses.streams() > 0 || silence.is_waiting() {
            return sleep(LOOK).await;
        }
        tokio::select! {
            () = sleep(IDLE_LOOK) => {}
            () = self.uses.began() => {}
        }
    }

    /// Begins to reach the peer otherwise.
    fn reach(&self, pause: Duration) -> Option<Reaching> {
        let (pool, slot) = (self.pool.upgrade()?, self.slot.upgrade()?);
        let (client, (upstream, index)) = (pool.client.upgrade()?, slot.endpoint()?);
        upstream.endpoints[index].quic.doubted(Instant::now());
        // Later than the silent link itself; links that fall silent together share what comes about.
        let since = Instant::now().checked_sub(SILENCE / 2)?;
        Some(Box::pin(async move {
            sleep(pause).await;
            let began = Instant::now();
            let quic = keeping::reach_anew(&client, &upstream, index, &slot, since).await?;
            Ok(Reached { quic, late: !pause.is_zero() || began.elapsed() >= LATE })
        }))
    }

    /// The link carries what it did, and new exchanges, rather than one of TCP that came about meanwhile.
    fn recovered(&self) {
        let Some((slot, (upstream, index))) =
            self.slot.upgrade().and_then(|slot| Some((slot.clone(), slot.endpoint()?)))
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

    fn give_up(&self, quic: bool) {
        self.link.give_up(if quic { DEAD } else { BLOCKED });
        let endpoint = self.slot.upgrade().and_then(|slot| slot.endpoint());
        if let Some((upstream, index)) = endpoint.filter(|_| !quic) {
            let endpoint = &upstream.endpoints[index];
            let first = endpoint.quic.fell_silent(Instant::now());
            endpoint.hop.explain(SILENT);
            if first {
                let (upstream, endpoint) = (upstream.name(), &*endpoint.text);
                tracing::warn!(upstream, endpoint, "UDP became silent; HTTP/3 is left out");
            }
        }
    }
}

async fn finished(reaching: &mut Option<Reaching>) -> Result<Reached, ConnectFailure> {
    match reaching {
        Some(running) => {
            let reached = running.await;
            *reaching = None;
            reached
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(quic: bool, late: bool) -> (Chance, Instant) {
        let heard_at = Instant::now();
        let now = heard_at + Duration::from_secs(4);
        (Chance::new(Reached { quic, late }, 10, heard_at, now), now)
    }

    #[test]
    fn where_udp_alone_is_blocked_a_link_is_given_up_soon() {
        let (mut chance, now) = chance(false, false);
        assert!(!chance.is_over(10, now) && chance.is_over(10, now + GRACE));
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
        assert!(chance.is_over(10, now + Duration::from_secs(4) + GRACE), "it has had time to");
    }
}
