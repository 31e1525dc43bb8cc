//! Streams that were finished and are perhaps not delivered: closing the connection drops bytes on
//! their way.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use hermes_net::quic::SendStream;
use parking_lot::Mutex;
use tokio::time::timeout;

/// Finished streams, those that were delivered among them until they are cleared away.
#[derive(Debug, Default)]
pub(crate) struct Finishing(Mutex<Streams>);

#[derive(Debug, Default)]
struct Streams {
    streams: Vec<SendStream>,
    /// Length at which delivered streams are looked for: twice the number left the last time.
    clear_at: usize,
}

/// How long a peer may be silent while it has yet to acknowledge the last bytes: then it is gone.
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(3);

/// Datagrams within [`SILENCE`] of a peer that lives and takes no more: a sign of life and an acknowledgement of ours, some four times a
/// second. One that takes the last bytes acknowledges more, at a hundred kilobits a second too.
#[doc(alias = "bound")]
const SIGNS_OF_LIFE: u64 = 24;

/// Streams below which nothing is cleared away.
const FEW: usize = 16;

impl Finishing {
    /// Keeps a finished stream until it is delivered. There are never more than twice those that the peer has yet to confirm.
    pub(crate) fn push(&self, stream: SendStream) {
        let mut kept = self.0.lock();
        if kept.streams.len() >= kept.clear_at.max(FEW) {
            kept.streams.retain(|stream| !is_delivered(stream));
            kept.clear_at = kept.streams.len() * 2;
        }
        kept.streams.push(stream);
    }

    /// Waits until everything is delivered, or the peer takes no more of it: `received` says how many datagrams came of it.
    pub(crate) async fn delivered_unless_silent(&self, received: impl Fn() -> u64) {
        let mut delivered = pin!(self.delivered());
        loop {
            let before = received();
            let is_over = timeout(SILENCE, &mut delivered).await.is_ok();
            if is_over || received() <= before + SIGNS_OF_LIFE {
                return;
            }
        }
    }

    /// Waits until everything is delivered, or cannot be any more.
    async fn delivered(&self) {
        loop {
            let next = self.0.lock().streams.pop();
            match next {
                Some(stream) => drop(stream.stopped().await),
                None => return,
            }
        }
    }
}

fn is_delivered(stream: &SendStream) -> bool {
    pin!(stream.stopped())
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}
