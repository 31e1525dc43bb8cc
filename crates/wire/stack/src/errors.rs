//! Errors of routers and hosts about packets of flows.

use hermes_proto::ip::{IcmpError, IcmpReport, Packet};

use crate::flow::{Ends, FlowId, StackEvent};
use crate::stack::Stack;
use crate::tcp::TcpPhase;

impl Stack {
    /// Handles an ICMP error. An error about no flow, or about a packet that the flow never sent, is ignored.
    pub(crate) fn handle_error(&mut self, packet: &Packet<'_>) {
        let Some(report) = IcmpReport::parse(packet) else {
            return;
        };
        // The quoted packet went the other way.
        let ends = Ends::of(report.flow.reversed());
        let Some(flow) = self.by_ends.get(&ends).copied() else {
            return;
        };
        match report.tcp_sequence() {
            Some(number) => self.handle_tcp_error(flow, report.error, number),
            None => self.handle_udp_error(flow, report.error),
        }
    }

    fn handle_udp_error(&mut self, flow: FlowId, error: IcmpError) {
        // One datagram was too long, or a route was wrong for a moment.
        let is_passing = matches!(
            error,
            IcmpError::TooBig { .. } | IcmpError::HopLimitExceeded
        );
        if !is_passing && self.remove_udp(flow) {
            self.events
                .push_back(StackEvent::Unreachable { flow, error });
        }
    }

    /// RFC 5927, section 4.1: the error has to quote bytes that were sent and not acknowledged;
    /// section 5.2: no error ends an open connection, which has time-outs of its own.
    fn handle_tcp_error(&mut self, flow: FlowId, error: IcmpError, number: u32) {
        let Some(tcp) = self.tcp.get_mut(&flow) else {
            return;
        };
        let TcpPhase::Open(open) = &mut tcp.phase else {
            return;
        };
        if !open.has_sent(number) {
            return;
        }

        if let IcmpError::TooBig { mtu } = error {
            open.lower_mtu(mtu.into());
        } else if open.is_opening() {
            self.remove_tcp(flow);
            self.events
                .push_back(StackEvent::Unreachable { flow, error });
        }
    }
}
