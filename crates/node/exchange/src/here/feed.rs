//! Answers whose content a feed makes as the client takes it. Like a tunnel it is carried once its request is done with: most feeds wait most of
//! their time.

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

use crate::carried::{Carry, TunnelEnd};

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
}

/// A feed whose answer has begun.
pub(crate) struct OpenFeed {
    owner: FeedOwner,
    feed: Box<dyn Feed>,
    outgoing: Outgoing,
    /// The name of the handler.
    name: String,
}

impl OpenFeed {
    /// The answer of this handler.
    pub(crate) fn new(
        owner: FeedOwner,
        feed: Box<dyn Feed>,
        outgoing: Outgoing,
        name: &str,
    ) -> Self {
        Self {
            owner,
            feed,
            outgoing,
            name: name.to_owned(),
        }
    }

    /// Sends the pieces of the feed until its end.
    ///
    /// # Errors
    /// The reason for which it ended before, in words.
    async fn send(&mut self, exchange: &Exchange) -> Result<(), String> {
        let Self {
            owner: FeedOwner { guard, drain },
            feed,
            outgoing,
            ..
        } = self;
        let ended = {
            let moving = pin!(moved(exchange, &mut **feed, outgoing, drain));
            tokio::select! {
                biased;
                // First: rules that end the feed count before a further piece.
                reason = guard.ended() => FeedEnd::Denied(Broken::policy(&reason)),
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

impl Carry for OpenFeed {
    fn guard(&self) -> &TunnelGuard {
        &self.owner.guard
    }

    fn keeps_head(&self) -> bool {
        true
    }

    fn carry(mut self: Box<Self>, routed: &Routed) -> TunnelEnd<'_> {
        Box::pin(async move {
            match self.send(&routed.exchange).await {
                Ok(()) => format!("responded: {}", self.name),
                Err(reason) => reason,
            }
        })
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
    outgoing.rest();

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
