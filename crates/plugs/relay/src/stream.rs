//! The stream of a subscription: the feed that answers its subscriber.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use hermes_plug::feed::{Feed, FeedEvent, FeedState};
use hermes_proto::relay::End;

use crate::share::{Ending, Sending, Sent};
use crate::space::Space;
use crate::subscription::Subscription;

/// One answer to a subscriber.
pub(crate) struct Stream {
    pub(crate) space: Arc<Space>,
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) sending: Sending,
    /// Whether the subscription is over, and not only this stream.
    pub(crate) is_over: bool,
}

impl Feed for Stream {
    fn poll_pieces(&mut self, cx: &mut Context<'_>, pieces: &mut Vec<Bytes>) -> Poll<FeedState> {
        let now = Instant::now();
        let mut share = self.subscription.share.lock();
        let others = share.take_others();
        let sent = share.pieces(&self.sending, cx, now, pieces);
        let order = share.take_order();
        drop(share);
        // It is on the worker of the share here, where the connections of its exchanges are.
        if let Some(order) = order {
            order();
        }
        for other in others {
            other.wake();
        }

        match sent {
            Sent::Open => {
                self.subscription.channel.has_taken();
                Poll::Ready(FeedState::Open)
            }
            Sent::Nothing => Poll::Pending,
            Sent::Ended => {
                self.is_over = true;
                Poll::Ready(FeedState::Complete)
            }
            Sent::Replaced => Poll::Ready(FeedState::Complete),
            Sent::Lost(gap) => {
                self.is_over = true;
                let count = gap.count;
                let reason = gap.reason.word();
                let reason = format!("{count} messages are lost: {reason}");
                Poll::Ready(FeedState::Broken(reason))
            }
        }
    }

    fn notify(&mut self, event: FeedEvent) {
        match event {
            // It hears where it goes on, or that it does not.
            FeedEvent::Draining if self.goes_elsewhere() => {}
            FeedEvent::Draining => {
                let mut share = self.subscription.share.lock();
                // The feed is polled next, and takes the last word.
                share.end(self.sending.member, Ending::of(End::Stopping));
            }
            FeedEvent::Denied(_) => self.is_over = true,
            FeedEvent::ClientGone(_) => self.is_over |= !self.sending.form.can_resume(),
        }
    }
}

impl Stream {
    /// Whether another relay takes the subscription over when this node stops.
    fn goes_elsewhere(&self) -> bool {
        let has_opener = self.subscription.opener.lock().is_some();
        has_opener && self.space.moves.successor().is_some()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut share = self.subscription.share.lock();
        let is_current = share.gone(self.sending.member, self.sending.stream);
        // If it was the one that was woken for its worker, the others must not wait for ever.
        let others = share.take_others();
        drop(share);
        for other in others {
            other.wake();
        }

        match (is_current, self.is_over) {
            (true, true) => self.space.remove(&self.subscription),
            (true, false) => self
                .subscription
                .detach(self.sending.stream, Instant::now()),
            (false, _) => {}
        }
    }
}
