//! A network whose only way out is a device that this node reads: that of one program, or of a pod. Its packets become flows to their
//! original destinations, in a stack of its own.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use hermes_ip::offload::{Coalescer, OffloadHeader, OffloadKind, segment};
use hermes_net::tun::{TunPort, TunQueue, TunWriter};
use hermes_proto::ip::TCP;
use hermes_stack::{Checksums, StackLimits};
use tokio_util::sync::CancellationToken;

use super::named_hosts::{NameQuestion, NamedHosts};
use super::read_batch::ReadBatch;

/// Connections of one captured network at once, those that end included: more than a browser or a crawler opens, each charged to its user.
#[doc(alias = "bound")]
const CAPTURED_TCP: usize = 4096;

/// Connections of one captured network at once that wait for their target: a scan of many ports, whose targets stay silent, has that many.
#[doc(alias = "bound")]
const CAPTURED_HALF_OPEN: usize = 1024;

/// Pairs of UDP ports of one captured network at once, each charged to its user.
#[doc(alias = "bound")]
const CAPTURED_UDP: usize = 4096;

/// How many flows one captured network has.
pub const CAPTURED_LIMITS: StackLimits = StackLimits {
    tcp: CAPTURED_TCP,
    half_open: CAPTURED_HALF_OPEN,
    udp: CAPTURED_UDP,
};

/// A captured network. It has no task of its own: [`Self::read`] and [`Self::write`] carry its packets.
#[derive(Debug)]
pub struct CapturedNetwork {
    writer: TunWriter,
    hosts: Arc<NamedHosts>,
    closed: CancellationToken,
}

impl CapturedNetwork {
    /// The network behind a device, whose traffic goes to these hosts. Returns the port to read beside it.
    ///
    /// # Errors
    /// The runtime takes no more descriptors.
    pub fn new(queue: TunQueue, hosts: Arc<NamedHosts>) -> io::Result<(Arc<Self>, TunPort)> {
        let network = Self {
            writer: queue.writer(),
            hosts,
            closed: CancellationToken::new(),
        };
        Ok((Arc::new(network), queue.register()?))
    }

    /// The hosts that it reaches.
    pub fn hosts(&self) -> &Arc<NamedHosts> {
        &self.hosts
    }

    /// Reads its packets until the device is gone.
    pub async fn read(&self, port: &TunPort) -> io::Error {
        let mut read = ReadBatch::new();
        let mut room = Vec::new();
        loop {
            if let Err(error) = poll_fn(|cx| read.poll_read(port, cx)).await {
                return error;
            }
            // The networks of one user wait for each other, and those of other users do not wait for them.
            let turn = match self.hosts.stack().turn() {
                Some(turn) => turn.await,
                None => None,
            };
            for number in 0..read.len() {
                let (header, packet) = read.packet(number);
                self.take(header, packet, &mut room);
            }
            drop(turn);
        }
    }

    /// Takes a packet of the device.
    fn take(&self, header: OffloadHeader, packet: &[u8], room: &mut Vec<u8>) {
        // Malformed packets are passed over.
        let Ok(checked) = header.check_device(packet) else {
            return;
        };
        // A run of TCP stays whole, and no one computes sums that the kernel of this machine has not computed.
        if checked.packet().protocol() == TCP {
            let is_cut = header.kind != OffloadKind::Whole;
            let checksums = match is_cut || header.needs_checksum {
                true => Checksums::Trusted,
                false => Checksums::Verify,
            };
            return self.give(packet, checksums);
        }
        segment(&checked, room, |packet| {
            self.give(packet, Checksums::Verify);
        });
    }

    fn give(&self, packet: &[u8], checksums: Checksums) {
        if let Some(error) = self.hosts.take(packet, checksums) {
            self.write_one(OffloadHeader::DONE, &error);
        }
    }

    /// Writes the packets of its hosts. Never completes.
    pub async fn write(&self) -> Infallible {
        let mut coalescer = Coalescer::default();
        let mut output = |header: OffloadHeader, packet: &[u8]| self.write_one(header, packet);
        loop {
            for packet in self.hosts.stack().next_transmits().await {
                coalescer.push(&packet, true, &mut output);
            }
            coalescer.flush(&mut output);
        }
    }

    fn write_one(&self, header: OffloadHeader, packet: &[u8]) {
        // A device that takes no packet loses it, as any link; that it is gone is noticed by its reader.
        let _ = self.writer.write(&header.to_device(), packet);
    }

    /// Answers a question for a name.
    pub fn answer_name(&self, question: &NameQuestion, message: &[u8]) {
        self.write_one(OffloadHeader::DONE, &question.answer(message));
    }

    /// Resolves when it is closed.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Ends its flows, and takes no more.
    pub fn close(&self) {
        self.closed.cancel();
        self.hosts.stack().close();
    }
}
