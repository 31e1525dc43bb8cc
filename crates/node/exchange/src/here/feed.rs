//! Answers whose content a feed makes as the client takes it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;
use hermes_admit::reevaluate::{Opened, TunnelGuard, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Outgoing, Reset, StreamError};
use hermes_net::Watch;
use hermes_observe::Exchange;
use hermes_packet::{Broken, Side};
use hermes_plug::feed::{Feed, FeedEvent, FeedState};

/// The exchange that a feed answers.
pub(crate) struct FeedOwner {
    guard: TunnelGuard,
    drain: Watch,
}

impl FeedOwner {
    /// Of a request that a handler answers. From now on rules that change reach it, like a tunnel that was opened so.
    pub(crate) fn enter(routed: &Routed, opened: Opened) -> Self {
        Self {
            guard: enter(routed, opened, false),
            drain: routed.worker.shared.drain.clone(),
        }
    }

    /// Sends the pieces of the feed until its end.
    ///
    /// # Errors
    /// The reason for which it ended before, in words.
    pub(crate) async fn carry(
        mut self,
        exchange: &Exchange,
        mut feed: Box<dyn Feed>,
        outgoing: &mut Outgoing,
    ) -> Result<(), String> {
        let ended = {
            let moving = pin!(moved(exchange, &mut *feed, outgoing, &self.drain));
            tokio::select! {
                biased;
                // First: rules that end the feed count before a further piece.
                reason = self.guard.ended() => FeedEnd::Denied(Broken::policy(&reason)),
                ended = moving => ended,
            }
        };

        let (event, broken) = match ended {
            FeedEnd::Complete => {
                let finished = outgoing.finish(None).await;
                return finished.map_err(|error| Broken::write(Side::Client, &error).reason());
            }
            FeedEnd::Broken(reason) => {
                outgoing.reset(Reset::Cancel);
                return Err(format!("proxy_internal_error: {reason}"));
            }
            FeedEnd::Denied(broken) => (FeedEvent::Denied(broken.reason()), broken),
            FeedEnd::Gone(broken) => (FeedEvent::ClientGone(broken.reason()), broken),
        };
        outgoing.reset(broken.reset);
        feed.notify(event);
        Err(broken.reason())
    }
}

/// How a feed ended.
enum FeedEnd {
    /// Its content is whole.
    Complete,
    /// It broke off; why.
    Broken(String),
    /// Its exchange may not go on.
    Denied(Broken),
    /// The client is gone.
    Gone(Broken),
}

/// Sends the pieces of the feed.
async fn moved(
    exchange: &Exchange,
    feed: &mut dyn Feed,
    outgoing: &mut Outgoing,
    drain: &Watch,
) -> FeedEnd {
    // The head is not held back for the first pieces: they may be long in coming.
    if let Err(error) = outgoing.flush().await {
        return FeedEnd::Gone(Broken::write(Side::Client, &error));
    }

    let mut drains = pin!(drain.graceful());
    let mut knows_of_drain = false;
    let counter = &exchange.counters().target_to_client;
    loop {
        let mut pieces = Vec::new();
        let state = {
            let mut gone = pin!(outgoing.gone());
            poll_fn(|cx| {
                if !knows_of_drain && drains.as_mut().poll(cx).is_ready() {
                    knows_of_drain = true;
                    feed.notify(FeedEvent::Draining);
                }
                if let Poll::Ready(state) = feed.poll_pieces(cx, &mut pieces) {
                    return Poll::Ready(Ok(state));
                }
                gone.as_mut().poll(cx).map(Err)
            })
            .await
        };
        let state = match state {
            Ok(state) => state,
            Err(reset) => return FeedEnd::Gone(Broken::reset(Side::Client, reset)),
        };

        let moved: usize = pieces.iter().map(Bytes::len).sum();
        counter.fetch_add(moved as u64, Ordering::Relaxed);
        if let Err(error) = sent(outgoing, pieces).await {
            return FeedEnd::Gone(Broken::write(Side::Client, &error));
        }
        match state {
            FeedState::Open => {}
            FeedState::Complete => return FeedEnd::Complete,
            FeedState::Broken(reason) => return FeedEnd::Broken(reason),
        }
    }
}

/// Sends pieces, and waits until they have left.
async fn sent(outgoing: &mut Outgoing, pieces: Vec<Bytes>) -> Result<(), StreamError> {
    outgoing.pieces(pieces).await?;
    outgoing.roomy().await.map(|_| ())
}
