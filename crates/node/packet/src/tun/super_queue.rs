//! Super-packets on their way into a tunnel, as the capsules that they are sent in.

use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use hermes_ip::offload::{OffloadHeader, Offloaded, SuperCapsule};
use hermes_proto::capsule::MAX_HEADER;
use hermes_proto::ip::TCP;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bytes of super-packets that wait for a tunnel: some of the kernel's, so that a slow tunnel delays its flows and no more.
#[doc(alias = "bound")]
const MOST_SUPER_BYTES: usize = 512 * 1024;

/// Bytes above which the device is better not read: one more super-packet fits beside them.
const SUPER_CROWDED: usize = MOST_SUPER_BYTES / 2;

/// What is agreed with the peer about super-packets, and those that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct SuperQueue {
    state: Mutex<SuperState>,
    taken: Notify,
}

#[derive(Debug, Default)]
struct SuperState {
    /// The context in which this end takes them.
    takes: Option<u64>,
    /// The context in which the peer takes them.
    sends: Option<u64>,
    /// Whether packets that may be lost go beside the stream, as QUIC datagrams.
    has_datagrams: bool,
    waiting: WaitingCapsules,
    reader: Option<Waker>,
    lost: u64,
    is_closed: bool,
}

/// Capsules that wait, and what is in them.
#[derive(Debug, Default)]
pub(super) struct WaitingCapsules {
    bytes: BytesMut,
    /// How many packets they are to be cut into.
    pub(super) packets: u64,
    /// Bytes of the packets, as they are.
    pub(super) size: u64,
}

impl WaitingCapsules {
    /// Takes the capsules out.
    pub(super) fn take_bytes(&mut self) -> Bytes {
        self.bytes.split().freeze()
    }
}

/// What became of a packet that was to be sent as a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SuperPushed {
    /// It goes as packets that every peer takes.
    Plain,
    /// It waits, or was lost where there was no room. Whether the device should pause.
    Waits {
        /// There is little room for more.
        is_crowded: bool,
    },
}

impl SuperQueue {
    /// A new stream leads to the peer, which takes super-packets in a context of these, as does this end.
    pub(super) fn agree(&self, takes: Option<u64>, sends: Option<u64>) {
        let mut state = self.state.lock();
        state.takes = takes;
        state.sends = sends;
    }

    /// The peer takes super-packets in this context from now on, or none. What was to be sent where it takes none is returned.
    pub(super) fn set_sends(&self, sends: Option<u64>) -> WaitingCapsules {
        let mut state = self.state.lock();
        // A peer cannot begin what this end does not offer.
        state.sends = sends.filter(|_| state.takes.is_some());
        match state.sends {
            Some(_) => WaitingCapsules::default(),
            None => std::mem::take(&mut state.waiting),
        }
    }

    /// Whether packets that may be lost go beside the stream from now on.
    pub(super) fn set_datagrams(&self, has_datagrams: bool) {
        self.state.lock().has_datagrams = has_datagrams;
    }

    /// The context in which this end takes super-packets.
    pub(super) fn takes(&self) -> Option<u64> {
        self.state.lock().takes
    }

    /// Whether super-packets are sent.
    pub(super) fn is_agreed(&self) -> bool {
        self.state.lock().sends.is_some()
    }

    /// Puts in a packet that is better sent so, if that is agreed on: all of TCP, so that it stays in order, and what is to be cut.
    pub(super) fn push(&self, header: &OffloadHeader, checked: &Offloaded<'_>) -> SuperPushed {
        let mut state = self.state.lock();
        let Some(context) = state.sends else {
            return SuperPushed::Plain;
        };
        let packet = checked.packet();
        let is_cut = checked.segments() > 1 && !state.has_datagrams;
        let capsule = SuperCapsule::Packet {
            context,
            header: *header,
            packet: packet.bytes(),
        };
        if packet.protocol() != TCP && !is_cut {
            return SuperPushed::Plain;
        }

        let segments = checked.segments() as u64;
        let length = capsule.length() + MAX_HEADER;
        if state.waiting.bytes.len() + length > MOST_SUPER_BYTES {
            state.lost += segments;
            return SuperPushed::Waits { is_crowded: true };
        }
        capsule.encode(&mut state.waiting.bytes);
        state.waiting.packets += segments;
        state.waiting.size += packet.bytes().len() as u64;
        self.wake(state)
    }

    /// Puts in a capsule that is no packet.
    pub(super) fn say(&self, capsule: &SuperCapsule<'_>) {
        let mut state = self.state.lock();
        capsule.encode(&mut state.waiting.bytes);
        self.wake(state);
    }

    fn wake(&self, mut state: parking_lot::MutexGuard<'_, SuperState>) -> SuperPushed {
        let is_crowded = state.waiting.bytes.len() > SUPER_CROWDED;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        SuperPushed::Waits { is_crowded }
    }

    /// Polls for what waits.
    pub(super) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<WaitingCapsules> {
        let mut state = self.state.lock();
        if state.waiting.bytes.is_empty() {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }

        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.taken.notify_waiters();
        Poll::Ready(waiting)
    }

    /// Waits until there is room, or no one takes anything any more.
    pub(super) async fn room(&self) {
        loop {
            let taken = self.taken.notified();
            {
                let state = self.state.lock();
                if state.is_closed || state.waiting.bytes.len() <= SUPER_CROWDED {
                    return;
                }
            }
            taken.await;
        }
    }

    /// No one takes anything any more.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.taken.notify_waiters();
    }

    /// How many packets had to be dropped since this was last asked.
    pub(super) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.state.lock().lost)
    }
}
