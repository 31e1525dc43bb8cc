//! Super-packets of a tunnel: the agreement of its ends, and the fate of those that come out of it.

use std::io;
use std::time::Instant;

use hermes_ip::Verdict;
use hermes_ip::offload::{
    OffloadHeader, OffloadKind, Offloaded, SuperCapsule, agreement, cut_super, segment,
};
use hermes_observe::DropReason;
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::datagram::DatagramFormat;

use super::device_writer::{Unsent, Writer};
use super::end::TunTunnel;
use super::hub_device::HubDevice;
use super::service::TunService;
use super::tunnel_device::LeavingPackets;
use crate::device::{CapsulePackets, DeviceCapsules};

impl TunTunnel {
    /// Answers the offer of a client's request, made for `context`, with the context in which this end
    /// takes super-packets.
    pub fn offered(&self, context: Option<u64>) {
        let TunService::Proxy(proxy) = &self.hub.service else {
            return;
        };
        let agreed = context.filter(|_| proxy.super_packets);
        self.end.inbox.with(|inbox| {
            inbox.super_packets.agree(agreed, agreed);
            if let Some(context) = agreed {
                inbox.super_packets.say(&SuperCapsule::Takes(context));
            }
        });
    }

    /// Notes the offer that this client makes in its request.
    pub(super) fn offer(&self) {
        if let TunService::Client(client) = &self.hub.service {
            let takes = client.super_packets.then_some(agreement::CONTEXT);
            self.end
                .inbox
                .with(|inbox| inbox.super_packets.agree(takes, None));
        }
    }

    /// Takes a capsule of super-packets. A bad one is dropped, and the tunnel goes on, as with any packet.
    pub(super) fn handle_super(&self, value: &[u8]) -> CapsulePackets {
        let taken = self.end.inbox.with(|inbox| inbox.super_packets.takes());
        match SuperCapsule::decode(value) {
            None => CapsulePackets::dropped(DropReason::Malformed),
            _ if taken.is_none() => CapsulePackets::dropped(DropReason::UnknownContext),
            Some(SuperCapsule::TakesNone) => self.send_from_now_on(None),
            Some(SuperCapsule::Takes(context)) => {
                // A context other than the agreed one was never registered, so it counts as none.
                self.send_from_now_on(Some(context).filter(|context| Some(*context) == taken))
            }
            Some(SuperCapsule::Packet { context, .. }) if Some(context) != taken => {
                CapsulePackets::dropped(DropReason::UnknownContext)
            }
            Some(SuperCapsule::Packet { header, packet, .. }) => {
                // The header tells the kernel how to cut the packet: it comes from a peer, so it is checked against the packet.
                let checked = header.check(packet);
                match checked {
                    Ok(checked) => self.write_super(&checked),
                    Err(error) => {
                        tracing::trace!(%error, "a peer sent an invalid super-packet");
                        CapsulePackets::dropped(DropReason::Malformed)
                    }
                }
            }
        }
    }

    /// The peer takes super-packets in this context from now on, or `None`: queued ones then go as
    /// packets.
    fn send_from_now_on(&self, context: Option<u64>) -> CapsulePackets {
        let is_agreed = context.is_some();
        tracing::debug!(
            device = self.hub.device.name(),
            is_agreed,
            "super-packets into the tunnel"
        );
        self.end.inbox.with(|inbox| {
            // In one step: between them, a new packet could overtake the queued ones.
            let waiting = inbox.super_packets.set_sends(context);
            cut_waiting(waiting, |packet| inbox.push(packet));
        });
        CapsulePackets::default()
    }

    /// Writes a super-packet into the device: it is one packet of one flow, and is judged once.
    fn write_super(&self, checked: &Offloaded<'_>) -> CapsulePackets {
        let packet = checked.packet().bytes();
        let segments = checked.segments() as u64;
        let mut writer = self.end.writer.lock();
        let Writer {
            limiter,
            translated,
            from_client,
            ..
        } = &mut *writer;

        let mut unsent = Unsent::default();
        let rules = self.end.inbox.rules();
        let arrived = self.end.arrived(packet, checked.segments());
        let verdict = LeavingPackets {
            table: &self.hub.table.read(),
            gate: &mut self.end.gate(),
            filter: &rules.filter,
            limiter,
            now: Instant::now(),
        }
        .judge(self, arrived);
        match verdict {
            Verdict::Pass if self.hand_over(checked.header(), packet, from_client) => {}
            Verdict::Pass => {
                let header = checked.header();
                let packet = rules
                    .translations
                    .arrived(packet, !header.needs_checksum, translated);
                let written = write(&self.hub.device, header, packet);
                // A device that is gone is noticed where it is read.
                unsent.failed += usize::from(written.is_err());
            }
            Verdict::Answer(answer) => self.end.inbox.push(&answer),
            Verdict::Reject { reason, error } => {
                unsent.count(reason);
                tracing::trace!(reason = reason.name(), "a super-packet does not pass");
                if let Some(error) = error {
                    self.end.inbox.push(&error);
                }
            }
        }

        match (unsent.forbidden, unsent.failed) {
            (0, 0) => CapsulePackets::moved(segments, packet.len() as u64),
            (0, _) => CapsulePackets::all_dropped(DropReason::SendFailed, segments),
            _ => CapsulePackets::all_dropped(DropReason::Policy, segments),
        }
    }
}

/// Writes a super-packet into a device. Before Linux 6.2, UDP must be cut for it.
fn write(device: &HubDevice, header: OffloadHeader, packet: &[u8]) -> io::Result<()> {
    let Some(queues) = device.queues() else {
        // If a stack ends packets, there is no agreement on super-packets.
        return Err(io::ErrorKind::Unsupported.into());
    };
    let written = queues.write(&header.to_device(), packet);
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::InvalidInput;
    if header.kind != OffloadKind::Udp || !written.as_ref().is_err_and(refused) {
        return written;
    }

    let Ok(checked) = header.check(packet) else {
        return written;
    };
    let mut all = Ok(());
    segment(&checked, &mut Vec::new(), |segment| {
        let written = queues.write(&OffloadHeader::DONE.to_device(), segment);
        if written.is_err() {
            all = written;
        }
    });
    all
}

/// Cuts queued super-packets into packets that every peer takes.
fn cut_waiting(mut waiting: DeviceCapsules, mut packet: impl FnMut(&[u8])) {
    let mut decoder = CapsuleDecoder::new(DatagramFormat::IP.max_capsule());
    decoder.push(waiting.take_bytes());
    while let Ok(Some(capsule)) = decoder.next() {
        cut_super(&capsule.value, &mut packet);
    }
}
