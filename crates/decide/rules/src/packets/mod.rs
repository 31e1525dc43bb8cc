//! Policy on packets: which flows may pass a tunnel of IP, by prefix, protocol and port.
//!
//! The first rule that matches decides. Rules are about who opens a flow: a rule for what the
//! client opens also lets the answers to it pass, but no connection of TCP that the target opens.
//! They are compiled for one user when its tunnel begins, so that a packet is never compared with a
//! name, and are asked once for each flow: remember the decision by flow.
//!
//! It remembers nothing. Whether a packet is well-formed, and its addresses are those of its
//! tunnel, was decided before.

mod explain;
mod index;
mod rule;
mod shadow;

use hermes_config::model::{Document, PolicyDefault};
use hermes_proto::host::embedded;
use hermes_proto::ip::{Packet, quoted_flow};

use crate::Whom;
pub use explain::{ComparedRule, JudgedPacket, UnmetKey};
use index::TargetIndex;
use rule::Asked;
pub use rule::{NONE_ALLOWS, OpenedBy, PacketRule, PortRange, has_ports, prefix_of};
pub use shadow::shadowed_packet_rules;

/// Rules on packets of one document, which a person has to be able to read.
#[doc(alias = "bound")]
pub const MAX_PACKET_RULES: usize = 16_384;

/// There are too many rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} rules on packets are more than the {MAX_PACKET_RULES} that there may be")]
pub struct TooManyRules(usize);

/// The rules on packets of a document, for all users.
#[derive(Debug, Clone)]
pub struct PacketRules {
    rules: Vec<PacketRule>,
    allows_by_default: bool,
}

impl PacketRules {
    /// The rules of a linted document; `None` if it has none.
    pub fn new(document: &Document) -> Option<Self> {
        let packets = document.policy.as_ref()?.packets.as_ref()?;
        let rules = packets.rules.iter().enumerate();
        Some(Self {
            rules: rules
                .map(|(place, rule)| PacketRule::of(place, rule))
                .collect(),
            allows_by_default: packets.default == PolicyDefault::Allow,
        })
    }

    /// The rules about this user, compiled.
    pub fn of(&self, whom: &Whom<'_>) -> PacketPolicy {
        PacketPolicy::of(&self.rules, self.allows_by_default, whom)
    }
}

/// The rules on packets of one user, compiled.
#[derive(Debug, Clone)]
pub struct PacketPolicy {
    rules: Vec<PacketRule>,
    index: TargetIndex,
    /// Whether packets that no rule matches may pass.
    allows_by_default: bool,
}

/// The decision about a packet, and so about its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketDecision {
    /// Whether it may pass.
    pub is_allowed: bool,
    /// The rule that decided, by its place among those of the user; `None`: the default.
    pub rule: Option<u32>,
}

/// The decision about an ICMP error without a readable quotation.
const DENIED: PacketDecision = PacketDecision {
    is_allowed: false,
    rule: None,
};

impl PacketPolicy {
    /// The rules that are about this user, or about anyone.
    ///
    /// # Errors
    /// [`TooManyRules`].
    pub fn compile(
        rules: &[PacketRule],
        allows_by_default: bool,
        whom: &Whom<'_>,
    ) -> Result<Self, TooManyRules> {
        if rules.len() > MAX_PACKET_RULES {
            return Err(TooManyRules(rules.len()));
        }

        Ok(Self::of(rules, allows_by_default, whom))
    }

    fn of(rules: &[PacketRule], allows_by_default: bool, whom: &Whom<'_>) -> Self {
        let rules = rules.iter().filter(|rule| whom.is_meant(&rule.users));
        let rules: Vec<_> = rules.cloned().collect();

        Self {
            index: TargetIndex::new(&rules),
            rules,
            allows_by_default,
        }
    }

    /// Decides about a packet that this side sent.
    ///
    /// A later fragment has no ports: a rule that denies a port denies it, and a rule that allows a
    /// port does not allow it. Ask about it each time: the flow that it seems to be of is another.
    pub fn decide(&self, packet: &Packet<'_>, sender: OpenedBy) -> PacketDecision {
        // An error tells a side about its own packets (RFC 4443, section 2.4), and passes where
        // their answers would.
        if packet.is_icmp_error() {
            return match quoted_flow(packet) {
                Some(quoted) => {
                    let asked = Asked::by_flow(&quoted.reversed(), sender);
                    self.decide_flow(&asked, || quoted.destination_port, || false)
                }
                None => DENIED,
            };
        }

        let asked = Asked::by_sender(packet, sender);
        self.decide_flow(&asked, || packet.flow().source_port, || packet.opens_tcp())
    }

    /// Decides about a packet, which may be an answer unless it `opens` a connection.
    #[inline]
    fn decide_flow(
        &self,
        asked: &Asked,
        source_port: impl FnOnce() -> u16,
        opens: impl FnOnce() -> bool,
    ) -> PacketDecision {
        let own = self.find(asked);
        let decided = self.decision(own);
        // A SYN is never an answer: a rule for the client's flows must not open the way for connections of the target.
        if decided.is_allowed || opens() {
            return decided;
        }

        // The packet may be an answer in a flow that the other side opened; that needs an allowing
        // rule, or rules could not deny anything.
        let other = self.find(&Asked {
            opened_by: asked.opened_by.other(),
            opener: asked.target,
            target: asked.opener,
            port: asked.port.map(|_| source_port()),
            ..*asked
        });
        match other.map(|index| self.decision(Some(index))) {
            Some(answer) if answer.is_allowed => answer,
            _ => decided,
        }
    }

    /// The first rule that matches.
    fn find(&self, asked: &Asked) -> Option<u32> {
        let mut first: Option<u32> = None;
        for candidates in self.index.candidates(asked.target) {
            first = self.sooner(candidates, asked, first);
        }

        // NAT64 and 6to4 would otherwise lead around the rules on IPv4.
        match asked.target.is_ipv4() {
            true => first,
            false => self.about_held(asked, first),
        }
    }

    /// As [`Self::sooner`], for the rules about IPv4 addresses embedded in the target.
    #[cold]
    fn about_held(&self, asked: &Asked, mut first: Option<u32>) -> Option<u32> {
        for held in embedded(asked.target).into_iter().flatten() {
            for candidates in self.index.about(held.into()) {
                first = self.sooner(candidates, asked, first);
            }
        }
        first
    }

    /// The first of these rules that matches and stands before `first`, or else `first`.
    #[inline]
    fn sooner(&self, candidates: &[u32], asked: &Asked, first: Option<u32>) -> Option<u32> {
        let sooner = candidates
            .iter()
            .take_while(|index| first.is_none_or(|first| **index < first));
        let mut matching = sooner.filter(|index| self.rules[**index as usize].matches(asked));
        matching.next().copied().or(first)
    }

    fn decision(&self, rule: Option<u32>) -> PacketDecision {
        let decided = rule.map(|index| self.rules[index as usize].allow);
        PacketDecision {
            is_allowed: decided.unwrap_or(self.allows_by_default),
            rule,
        }
    }

    /// The name of the rule that decided, or `default`.
    pub fn by(&self, decision: PacketDecision) -> &str {
        let rule = decision
            .rule
            .and_then(|index| self.rules.get(index as usize));
        rule.map_or("default", |rule| &rule.name)
    }

    /// Whether packets that no rule matches may pass.
    pub fn allows_by_default(&self) -> bool {
        self.allows_by_default
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[PacketRule] {
        &self.rules
    }
}
