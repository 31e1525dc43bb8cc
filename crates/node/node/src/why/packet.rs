//! A packet of a tunnel that is only supposed, as a person writes it: `PACKET tcp 10.0.2.1:443`, with the address that it comes from.

use std::net::{IpAddr, SocketAddr};

use hermes_admit::filter::{FLOW_REGO, FlowRego, FlowRuling, FlowTunnel};
use hermes_config::model::IpProtocol;
use hermes_packet::tun::FlowQuestion;
use hermes_plug::Outcome;
use hermes_proto::ip::checksum::checksum;
use hermes_proto::ip::{ICMP, ICMPV6, Packet, TCP};
use hermes_rules::Rules;
use hermes_rules::judge::{Authenticated, Phase, Step};
use hermes_rules::packets::{OpenedBy, has_ports};
use serde_json::{Map, Value};

use super::question::CLIENT_PORT;

/// A packet that the client of a tunnel sends.
const FROM_CLIENT: &str = "PACKET";

/// One that the other side sends.
const TO_CLIENT: &str = "PACKET-TO-CLIENT";

/// How a packet is asked about.
const EXAMPLE: &str = "say which packet: PACKET tcp 10.0.2.1:443, PACKET icmp 10.0.2.1";

/// Bytes of a header of IPv4 without options, and of TCP without options.
const HEADER: u8 = 20;

/// The target of a supposed tunnel.
const EVERYTHING: &str = "*";

/// The policy about flows, and its further input about a supposed tunnel.
#[derive(Clone, Copy)]
pub(crate) struct SupposedFlows<'a> {
    pub(crate) policy: &'a FlowRego,
    /// The claims of its user's token.
    pub(crate) claims: Option<&'a Map<String, Value>>,
    pub(crate) listener: &'a str,
}

/// The first packet of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupposedPacket {
    sender: OpenedBy,
    protocol: u8,
    source: SocketAddr,
    /// Port 0 where the protocol has none.
    destination: SocketAddr,
}

/// The forecast of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedSupposed {
    /// The steps that were compared.
    pub steps: Vec<Step>,
    /// Which rule lets it pass, or why it may not.
    pub outcome: Result<String, String>,
}

