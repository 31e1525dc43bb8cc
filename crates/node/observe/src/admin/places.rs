//! Places for connections of administrators, and who gives way to another.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Administrative connections at once: administrators are few. A further one takes the place of the
/// oldest whose request is not there to the end, or that does not read its answer, of the source with most of
/// these; if there is none, it waits.
#[doc(alias = "bound")]
const CONNECTIONS: usize = 64;

/// How long a connection has at least before it gives way: of a crowd that comes at once, each has something to say.
const GRACE: Duration = Duration::from_millis(200);

/// How long places are taken without a break until connections give way at once. A crowd has passed by then: this is a flood, and who
/// waits for its turn in that has long asked.
const FLOOD: Duration = Duration::from_secs(1);

/// How long an answer may lie before its connection gives way.
const READING: Duration = Duration::from_secs(2);

/// The source of a connection: a user of this machine, or an address; of IPv6 a network of 64 bits,
/// in which a host has any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    User(u32),
    Address(IpAddr),
    Unknown,
}

impl Source {
    pub(super) fn of_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = v6.to_bits() & !u128::from(u64::MAX);
                Self::Address(Ipv6Addr::from_bits(network).into())
            }
            v4 @ IpAddr::V4(_) => Self::Address(v4),
        }
    }
}

/// A connection that may have to give way.
pub(super) struct Waiting {
    source: Source,
    /// When it was accepted.
    since: Instant,
    /// Its request has come.
    has_asked: AtomicBool,
    /// When its answer was there.
    answered: OnceLock<Instant>,
    is_flood: AtomicBool,
    gives_way: Notify,
}

impl Waiting {
    fn new(source: Source) -> Self {
        Self {
            source,
            since: Instant::now(),
            has_asked: AtomicBool::new(false),
            answered: OnceLock::new(),
            is_flood: AtomicBool::new(false),
            gives_way: Notify::new(),
        }
    }

    /// Its head has come, and the content not yet: it may come slowly for ever.
    pub(super) fn sends(&self) {
        self.has_asked.store(false, Ordering::Relaxed);
    }

    pub(super) fn asked(&self) {
        self.has_asked.store(true, Ordering::Relaxed);
    }

    pub(super) fn answered(&self) {
        // Each connection has one request.
        let _ = self.answered.set(Instant::now());
    }

    /// Whether the connection has not sent its request to the end, or does not read its answer.
    fn is_idle(&self) -> bool {
        let lies = |at: &Instant| at.elapsed() >= READING;
        !self.has_asked.load(Ordering::Relaxed) || self.answered.get().is_some_and(lies)
    }

    /// Resolves when another connection is to have its place. A request that has come meanwhile is answered.
    pub(super) async fn dismissed(&self) {
        loop {
            self.gives_way.notified().await;
            // One that has had its time goes at once: each of a crowd waits for all before it.
            if !self.is_flood.load(Ordering::Relaxed) {
                sleep_until(self.since + GRACE).await;
            }
            if self.is_idle() {
                return;
            }
        }
    }
}

/// Places for connections, and who has one.
pub(super) struct Places {
    slots: Arc<Semaphore>,
    taken: VecDeque<Weak<Waiting>>,
    /// Since when there has been no place for a further connection.
    full_since: Option<Instant>,
}

impl Places {
    pub(super) fn new() -> Self {
        Self {
            slots: Arc::new(Semaphore::new(CONNECTIONS)),
            taken: VecDeque::new(),
            full_since: None,
        }
    }

    /// A place for a further connection.
    pub(super) async fn take(
        &mut self,
        source: Source,
    ) -> (Option<OwnedSemaphorePermit>, Arc<Waiting>) {
        match self.slots.available_permits() {
            0 => self.dismiss(),
            _ => self.full_since = None,
        }

        // The semaphore is never closed.
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok();
        let waiting = Arc::new(Waiting::new(source));
        self.taken.retain(|other| other.strong_count() > 0);
        self.taken.push_back(Arc::downgrade(&waiting));
        (slot, waiting)
    }

    /// Has the oldest connection give way that does nothing, of the source with most of these.
    fn dismiss(&mut self) {
        let since = *self.full_since.get_or_insert_with(Instant::now);
        let taken = self.taken.iter().filter_map(Weak::upgrade);
        let idle: Vec<Arc<Waiting>> = taken.filter(|one| one.is_idle()).collect();

        let of = |source: Source| idle.iter().filter(|one| one.source == source).count();
        let most = idle.iter().map(|one| of(one.source)).max();
        let oldest = idle.iter().find(|one| Some(of(one.source)) == most);
        if let Some(oldest) = oldest {
            let is_flood = since.elapsed() >= FLOOD;
            oldest.is_flood.store(is_flood, Ordering::Relaxed);
            oldest.gives_way.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRANGER: Source = Source::User(1000);
    const ROOT: Source = Source::User(0);

    /// Connections of a source that stay open.
    async fn crowd(places: &mut Places, source: Source, count: usize) -> Vec<Arc<Waiting>> {
        let mut crowd = Vec::new();
        for _ in 0..count {
            let (slot, waiting) = places.take(source).await;
            slot.unwrap().forget();
            crowd.push(waiting);
        }
        crowd
    }

    async fn goes(waiting: &Waiting) -> bool {
        let goes = tokio::time::timeout(GRACE * 2, waiting.dismissed());
        goes.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_source_with_most_idle_connections_gives_way() {
        let mut places = Places::new();
        let own = crowd(&mut places, ROOT, 1).await;
        let others = crowd(&mut places, STRANGER, CONNECTIONS - 1).await;
        places.dismiss();
        assert!(!goes(&own[0]).await);
        assert!(goes(&others[0]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_asked_stays_until_it_does_not_read_the_answer() {
        let mut places = Places::new();
        let crowd = crowd(&mut places, STRANGER, CONNECTIONS).await;
        crowd.iter().for_each(|one| one.asked());
        places.dismiss();
        assert!(!goes(&crowd[0]).await);

        // Its content does not come.
        crowd[3].sends();
        places.dismiss();
        assert!(goes(&crowd[3]).await);
        crowd[3].asked();

        crowd[7].answered();
        tokio::time::advance(READING).await;
        places.dismiss();
        assert!(goes(&crowd[7]).await);
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_flood_each_gives_way_at_once() {
        let mut places = Places::new();
        let crowd = crowd(&mut places, STRANGER, CONNECTIONS).await;
        places.dismiss();
        tokio::time::advance(FLOOD).await;

        let newest = Arc::new(Waiting::new(STRANGER));
        places.taken = VecDeque::from([Arc::downgrade(&newest)]);
        let began = Instant::now();
        places.dismiss();
        newest.dismissed().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
        drop(crowd);
    }

    #[test]
    fn sources_of_a_network_are_one() {
        let of = |text: &str| Source::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
