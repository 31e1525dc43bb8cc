//! The policy on packets at the end of a tunnel: rules are asked about the first packet of a flow, and what they say holds for the others.

use std::fmt;

use hermes_ip::FlowCache;
use hermes_observe::PolicyTally;
use hermes_proto::ip::{Fragment, Packet};
use hermes_rules::packets::{OpenedBy, PacketPolicy};

/// Flows of one tunnel whose verdicts are remembered: some 300 KB, taken with the first.
#[doc(alias = "bound")]
const FLOWS: usize = 4_096;

/// What the rules on packets say about one tunnel.
pub struct PacketGate {
    policy: PacketPolicy,
    verdicts: FlowCache<bool>,
    tally: PolicyTally,
}

impl fmt::Debug for PacketGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketGate")
            .field("rules", &self.policy.rules().len())
            .finish_non_exhaustive()
    }
}

impl PacketGate {
    /// By the rules that are about the user of the tunnel. `seed` is a number that peers do not know; `tally` counts flows by the rule that
    /// decided.
    pub fn new(policy: PacketPolicy, seed: u64, tally: PolicyTally) -> Self {
        Self {
            policy,
            verdicts: FlowCache::new(FLOWS, seed),
            tally,
        }
    }

    /// Whether a packet that this side sent may pass. What cannot be read may not.
    pub(super) fn passes(&mut self, packet: &[u8], sender: OpenedBy) -> bool {
        let Ok(packet) = Packet::parse(packet) else {
            return false;
        };
        let Self {
            policy,
            verdicts,
            tally,
        } = self;
        let decide = || {
            let decision = policy.decide(&packet, sender);
            tally.decided(decision.rule.map(|rule| rule as usize));
            decision.is_allowed
        };

        // What their flows were judged by says nothing about these: an answer may pass where a connection may not be opened.
        let is_alone = packet.opens_tcp() || packet.is_icmp_error();
        if is_alone || packet.fragment() == Fragment::Later {
            return decide();
        }
        verdicts.verdict(&packet.flow(), |_| decide())
    }
}
