//! A stream as its owners have it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hermes_net::memory::Arrivals;
use hermes_proto::fields::Fields;
use hermes_proto::h2::{Connection, Failure, Reason};
use hermes_proto::head::ResponseHead;

use super::explain;
use super::inbox::Inbox;
use super::packed::Packed;
use super::piece::Piece;
use super::shared::Joint;
use crate::error::{Cause, StreamError};

/// A stream, for one of its owners. When the last one is gone, the stream is given up.
#[derive(Debug)]
pub(crate) struct StreamHandle {
    pub(crate) joint: Arc<Joint>,
    pub(crate) stream: u32,
}

impl Clone for StreamHandle {
    fn clone(&self) -> Self {
        if let Some(inbox) = self.joint.core().inboxes.get_mut(&self.stream) {
            inbox.handles += 1;
        }
        Self {
            joint: self.joint.clone(),
            stream: self.stream,
        }
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let mut core = self.joint.core();
        let Some(inbox) = core.inboxes.get_mut(&self.stream) else {
            return;
        };

        // Counted here, not by the `Arc`: the driver holds the connection, but only owners hold a stream.
        inbox.handles -= 1;
        if inbox.handles > 0 {
            return;
        }

        // The window of the connection counts unread bytes of all its streams: without this credit, streams that are dropped half read
        // would stall the others.
        let unread = inbox.data.len();
        core.inboxes.remove(&self.stream);
        core.machine.abandon(self.stream);
        core.machine.release(self.stream, unread as u32);

        // The driver ends with the last stream, also where that leaves nothing to write.
        if core.is_left {
            core.rouse();
        } else {
            core.kick();
        }

        drop(core);
        self.joint.arrivals.close(self.stream);
    }
}

impl StreamHandle {
    pub(crate) fn arrivals(&self) -> &Arc<Arrivals> {
        &self.joint.arrivals
    }

    /// An error, or that the connection was ended because it holds too much.
    fn explain(&self, error: StreamError) -> StreamError {
        explain(self.arrivals().account(), error)
    }

    /// Asks the machine something about the stream.
    pub(crate) fn tell<T>(&self, command: impl FnOnce(&mut Connection<Piece>, u32) -> T) -> T {
        self.joint.tell(|machine| command(machine, self.stream))
    }

