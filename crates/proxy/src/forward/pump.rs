//! The loop that moves one direction of an exchange, and the pair of loops that is a tunnel.

use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use hermes_http::{Frame, Incoming, Outgoing, Reset, StreamError};
use hermes_net::UdpError;

use crate::seeing::Counters;

/// A side of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Where the exchange came from.
    Client,
    /// Where it goes.
    Target,
}

impl Side {
    /// The opposite side.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Target,
            Self::Target => Self::Client,
        }
    }
}

/// A direction that ended badly: which side broke, how, and what the other side is told.
#[derive(Debug)]
pub struct Broken {
    /// The side that broke.
    pub side: Side,
    /// The reset for the other side.
    pub reset: Reset,
    /// Whether it was silence and not an error.
    pub idle: bool,
    details: String,
}

impl Broken {
    /// Reading from `side` failed.
    pub fn read(side: Side, error: &StreamError) -> Self {
        Self { side, reset: error.reset(), idle: false, details: error.to_string() }
    }

    /// Writing to `side` failed.
    pub fn write(side: Side, error: &StreamError) -> Self {
        Self::read(side, error)
    }

    /// `side` reset a stream that was written to.
    pub fn reset(side: Side, reset: Reset) -> Self {
        Self { side, reset, idle: false, details: format!("the stream was reset ({reset:?})") }
    }

    /// `side` sent something that is no capsule or datagram (RFC 9297, 3.3).
    pub fn malformed(side: Side, details: String) -> Self {
        Self { side, reset: Reset::Protocol, idle: false, details }
    }

    /// The UDP socket towards `side` failed.
    pub fn socket(side: Side, error: &UdpError) -> Self {
        Self { side, reset: Reset::Connect, idle: false, details: error.to_string() }
    }

    /// `side` was silent for too long.
    pub fn idle(side: Side) -> Self {
        Self { side, reset: Reset::Cancel, idle: true, details: "nothing came for too long".to_owned() }
    }

    /// The reason, for an access record.
    pub fn reason(&self) -> String {
        let word = match (self.side, self.idle) {
            (_, true) => "idle",
            (Side::Client, _) => "client_reset",
            (Side::Target, _) => "target_reset",
        };
        format!("{word}: {}", self.details)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason())
    }
}

/// Moves what arrives from one side to the other until it ends. `idle` bounds the silence between two frames.
///
/// # Errors
/// A side broke, or was silent for too long.
pub async fn pump(
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    from: Side,
    moved: &AtomicU64,
    idle: Option<Duration>,
) -> Result<(), Broken> {
    let to = from.other();
    loop {
        let frame = match ready(incoming).await {
            Some(frame) => frame,
            None => {
                outgoing.flush().await.map_err(|error| Broken::write(to, &error))?;
                wait(incoming, outgoing, from, idle).await?
            }
        };
        match frame {
            None => return outgoing.finish(None).await.map_err(|error| Broken::write(to, &error)),
            Some(Err(error)) => return Err(Broken::read(from, &error)),
            Some(Ok(Frame::Trailers(trailers))) => {
                return outgoing.finish(Some(trailers)).await.map_err(|error| Broken::write(to, &error));
            }
            Some(Ok(Frame::Data(data))) => {
                moved.fetch_add(data.len() as u64, Ordering::Relaxed);
                let end = incoming.is_end();
                outgoing.data(data, end).await.map_err(|error| Broken::write(to, &error))?;
                if end {
                    return Ok(());
                }
            }
        }
    }
}

type Arrived = Option<Result<Frame, StreamError>>;

/// What is there without waiting.
async fn ready(incoming: &mut Incoming) -> Option<Arrived> {
    poll_fn(|cx| {
        Poll::Ready(match incoming.poll_frame(cx) {
            Poll::Ready(frame) => Some(frame),
            Poll::Pending => None,
        })
    })
    .await
}

/// Waits for the next frame; the other side may break meanwhile.
async fn wait(
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    from: Side,
    idle: Option<Duration>,
) -> Result<Arrived, Broken> {
    let silence = async {
        match idle {
            Some(idle) => tokio::time::sleep(idle).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        frame = incoming.frame() => Ok(frame),
        reset = outgoing.broken() => Err(Broken::reset(from.other(), reset)),
        () = silence => Err(Broken::idle(from)),
    }
}

/// Carries a tunnel of bytes (or of capsules, which are passed on as they are): two independent directions, each of which may
/// end before the other. When one breaks, both are reset.
///
/// # Errors
/// A side broke.
pub async fn tunnel(
    client: (Incoming, Outgoing),
    target: (Incoming, Outgoing),
    counters: &Counters,
) -> Result<(), Broken> {
    let ((mut client_in, mut client_out), (mut target_in, mut target_out)) = (client, target);
    let carried = tokio::try_join!(
        pump(&mut client_in, &mut target_out, Side::Client, &counters.client_to_target, None),
        pump(&mut target_in, &mut client_out, Side::Target, &counters.target_to_client, None),
    );
    carried.map(|_| ()).inspect_err(|broken| {
        client_out.reset(broken.reset);
        target_out.reset(broken.reset);
    })
}
