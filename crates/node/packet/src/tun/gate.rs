//! The gate at the end of a tunnel: rules are asked about the first packet of a flow, and their
//! answer holds for the others; and flows are counted.

use std::fmt;
use std::time::Instant;

use hermes_ip::FlowCache;
use hermes_observe::PolicyTally;
use hermes_proto::ip::{Fragment, Packet};
use hermes_rules::packets::{OpenedBy, PacketDecision, PacketPolicy, PacketRule};

use super::flow_ledger::{FlowLedger, FlowMark};
use super::flow_policy::FlowPolicy;

/// The mark of a flow that the policy about flows denies.
const POLICY: &str = "rego";

/// The mark of a flow that would reach the machine of a device, or the clients of another device.
const MACHINE: &str = "machine";

/// Remembered verdicts on flows of one tunnel: some 300 KB, allocated with the first.
#[doc(alias = "bound")]
const FLOWS: usize = 4_096;

/// The rules on packets for one tunnel, and its flows.
#[derive(Debug, Default)]
pub struct PacketGate {
    rules: Option<GateRules>,
    /// The policy about flows that rules allow.
    policy: Option<FlowPolicy>,
    flows: Option<FlowLedger>,
}

/// The rules on packets of one tunnel.
pub struct GateRules {
    policy: PacketPolicy,
    verdicts: FlowCache<PacketDecision>,
    tally: PolicyTally,
    denied: Box<dyn FnMut(&DeniedPacket<'_>) + Send>,
}

/// A packet that the rules deny: the first of its flow, or one that is judged alone.
#[derive(Debug)]
pub struct DeniedPacket<'a> {
    /// Its headers.
    pub packet: Packet<'a>,
    /// Which side sent it.
    pub sender: OpenedBy,
    /// The denier.
    pub by: PacketDenier<'a>,
}

/// The reason why a packet is denied.
#[derive(Debug, Clone, Copy)]
pub enum PacketDenier<'a> {
    /// A rule.
    Rule(&'a PacketRule),
    /// No rule allows it.
    Default,
    /// The policy about flows, for this reason.
    Policy(&'a str),
}

/// A packet at a gate.
#[derive(Debug, Clone, Copy)]
pub(super) struct ArrivedPacket<'a> {
    pub(super) bytes: &'a [u8],
    /// For how many packets it stands.
    pub(super) count: usize,
    /// Which side sent it.
    pub(super) sender: OpenedBy,
}

impl fmt::Debug for GateRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateRules")
            .field("rules", &self.policy.rules().len())
            .finish_non_exhaustive()
    }
}

impl GateRules {
    /// By the rules that are about the user of the tunnel. `seed` is a number that peers do not know; `tally` counts flows by the rule that
    /// decided; `denied` hears of each packet that a rule was asked about and denied, which may be many.
    pub fn new(
        policy: PacketPolicy,
        seed: u64,
        tally: PolicyTally,
        denied: impl FnMut(&DeniedPacket<'_>) + Send + 'static,
    ) -> Self {
        Self {
            policy,
            verdicts: FlowCache::new(FLOWS, seed),
            tally,
            denied: Box::new(denied),
        }
    }

    fn decide(&mut self, packet: &Packet<'_>, sender: OpenedBy) -> PacketDecision {
        let Self {
            policy,
            verdicts,
            tally,
            denied,
        } = self;
        let mut decide = || {
            let decision = policy.decide(packet, sender);
            let rule = decision.rule.map(|rule| rule as usize);
            tally.decided(rule);
            if !decision.is_allowed {
                let rule = rule.and_then(|rule| policy.rules().get(rule));
                denied(&DeniedPacket {
                    packet: *packet,
                    sender,
                    by: rule.map_or(PacketDenier::Default, PacketDenier::Rule),
                });
            }
            decision
        };

        // The verdict on their flow does not apply to these: an answer may pass where a connection
        // may not be opened.
        let is_alone = packet.opens_tcp() || packet.is_icmp_error();
        if is_alone || packet.fragment() == Fragment::Later {
            return decide();
        }
        verdicts.verdict(&packet.flow(), |_| decide())
    }
}

impl PacketGate {
    /// A gate with rules, and with a ledger if flows are to be followed.
    pub fn new(rules: Option<GateRules>, flows: Option<FlowLedger>) -> Self {
        Self {
            rules,
            policy: None,
            flows,
        }
    }

    /// The same, with a policy that is asked about flows which the rules allow.
    #[must_use]
    pub fn with_policy(mut self, policy: Option<FlowPolicy>) -> Self {
        self.policy = policy;
        self
    }

    /// How many of the followed flows are open.
    pub(super) fn open_flows(&self) -> usize {
        self.flows.as_ref().map_or(0, FlowLedger::open)
    }

    /// Takes over the flows of the gate that this one replaces.
    pub(super) fn go_on(&mut self, before: &mut Self) {
        if let (Some(flows), Some(before)) = (&mut self.flows, &mut before.flows) {
            flows.go_on(before);
        }
    }

    /// Ends the flows that have been silent for too long.
    pub(super) fn end_silent(&mut self, now: Instant) {
        if let Some(flows) = &mut self.flows {
            flows.end_silent(now, usize::MAX);
        }
    }

    /// Whether a packet may pass. Without `reaches`, its destination is closed to it whatever the
    /// rules say. An unreadable packet never passes.
    pub(super) fn passes(
        &mut self,
        arrived: ArrivedPacket<'_>,
        reaches: bool,
        now: Instant,
    ) -> bool {
        let Ok(packet) = Packet::parse(arrived.bytes) else {
            return false;
        };
        let sender = arrived.sender;
        let decided = self
            .rules
            .as_mut()
            .map(|rules| rules.decide(&packet, sender));
        let by_rules = decided.is_none_or(|decided| decided.is_allowed);
        // The policy comes last: it costs most, and judges only flows that all else allows.
        let is_allowed = by_rules && reaches && self.is_permitted(&packet, sender);

        if let Some(flows) = &mut self.flows {
            let rules = self.rules.as_ref();
            let rule = || match (by_rules && !is_allowed, reaches) {
                (true, true) => Some(POLICY.into()),
                (true, false) => Some(MACHINE.into()),
                (false, _) => rules
                    .zip(decided)
                    .map(|(rules, decided)| rules.policy.by(decided).into()),
            };
            let mark = || FlowMark {
                opened_by: sender,
                rule: rule(),
                is_allowed,
            };
            flows.handle_packet(&packet, arrived.count, now, mark);
        }
        is_allowed
    }

    /// Whether the policy about flows lets a packet pass, too.
    fn is_permitted(&mut self, packet: &Packet<'_>, sender: OpenedBy) -> bool {
        let Some(policy) = &mut self.policy else {
            return true;
        };
        let Err(reason) = policy.permits(packet, sender) else {
            return true;
        };
        if let (Some(reason), Some(rules)) = (reason, &mut self.rules) {
            (rules.denied)(&DeniedPacket {
                packet: *packet,
                sender,
                by: PacketDenier::Policy(&reason),
            });
        }
        false
    }
}
