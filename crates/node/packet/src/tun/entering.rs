//! Packets of a device on their way into a tunnel: a batch is checked under one lock.

use std::sync::Arc;
use std::time::Instant;

use hermes_ip::offload::{OffloadHeader, segment};
use hermes_ip::{PacketFilter, Verdict};

use super::device_writer::FromClient;
use super::end::TunEnd;
use super::gate::ArrivedPacket;
use super::hub::TunHub;
use super::inbox::InboxState;
use super::super_queue::SuperPushed;
use super::tunnel_gate::TunnelGate;

/// A tunnel that takes packets.
pub(super) struct EnteringPackets<'a> {
    end: &'a TunEnd,
    hub: &'a TunHub,
    gate: &'a mut TunnelGate,
    inbox: &'a mut InboxState,
    filter: Arc<PacketFilter>,
    now: Instant,
}

/// A packet of a device.
pub(super) struct EnteringPacket<'a> {
    pub(super) header: OffloadHeader,
    pub(super) bytes: &'a mut [u8],
    /// The length of the longest packet into which it is cut.
    pub(super) longest: usize,
}

impl<'a> EnteringPacket<'a> {
    /// A packet that is not to be cut.
    pub(super) fn whole(bytes: &'a mut [u8]) -> Self {
        Self {
            header: OffloadHeader::DONE,
            longest: bytes.len(),
            bytes,
        }
    }
}

impl TunEnd {
    /// Takes packets of the device of `hub`; returns whether its reader should pause.
    pub(super) fn take_all(
        &self,
        hub: &TunHub,
        take: impl FnOnce(&mut EnteringPackets<'_>),
    ) -> bool {
        // Locked in this order everywhere: the gate, then the inbox.
        let mut gate = self.gate();
        self.inbox.with(|inbox| {
            take(&mut EnteringPackets {
                end: self,
                hub,
                gate: &mut gate,
                filter: inbox.filter.clone(),
                inbox,
                now: Instant::now(),
            });
            inbox.is_crowded()
        })
    }

    /// Takes a packet that came out of the tunnel of another client; `longest` is the length of its
    /// longest segment.
    pub(super) fn take_of_client(
        &self,
        hub: &TunHub,
        header: OffloadHeader,
        packet: &[u8],
        longest: usize,
        room: &mut FromClient,
    ) {
        let FromClient {
            packet: copy,
            segment,
        } = room;
        copy.clear();
        copy.extend_from_slice(packet);
        let packet = EnteringPacket {
            header,
            bytes: copy,
            longest,
        };
        // A tunnel that is crowded loses it, as any link does.
        self.take_all(hub, |entering| entering.take(packet, segment));
    }
}

impl EnteringPackets<'_> {
    /// Takes a packet, or answers its sender with the reason.
    pub(super) fn take(&mut self, packet: EnteringPacket<'_>, room: &mut Vec<u8>) {
        let EnteringPacket {
            header,
            bytes: packet,
            longest,
        } = packet;
        let inbox = &mut *self.inbox;
        // First: the filter and the policy know the addresses of the tunnel.
        inbox.translations.leave(packet, !header.needs_checksum);
        let limiter = &mut inbox.limiter;
        let verdict = self
            .filter
            .check_to_peer(packet, longest, limiter, self.now);
        let verdict = match verdict {
            Verdict::Pass if !self.passes(header, packet) => {
                let limiter = &mut self.inbox.limiter;
                self.filter.prohibit(packet, limiter, self.now)
            }
            verdict => verdict,
        };
        match verdict {
            Verdict::Pass => {}
            Verdict::Answer(answer)
            | Verdict::Reject {
                error: Some(answer),
                ..
            } => return self.answer(&answer),
            Verdict::Reject { reason, .. } => {
                tracing::trace!(
                    reason = reason.name(),
                    "a packet of the device does not pass"
                );
                return;
            }
        }

        self.filter.clamp_tcp(packet, !header.needs_checksum);
        let Ok(checked) = header.check(packet) else {
            return;
        };
        if self.inbox.super_packets.push(&header, &checked) == SuperPushed::Plain {
            segment(&checked, room, |segment| self.inbox.push(segment));
        }
    }

    /// Whether the policy lets a packet pass. The packet counts for its flow.
    fn passes(&mut self, header: OffloadHeader, packet: &[u8]) -> bool {
        let arrived = ArrivedPacket {
            bytes: packet,
            count: header.segments_of(packet.len()),
            sender: self.end.device_side,
        };
        self.gate.passes(self.hub.pool_entry(), arrived, self.now)
    }

    /// Sends an answer, such as an ICMP error, to a host behind the device.
    fn answer(&self, answer: &[u8]) {
        let mut answer = answer.to_vec();
        // The answer is about the packet as it was translated.
        self.inbox.translations.arrive(&mut answer, true);
        self.end.tell_device(self.hub, &answer);
    }
}
