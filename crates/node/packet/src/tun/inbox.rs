//! Packets on their way into a tunnel until its task takes them, and the policy before that.
//!
//! Everything is behind one lock, which is taken once for each batch read from a device, and once for each batch taken out.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hermes_ip::PacketFilter;
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::datagram::MAX_IP_PACKET;
use hermes_proto::ip::IcmpLimiter;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super_queue::SuperQueue;
use super::translations::Translations;
use crate::device::DeviceCapsules;

/// Bytes that wait for a tunnel: some super-packets of the kernel's, so that a slow tunnel delays its flows and no more.
#[doc(alias = "bound")]
const MOST_BYTES: usize = 512 * 1024;

/// Packets that wait for a tunnel.
#[doc(alias = "bound")]
const MOST_PACKETS: usize = 1024;

/// Bytes above which the device is not read: a whole batch still fits beside them.
const CROWDED: usize = MOST_BYTES / 2;

/// Waiting packets, and packets for a device.
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
    state: Mutex<InboxState>,
    taken: Notify,
}

/// Waiting packets, and the policy on their way there.
#[derive(Debug)]
pub(super) struct InboxState {
    /// The current filter of the session.
    pub(super) filter: Arc<PacketFilter>,
    /// How often errors are written to the device.
    pub(super) limiter: IcmpLimiter,
    /// The translation of addresses, in both directions.
    pub(super) translations: Translations,
    /// Super-packets that are forwarded whole.
    pub(super) super_packets: SuperQueue,
    batch: Batch,
    /// Whether the session may have capsules to send.
    has_capsules: bool,
    reader: Option<Waker>,
    lost: u64,
    is_closed: bool,
}

/// The policy on packets that come out of the tunnel.
#[derive(Debug, Clone)]
pub(super) struct InboxRules {
    pub(super) filter: Arc<PacketFilter>,
    pub(super) translations: Translations,
}

/// Capsules that were taken beside packets.
#[derive(Debug, Default)]
pub(super) struct TakenCapsules {
    /// Super-packets.
    pub(super) super_packets: DeviceCapsules,
    /// Whether the session may have some, too.
    pub(super) has_more: bool,
}

impl InboxState {
    /// Puts one packet in; without room it is dropped and counted.
    pub(super) fn push(&mut self, packet: &[u8]) {
        self.lost += u64::from(self.batch.push(packet).is_err());
    }

    /// The session has another filter, and may have capsules to send.
    pub(super) fn follow(&mut self, filter: &Arc<PacketFilter>) {
        self.filter.clone_from(filter);
        self.has_capsules = true;
    }

    /// Whether so much waits that the reader should pause.
    pub(super) fn is_crowded(&self) -> bool {
        let is_crowded = self.batch.bytes().len() > CROWDED || self.batch.len() > MOST_PACKETS / 2;
        is_crowded || self.super_packets.is_crowded()
    }

    fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.super_packets.is_empty() && !self.has_capsules
    }
}

impl Inbox {
    /// An empty inbox, for a session with this filter.
    pub(super) fn new(filter: Arc<PacketFilter>) -> Self {
        Self {
            state: Mutex::new(InboxState {
                filter,
                limiter: IcmpLimiter::default(),
                translations: Translations::default(),
                super_packets: SuperQueue::default(),
                batch: Batch::with(LAYOUT),
                has_capsules: false,
                reader: None,
                lost: 0,
                is_closed: false,
            }),
            taken: Notify::new(),
        }
    }

