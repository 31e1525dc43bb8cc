//! A tunnel of a device as an end of packets: what comes out of the tunnel goes to the kernel or a stack, and what these send goes into it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hermes_ip::offload::OffloadHeader;
use hermes_ip::{NextHop, PacketFilter, Rejection, Verdict};
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::capsule::CapsuleType;
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::ip::{IcmpLimiter, Packet};

use super::device_writer::{FromClient, Unsent, Writer};
use super::end::{TunEnd, TunTunnel};
use super::flow_stack::FlowStack;
use super::gate::ArrivedPacket;
use super::hub_device::Outlet;
use super::inbox::LAYOUT;
use crate::device::{CapsulePackets, Device, SentPackets, WaitingTurn};

impl TunTunnel {
    /// Writes a batch into the device, or gives it to the stack; says how many packets did not pass.
    fn write(&self, batch: &Batch) -> io::Result<Unsent> {
        let end = &*self.end;
        let filter = end.filter();
        let now = Instant::now();
        let mut writer = end.writer.lock();
        let translations = end.reader.lock().translations;
        let Writer {
            coalescer,
            limiter,
            translated,
            from_client,
            sealed,
            probe,
        } = &mut *writer;

        let mut failed = 0;
        let mut gone = None;
        let mut output = |header: OffloadHeader, packet: &[u8]| {
            let Outlet::Kernel(queues) = &end.outlet else {
                return;
            };
            match queues.write(&header.to_device(), packet) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => failed += 1,
                Err(error) => gone = Some(error),
            }
        };

        let mut unsent = Unsent::default();
        for packet in batch.iter() {
            if let Some(probe) = probe
                && probe.handle_packet(packet)
            {
                continue;
            }
            let verdict = self.judge(end.arrived(packet, 1), &filter, limiter, now);
            if matches!(verdict, Verdict::Pass)
                && self.hand_over(OffloadHeader::DONE, packet, from_client)
            {
                continue;
            }
            match verdict {
                Verdict::Pass => {
                    let packet = translations.arrived(packet, true, translated);
                    match &end.outlet {
                        Outlet::Kernel(_) => coalescer.push(packet, false, &mut output),
                        Outlet::Stack(stack) => stack.handle_packet(packet),
                        Outlet::Remote(remote) => remote.send(packet, sealed),
                    }
                }
                Verdict::Answer(answer) => end.inbox.push(&answer),
                Verdict::Reject { reason, error } => {
                    unsent.count(reason);
                    tracing::trace!(reason = reason.name(), "a packet of a tunnel does not pass");
                    if let Some(error) = error {
                        end.inbox.push(&error);
                    }
                }
            }
        }
        coalescer.flush(&mut output);
        end.outlet.flush(sealed);

