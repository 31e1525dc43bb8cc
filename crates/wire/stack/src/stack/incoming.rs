//! Received packets: each goes to its flow, begins one, or is refused.

use std::time::Instant;

use bytes::Bytes;
use hermes_proto::ip::{Fragment, ICMP, ICMPV6, Packet, TCP, UDP};

use super::{Checksums, Stack, is_host};
use crate::MAX_EVENTS;
use crate::build::{self, IPV6};
use crate::echo::EchoHandling;
use crate::flow::{Ends, StackEvent};
use crate::tcp::{ASKING, LONGEST_SYN, TcpPhase};
use crate::udp::{self, UdpFlow};

impl Stack {
    /// Handles a received packet.
    pub fn handle_packet(&mut self, bytes: &[u8], checksums: Checksums, now: Instant) {
        let Ok(packet) = Packet::parse(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        // Before anything is answered: an answer to a multicast or broadcast address would reach many hosts.
        if !is_sane(&packet) {
            self.counts.malformed += 1;
            return;
        }
        let transport = [TCP, UDP].contains(&packet.protocol());
        let has_options = packet.header_length() > IPV6 && !packet.is_ipv4();
        // No reassembly: its memory would be for the sender to fill.
        if packet.fragment() != Fragment::Whole || (transport && has_options) {
            self.counts.unsupported += 1;
            return;
        }
        if checksums == Checksums::Verify && !build::is_sound(&packet) {
            self.counts.damaged += 1;
            return;
        }

        match packet.protocol() {
            TCP => self.handle_tcp(&packet, now),
            UDP => self.handle_udp(&packet, now),
            _ => self.handle_other(&packet, now),
        }
    }

    fn handle_tcp(&mut self, packet: &Packet<'_>, now: Instant) {
        let ends = Ends::of(packet.flow());
        if let Some(flow) = self.by_ends.get(&ends).copied() {
            if packet.resets_tcp() && self.is_asked(flow) {
                self.remove_tcp(flow);
                self.events.push_back(StackEvent::Gone { flow });
                return;
            }
            // A repeated first segment changes nothing while the flow waits.
            self.look(flow, Some(packet.bytes()), now);
            return;
        }

        if !self.settings.intercepts || !packet.opens_tcp() {
            self.counts.unknown += 1;
            self.reset(packet, now);
            return;
        }
        let first = packet.bytes();
        // Without room there is no answer: the client repeats its segment, and may be lucky then.
        let limits = self.settings.limits;
        let is_full = self.tcp.len() >= limits.tcp || self.half_open >= limits.half_open;
        if is_full || first.len() > LONGEST_SYN || !self.has_event_room() {
            self.counts.full += 1;
            return;
        }

        let flow = self.add_tcp(ends, TcpPhase::Asked(Bytes::copy_from_slice(first)));
        self.half_open += 1;
        self.set_due(flow, Some(now + ASKING));
        self.events.push_back(StackEvent::TcpAsked {
            flow,
            client: ends.there,
            target: ends.here,
        });
    }

    fn handle_udp(&mut self, packet: &Packet<'_>, now: Instant) {
        let Some(payload) = udp::payload(packet) else {
            self.counts.malformed += 1;
            return;
        };
        let ends = Ends::of(packet.flow());
        // One event may announce the flow.
        if self.events.len() + 1 >= MAX_EVENTS {
            self.counts.full += 1;
            return;
        }

        let flow = match self.by_ends.get(&ends).copied() {
            Some(flow) => flow,
            None if !self.settings.intercepts => {
                self.counts.unknown += 1;
                return;
            }
            None if self.udp.len() >= self.settings.limits.udp => {
                self.counts.full += 1;
                return;
            }
            None => {
                let flow = self.add_udp(UdpFlow::new(ends.here, ends.there, now));
                self.events.push_back(StackEvent::UdpAsked {
                    flow,
                    client: ends.there,
                    target: ends.here,
                });
                flow
            }
        };
        if let Some(udp) = self.udp.get_mut(&flow) {
            udp.last = now;
            udp.keeps_whole = packet.keeps_whole();
            if let Some(refusal) = udp.refusal {
                self.answer_refused(packet.bytes(), refusal, now);
                return;
            }
        }
        self.events.push_back(StackEvent::Datagram {
            flow,
            payload: Bytes::copy_from_slice(payload),
        });
    }

    fn handle_other(&mut self, packet: &Packet<'_>, now: Instant) {
        if packet.is_icmp_error() {
            self.handle_error(packet);
            return;
        }
        let is_echo = [ICMP, ICMPV6].contains(&packet.protocol());
        match self.settings.echo {
            EchoHandling::Answer | EchoHandling::Ask if is_echo && packet.is_echo_request() => {
                self.handle_echo(packet, now);
            }
            _ if !self.has_event_room() => self.counts.full += 1,
            _ => {
                let packet = Bytes::copy_from_slice(packet.bytes());
                self.events.push_back(StackEvent::Other(packet));
            }
        }
    }
}

/// Whether both ends can be those of a flow (RFC 1122, section 3.2.1.3).
fn is_sane(packet: &Packet<'_>) -> bool {
    let flow = packet.flow();
    let has_ports = [TCP, UDP].contains(&flow.protocol);
    let ports = !has_ports || (flow.source_port != 0 && flow.destination_port != 0);
    ports && is_host(flow.source) && is_host(flow.destination)
}
