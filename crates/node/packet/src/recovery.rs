//! Recovery of lost datagrams at a side of a tunnel, as its two directions share it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_net::memory::Charge;
use hermes_observe::{FrameRecoveryView, RecoverySource, RecoveryView};
use hermes_recovery::{RecoveryEnd, RecoverySettings};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The end of recovery at one side: the direction towards it sends frames there, and the other one has the datagrams of those that come.
#[derive(Debug)]
pub struct Recovery {
    end: Mutex<RecoveryEnd>,
    /// Wakes the direction that sends frames: the other one has made some, as reports of what is missing.
    frames: Notify,
    /// Wakes the direction that takes frames.
    datagrams: Notify,
    _charge: Charge,
}

/// The ends of recovery that one direction passes: it takes the frames of one, and makes frames of the other.
#[derive(Clone, Default)]
pub(crate) struct DirectionRecovery {
    pub(crate) from: Option<Arc<Recovery>>,
    pub(crate) to: Option<Arc<Recovery>>,
}

impl Recovery {
    /// Recovers so; `within` is the time that both ends agreed on, and `charge` of the memory that this takes.
    #[must_use]
    pub fn new(settings: RecoverySettings, within: Duration, charge: Charge) -> Arc<Self> {
        let tag = random_tag();
        Arc::new(Self {
            end: Mutex::new(RecoveryEnd::new(settings, within, tag)),
            frames: Notify::new(),
            datagrams: Notify::new(),
            _charge: charge,
        })
    }

    /// Bytes of memory that it takes at most: both directions remember datagrams.
    #[must_use]
    pub fn memory(settings: &RecoverySettings) -> usize {
        2 * settings.bytes
    }

    /// Sends a datagram.
    pub(crate) fn send(&self, datagram: &[u8], now: Instant) {
        self.end.lock().send(datagram, now.into_std());
    }

    /// Takes a frame; false for one that is malformed.
    pub(crate) fn take(&self, frame: &[u8], now: Instant) -> bool {
        let frame = Bytes::copy_from_slice(frame);
        let mut end = self.end.lock();
        let is_sound = end.handle_frame(frame, now.into_std()).is_ok();
        self.wake(&end);
        is_sound
    }

    /// The next frame that is to be sent.
    pub(crate) fn frame(&self) -> Option<Bytes> {
        self.end.lock().poll_frame()
    }

    /// The next datagram that was recovered, or came.
    pub(crate) fn datagram(&self) -> Option<Bytes> {
        self.end.lock().poll_datagram()
    }

    /// Waits until there is something to be sent there, or to be done for it.
    async fn to_send(&self) {
        let due = self.end.lock().due();
        tokio::select! {
            () = self.frames.notified() => {}
            () = at(due) => self.act(),
        }
    }

    /// Waits until there is something that came from there, or to be done for it.
    async fn to_take(&self) {
        let due = self.end.lock().due();
        tokio::select! {
            () = self.datagrams.notified() => {}
            () = at(due) => self.act(),
        }
    }

    fn act(&self) {
        let mut end = self.end.lock();
        end.handle_time(std::time::Instant::now());
        self.wake(&end);
    }

    fn wake(&self, end: &RecoveryEnd) {
        if end.has_frames() {
            self.frames.notify_one();
        }
        if end.has_datagrams() {
            self.datagrams.notify_one();
        }
    }
}

impl RecoverySource for Recovery {
    fn view(&self) -> RecoveryView {
        let end = self.end.lock();
        let tally = end.tally();
        let round_trip = end.round_trip();
        RecoveryView::Frames(FrameRecoveryView {
            sent_again: tally.sent_again,
            sent_parity: tally.sent_parity,
            came_again: tally.came_again,
            computed: tally.computed,
            lost: tally.lost,
            loss_per_mille: (end.loss() * 1000.0).round() as u64,
            round_trip_us: round_trip.and_then(|time| u64::try_from(time.as_micros()).ok()),
        })
    }
}

impl DirectionRecovery {
    /// Whether it passes none.
    pub(crate) fn is_none(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Waits until one of them has something to do. Dropping the future loses nothing.
    pub(crate) async fn event(&self) {
        tokio::select! {
            () = waiting(self.to.as_ref().map(|to| to.to_send())) => {}
            () = waiting(self.from.as_ref().map(|from| from.to_take())) => {}
        }
    }
}

/// Resolves at that time, if there is one.
async fn at(due: Option<std::time::Instant>) {
    match due {
        Some(due) => sleep_until(Instant::from_std(due)).await,
        None => std::future::pending().await,
    }
}

/// The output of this future, if there is one.
async fn waiting<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// A tag for the frames of a path. Where there is no randomness, all have the same, and frames of an earlier path may be taken for later ones.
fn random_tag() -> u16 {
    let mut tag = [0; 2];
    // The error has no remedy here.
    let _ = getrandom::fill(&mut tag);
    u16::from_be_bytes(tag)
}