        match gone {
            Some(error) => Err(error),
            None => {
                unsent.failed += failed;
                Ok(unsent)
            }
        }
    }

    /// What becomes of a packet that came out of the tunnel.
    pub(super) fn judge(
        &self,
        arrived: ArrivedPacket<'_>,
        filter: &PacketFilter,
        limiter: &mut IcmpLimiter,
        now: Instant,
    ) -> Verdict {
        let end = &*self.end;
        let packet = arrived.bytes;
        let verdict = match filter.check_from_peer(packet, limiter, now) {
            Verdict::Pass if self.is_of_name(packet) => Verdict::Reject {
                reason: Rejection::Source,
                error: None,
            },
            Verdict::Pass => self.check_next_hop(packet),
            verdict => verdict,
        };
        if !matches!(verdict, Verdict::Pass) {
            return verdict;
        }

        let is_taken = match &end.outlet {
            Outlet::Kernel(_) | Outlet::Remote(_) => true,
            Outlet::Stack(stack) => stack.takes(packet),
        };
        match (is_taken && end.passes(&self.hub, arrived, now), &end.outlet) {
            (false, _) => filter.prohibit(packet, limiter, now),
            // The kernel says itself what is too long for its next link.
            (true, Outlet::Remote(remote)) => {
                filter.check_onward(packet, remote.mtu(), limiter, now)
            }
            (true, _) => Verdict::Pass,
        }
    }

    /// Whether a packet says that it is from one of the device's own names, or from its name server: no tunnel has these.
    fn is_of_name(&self, packet: &[u8]) -> bool {
        let Some(names) = self.hub.names() else {
            return false;
        };
        Packet::parse(packet).is_ok_and(|parsed| names.covers(parsed.source()))
    }

    /// Has what the stack sends go into the tunnel, as far as that takes it.
    fn pull(&self, stack: &Arc<FlowStack>) {
        let mut room = Vec::new();
        while !self.end.inbox.is_crowded() {
            let packets = stack.transmits();
            if packets.is_empty() {
                return;
            }
            for mut packet in packets {
                let longest = packet.len();
                self.end.take(
                    &self.hub,
                    OffloadHeader::DONE,
                    &mut packet,
                    longest,
                    &mut room,
                );
            }
        }
    }

    /// Gives a packet to the tunnel of another client, where that has its destination and clients may send to each other.
    pub(super) fn hand_over(
        &self,
        header: OffloadHeader,
        packet: &[u8],
        room: &mut FromClient,
    ) -> bool {
        let Some(neighbour) = self.hub.neighbour(packet) else {
            return false;
        };
        let longest = match header.check(packet) {
            Ok(checked) => checked.longest(),
            Err(_) => packet.len(),
        };
        neighbour.take_of_client(&self.hub, header, packet, longest, room);
        true
    }

    /// Why nothing goes into the device, in words.
    fn gone(&self, error: &io::Error) -> io::Error {
        let reason = format!("the device {} is gone: {error}", self.hub.name());
        io::Error::new(error.kind(), reason)
    }

    /// No tunnel leads into another, unless clients may send to each other, and none back into itself.
    fn check_next_hop(&self, packet: &[u8]) -> Verdict {
        let destination = Packet::parse(packet).map(|parsed| parsed.destination());
        let may_pass = destination.is_ok_and(|destination| {
            // An answer takes the same tunnel.
            if let Some(group) = self.end.group() {
                group.note(destination, self.end.number);
            }
            let owner = self
                .end
                .group()
                .map_or(self.end.number, |group| group.number);
            self.hub.next_hop(owner, destination) != NextHop::Forbidden
        });
        match may_pass {
            true => Verdict::Pass,
            false => Verdict::Reject {
                reason: Rejection::ClientToClient,
                error: None,
            },
        }
    }
}

impl TunEnd {
    /// A packet that came out of the tunnel, and stands for `count` of them.
    pub(super) fn arrived<'a>(&self, packet: &'a [u8], count: usize) -> ArrivedPacket<'a> {
        ArrivedPacket {
            bytes: packet,
            count,
            sender: self.device_side.other(),
        }
    }
}

impl Device for TunTunnel {
    fn format(&self) -> DatagramFormat {
        DatagramFormat::IP
    }

    fn layout(&self) -> Layout {
        LAYOUT
    }

    fn poll_fill(&self, cx: &mut Context<'_>, batch: &mut Batch) -> Poll<io::Result<()>> {
        // What is for several tunnels is spread by the hub.
        let stack = self.end.outlet.stack();
        let Some(stack) = stack.filter(|_| !self.hub.is_split()) else {
            ready!(self.end.inbox.poll_take(cx, batch));
            return Poll::Ready(Ok(()));
        };

        // Who has packets meanwhile wakes this task, or finds that there are some already.
        stack.wake(cx.waker());
        self.pull(stack);
        ready!(self.end.inbox.poll_take(cx, batch));
        Poll::Ready(Ok(()))
    }

    fn turn(&self) -> Option<WaitingTurn<'_>> {
        self.end.outlet.stack()?.turn()
    }

    fn poll_send(
        &self,
        _: &mut Context<'_>,
        batch: &Batch,
        sent: &mut SentPackets,
    ) -> Poll<io::Result<()>> {
        let unsent = self.write(batch).map_err(|error| self.gone(&error))?;
        sent.failed += unsent.failed;
        sent.forbidden += unsent.forbidden;
        sent.taken = batch.len();
        Poll::Ready(Ok(()))
    }

    fn take_lost(&self) -> u64 {
        self.end.inbox.take_lost()
    }

    fn handle_capsule(&self, kind: CapsuleType, value: &[u8]) -> Result<CapsulePackets, String> {
        if kind == CapsuleType::SuperPacket {
            return Ok(self.handle_super(value));
        }
        self.receive_capsule(kind, value)?;
        Ok(CapsulePackets::default())
    }
}
