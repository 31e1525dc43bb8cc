//! The memory that a connection keeps for its streams. quinn does not report it: this is an upper
//! bound from the outside.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::congestion::Congestion;
use super::readers::Readers;
use super::room::{self, Room};
use super::transport::{DATAGRAMS_OUT, STREAM_WINDOW, receive_window, send_window};
use crate::memory::{Flow, Pressure};

/// Bytes that a connection keeps in each direction where memory is short.
#[doc(alias = "bound")]
const LEAST: u64 = 64 << 10;

/// Packets up to this many bytes are most often acknowledgements, which are not acknowledged, or hold next to nothing.
const SMALL: u64 = 200;

/// How many times its room a link may have, so that streams which stand still do not stop the
/// others.
#[doc(alias = "bound")]
const GROWTH: u64 = 4;

/// quinn gives a peer more room when so much of its window was read: an eighth.
const GIVEN: u64 = 8;

/// Bytes of extra room for a peer that is asked whether it is blocked; they are taken off the next
/// grant.
const ASKED: u64 = 1024;

/// Bytes of extra room for a peer after each ping; they are taken off the next grant.
const PINGED: u64 = 1;

/// Bytes of a connection's streams.
#[derive(Debug, Default)]
pub(super) struct Flows {
    /// Bytes that were handed to quinn.
    written: AtomicU64,
    /// The readers of the streams.
    pub(super) readers: Arc<Readers>,
    seen: Mutex<FlowSnapshot>,
}

/// How it was when it was looked at last.
#[derive(Debug, Default)]
struct FlowSnapshot {
    written: u64,
    read: u64,
    drains: u64,
    acknowledged: u64,
    /// Bytes that had arrived when the written ones were counted.
    arrived: u64,
    /// Bytes received and read, when nothing was left to be read.
    came: u64,
    taken: u64,
    kept: usize,
    /// The windows that were set.
    windows: Option<(u64, u64)>,
    /// How often the peer has reported that it is blocked, and the reaction to it.
    blocked: u64,
    room: Room,
}

impl Flows {
    pub(super) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the kept bytes, and gives the connection less room if memory is short. A `link` gets
    /// more while streams are stalled, and those that block the others are ended.
    pub(super) fn look(&self, quinn: &quinn::Connection, link: bool, pressure: Pressure) -> Flow {
        let written = self.written.load(Ordering::Relaxed);
        let read = self.readers.read();
        let fed = self.readers.fed() as u64;
        let mut seen = self.seen.lock();
        let windows = windows(fed, link, pressure);
        let before = seen.windows.replace(windows);

        // quinn takes a lock for each: only when there is something to set.
        if before != Some(windows) {
            set_receive_window(quinn, windows.0);
            quinn.set_send_window(windows.1);
        }

        // An idle connection is not asked for its statistics: there may be thousands.
        if seen.kept == 0 && fed == 0 && (written, read) == (seen.written, seen.read) {
            return Flow { kept: 0, moved: 0 };
        }
        let flight = BytesInFlight::of(quinn);
        let stats = quinn.stats();

        if link {
            let grown = before.is_some_and(|before| before.0 < windows.0);
            let given = grown || read - seen.read >= windows.0 / GIVEN;
            self.relieve(quinn, &mut seen, stats.frame_rx.data_blocked, given);
        }

        let moved = read - seen.read + flight.acknowledged.saturating_sub(seen.acknowledged);
        let unread = seen.unread(read, stats.udp_rx.bytes, fed, windows.0);
        let kept = seen.unacknowledged(written, &flight) + unread;
        let kept = usize::try_from(kept).unwrap_or(usize::MAX)
            + DATAGRAMS_OUT.saturating_sub(quinn.datagram_send_buffer_space());
        (seen.written, seen.read, seen.kept) = (written, read, kept);
        (seen.drains, seen.acknowledged) = (flight.drains, flight.acknowledged);

        Flow {
            kept,
            moved: usize::try_from(moved).unwrap_or(usize::MAX),
        }
    }

    /// Sends a frame that the peer must acknowledge and that changes next to nothing. quinn sends PING by its own timer only, which
    /// would keep idle connections open; MAX_DATA (RFC 9000, 19.9) is counted by no peer.
    pub(super) fn ping(&self, quinn: &quinn::Connection) {
        // The lock keeps a change of the window from coming in between.
        let seen = self.seen.lock();
        let window = seen
            .windows
            .map_or_else(receive_window, |(receive, _)| receive);
        set_receive_window(quinn, window + PINGED);
        set_receive_window(quinn, window);
    }

    /// Resets stalled streams once the peer, which was `given` room or not, has no credit left for
    /// others.
    fn relieve(
        &self,
        quinn: &quinn::Connection,
        seen: &mut FlowSnapshot,
        blocked: u64,
        given: bool,
    ) {
        let said = std::mem::replace(&mut seen.blocked, blocked) != blocked;
        let look = room::RoomObservations {
            blocked: said,
            given,
            still: self.readers.look(),
        };

        let relief = seen.room.handle_look(look);
        if relief.end > 0 {
            let ended = self.readers.end(relief.end);
            tracing::debug!(peer = %quinn.remote_address(), still = look.still, ended, "a link was full of unread content");
        }

        if relief.ask
            && let Some((window, _)) = seen.windows
        {
            set_receive_window(quinn, window + ASKED);
            set_receive_window(quinn, window);
        }
    }
}

