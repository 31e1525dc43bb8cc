//! A path between the two ends of a tunnel.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use hermes_admit::outliving::{SharedEnd, ToPath};
use hermes_http::{Duplex, Frame, Incoming, Outgoing};
use tokio::time::timeout;

use crate::pump;
use crate::pump::END_TIME;

/// How long a peer may take to hear that the tunnel is over.
#[doc(alias = "bound")]
pub(super) const LAST_WORD: Duration = Duration::from_secs(5);

/// How a path ended.
pub(super) enum PathEnd {
    /// It is lost; why.
    Lost(String),
    /// Nothing is left to be sent or received, and the peer knows; whether it has ended the path in turn.
    Complete(bool),
    /// The peer was told that the tunnel is over.
    Told,
    /// The peer breaks the protocol; how.
    Malformed(String),
}

/// A path that is carried. It may be polled on through anything else that happens to the tunnel; dropped, it is left.
pub(super) type Carrying<'a> = Pin<Box<dyn Future<Output = PathEnd> + Send + 'a>>;

/// Carries a path to its end.
pub(super) fn carry(mut path: Duplex, shared: &SharedEnd) -> Carrying<'_> {
    Box::pin(async move {
        let Duplex { incoming, outgoing } = &mut path;
        let end = tokio::select! {
            end = send(outgoing, shared) => end,
            end = receive(incoming, shared) => end,
        };

        match end {
            // The peer knew it first.
            PathEnd::Lost(_) if shared.is_complete() => {
                PathEnd::Complete(path.outgoing.finish(None).await.is_ok())
            }
            PathEnd::Complete(_) => PathEnd::Complete(part(&mut path).await),
            PathEnd::Told => {
                part(&mut path).await;
                PathEnd::Told
            }
            end => end,
        }
    })
}

async fn send(outgoing: &mut Outgoing, shared: &SharedEnd) -> PathEnd {
    loop {
        let next = match shared.to_path() {
            Some(next) => next,
            None => {
                // Nothing more is there for now: gathered bytes must not wait for it.
                if let Err(error) = outgoing.flush().await {
                    return PathEnd::Lost(error.to_string());
                }
                tokio::select! {
                    biased;
                    next = poll_fn(|cx| shared.poll_to_path(cx)) => next,
                    reset = outgoing.broken() => {
                        return PathEnd::Lost(format!("the stream was reset ({reset:?})"));
                    }
                }
            }
        };

        match next {
            ToPath::Capsule(capsule) => {
                if let Err(error) = outgoing.data(capsule, false).await {
                    return PathEnd::Lost(error.to_string());
                }
            }
            ToPath::Complete => return PathEnd::Complete(false),
            ToPath::Reset => return PathEnd::Told,
        }
    }
}

async fn receive(incoming: &mut Incoming, shared: &SharedEnd) -> PathEnd {
    loop {
        let frame = poll_fn(|cx| match shared.poll_wants_path(cx) {
            Poll::Ready(()) => incoming.poll_frame(cx),
            // Bytes that come meanwhile are packed, so that small frames do not use up the window of their link.
            Poll::Pending => incoming.poll_unasked(cx).map(|error| Some(Err(error))),
        });

        match frame.await {
            Some(Ok(Frame::Data(chunk))) => {
                if let Err(error) = shared.handle_path(chunk) {
                    return PathEnd::Malformed(error.to_string());
                }
            }
            Some(Err(error)) => return PathEnd::Lost(error.to_string()),
            Some(Ok(Frame::Trailers(_))) | None => {
                return PathEnd::Lost("the stream ended within the tunnel".to_owned());
            }
        }
    }
}

/// Ends a path on which all was said, and waits for the peer to do so; whether it did.
async fn part(path: &mut Duplex) -> bool {
    let parting = async {
        path.outgoing.finish(None).await.ok()?;
        loop {
            match path.incoming.frame().await {
                Some(Ok(Frame::Data(_))) => {}
                Some(Ok(Frame::Trailers(_))) | None => break,
                Some(Err(_)) => return None,
            }
        }

        pump::part(path).await;
        Some(())
    };
    matches!(timeout(END_TIME, parting).await, Ok(Some(())))
}
