//! When the handshakes of connections begin: sources take turns, at a pace that leaves the controller time for other work.
//!
//! After a restart all nodes come back at once, perhaps behind one address. So the connections of a source wait in a line, and none of a
//! member counts against its source once it has shown its certificate: an overlay behind one address is let in at the whole pace. Who shows
//! none is a stranger, and a source has few handshakes of strangers. A connection that cannot be let in
//! soon is told so, which costs no signature.

use std::net::IpAddr;
use std::time::Duration;

use hermes_net::turns::{Asker, Turn, TurnBounds, Turns};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};

use crate::rates::Rates;

/// Handshakes that begin in a second. A node that comes back takes 1 ms of a processor in all: 10,000 are back after 13 s, and a fifth of one
/// processor is left for changes and operators meanwhile.
#[doc(alias = "bound")]
const HANDSHAKES_PER_SECOND: u32 = 800;

/// Handshakes at once of one source: an address, or a /64 of IPv6. As many as begin in a third of a second, since nodes far away answer late.
#[doc(alias = "bound")]
const HANDSHAKES: usize = 256;

/// Handshakes of one source, beside those of members, before it has to wait for others.
#[doc(alias = "bound")]
const ARRIVALS: u32 = 1000;

/// The time after which a source that had all these may have another one: less than a third of all turns.
#[doc(alias = "bound")]
const NEXT_ARRIVAL: Duration = Duration::from_millis(4);

/// Connections of one source that wait for their turn: as many as have one before those who wait give up.
#[doc(alias = "bound")]
const WAITING_OF_SOURCE: usize = 4000;

/// Connections that wait for their turn, of all sources. Beyond, the source with the most loses one.
#[doc(alias = "bound")]
const WAITING: usize = 10_000;

/// How long a connection waits for its turn: less than an agent waits for a handshake.
#[doc(alias = "bound")]
const PATIENCE: Duration = Duration::from_secs(5);

/// The alert `user_canceled` (RFC 8446, section 6.1), as fatal, before the handshake: agents come again soon.
pub(super) const LATER: [u8; 7] = [21, 3, 3, 0, 2, 2, 90];

/// Bounds of the admission.
#[derive(Debug, Clone, Copy)]
pub(super) struct AdmissionBounds {
    pub(super) per_second: u32,
    pub(super) handshakes: usize,
    pub(super) arrivals: u32,
    pub(super) next_arrival: Duration,
    pub(super) waiting_of_source: usize,
    pub(super) waiting: usize,
    pub(super) patience: Duration,
}

impl Default for AdmissionBounds {
    fn default() -> Self {
        Self {
            per_second: HANDSHAKES_PER_SECOND,
            handshakes: HANDSHAKES,
            arrivals: ARRIVALS,
            next_arrival: NEXT_ARRIVAL,
            waiting_of_source: WAITING_OF_SOURCE,
            waiting: WAITING,
            patience: PATIENCE,
        }
    }
}

/// The turns of all sources.
#[derive(Debug)]
pub(super) struct Admission {
    /// Handshakes from the beginning until it is known whose they are.
    handshakes: Turns<IpAddr>,
    /// The next one to begin: sources take turns at the pace, however many handshakes each may begin.
    next: Turns,
    pace: Mutex<Interval>,
    patience: Duration,
    /// By source, how often it connects, but for members.
    arrivals: Rates<IpAddr>,
    began: Instant,
}

/// The handshake of a connection may begin.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    of: &'a Admission,
    source: IpAddr,
    _handshake: Turn<IpAddr>,
    /// Whether it counts as an arrival of its source in the end.
    counts: bool,
}

/// A connection cannot be let in soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

impl Admission {
    pub(super) fn new(bounds: AdmissionBounds) -> Self {
        let mut pace = interval(Duration::from_secs(1) / bounds.per_second);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        // Only those wait here who have a handshake.
        let next = TurnBounds {
            at_once: 1,
            of_group: 1,
            spare: false,
            waiting: usize::MAX,
            waiting_of_asker: usize::MAX,
        };
        Self {
            handshakes: Turns::new(TurnBounds {
                at_once: usize::MAX,
                // An asker has at most half of the turns of a group.
                of_group: 2 * bounds.handshakes,
                spare: false,
                waiting: bounds.waiting,
                waiting_of_asker: bounds.waiting_of_source,
            }),
            next: Turns::new(next),
            pace: Mutex::new(pace),
            patience: bounds.patience,
            arrivals: Rates::new(bounds.arrivals, bounds.next_arrival),
            began: Instant::now(),
        }
    }

