//! How much a peer may send on a link before we read: less on each stream while much that came on the link is not read.
//!
//! All streams of a connection have one window, which can be changed while it runs (RFC 9113,
//! section 6.9.2). A link with few stalled streams gives each a large one. More unread bytes mean
//! smaller windows for all: a thousand streams with stopped readers cost no more than a link may
//! hold. Only when the peer has confirmed the smallest window does the connection's window grow, so
//! that stalled streams cannot block the others. That credit cannot be taken back: streams keep the
//! smallest window until the peer has used it up.

use std::cmp::Ordering;
use std::sync::Arc;

use hermes_net::memory::{Account, Level, Memory};
use tokio::time::{Duration, Instant, sleep_until};

use super::STREAM_WINDOW;
use super::shared::Joint;

/// Bytes of a stream's smallest window: one frame. Windows of a link shrink from `STREAM_WINDOW` to
/// this the more is unread.
#[doc(alias = "bound")]
const LEAST: u32 = 16 * 1024;

/// The windows by level, where that is not [`Level::Ample`].
const WINDOWS: [(Level, u32); 3] = [
    (Level::Less, 256 * 1024),
    (Level::Little, 64 * 1024),
    (Level::Least, LEAST),
];

/// Streams of a link with room for the smallest windows.
#[doc(alias = "bound")]
const MOST_STREAMS: u32 = 16_000;

/// How long the peer has to confirm a change before it is told again.
const AGAIN: Duration = Duration::from_millis(10);

/// How long windows stay small: streams that end one after the other make room for the next ones,
/// not for those that stand still.
#[doc(alias = "bound")]
const STAY: Duration = Duration::from_secs(1);

/// Room for all streams of a link, in bytes, while their windows are not the smallest.
pub(crate) fn of_link() -> u32 {
    u32::try_from(Memory::node().connection())
        .unwrap_or(u32::MAX)
        .clamp(STREAM_WINDOW, i32::MAX as u32)
}

/// Bytes of a stream's window at most, however fast and long the path is: one that stands still leaves the others half of a link's
/// room.
pub(crate) fn most() -> u32 {
    (of_link() / 2).max(STREAM_WINDOW)
}

/// The change to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The window of each stream, which the peer has to confirm; [`Windows::told`] hears whether it could be told.
    Streams(Level),
    /// The room for all streams together, in bytes.
    Room(u32),
}

/// How much room there is for all streams together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// [`of_link`].
    Usual,
    /// Give this many bytes more, because each stream has the smallest window.
    More(u32),
    /// [`of_link`] again, but earlier credit cannot be taken back: the peer may use it up until
    /// this many bytes have come.
    Excess { until: u64 },
}

/// When something is to be changed.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    Now(Change),
    At(Instant),
    /// When the account says so.
    Later,
}

/// The windows of a link.
pub(crate) struct Windows {
    account: Arc<Account>,
    /// Streams that it can have.
    streams: u32,
    /// The window of each stream while little is unread.
    ample: u32,
    told: Level,
    /// Whether the peer knows of a window that has grown.
    is_grown: bool,
    /// Whether the peer has confirmed that, as far as it matters.
    is_confirmed: bool,
    since: Instant,
    room: Room,
}

impl Windows {
    pub(crate) fn new(account: &Arc<Account>, streams: u32) -> Self {
        Self {
            account: account.clone(),
            streams,
            ample: STREAM_WINDOW,
            told: Level::Ample,
            is_grown: false,
            is_confirmed: true,
            since: Instant::now(),
            room: Room::Usual,
        }
    }

    /// Makes a change that [`Self::change`] has returned.
    pub(crate) fn apply(&mut self, joint: &Joint, change: Change) {
        match change {
            Change::Streams(level) => {
                let size = self.of_stream(level);
                let told = joint.tell(|machine| machine.set_stream_window(size));
                self.told(level, told);
            }
            Change::Room(room) => joint.tell(|machine| machine.set_connection_window(room)),
        }
    }

    /// More comes within a round trip than the window of a stream has been: it is this large from now on, while little is unread.
    pub(crate) fn grow(&mut self, window: u32) {
        self.ample = window;
        self.is_grown = true;
    }

    /// The window of each stream.
    fn of_stream(&self, level: Level) -> u32 {
        WINDOWS
            .iter()
            .find(|(of, _)| *of == level)
            .map_or(self.ample, |(_, size)| *size)
    }

    /// The peer allows this many streams.
    pub(crate) fn allow(&mut self, streams: usize) {
        let streams = u32::try_from(streams).unwrap_or(u32::MAX);
        self.streams = self.streams.max(streams.min(MOST_STREAMS));
    }

    /// Resolves when something is to be changed. Dropping the future loses nothing.
    pub(crate) async fn change(&mut self) -> Change {
        loop {
            match self.due(Instant::now()) {
                Due::Now(change) => return change,
                Due::At(moment) => sleep_until(moment).await,
                Due::Later => self.account.changed().await,
            }
        }
    }

    /// Notes whether the peer was told of a window for each stream, or could not be because it has
    /// not confirmed the previous one.
    fn told(&mut self, level: Level, told: bool) {
        self.since = Instant::now();
        if !told {
            self.is_confirmed = false;
            return;
        }

        // The least matters: telling it twice works only once the peer has confirmed the first time.
        self.is_confirmed = level != Level::Least || self.told == Level::Least;
        self.told = level;
        if level == Level::Ample {
            self.is_grown = false;
        }
    }