    /// The result of `take` on the inbox; an error when nothing more can come.
    fn poll_inbox<T>(
        &self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut Inbox) -> Option<T>,
        waker: impl FnOnce(&mut Inbox) -> &mut Option<Waker>,
    ) -> Poll<Result<T, StreamError>> {
        let mut core = self.joint.core();
        let Some(inbox) = core.inboxes.get_mut(&self.stream) else {
            return Poll::Ready(Err(StreamError::new(Cause::Incomplete)));
        };

        // Input before failure: bytes that came before a reset still count.
        if let Some(found) = take(inbox) {
            return Poll::Ready(Ok(found));
        }
        if let Some(error) = core.failure(self.stream) {
            drop(core);
            return Poll::Ready(Err(self.explain(error)));
        }

        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            set(waker(inbox), cx.waker());
        }
        Poll::Pending
    }

    /// The next head of a response, and whether that is all.
    pub(crate) fn poll_head(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(ResponseHead, bool), StreamError>> {
        let take = |inbox: &mut Inbox| {
            let head = inbox.heads.pop()?;
            // Interim responses leave the exchange without a reader: only the final one hands its content out.
            inbox.has_reader |= !head.0.status.is_informational();
            Some(head)
        };
        self.poll_inbox(cx, take, |inbox| &mut inbox.opener)
    }

    /// Gives back `read` bytes, then takes the next content; or the end, with its trailers.
    pub(crate) fn poll_content(
        &self,
        cx: &mut Context<'_>,
        read: usize,
    ) -> Poll<Result<Arrived, StreamError>> {
        if read > 0 {
            self.tell(|machine, stream| machine.release(stream, read as u32));
            self.arrivals().went(self.stream, read);
        }

        let take = |inbox: &mut Inbox| match inbox.data.pop() {
            Some(data) => Some(Arrived::Data(data)),
            None => inbox.end.as_mut().map(|end| {
                inbox.is_read = true;
                Inbox::wake(&mut inbox.writer);
                Arrived::End(end.take())
            }),
        };

        self.poll_inbox(cx, take, |inbox| &mut inbox.reader)
    }

    /// Puts the last bytes back.
    pub(crate) fn unread(&self, data: Bytes) {
        if let Some(inbox) = self.joint.core().inboxes.get_mut(&self.stream) {
            inbox.data.unread(data);
        }
    }

    /// Whether it is certain that nothing more comes.
    pub(crate) fn is_at_end(&self) -> bool {
        let mut core = self.joint.core();
        let Some(inbox) = core.inboxes.get_mut(&self.stream) else {
            return true;
        };

        let is_at_end = inbox.data.is_empty() && matches!(inbox.end, Some(None));
        if is_at_end && !inbox.is_read {
            inbox.is_read = true;
            Inbox::wake(&mut inbox.writer);
        }

        is_at_end
    }

    /// The stream is not read any more.
    pub(crate) fn discard(&self, taken: usize) {
        let mut core = self.joint.core();
        let mut unread = taken;
        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            unread += inbox.data.len();
            inbox.data = Packed::default();
            inbox.is_read = true;
            Inbox::wake(&mut inbox.writer);
        }

        core.machine.discard(self.stream);
        core.machine.release(self.stream, unread as u32);
        core.kick();
        drop(core);
        self.arrivals().close(self.stream);
    }

    /// How many bytes may be sent.
    pub(crate) fn poll_capacity(&self, cx: &mut Context<'_>) -> Poll<Result<usize, StreamError>> {
        let mut core = self.joint.core();
        match core.machine.capacity(self.stream) {
            Some(0) if core.over.is_none() => {
                // Asked for under the lock that saw no room: a WINDOW_UPDATE cannot slip in between.
                core.machine.await_capacity(self.stream);
                if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
                    set(&mut inbox.writer, cx.waker());
                }
                Poll::Pending
            }
            Some(room) if room > 0 && core.over.is_none() => Poll::Ready(Ok(room)),
            _ => {
                drop(core);
                Poll::Ready(Err(self.gone()))
            }
        }
    }

    /// Why nothing can be sent any more.
    pub(crate) fn gone(&self) -> StreamError {
        let error = self.joint.core().failure(self.stream);
        self.explain(
            error.unwrap_or_else(|| {
                StreamError::new(Cause::Invalid("the stream has ended".to_owned()))
            }),
        )
    }

    /// Resets the stream.
    pub(crate) fn reset(&self, reason: Reason) {
        let mut core = self.joint.core();
        core.machine.reset(self.stream, reason);
        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            // Both halves of the stream end; the first failure stays their cause.
            inbox.failure.get_or_insert(Failure::Reset(reason));
            inbox.wake_all();
        }
        core.kick();
    }

    /// Ready once the peer breaks the stream off, or the connection is over.
    pub(crate) fn poll_broken(&self, cx: &mut Context<'_>) -> Poll<StreamError> {
        let mut core = self.joint.core();
        if let Some(inbox) = core.inboxes.get_mut(&self.stream)
            // RFC 9113, 8.1: a server may reset a stream without an error after its whole response, which still counts until it is read.
            && inbox.is_whole_and_unread()
        {
            set(&mut inbox.writer, cx.waker());
            return Poll::Pending;
        }

        if let Some(error) = core.failure(self.stream) {
            drop(core);
            return Poll::Ready(self.explain(error));
        }

        if let Some(inbox) = core.inboxes.get_mut(&self.stream) {
            set(&mut inbox.writer, cx.waker());
        }
        Poll::Pending
    }

    /// Waits until the peer takes the heads before this one, which may be never, or is gone.
    pub(crate) async fn has_room_for_head(&self) -> Result<(), StreamError> {
        tokio::select! {
            biased;
            () = self.joint.has_room_for_head() => Ok(()),
            error = std::future::poll_fn(|cx| self.poll_broken(cx)) => Err(error),
        }
    }
}

/// The next event on a stream.
#[derive(Debug)]
pub(crate) enum Arrived {
    Data(Bytes),
    End(Option<Box<Fields>>),
}

fn set(place: &mut Option<Waker>, waker: &Waker) {
    match place {
        // Tasks poll often and change rarely: cloning a waker each time is two atomic operations.
        Some(known) if known.will_wake(waker) => {}
        _ => *place = Some(waker.clone()),
    }
}