    /// Runs `act` on the waiting packets, and wakes the task that waits for them.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut InboxState) -> T) -> T {
        let mut state = self.state.lock();
        let result = act(&mut state);
        let reader = match state.is_empty() {
            true => None,
            false => state.reader.take(),
        };
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        result
    }

    /// Puts one packet in.
    pub(super) fn push(&self, packet: &[u8]) {
        self.with(|state| state.push(packet));
    }

    /// The policy on packets that come out of the tunnel.
    pub(super) fn rules(&self) -> InboxRules {
        let state = self.state.lock();
        InboxRules {
            filter: state.filter.clone(),
            translations: state.translations,
        }
    }

    /// Whether so much waits that the reader should pause.
    pub(super) fn is_crowded(&self) -> bool {
        self.state.lock().is_crowded()
    }

    /// Polls for waiting packets, which it gives for the empty `batch`, and capsules.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<TakenCapsules> {
        let mut state = self.state.lock();
        if state.is_empty() {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }

        // Swapped, not copied: the lock is held for a moment, and both buffers keep their memory.
        std::mem::swap(batch, &mut state.batch);
        state.batch.clear();
        let taken = TakenCapsules {
            super_packets: state.super_packets.take(),
            has_more: std::mem::take(&mut state.has_capsules),
        };
        drop(state);
        self.taken.notify_waiters();
        Poll::Ready(taken)
    }

    /// Waits until the packets were taken, or the tunnel is closed.
    pub(super) async fn room(&self) {
        loop {
            // Before the check: `notify_waiters` reaches futures that exist, even unpolled ones.
            let taken = self.taken.notified();
            let is_full = {
                let state = self.state.lock();
                state.is_crowded() && !state.is_closed
            };
            if !is_full {
                return;
            }
            taken.await;
        }
    }

    /// The packets are not taken any more.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.taken.notify_waiters();
    }

    /// How many packets had to be dropped since this was last asked.
    pub(super) fn take_lost(&self) -> u64 {
        let mut state = self.state.lock();
        std::mem::take(&mut state.lost) + std::mem::take(&mut state.super_packets.lost)
    }
}

#[cfg(test)]
mod tests {
    use hermes_ip::{Accepts, InnerMtu, IpRole, IpSession, PacketScope, SessionSettings};

    use super::*;

    fn inbox() -> Inbox {
        let session = IpSession::new(SessionSettings {
            role: IpRole::Client,
            scope: PacketScope::any(),
            routers: Default::default(),
            mtu: InnerMtu::STREAM,
            accepts_addresses: Accepts::All,
            accepts_routes: Accepts::All,
        });
        Inbox::new(session.filter().clone())
    }

    #[test]
    fn what_finds_no_room_is_lost_and_counted() {
        let inbox = inbox();
        let packet = vec![0x45; 60_000];
        let pauses: Vec<bool> = (0..9)
            .map(|_| {
                inbox.with(|state| {
                    state.push(&packet);
                    state.is_crowded()
                })
            })
            .collect();
        assert_eq!(pauses.iter().filter(|pause| **pause).count(), 5);
        assert_eq!(inbox.take_lost(), 1);
        assert_eq!(inbox.take_lost(), 0);
    }

    #[tokio::test]
    async fn a_task_that_waits_for_room_hears_when_it_is_taken_or_closed() {
        let inbox = inbox();
        for _ in 0..8 {
            inbox.push(&[0x45; 60_000]);
        }
        let mut batch = Batch::with(LAYOUT);
        let (_, taken) = tokio::join!(
            inbox.room(),
            std::future::poll_fn(|cx| inbox.poll_take(cx, &mut batch))
        );
        assert!(!taken.has_more && batch.len() == 8);

        for _ in 0..8 {
            inbox.push(&[0x45; 60_000]);
        }
        tokio::join!(inbox.room(), async { inbox.close() });
    }

    #[tokio::test]
    async fn a_task_that_waits_for_packets_hears_of_capsules_too() {
        let inbox = inbox();
        let mut batch = Batch::with(LAYOUT);
        let filter = inbox.rules().filter;
        let (taken, ()) = tokio::join!(
            std::future::poll_fn(|cx| inbox.poll_take(cx, &mut batch)),
            async { inbox.with(|state| state.follow(&filter)) }
        );
        assert!(taken.has_more && batch.is_empty());
    }
}