    fn due(&mut self, now: Instant) -> Due {
        let level = self.account.level();
        if !self.is_confirmed {
            return at(self.since + AGAIN, now)
                .unwrap_or(Due::Now(Change::Streams(self.told.max(level))));
        }

        match level.cmp(&self.told) {
            Ordering::Greater => Due::Now(Change::Streams(level)),
            Ordering::Equal if level == Level::Least => self.widen(),
            Ordering::Equal if level == Level::Ample && self.is_grown => {
                Due::Now(Change::Streams(level))
            }
            Ordering::Equal => Due::Later,
            Ordering::Less => {
                let stay = at(self.since + STAY, now);
                stay.or_else(|| self.narrow())
                    .unwrap_or(Due::Now(Change::Streams(level)))
            }
        }
    }

    /// More room for all streams, now that each has the least.
    fn widen(&mut self) -> Due {
        if matches!(self.room, Room::More(_)) {
            return Due::Later;
        }
        let room = of_link()
            .saturating_add(self.streams.saturating_mul(LEAST))
            .min(i32::MAX as u32);
        self.room = Room::More(room);

        Due::Now(Change::Room(room))
    }

    /// The usual room again, before any stream has more than the least: else those that stand still later could use up both.
    fn narrow(&mut self) -> Option<Due> {
        match self.room {
            Room::Usual => None,
            Room::More(room) => {
                let excess = room.saturating_sub(of_link());
                self.room = Room::Excess {
                    until: self.account.arrived() + u64::from(excess),
                };
                Some(Due::Now(Change::Room(of_link())))
            }
            Room::Excess { until } if self.account.arrives(until) => {
                self.room = Room::Usual;
                None
            }
            Room::Excess { .. } => Some(Due::Later),
        }
    }
}

/// Not before this moment.
fn at(moment: Instant, now: Instant) -> Option<Due> {
    (now < moment).then_some(Due::At(moment))
}

#[cfg(test)]
mod tests {
    use hermes_net::memory::{Arrivals, CONNECTION, Memory};
    use hermes_net::{PeerAddress, StreamInfo};

    use super::*;

    fn arrivals() -> Arc<Arrivals> {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(8 * CONNECTION, CONNECTION)));
        let info = StreamInfo {
            peer: PeerAddress::Unix { uid: None },
            local: None,
            tls: None,
            origin: None,
        };
        let arrivals = Arrivals::of(&Account::within(memory, &Arc::new(info)));
        arrivals.open(1, 0);
        arrivals
    }

    fn shrunk(windows: &mut Windows) {
        windows.told(Level::Least, true);
        windows.told(Level::Least, true);
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_that_grows_is_told_once_and_counts_while_little_is_unread() {
        let arrivals = arrivals();
        let mut windows = Windows::new(arrivals.account(), 1_000);
        assert_eq!(windows.due(Instant::now()), Due::Later);

        windows.grow(4 * STREAM_WINDOW);
        assert_eq!(windows.change().await, Change::Streams(Level::Ample));
        windows.told(Level::Ample, false);
        assert_eq!(windows.change().await, Change::Streams(Level::Ample));
        windows.told(Level::Ample, true);
        assert_eq!(windows.due(Instant::now()), Due::Later);
        assert_eq!(windows.of_stream(Level::Ample), 4 * STREAM_WINDOW);

        arrivals.came(1, CONNECTION);
        assert_eq!(windows.change().await, Change::Streams(Level::Least));
        assert_eq!(windows.of_stream(Level::Least), LEAST);
    }

    #[tokio::test(start_paused = true)]
    async fn windows_shrink_at_once_and_all_have_more_room_once_the_peer_has_confirmed_the_least() {
        let arrivals = arrivals();
        let mut windows = Windows::new(arrivals.account(), 1_000);

        arrivals.came(1, CONNECTION);
        let least = Change::Streams(Level::Least);
        assert_eq!(windows.change().await, least);
        windows.told(Level::Least, true);

        assert_eq!(windows.change().await, least);
        windows.told(Level::Least, false);
        assert_eq!(windows.change().await, least, "it is not confirmed");
        windows.told(Level::Least, true);

        assert_eq!(
            windows.change().await,
            Change::Room(of_link() + 1_000 * LEAST)
        );
        assert_eq!(windows.due(Instant::now()), Due::Later);
    }

    #[tokio::test(start_paused = true)]
    async fn windows_grow_only_once_the_peer_has_used_up_the_room_that_it_had_more() {
        let arrivals = arrivals();
        let mut windows = Windows::new(arrivals.account(), 1_000);
        arrivals.came(1, CONNECTION);
        shrunk(&mut windows);
        windows.change().await;

        arrivals.went(1, CONNECTION);
        let began = Instant::now();
        assert_eq!(windows.change().await, Change::Room(of_link()));
        assert_eq!(began.elapsed(), STAY);

        let excess = 1_000 * LEAST as usize;
        arrivals.came(1, excess - 1);
        arrivals.went(1, excess - 1);
        assert_eq!(windows.due(Instant::now()), Due::Later);
        let grown = tokio::join!(windows.change(), async {
            arrivals.came(1, 1);
            arrivals.went(1, 1);
        });
        assert_eq!(grown.0, Change::Streams(Level::Ample));
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_stand_still_again_meanwhile_leave_the_others_the_same_room() {
        let arrivals = arrivals();
        let mut windows = Windows::new(arrivals.account(), 1_000);
        arrivals.came(1, CONNECTION);
        shrunk(&mut windows);
        let room = windows.change().await;
        arrivals.went(1, CONNECTION);
        assert_eq!(windows.change().await, Change::Room(of_link()));

        arrivals.came(1, CONNECTION);
        assert_eq!(windows.change().await, room);
    }
}