    /// Waits until a handshake of this source may begin.
    ///
    /// # Errors
    /// Too many come, or the source has all the handshakes that it may have.
    pub(super) async fn admit(&self, source: IpAddr) -> Result<Admitted<'_>, Crowded> {
        timeout(self.patience, self.turn(source))
            .await
            .unwrap_or(Err(Crowded))
    }

    async fn turn(&self, source: IpAddr) -> Result<Admitted<'_>, Crowded> {
        let asker = Asker::of(source);
        let handshake = self.handshakes.take(asker, Some(source)).await;
        let handshake = handshake.map_err(|_| Crowded)?;
        let _next = self.next.take(asker, None).await.map_err(|_| Crowded)?;
        // Only now, so that a source with many members needs no more of these than handshakes that have begun.
        if !self.arrivals.take(source, self.began.elapsed()) {
            return Err(Crowded);
        }
        // One that gives up before its handshake costs its source nothing.
        let mut admitted = Admitted {
            of: self,
            source,
            _handshake: handshake,
            counts: false,
        };
        pace_of(&mut *self.pace.lock().await).await;
        admitted.counts = true;
        Ok(admitted)
    }
}

impl Admitted<'_> {
    /// It was a member's: members have a rate of their own.
    pub(super) fn was_a_member(mut self) {
        self.counts = false;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if !self.counts {
            self.of.arrivals.give_back(&self.source);
        }
    }
}

/// Waits for a tick. Those that no one took are lost but for those of the last tenth of a second.
async fn pace_of(pace: &mut Interval) {
    let tick = pace.tick().await;
    if Instant::now().saturating_duration_since(tick) > Duration::from_millis(100) {
        pace.reset();
    }
}

/// Tells who waits behind a connection to come again soon. As much as the network takes at once: no one is waited for.
pub(super) fn tell_later(stream: &TcpStream) {
    // A close with bytes unread is a reset, which could overtake the alert.
    let mut hello = [0; 4096];
    let _ = stream.try_read(&mut hello);
    let _ = stream.try_write(&LATER);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const NAT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn admission(bounds: AdmissionBounds) -> Arc<Admission> {
        Arc::new(Admission::new(bounds))
    }

    fn few() -> AdmissionBounds {
        AdmissionBounds {
            per_second: 100,
            handshakes: 8,
            arrivals: 10,
            next_arrival: Duration::from_secs(1),
            waiting_of_source: 500,
            waiting: 1000,
            patience: Duration::from_secs(20),
        }
    }

    /// So many connections of a source at once; the times in milliseconds at which they were let in, each after a handshake of 50 ms.
    async fn arrive(
        admission: &Arc<Admission>,
        source: IpAddr,
        count: usize,
        members: bool,
    ) -> Vec<u128> {
        let began = Instant::now();
        let tasks = (0..count).map(|_| {
            let admission = admission.clone();
            tokio::spawn(async move {
                let admitted = admission.admit(source).await.ok()?;
                let time = began.elapsed().as_millis();
                tokio::time::sleep(Duration::from_millis(50)).await;
                if members {
                    admitted.was_a_member();
                }
                Some(time)
            })
        });
        let tasks: Vec<_> = tasks.collect();
        let mut times = Vec::new();
        for task in tasks {
            times.extend(task.await.unwrap());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn members_behind_one_address_come_at_the_whole_pace_though_they_are_more_than_its_arrivals()
     {
        let times = arrive(&admission(few()), NAT, 400, true).await;
        assert_eq!(times.len(), 400);
        let last = times.iter().max().copied().unwrap();
        assert!((3900..4100).contains(&last), "{last}");
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_of_one_source_have_their_arrivals_and_then_the_pace_of_one_source() {
        let admission = admission(few());
        assert_eq!(arrive(&admission, NAT, 400, false).await.len(), 10);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(arrive(&admission, NAT, 400, false).await.len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_with_many_that_wait_keeps_no_other_one_waiting() {
        let admission = admission(few());
        let crowd = tokio::spawn({
            let admission = admission.clone();
            async move { arrive(&admission, NAT, 400, true).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        let alone = arrive(&admission, HOME, 1, true).await;
        assert!(alone[0] <= 30, "{alone:?}");
        assert_eq!(crowd.await.unwrap().len(), 400);
    }

    #[tokio::test(start_paused = true)]
    async fn who_would_wait_too_long_is_told_in_time() {
        let bounds = AdmissionBounds {
            patience: Duration::from_secs(1),
            ..few()
        };
        let admission = admission(bounds);
        let began = Instant::now();
        let times = arrive(&admission, NAT, 1000, true).await;
        assert!((95..=102).contains(&times.len()), "{}", times.len());
        assert!(began.elapsed() < Duration::from_millis(1100));
        // Nothing is left of those who gave up.
        assert_eq!(arrive(&admission, NAT, 50, true).await.len(), 50);
    }
}
