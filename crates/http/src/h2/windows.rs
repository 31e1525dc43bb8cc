//! How much a peer may send on a link before we read: less on each stream while much that came on the link is not read.
//!
//! The `h2` crate lets all streams of a connection have one window, which can be changed while it runs. A link with few streams that
//! stand still gives each a large one. The more is unread, the smaller are those of all: a thousand streams whose readers have
//! stopped cost what a link may hold. Only when the peer has confirmed the smallest is there more room for all together, so that
//! those streams cannot keep the others from going on.

use std::sync::Arc;

use hermes_net::memory::{Account, Level, Memory};
use tokio::time::{Duration, Instant, sleep_until};

use super::STREAM_WINDOW;

/// The least window of a stream, in bytes: that of one frame.
const LEAST: u32 = 16 * 1024;

/// The windows by level.
const WINDOWS: [(Level, u32); 4] =
    [(Level::Ample, STREAM_WINDOW), (Level::Less, 256 * 1024), (Level::Little, 64 * 1024), (Level::Least, LEAST)];

/// How long the peer has to confirm a change before it is told again.
const AGAIN: Duration = Duration::from_millis(10);

/// How long windows stay small: streams that end one after the other make room for the next ones, not for those that still stand.
const STAY: Duration = Duration::from_secs(1);

/// Room for all streams of a link, in bytes, while their windows are not the smallest.
pub(super) fn of_link() -> u32 {
    u32::try_from(Memory::node().connection()).unwrap_or(u32::MAX).clamp(STREAM_WINDOW, i32::MAX as u32)
}

/// What the peer is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    level: Level,
    /// The window of each stream.
    pub(super) stream: u32,
}

/// The windows of a link.
pub(super) struct Windows {
    account: Arc<Account>,
    /// Streams that it can have.
    streams: u32,
    told: Level,
    /// Whether the peer has confirmed that, as far as it matters.
    is_confirmed: bool,
    since: Instant,
}

impl Windows {
    pub(super) fn new(account: &Arc<Account>, streams: u32) -> Self {
        Self { account: account.clone(), streams, told: Level::Ample, is_confirmed: true, since: Instant::now() }
    }

    /// Resolves when the peer should be told something. Dropping the future loses nothing.
    pub(super) async fn change(&self) -> Change {
        if !self.is_confirmed {
            sleep_until(self.since + AGAIN).await;
            return Change::to(self.told.max(self.account.level()));
        }
        loop {
            let level = self.account.level_other_than(self.told).await;
            if level < self.told {
                sleep_until(self.since + STAY).await;
            }
            if self.account.level() == level {
                return Change::to(level);
            }
        }
    }

    /// The peer was told, or could not be because it has not confirmed what it was told before. How much room there is for all
    /// streams together from now on, if that changes.
    pub(super) fn told<E>(&mut self, change: Change, told: Result<(), E>) -> Option<u32> {
        self.since = Instant::now();
        if told.is_err() {
            self.is_confirmed = false;
            return None;
        }
        let before = std::mem::replace(&mut self.told, change.level);
        match (before, change.level) {
            // Told twice: the first time is confirmed.
            (Level::Least, Level::Least) => {
                self.is_confirmed = true;
                Some(of_link().saturating_add(self.streams.saturating_mul(LEAST)).min(i32::MAX as u32))
            }
            (_, Level::Least) => {
                self.is_confirmed = false;
                None
            }
            (Level::Least, _) => {
                self.is_confirmed = true;
                Some(of_link())
            }
            _ => {
                self.is_confirmed = true;
                None
            }
        }
    }
}

impl Change {
    fn to(level: Level) -> Self {
        let stream = WINDOWS.iter().find(|(of, _)| *of == level).map_or(STREAM_WINDOW, |(_, size)| *size);
        Self { level, stream }
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::memory::{Arrivals, CONNECTION};
    use hermes_net::{PeerAddress, StreamInfo};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn windows_shrink_at_once_and_grow_later_and_all_have_more_room_once_each_has_the_least() {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(8 * CONNECTION, CONNECTION)));
        let info = StreamInfo { peer: PeerAddress::Unix { uid: None }, local: None, tls: None };
        let arrivals = Arrivals::of(&Account::within(memory, &Arc::new(info)));
        arrivals.open(1, 0);
        let mut windows = Windows::new(arrivals.account(), 1_000);

        arrivals.came(1, CONNECTION);
        let change = windows.change().await;
        assert_eq!((change, windows.told(change, Ok::<(), ()>(()))), (Change::to(Level::Least), None));
        let again = windows.change().await;
        assert_eq!((again, windows.told(again, Err(()))), (change, None), "it is not confirmed");
        let again = windows.change().await;
        assert_eq!((again.stream, windows.told(again, Ok::<(), ()>(()))), (LEAST, Some(of_link() + 1_000 * LEAST)));

        arrivals.close(1);
        let began = Instant::now();
        let change = windows.change().await;
        assert_eq!((began.elapsed(), change.stream), (STAY, STREAM_WINDOW));
        assert_eq!(windows.told(change, Ok::<(), ()>(())), Some(of_link()));
    }
}
