//! A tunnel of a device as an end of packets: packets out of the tunnel go to the kernel or a
//! stack, and the packets of these go into it.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use hermes_http::RefusalReason;
use hermes_ip::offload::OffloadHeader;
use hermes_ip::{NextHop, PacketFilter, Rejection, Verdict};
use hermes_proto::batch::{Batch, Layout};
use hermes_proto::capsule::CapsuleType;
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::ip::{IcmpLimiter, Packet};

use super::device_writer::{FromClient, Unsent, Writer};
use super::end::{TunEnd, TunTunnel};
use super::entering::EnteringPacket;
use super::flow_stack::FlowStack;
use super::gate::ArrivedPacket;
use super::hub::Table;
use super::inbox::{InboxRules, LAYOUT};
use super::translations::Translations;
use super::tunnel_gate::TunnelGate;
use crate::device::{
    CapsulePackets, Device, DeviceCapsules, DeviceUpkeep, PathCarries, SentPackets, WaitingTurn,
};

impl TunTunnel {
    /// Writes a batch into the device or the stack; returns the numbers of packets that did not pass.
    fn write(&self, batch: &Batch) -> io::Result<Unsent> {
        let end = &*self.end;
        let mut writer = end.writer.lock();
        let InboxRules {
            filter,
            translations,
        } = end.inbox.rules();
        // First, for the whole batch: neither the table nor the gate stays locked while the device is written.
        self.judge_all(batch, &filter, &mut writer);
        let Writer {
            coalescer,
            translated,
            from_client,
            sealed,
            verdicts,
            ..
        } = &mut *writer;

        let mut unsent = Unsent::default();
        for (packet, verdict) in batch.iter().zip(verdicts.iter_mut()) {
            match verdict {
                Some(Verdict::Pass) if self.hand_over(OffloadHeader::DONE, packet, from_client) => {
                    *verdict = None;
                }
                None | Some(Verdict::Pass) => {}
                Some(Verdict::Answer(answer)) => end.inbox.push(answer),
                Some(Verdict::Reject { reason, error }) => {
                    unsent.count(*reason);
                    tracing::trace!(reason = reason.name(), "a packet of a tunnel does not pass");
                    if let Some(error) = error {
                        end.inbox.push(error);
                    }
                }
            }
        }

        let passing = PassingPackets {
            batch,
            verdicts,
            translations: &translations,
            translated,
        };
        let mut gone = None;
        match (&end.stack, self.hub.device.remote()) {
            (Some(stack), _) => stack.handle_packets(|give| passing.for_each(give)),
            (None, Some(remote)) => remote.send_all(sealed, |send| passing.for_each(send)),
            (None, None) => {
                let mut output = |header: OffloadHeader, packet: &[u8]| {
                    let Some(queues) = self.hub.device.queues() else {
                        return;
                    };
                    match queues.write(&header.to_device(), packet) {
                        Ok(()) => {}
                        // The kernel rejects this packet; the device is fine.
                        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                            unsent.failed += 1;
                        }
                        Err(error) => gone = Some(error),
                    }
                };
                passing.for_each(|packet| coalescer.push(packet, false, &mut output));
                coalescer.flush(&mut output);
            }
        }

