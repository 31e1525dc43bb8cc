//! The packets that are read from a device at once.

use std::io;
use std::ops::Range;
use std::task::{Context, Poll, ready};

use hermes_ip::offload::OffloadHeader;
use hermes_net::tun::{HEADER_BYTES, TunPort};
use hermes_proto::datagram::MAX_IP_PACKET;

/// Bytes of the largest packet with its header.
const LARGEST: usize = HEADER_BYTES + MAX_IP_PACKET;

/// Super-packets of the largest size that are read at once: as many as find room beside those that
/// may wait for a tunnel already.
#[doc(alias = "bound")]
const LARGEST_AT_ONCE: usize = 3;

/// Packets that are read at once: as a rule more, short ones, are not ready.
#[doc(alias = "bound")]
const PACKETS_AT_ONCE: usize = 64;

/// Packets that were read, one behind the other.
pub(super) struct ReadBatch {
    room: Vec<u8>,
    packets: Vec<ReadPacket>,
}

/// Where a packet is.
struct ReadPacket {
    header: OffloadHeader,
    bytes: Range<usize>,
}

impl ReadBatch {
    pub(super) fn new() -> Self {
        Self {
            room: vec![0; LARGEST_AT_ONCE * LARGEST],
            packets: Vec::new(),
        }
    }

    /// Polls for packets, and reads those that are ready.
    ///
    /// # Errors
    /// The device is gone.
    pub(super) fn poll_read(
        &mut self,
        port: &TunPort,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        self.packets.clear();
        let mut begin = 0;
        let length = ready!(port.poll_read(cx, &mut self.room))?;
        begin += self.add(begin, length);

        while self.packets.len() < PACKETS_AT_ONCE && self.room.len() - begin >= LARGEST {
            match port.poll_read(cx, &mut self.room[begin..]) {
                Poll::Ready(Ok(length)) => begin += self.add(begin, length),
                // The error repeats when there are no more packets.
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes down a packet; one without a readable header is passed over.
    fn add(&mut self, begin: usize, length: usize) -> usize {
        let end = begin + length;
        let header = self.room[begin..end]
            .first_chunk::<HEADER_BYTES>()
            .and_then(OffloadHeader::from_device);
        if let Some(header) = header {
            self.packets.push(ReadPacket {
                header,
                bytes: begin + HEADER_BYTES..end,
            });
        }
        length
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// A packet that was read, and its header.
    pub(super) fn packet(&mut self, number: usize) -> (OffloadHeader, &mut [u8]) {
        let packet = &self.packets[number];
        (packet.header, &mut self.room[packet.bytes.clone()])
    }
}
