//! Packets on their way into a tunnel, until its task takes them.

use std::task::{Context, Poll, Waker};

use hermes_proto::batch::{Batch, Layout};
use hermes_proto::datagram::MAX_IP_PACKET;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super_queue::SuperQueue;

/// Bytes that wait for a tunnel: some super-packets of the kernel's, so that a slow tunnel delays its flows and no more.
#[doc(alias = "bound")]
const MOST_BYTES: usize = 512 * 1024;

/// Packets that wait for a tunnel.
#[doc(alias = "bound")]
const MOST_PACKETS: usize = 1024;

/// Bytes above which the device is better not read: one more super-packet fits beside them.
const CROWDED: usize = MOST_BYTES / 2;

/// What waits, and what is sent into a device.
pub(super) const LAYOUT: Layout = Layout {
    max_bytes: MOST_BYTES,
    max_packets: MOST_PACKETS,
    longest: MAX_IP_PACKET,
    headroom: 0,
    super_packets: false,
};

/// Packets that wait.
#[derive(Debug)]
pub(super) struct Inbox {
    waiting: Mutex<InboxState>,
    taken: Notify,
    /// Those that go whole.
    pub(super) super_packets: SuperQueue,
}

#[derive(Debug)]
struct InboxState {
    batch: Batch,
    reader: Option<Waker>,
    lost: u64,
    is_closed: bool,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(InboxState {
                batch: Batch::with(LAYOUT),
                reader: None,
                lost: 0,
                is_closed: false,
            }),
            taken: Notify::new(),
            super_packets: SuperQueue::default(),
        }
    }

    /// Puts in what `push` gives, packet by packet; what finds no room is counted. Says whether there should be a pause.
    pub(super) fn fill(&self, fill: impl FnOnce(&mut dyn FnMut(&[u8]))) -> bool {
        let mut waiting = self.waiting.lock();
        let InboxState { batch, lost, .. } = &mut *waiting;
        fill(&mut |packet| *lost += u64::from(batch.push(packet).is_err()));

        let is_crowded = batch.bytes().len() > CROWDED || batch.len() > MOST_PACKETS / 2;
        let reader = waiting.reader.take();
        drop(waiting);
        if let Some(reader) = reader {
            reader.wake();
        }
        is_crowded
    }

    /// Puts one packet in.
    pub(super) fn push(&self, packet: &[u8]) {
        self.fill(|push| push(packet));
    }

    /// Whether what waits is so much that there had better be a pause.
    pub(super) fn is_crowded(&self) -> bool {
        let waiting = self.waiting.lock();
        waiting.batch.bytes().len() > CROWDED || waiting.batch.len() > MOST_PACKETS / 2
    }

    /// Polls for what waits, and gives it for the empty `batch`.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<()> {
        let mut waiting = self.waiting.lock();
        if waiting.batch.is_empty() {
            waiting.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }

        std::mem::swap(batch, &mut waiting.batch);
        waiting.batch.clear();
        drop(waiting);
        self.taken.notify_waiters();
        Poll::Ready(())
    }

    /// Waits until what was there is taken, or will never be.
    pub(super) async fn room(&self) {
        self.super_packets.room().await;
        loop {
            let taken = self.taken.notified();
            let is_crowded = {
                let waiting = self.waiting.lock();
                let is_full =
                    waiting.batch.bytes().len() > CROWDED || waiting.batch.len() > MOST_PACKETS / 2;
                is_full && !waiting.is_closed
            };
            if !is_crowded {
                return;
            }
            taken.await;
        }
    }

    /// No one takes anything any more.
    pub(super) fn close(&self) {
        self.super_packets.close();
        self.waiting.lock().is_closed = true;
        self.taken.notify_waiters();
    }

    /// How many packets had to be dropped since this was last asked.
    pub(super) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.waiting.lock().lost) + self.super_packets.take_lost()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_lost_and_counted() {
        let inbox = Inbox::new();
        let packet = vec![0x45; 60_000];
        let pauses: Vec<bool> = (0..9).map(|_| inbox.fill(|push| push(&packet))).collect();
        assert_eq!(pauses.iter().filter(|pause| **pause).count(), 5);
        assert_eq!(inbox.take_lost(), 1);
        assert_eq!(inbox.take_lost(), 0);
    }

    #[tokio::test]
    async fn a_task_that_waits_for_room_hears_when_it_is_taken_or_closed() {
        let inbox = Inbox::new();
        for _ in 0..8 {
            inbox.push(&[0x45; 60_000]);
        }
        let mut batch = Batch::with(LAYOUT);
        let (_, taken) = tokio::join!(
            inbox.room(),
            std::future::poll_fn(|cx| inbox.poll_take(cx, &mut batch).map(|()| true))
        );
        assert!(taken && batch.len() == 8);

        for _ in 0..8 {
            inbox.push(&[0x45; 60_000]);
        }
        tokio::join!(inbox.room(), async { inbox.close() });
    }
}