        match gone {
            Some(error) => Err(error),
            None => Ok(unsent),
        }
    }

    /// Judges the packets of a batch under one lock.
    fn judge_all(&self, batch: &Batch, filter: &PacketFilter, writer: &mut Writer) {
        let Writer {
            limiter,
            probe,
            verdicts,
            ..
        } = writer;
        let mut leaving = LeavingPackets {
            table: &self.hub.table.read(),
            gate: &mut self.end.gate(),
            filter,
            limiter,
            now: Instant::now(),
        };
        verdicts.clear();
        for packet in batch.iter() {
            let is_of_probe = probe
                .as_mut()
                .is_some_and(|probe| probe.handle_packet(packet));
            verdicts.push((!is_of_probe).then(|| leaving.judge(self, self.end.arrived(packet, 1))));
        }
    }

    /// Whether the source of a packet is a named host or the name server of the device: no tunnel has these addresses.
    fn is_of_name(&self, packet: &[u8]) -> bool {
        let Some(names) = self.hub.names() else {
            return false;
        };
        Packet::parse(packet).is_ok_and(|parsed| names.covers(parsed.source()))
    }

    /// Moves packets of the stack into the tunnel, as far as that takes them.
    fn pull(&self, stack: &Arc<FlowStack>) {
        let mut room = Vec::new();
        while !self.end.inbox.is_crowded() {
            let packets = stack.transmits();
            if packets.is_empty() {
                return;
            }
            self.end.take_all(&self.hub, |entering| {
                for mut packet in packets {
                    entering.take(EnteringPacket::whole(&mut packet), &mut room);
                }
            });
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

    /// The error for a device that is gone.
    fn gone(&self, error: &io::Error) -> io::Error {
        let reason = format!("the device {} is gone: {error}", self.hub.name());
        io::Error::new(error.kind(), reason)
    }

    /// No tunnel leads into another, unless clients may send to each other, and none back into
    /// itself.
    fn check_next_hop(&self, table: &Table, packet: &[u8]) -> Verdict {
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
            self.hub.next_hop(table, owner, destination) != NextHop::Forbidden
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

/// The packets of a batch that go to the device.
struct PassingPackets<'a> {
    batch: &'a Batch,
    verdicts: &'a [Option<Verdict>],
    translations: &'a Translations,
    translated: &'a mut Vec<u8>,
}

impl PassingPackets<'_> {
    /// Calls `give` with each packet, translated to the addresses of the device.
    fn for_each(self, mut give: impl FnMut(&[u8])) {
        for (packet, verdict) in self.batch.iter().zip(self.verdicts) {
            if matches!(verdict, Some(Verdict::Pass)) {
                give(self.translations.arrived(packet, true, self.translated));
            }
        }
    }
}

/// The tables and policies that packets meet on their way out of a tunnel.
pub(super) struct LeavingPackets<'a> {
    pub(super) table: &'a Table,
    pub(super) gate: &'a mut TunnelGate,
    pub(super) filter: &'a PacketFilter,
    pub(super) limiter: &'a mut IcmpLimiter,
    pub(super) now: Instant,
}

impl LeavingPackets<'_> {
    /// The verdict on a packet of this tunnel.
    pub(super) fn judge(&mut self, tunnel: &TunTunnel, arrived: ArrivedPacket<'_>) -> Verdict {
        let packet = arrived.bytes;
        let verdict = self.filter.check_from_peer(packet, self.limiter, self.now);
        let verdict = match verdict {
            Verdict::Pass if tunnel.is_of_name(packet) => Verdict::Reject {
                reason: Rejection::Source,
                error: None,
            },
            Verdict::Pass => tunnel.check_next_hop(self.table, packet),
            verdict => verdict,
        };
        if !matches!(verdict, Verdict::Pass) {
            return verdict;
        }

        let stack = tunnel.end.stack.as_ref();
        let is_taken = stack.is_none_or(|stack| stack.takes(packet));
        let pool = tunnel.hub.pool_entry();
        // The gate comes last, as it follows flows: a packet that is refused anyway must not open one.
        if !is_taken || !self.gate.passes(pool, arrived, self.now) {
            return self.filter.prohibit(packet, self.limiter, self.now);
        }
        match tunnel.hub.device.remote() {
            // The kernel itself reports packets that are too long for its next link.
            Some(remote) => {
                let mtu = remote.mtu();
                self.filter
                    .check_onward(packet, mtu, self.limiter, self.now)
            }
            None => Verdict::Pass,
        }
    }
}

impl TunEnd {
    /// A packet out of the tunnel; a super-packet stands for `count` packets.
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

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        batch: &mut Batch,
        capsules: &mut DeviceCapsules,
    ) -> Poll<io::Result<()>> {
        // The hub spreads packets for several tunnels.
        let stack = self.end.stack.as_ref().filter(|_| !self.hub.is_split());
        loop {
            if let Some(stack) = stack {
                // A sender of packets meanwhile wakes this task, or this finds them already.
                stack.wake(cx.waker());
                self.pull(stack);
            }
            let taken = ready!(self.end.inbox.poll_take(cx, batch));
            *capsules = taken.super_packets;
            if taken.has_more {
                // The session's come first: addresses before packets.
                let mut own = self.session_capsules();
                own.extend_from_slice(&capsules.bytes);
                capsules.bytes = own;
            }
            if !batch.is_empty() || !capsules.bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn lead(&self, has_datagrams: bool) {
        self.end
            .inbox
            .with(|inbox| inbox.super_packets.set_datagrams(has_datagrams));
        self.forget_ipv6();
    }

    fn upkeep<'a>(&'a self, carries: PathCarries<'a>) -> Option<DeviceUpkeep<'a>> {
        Some(Box::pin(self.keep(carries)))
    }

    fn accepted(&self) {
        self.handle_accepted();
    }

    fn refused(&self, reason: RefusalReason) {
        let RefusalReason {
            status, details, ..
        } = reason;
        self.end
            .outcome
            .end(format!("refused with {status}: {details}"));
    }

    fn ended(&self, reason: &str) {
        self.end.outcome.end(reason.to_owned());
    }

    fn turn(&self) -> Option<WaitingTurn<'_>> {
        self.end.stack.as_ref()?.turn()
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
