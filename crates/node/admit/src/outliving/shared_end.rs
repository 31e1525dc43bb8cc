//! One end of a tunnel, as the loops that carry it share it. All of them are polled by one task.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hermes_proto::resumable::{Delivery, ResumableEnd, ResumableError};
use parking_lot::Mutex;

use super::windows::WindowShare;

/// The end, and the task that carries it.
pub struct SharedEnd(Mutex<EndState>);

struct EndState {
    end: ResumableEnd,
    share: WindowShare,
    waker: Option<Waker>,
    /// All that came has been written to the side that this end serves, its end included.
    delivered: bool,
}

/// The next load of a path.
pub enum ToPath {
    /// A capsule of the protocol.
    Capsule(Bytes),
    /// The tunnel is over, and the peer was told why.
    Reset,
    /// The tunnel is over, and all of it has arrived at both ends.
    Complete,
}

impl SharedEnd {
    /// Without a path, charged with this share of all windows.
    pub fn new(end: ResumableEnd, share: WindowShare) -> Self {
        Self(Mutex::new(EndState {
            end,
            share,
            waker: None,
            delivered: false,
        }))
    }

    /// Polls until bytes may be read from the side that this end serves; how many.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<usize> {
        self.poll(cx, |state| {
            if state.end.room() == 0 {
                state.share.grow();
                state.end.set_limit(state.share.bytes());
            }
            Some(state.end.room()).filter(|room| *room > 0)
        })
    }

    /// These came from there.
    pub fn keep(&self, bytes: &[u8]) {
        self.change(|state| state.end.keep(bytes));
    }

    /// That side has ended.
    pub fn end(&self) {
        self.change(|state| state.end.end());
    }

    /// That side broke, or the tunnel may not go on.
    pub fn reset(&self, code: u64, reason: &str) {
        self.change(|state| state.end.reset(code, reason));
    }

    /// The next delivery to that side, if there is one.
    pub fn delivery(&self) -> Option<Delivery> {
        let delivery = self.0.lock().end.poll_deliver()?;
        self.change(|_| {});
        Some(delivery)
    }

    /// Polls for it.
    pub fn poll_delivery(&self, cx: &mut Context<'_>) -> Poll<Delivery> {
        match self.delivery() {
            Some(delivery) => Poll::Ready(delivery),
            None => self.poll(cx, |state| state.end.poll_deliver()),
        }
    }

    /// The end was written there, too.
    pub fn delivered(&self) {
        self.change(|state| state.delivered = true);
    }

    /// Polls until it was.
    pub fn poll_delivered(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |state| state.delivered.then_some(()))
    }

    /// The next load of the path, if there is one.
    pub fn to_path(&self) -> Option<ToPath> {
        self.0.lock().next_for_path()
    }

    /// Polls for it.
    pub fn poll_to_path(&self, cx: &mut Context<'_>) -> Poll<ToPath> {
        self.poll(cx, EndState::next_for_path)
    }

    /// Polls until more may be taken from the path.
    pub fn poll_wants_path(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.poll(cx, |state| state.end.wants_path().then_some(()))
    }

    /// This came on the path.
    ///
    /// # Errors
    /// The peer breaks the protocol.
    pub fn handle_path(&self, chunk: Bytes) -> Result<(), ResumableError> {
        self.change(|state| {
            state.end.handle_path(chunk)?;
            state.share.shrink(state.end.held());
            state.end.set_limit(state.share.bytes());
            Ok(())
        })
    }

    /// Another path begins.
    pub fn resume(&self) {
        self.change(|state| state.end.resume());
    }

    /// Whether all of both directions has arrived.
    pub fn is_complete(&self) -> bool {
        self.0.lock().end.is_complete()
    }

    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut EndState) -> Option<T>,
    ) -> Poll<T> {
        let mut state = self.0.lock();
        if let Some(taken) = take(&mut state) {
            return Poll::Ready(taken);
        }
        if !state
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    fn change<T>(&self, change: impl FnOnce(&mut EndState) -> T) -> T {
        let mut state = self.0.lock();
        let changed = change(&mut state);
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
        changed
    }
}

impl EndState {
    fn next_for_path(&mut self) -> Option<ToPath> {
        if let Some(capsule) = self.end.poll_send() {
            return Some(ToPath::Capsule(capsule));
        }
        if self.end.has_said_reset() {
            return Some(ToPath::Reset);
        }
        self.end.is_complete().then_some(ToPath::Complete)
    }
}