impl SupposedPacket {
    /// Of the words on the command line; `None` where they are about no packet.
    ///
    /// # Errors
    /// In words.
    pub fn parse(words: &[String], source: Option<IpAddr>) -> Result<Option<Self>, String> {
        let Some((verb, rest)) = words.split_first() else {
            return Ok(None);
        };
        let sender = match verb.to_ascii_uppercase().as_str() {
            FROM_CLIENT => OpenedBy::Client,
            TO_CLIENT => OpenedBy::Target,
            _ => return Ok(None),
        };
        let [protocol, destination] = rest else {
            return Err(EXAMPLE.to_owned());
        };

        let IpProtocol(protocol) = protocol
            .parse()
            .map_err(|error| format!("{protocol}: {error}"))?;
        let destination = match has_ports(protocol) {
            true => destination.parse().map_err(|_| {
                format!("{destination} is not an address and port, such as 10.0.2.1:443")
            })?,
            false => {
                let address: IpAddr = destination
                    .parse()
                    .map_err(|_| format!("{destination} is not an address"))?;
                SocketAddr::new(address, 0)
            }
        };

        let source = source.ok_or("say which address the packet comes from")?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err("a packet comes from and goes to addresses of one family".to_owned());
        }
        Ok(Some(Self {
            sender,
            protocol,
            source: SocketAddr::new(source, CLIENT_PORT),
            destination,
        }))
    }

    /// Has the rules on packets judge it, as one of a tunnel of this user, and then the policy about flows, if they allow it.
    ///
    /// # Errors
    /// It cannot be a packet.
    pub(crate) fn judge<H>(
        &self,
        rules: &Rules<H>,
        whose: Authenticated<'_>,
        asked: Option<SupposedFlows<'_>>,
    ) -> Result<JudgedSupposed, String> {
        let bytes = self.bytes();
        let packet = Packet::parse(&bytes).map_err(|error| error.to_string())?;
        let mut steps = Vec::new();
        let mut outcome = rules.judge_packet(whose, &packet, self.sender, &mut steps);
        if let (Ok(said), Some(asked)) = (&outcome, asked) {
            let user = whose.user.map(|name| rules.aliases.user_of(name));
            let question = FlowQuestion {
                flow: packet.flow(),
                opened_by: self.sender,
            };
            let tunnel = FlowTunnel {
                user,
                groups: &rules.names.groups_of(user),
                claims: asked.claims,
                certificate: None,
                listener: asked.listener,
                target: EVERYTHING,
            };
            let FlowRuling {
                outcome: ruled,
                reason,
            } = asked.policy.judge(&question, tunnel);
            let is_allowed = ruled == Outcome::Allowed;
            let word = ruled.word();
            steps.push(Step {
                phase: Phase::Policy,
                path: FLOW_REGO.to_owned(),
                said: format!("{word}: {reason}"),
            });
            outcome = match is_allowed {
                true => Ok(format!("{said}, and so does the policy in Rego")),
                false => Err(format!("the policy in Rego does not allow it: {reason}")),
            };
        }
        Ok(JudgedSupposed { steps, outcome })
    }

    /// In words.
    pub fn describe(&self) -> String {
        let protocol = IpProtocol(self.protocol);
        let sender = match self.sender {
            OpenedBy::Client => "the client",
            OpenedBy::Target => "the target",
        };
        let source = self.source.ip();
        let destination = self.destination.ip();
        match has_ports(self.protocol) {
            true => {
                let destination = self.destination;
                format!("packet of {protocol} from {sender}, {source} to {destination}")
            }
            false => format!("packet of {protocol} from {sender}, {source} to {destination}"),
        }
    }

    /// The packet: the headers that a rule can look at, and nothing behind them.
    fn bytes(&self) -> Vec<u8> {
        let mut payload = vec![0; usize::from(HEADER)];
        match self.protocol {
            // Echo requests (RFC 792; RFC 4443, section 4.1).
            ICMP => payload[0] = 8,
            ICMPV6 => payload[0] = 128,
            protocol if has_ports(protocol) => {
                payload[..2].copy_from_slice(&self.source.port().to_be_bytes());
                payload[2..4].copy_from_slice(&self.destination.port().to_be_bytes());
            }
            _ => {}
        }
        if self.protocol == TCP {
            // The length of the header in words, and SYN (RFC 9293, section 3.1).
            payload[12] = (HEADER / 4) << 4;
            payload[13] = 0x02;
        }

        let mut packet = match (self.source.ip(), self.destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let mut header = vec![0x45, 0, 0, 2 * HEADER, 0, 0, 0, 0, 64, self.protocol, 0, 0];
                header.extend(source.octets());
                header.extend(destination.octets());
                let sum = checksum(&header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
                header
            }
            (source, destination) => {
                let mut header = vec![0x60, 0, 0, 0, 0, HEADER, self.protocol, 64];
                for address in [source, destination] {
                    let octets = match address {
                        IpAddr::V6(address) => address.octets(),
                        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    };
                    header.extend(octets);
                }
                header
            }
        };
        packet.extend(payload);
        packet
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::model::Document;
    use serde_json::json;

    use super::*;

    fn judge(words: &str, source: &str, user: Option<&str>) -> Result<String, String> {
        let document: Document = serde_json::from_value(json!({
            "version": 1,
            "users": { "alice": ["al"] },
            "groups": { "admins": ["alice"] },
            "policy": { "default": "allow", "packets": { "rules": [
                { "name": "ssh", "user": "group:admins", "to": "10.0.2.0/24", "protocol": "tcp", "port": 22, "allow": true },
                { "name": "dns", "protocol": "udp", "port": 53, "from": ["10.9.0.0/16", "fd02::/64"], "allow": true },
                { "name": "back", "opened_by": "target", "protocol": "udp", "port": 50_000, "allow": true },
                { "name": "ping", "protocol": ["icmp", "icmpv6"], "allow": true },
                { "name": "no-gre", "protocol": "gre", "deny": true },
            ] } },
        }))
        .unwrap();
        let rules = Rules::<()>::compile(&document, "gate".into(), |_, _| Some(())).unwrap();
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        let packet = SupposedPacket::parse(&words, source.parse().ok())?;
        let whose = Authenticated {
            user,
            ..Authenticated::default()
        };
        let judged = packet.unwrap().judge(&rules, whose, None)?;
        let steps: Vec<_> = judged.steps.iter().map(|step| &*step.path).collect();
        let said = match judged.outcome {
            Ok(said) => said,
            Err(denied) => format!("no: {denied}"),
        };
        Ok(format!("{said} ({})", steps.join(" ")))
    }

    #[test]
    fn the_first_rule_that_matches_decides_and_each_before_it_says_which_key_does_not() {
        let rule = |number: usize| format!("policy.packets.rules[{number}]");
        let ssh = judge("PACKET tcp 10.0.2.7:22", "10.9.0.2", Some("al")).unwrap();
        assert_eq!(ssh, format!("rule ssh on packets allows it ({})", rule(0)));

        let other = judge("PACKET tcp 10.0.2.7:22", "10.9.0.2", Some("bob")).unwrap();
        assert!(
            other.starts_with("no: no rule on packets allows it (policy.packets.rules[0].user ")
        );
        assert!(other.ends_with(" policy.packets.default)"), "{other}");

        let six = judge("packet udp [fd02::9]:53", "fd02::2", None).unwrap();
        assert!(six.starts_with("rule dns on packets allows it"), "{six}");
        let ping = judge("PACKET icmpv6 fd02::9", "fd02::2", None).unwrap();
        assert!(ping.starts_with("rule ping on packets allows it"), "{ping}");
        let gre = judge("PACKET gre 10.0.2.7", "10.9.0.2", None).unwrap();
        assert!(
            gre.starts_with("no: rule no-gre on packets denies it"),
            "{gre}"
        );
    }

    #[test]
    fn what_answers_a_flow_that_the_other_side_may_open_passes() {
        let answer = judge("PACKET udp 10.0.2.7:9", "192.0.2.1", None).unwrap();
        assert!(
            answer.starts_with("rule back on packets allows it"),
            "{answer}"
        );
        let back = judge("PACKET-TO-CLIENT udp 10.9.0.2:50000", "10.0.2.7", None).unwrap();
        assert!(back.starts_with("rule back on packets allows it"), "{back}");
    }

    #[test]
    fn what_is_no_packet_says_so() {
        for (words, source, said) in [
            ("PACKET tcp", "10.9.0.2", EXAMPLE),
            (
                "PACKET tcp 10.0.2.7",
                "10.9.0.2",
                "10.0.2.7 is not an address and port, such as 10.0.2.1:443",
            ),
            ("PACKET icmp host", "10.9.0.2", "host is not an address"),
            (
                "PACKET icmp ::1",
                "10.9.0.2",
                "a packet comes from and goes to addresses of one family",
            ),
            (
                "PACKET icmp 10.0.2.7",
                "",
                "say which address the packet comes from",
            ),
        ] {
            assert_eq!(judge(words, source, None).unwrap_err(), said);
        }
    }
}
