//! Super-packets on their way into a tunnel, as the capsules that they are sent in.

use hermes_ip::offload::{OffloadHeader, Offloaded, SuperCapsule};
use hermes_proto::capsule::MAX_HEADER;
use hermes_proto::ip::TCP;

use crate::device::DeviceCapsules;

/// Bytes of super-packets that wait for a tunnel: some of the kernel's, so that a slow tunnel delays its flows and no more.
#[doc(alias = "bound")]
const MOST_SUPER_BYTES: usize = 512 * 1024;

/// Bytes above which the reader of the device pauses: one read still fits beside them.
const SUPER_CROWDED: usize = MOST_SUPER_BYTES / 2;

/// The agreement with the peer about super-packets, and the queued ones.
#[derive(Debug, Default)]
pub(super) struct SuperQueue {
    /// The context in which this end takes them.
    takes: Option<u64>,
    /// The context in which the peer takes them.
    sends: Option<u64>,
    /// Whether packets that may be lost go beside the stream, as QUIC datagrams.
    has_datagrams: bool,
    waiting: DeviceCapsules,
    /// How many packets found no room.
    pub(super) lost: u64,
}

/// The fate of a packet that was to be sent as a super-packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SuperPushed {
    /// Sent as packets that every peer takes.
    Plain,
    /// Queued, or lost without room.
    Waits,
}

impl SuperQueue {
    /// Sets the contexts of both ends for a new stream to the peer.
    pub(super) fn agree(&mut self, takes: Option<u64>, sends: Option<u64>) {
        self.takes = takes;
        self.sends = sends;
    }

    /// The peer takes super-packets in this context from now on, or `None`: then the queued ones
    /// are returned.
    pub(super) fn set_sends(&mut self, sends: Option<u64>) -> DeviceCapsules {
        // A peer cannot begin unless this end has offered it.
        self.sends = sends.filter(|_| self.takes.is_some());
        match self.sends {
            Some(_) => DeviceCapsules::default(),
            None => std::mem::take(&mut self.waiting),
        }
    }

    /// Whether packets that may be lost go beside the stream from now on.
    pub(super) fn set_datagrams(&mut self, has_datagrams: bool) {
        self.has_datagrams = has_datagrams;
    }

    /// The context in which this end takes super-packets.
    pub(super) fn takes(&self) -> Option<u64> {
        self.takes
    }

    /// Whether super-packets are sent.
    pub(super) fn is_agreed(&self) -> bool {
        self.sends.is_some()
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.bytes.is_empty()
    }

    /// Whether so much is queued that the reader of the device should pause.
    pub(super) fn is_crowded(&self) -> bool {
        self.waiting.bytes.len() > SUPER_CROWDED
    }

    /// Queues a packet that is better sent this way, if that is agreed on: all of TCP, so that it
    /// stays in order, and packets that are to be cut.
    pub(super) fn push(&mut self, header: &OffloadHeader, checked: &Offloaded<'_>) -> SuperPushed {
        let Some(context) = self.sends else {
            return SuperPushed::Plain;
        };
        let packet = checked.packet();
        let is_cut = checked.segments() > 1 && !self.has_datagrams;
        if packet.protocol() != TCP && !is_cut {
            return SuperPushed::Plain;
        }

        let capsule = SuperCapsule::Packet {
            context,
            header: *header,
            packet: packet.bytes(),
        };
        let segments = checked.segments() as u64;
        let length = capsule.length() + MAX_HEADER;
        if self.waiting.bytes.len() + length > MOST_SUPER_BYTES {
            self.lost += segments;
            return SuperPushed::Waits;
        }
        capsule.encode(&mut self.waiting.bytes);
        self.waiting.packets += segments;
        self.waiting.size += packet.bytes().len() as u64;
        SuperPushed::Waits
    }

    /// Queues a capsule of the agreement.
    pub(super) fn say(&mut self, capsule: &SuperCapsule<'_>) {
        capsule.encode(&mut self.waiting.bytes);
    }

    /// Takes the queued capsules.
    pub(super) fn take(&mut self) -> DeviceCapsules {
        std::mem::take(&mut self.waiting)
    }
}
