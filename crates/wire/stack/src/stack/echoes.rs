//! Echo requests: answered here, or passed on and answered when the host has answered.

use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use hermes_proto::ip::{IcmpError, Packet};

use super::Stack;
use crate::build;
use crate::echo::{EchoHandling, EchoId, FailedEcho};
use crate::flow::StackEvent;

impl Stack {
    /// Tells a client the answer of `target` to the echo with this number, if it still waits.
    pub fn answer_echo(&mut self, number: u16, target: IpAddr, content: &[u8], now: Instant) {
        let Some(request) = self.icmp.echoes.end(number, target, now) else {
            self.counts.unknown += 1;
            return;
        };
        if let Ok(request) = Packet::parse(&request) {
            self.send_echo(&request, content);
        }
    }

    /// Tells a client that its echo is prohibited.
    pub fn refuse_echo(&mut self, echo: EchoId, target: IpAddr, now: Instant) {
        let failed = FailedEcho {
            number: echo.number(),
            target,
            error: IcmpError::Prohibited,
            from: target,
        };
        self.fail_echo(failed, now);
    }

    /// Tells a client that its echo failed, if it still waits.
    pub fn fail_echo(&mut self, failed: FailedEcho, now: Instant) {
        let FailedEcho {
            number,
            target,
            error,
            from,
        } = failed;
        let Some(request) = self.icmp.echoes.end(number, target, now) else {
            self.counts.unknown += 1;
            return;
        };
        if let Ok(request) = Packet::parse(&request)
            && let Some(error) = error.about(&request, from)
        {
            self.counts.full += u64::from(!self.outgoing.push(error.to_vec()));
        }
    }

    /// How many echoes wait for an answer.
    pub fn echoes(&self) -> usize {
        self.icmp.echoes.len()
    }

    pub(super) fn handle_echo(&mut self, packet: &Packet<'_>, now: Instant) {
        let Some(content) = build::echo_content(packet.payload()) else {
            self.counts.malformed += 1;
            return;
        };
        // Limited like errors: a flood of requests must not become one of answers, or of requests elsewhere.
        if !self.icmp.limiter.allows(now) || !self.has_event_room() {
            self.counts.full += 1;
            return;
        }
        if self.settings.echo == EchoHandling::Answer {
            self.send_echo(packet, content);
            return;
        }

        let request = Bytes::copy_from_slice(packet.bytes());
        let content = request.slice_ref(&request[request.len() - content.len()..]);
        let target = packet.destination();
        let (echo, lost) = self.icmp.echoes.begin(request, target, now);
        self.counts.full += lost;
        self.events.push_back(StackEvent::EchoAsked {
            echo,
            target,
            content,
        });
    }

    /// Answers an echo request.
    fn send_echo(&mut self, request: &Packet<'_>, content: &[u8]) {
        let answer = build::echo_reply(request, content);
        let answer = answer.filter(|answer| answer.len() <= self.settings.mtu);
        let sent = answer.is_some_and(|answer| self.outgoing.push(answer));
        self.counts.full += u64::from(!sent);
    }
}
