//! QUIC datagrams beside a stream of capsules, and the queue of those that cannot go on now.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use hermes_http::h3::DatagramReceiver;
use hermes_observe::{DropReason, Exchange};
use tokio::time::Instant;

use super::{Bounds, ChargedBounds, Queue};

/// QUIC datagrams that one wake-up takes: two runs of the kernel's segmentation.
#[doc(alias = "bound")]
const MOST: usize = 128;

/// The QUIC datagrams of a stream, those that were taken and not moved yet, and the queue of those
/// that cannot go on now.
pub(crate) struct QuicDatagrams {
    receiver: Option<DatagramReceiver>,
    pub(crate) taken: Vec<Bytes>,
    /// Bounds of the queue; without them nothing is queued.
    bounds: Option<ChargedBounds>,
    /// The queue, if anything waits.
    kept: Option<Box<Queue>>,
}

impl QuicDatagrams {
    pub(crate) fn new(receiver: Option<DatagramReceiver>) -> Self {
        Self {
            receiver,
            taken: Vec::new(),
            bounds: None,
            kept: None,
        }
    }

    /// Lets so much wait.
    pub(crate) fn set_bounds(&mut self, bounds: ChargedBounds) {
        self.bounds = Some(bounds);
    }

    /// Whether something waits.
    pub(crate) fn waits(&self) -> bool {
        self.kept.is_some()
    }

    /// Queues the taken datagrams; returns how many had to be dropped for it.
    pub(crate) fn keep(&mut self) -> u64 {
        let bounds = &self.bounds;
        let kept = self.kept.get_or_insert_with(|| {
            let nothing = || Queue::new(Bounds::NOTHING);
            Box::new(bounds.as_ref().map_or_else(nothing, Queue::charged))
        });
        let now = Instant::now();

        self.taken
            .drain(..)
            .map(|datagram| kept.push(&datagram, now) as u64)
            .sum()
    }

    /// Takes queued datagrams before newer ones; returns how many had waited for too long.
    pub(crate) fn release(&mut self) -> u64 {
        let Some(mut kept) = self.kept.take() else {
            return 0;
        };
        let expired = kept.expire(Instant::now());
        self.taken
            .splice(..0, kept.iter().map(Bytes::copy_from_slice));
        expired as u64
    }

    /// Waits for `done`, and queues datagrams that arrive meanwhile.
    pub(crate) async fn during<W: Future>(
        &mut self,
        mut done: Pin<&mut W>,
        exchange: &Exchange,
    ) -> W::Output {
        loop {
            tokio::select! {
                biased;
                output = &mut done => return output,
                () = self.fill() => exchange.dropped(DropReason::QueueFull, self.keep() + self.lost()),
            }
        }
    }

    /// Whether there are any, ever.
    pub(crate) fn is_there(&self) -> bool {
        self.receiver.is_some()
    }

    /// Waits for datagrams; for ever once no more can come. Dropping the future loses nothing.
    pub(crate) async fn fill(&mut self) {
        if !self.taken.is_empty() {
            return;
        }
        while let Some(receiver) = &mut self.receiver {
            if receiver.recv(&mut self.taken, MOST).await {
                return;
            }
            // The stream says how it ended.
            self.receiver = None;
        }

        std::future::pending().await
    }

    /// How many were dropped since this was last asked, because they were not taken in time.
    pub(crate) fn lost(&mut self) -> u64 {
        self.receiver
            .as_mut()
            .map_or(0, |receiver| receiver.take_lost().datagrams)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hermes_net::memory::{Memory, Owner};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_waits_comes_first_and_neither_too_old_nor_too_much() {
        let mut beside = QuicDatagrams::new(None);
        beside.set_bounds(ChargedBounds {
            bounds: Bounds {
                bytes: 3,
                age: Duration::from_secs(5),
            },
            account: Memory::node().owner(Owner::Local),
        });
        let keep = |beside: &mut QuicDatagrams, text: &'static str| {
            beside.taken.push(Bytes::from_static(text.as_bytes()));
            beside.keep()
        };
        assert_eq!([keep(&mut beside, "a"), keep(&mut beside, "b")], [0, 0]);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(
            [keep(&mut beside, "c"), keep(&mut beside, "d")],
            [0, 1],
            "the oldest goes"
        );
        tokio::time::advance(Duration::from_secs(3)).await;
        beside.taken.push(Bytes::from_static(b"e"));
        assert!(beside.waits());
        assert_eq!(beside.release(), 1, "`b` is too old");
        assert_eq!(beside.taken, ["c", "d", "e"]);
        assert!(!beside.waits() && beside.release() == 0);
    }
}
