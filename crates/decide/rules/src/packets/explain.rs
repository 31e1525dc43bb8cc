//! The packet rules' decision about one packet, for people.

use hermes_config::model::IpProtocol;
use hermes_proto::ip::{Fragment, IpFlow, Packet, quoted_flow};

use super::rule::Asked;
use super::{OpenedBy, PacketRule, PacketRules};
use crate::Whom;

/// The decision about a packet, and the comparisons behind it.
#[derive(Debug, Clone)]
pub struct JudgedPacket<'a> {
    /// Whether it may pass.
    pub is_allowed: bool,
    /// The rules about flows that its sender opens, up to the one that matches.
    pub compared: Vec<ComparedRule<'a>>,
    /// The rule by which it may pass as an answer in a flow that the other side opened.
    pub answers: Option<&'a PacketRule>,
}

/// A rule, and its first unmet condition.
#[derive(Debug, Clone)]
pub struct ComparedRule<'a> {
    /// The rule.
    pub rule: &'a PacketRule,
    /// `None`: it matches.
    pub unmet: Option<UnmetKey>,
}

/// The key of a rule that a packet does not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetKey {
    /// The key.
    pub key: &'static str,
    /// In words.
    pub said: String,
}

impl PacketRules {
    /// Decides about a packet in a tunnel of this user, as [`super::PacketPolicy::decide`] does, and explains each rule.
    pub fn explain(
        &self,
        whom: &Whom<'_>,
        packet: &Packet<'_>,
        sender: OpenedBy,
    ) -> JudgedPacket<'_> {
        let policy = self.of(whom);
        let decision = policy.decide(packet, sender);
        let decisive = decision.rule.map(|rule| &policy.rules()[rule as usize]);
        let decisive = decisive.map(|rule| rule.place);

        let quoted = quoted_flow(packet);
        let asked = match quoted {
            Some(quoted) => Asked::by_flow(&quoted.reversed(), sender),
            None => Asked::by_sender(packet, sender),
        };
        let mut compared = Vec::new();
        let mut own = None;
        // An error without a readable quotation passes nowhere.
        let asked_about = match packet.is_icmp_error() && quoted.is_none() {
            true => &[],
            false => self.rules.as_slice(),
        };
        for rule in asked_about {
            let unmet = match whom.is_meant(&rule.users) {
                true => rule.unmet(&asked),
                false => Some(UnmetKey::new("user", "it is about other users")),
            };
            let matches = unmet.is_none();
            compared.push(ComparedRule { rule, unmet });
            if matches {
                own = Some(rule.place);
                break;
            }
        }

        // The own rule was told above; another decisive rule let the packet pass as an answer.
        let answers = decisive.filter(|place| Some(*place) != own);
        JudgedPacket {
            is_allowed: decision.is_allowed,
            compared,
            answers: answers.and_then(|place| self.rules.iter().find(|rule| rule.place == place)),
        }
    }

    /// Whether packets that no rule matches may pass.
    pub fn allows_by_default(&self) -> bool {
        self.allows_by_default
    }
}

impl UnmetKey {
    fn new(key: &'static str, said: impl Into<String>) -> Self {
        Self {
            key,
            said: said.into(),
        }
    }
}

impl Asked {
    /// The flow of a packet, if its sender opened it.
    #[inline]
    pub(super) fn by_sender(packet: &Packet<'_>, sender: OpenedBy) -> Self {
        let knows_ports = packet.fragment() != Fragment::Later;
        let asked = Self::by_flow(&packet.flow(), sender);
        Self {
            port: asked.port.filter(|_| knows_ports),
            ..asked
        }
    }

    /// A flow, if this side opened it.
    #[inline]
    pub(super) fn by_flow(flow: &IpFlow, sender: OpenedBy) -> Self {
        Self {
            opened_by: sender,
            opener: flow.source,
            target: flow.destination,
            protocol: flow.protocol,
            port: Some(flow.destination_port),
        }
    }
}

impl PacketRule {
    /// The first key that does not hold, of all but `user`; `None` exactly where it [matches](Self::matches).
    pub(super) fn unmet(&self, asked: &Asked) -> Option<UnmetKey> {
        if self.opened_by != asked.opened_by {
            let opener = match asked.opened_by {
                OpenedBy::Client => "the client opens it",
                OpenedBy::Target => "the target opens it",
            };
            return Some(UnmetKey::new("opened_by", opener));
        }
        if !self.takes_protocol(asked.protocol) {
            let said = format!("{} is another protocol", IpProtocol(asked.protocol));
            return Some(UnmetKey::new("protocol", said));
        }
        if !self.takes_opener(asked.opener) {
            let said = format!("{} is not in its prefixes", asked.opener);
            return Some(UnmetKey::new("from", said));
        }
        if !self.takes_target(asked.target) {
            let said = format!("{} is not in its prefixes", asked.target);
            return Some(UnmetKey::new("to", said));
        }
        if !self.takes_port(asked) {
            let said = match asked.port {
                Some(port) => format!("{port} is another port"),
                None => "a later fragment has no port".to_owned(),
            };
            return Some(UnmetKey::new("port", said));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use hermes_proto::ip::{IpPrefix, TCP, UDP};
    use proptest::prelude::*;

    use super::super::PortRange;
    use super::*;

    const GRE: u8 = 47;

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    fn prefixes() -> impl Strategy<Value = Vec<IpPrefix>> {
        let prefix = (0_u8..8, 28_u8..=32)
            .prop_map(|(last, length)| IpPrefix::around(address(last).into(), length).unwrap());
        prop::collection::vec(prefix, 0..2)
    }

    fn side() -> impl Strategy<Value = OpenedBy> {
        prop::sample::select(vec![OpenedBy::Client, OpenedBy::Target])
    }

    fn protocol() -> impl Strategy<Value = u8> {
        prop::sample::select(vec![TCP, UDP, GRE])
    }

    fn rule() -> impl Strategy<Value = PacketRule> {
        let protocols = prop::collection::vec(protocol(), 0..2);
        let ports = prop::collection::vec(0_u16..4, 0..2);
        (
            any::<bool>(),
            side(),
            prefixes(),
            prefixes(),
            protocols,
            ports,
        )
            .prop_map(
                |(allow, opened_by, from, to, protocols, ports)| PacketRule {
                    allow,
                    opened_by,
                    from,
                    to,
                    protocols,
                    ports: ports
                        .into_iter()
                        .map(|port| PortRange {
                            first: port,
                            last: port,
                        })
                        .collect(),
                    ..PacketRule::allow("rule")
                },
            )
    }

    proptest! {
        #[test]
        fn a_rule_has_an_unmet_key_exactly_where_it_does_not_match(
            rule in rule(), opened_by in side(), opener in 0_u8..8, target in 0_u8..8,
            protocol in protocol(), port in prop::option::of(0_u16..5),
        ) {
            let asked = Asked {
                opened_by,
                opener: address(opener).into(),
                target: address(target).into(),
                protocol,
                port,
            };
            let unmet = rule.unmet(&asked);
            prop_assert_eq!(unmet.is_none(), rule.matches(&asked), "{:?}", unmet);
        }
    }
}