fn set_receive_window(quinn: &quinn::Connection, window: u64) {
    quinn.set_receive_window(quinn::VarInt::from_u64(window).unwrap_or(quinn::VarInt::MAX));
}

impl FlowSnapshot {
    /// Bytes that may await acknowledgement: those written since everything had arrived.
    fn unacknowledged(&mut self, written: u64, flight: &BytesInFlight) -> u64 {
        if flight.bytes == 0 {
            self.arrived = written;
        // Everything had arrived between the two looks: what was written by the last one is no longer on its way.
        } else if flight.drains != self.drains {
            self.arrived = self.written;
        }
        (written - self.arrived).min(send_window())
    }

    /// Bytes that may wait to be read: those received since nothing did.
    fn unread(&mut self, read: u64, came: u64, fed: u64, window: u64) -> u64 {
        if fed == 0 {
            (self.came, self.taken) = (came, read);
        }
        let waits = (came - self.came).saturating_sub(read - self.taken);
        waits.min(fed * u64::from(STREAM_WINDOW)).min(window)
    }
}

/// Room to receive and to send.
fn windows(fed: u64, link: bool, pressure: Pressure) -> (u64, u64) {
    let receive = receive_window();
    let send = send_window();
    match pressure.fair {
        Some(fair) => (
            receive.min(LEAST.max(fair as u64)),
            send.min(LEAST.max(fair as u64 / 2)),
        ),
        None if link => (
            receive + (fed * u64::from(STREAM_WINDOW)).min((GROWTH - 1) * receive),
            send,
        ),
        None => (receive, send),
    }
}

/// Bytes sent and not acknowledged: a congestion controller hears of both.
#[derive(Debug, Default, Clone)]
struct BytesInFlight {
    bytes: u64,
    acknowledged: u64,
    /// How often nothing was left on its way.
    drains: u64,
}

impl BytesInFlight {
    fn of(quinn: &quinn::Connection) -> Self {
        let counted = quinn.congestion_state().into_any().downcast::<Counted>();
        counted.map(|counted| counted.flight).unwrap_or_default()
    }
}

/// Makes [`Counted`] controllers.
#[derive(Debug)]
pub(super) struct Counting(pub(super) Congestion);

impl ControllerFactory for Counting {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Counted {
            inner: self.0.controller(now, mtu),
            flight: BytesInFlight::default(),
        })
    }
}

/// A controller that counts the bytes it is told of.
struct Counted {
    inner: Box<dyn Controller>,
    flight: BytesInFlight,
}

impl Controller for Counted {
    fn on_sent(&mut self, now: Instant, bytes: u64, last: u64) {
        if bytes > SMALL {
            self.flight.bytes += bytes;
        }
        self.inner.on_sent(now, bytes, last);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &quinn_proto::RttEstimator,
    ) {
        self.flight.acknowledged += bytes;
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        // quinn's own figure: the sum of sends and acknowledgements would drift with each lost packet.
        self.flight.bytes = in_flight;
        self.flight.drains += u64::from(in_flight == 0);
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.inner.on_congestion_event(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.inner.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            flight: self.flight.clone(),
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_kept_until_all_was_confirmed() {
        let mut seen = FlowSnapshot::default();
        let flight = |bytes, drains| BytesInFlight {
            bytes,
            drains,
            ..BytesInFlight::default()
        };
        assert_eq!(seen.unacknowledged(1_000, &flight(500, 0)), 1_000);
        assert_eq!(
            seen.unacknowledged(1 << 40, &flight(12_000, 0)),
            send_window()
        );
        seen.written = 5_000;
        assert_eq!(
            seen.unacknowledged(6_000, &flight(500, 1)),
            1_000,
            "all had arrived in between"
        );
        assert_eq!(seen.unacknowledged(7_000, &flight(0, 1)), 0);
    }

    #[test]
    fn what_came_is_unread_while_a_stream_has_something_to_read() {
        let mut seen = FlowSnapshot::default();
        assert_eq!(seen.unread(900, 1_000, 0, 1 << 24), 0);
        assert_eq!(seen.unread(1_900, 3_000, 1, 1 << 24), 1_000);
        assert_eq!(
            seen.unread(1_900, 1 << 40, 1, 1 << 24),
            u64::from(STREAM_WINDOW)
        );
        assert_eq!(seen.unread(1_900, 1 << 40, 100, 1 << 24), 1 << 24);
    }

    #[test]
    fn a_link_has_more_room_while_streams_stand_still_and_all_have_less_where_memory_is_short() {
        let none = Pressure::default();
        let (receive, send) = (receive_window(), send_window());
        assert_eq!(
            (windows(0, true, none), windows(9, false, none)),
            ((receive, send), (receive, send))
        );
        assert_eq!(
            windows(4, true, none).0,
            receive + 4 * u64::from(STREAM_WINDOW)
        );
        assert_eq!(windows(1_000, true, none).0, GROWTH * receive);
        assert_eq!(windows(9, true, Pressure { fair: Some(0) }), (LEAST, LEAST));
    }
}
