//! Rules on packets that can never decide, because an earlier one takes every flow that they would.

use hermes_config::model;
use hermes_proto::ip::IpPrefix;

use super::rule::PacketRule;
use crate::shadow::Shadow;

/// Rules that are each compared with all before: some millions of comparisons, a fraction of a
/// second. Later rules are not compared.
#[doc(alias = "bound")]
const COMPARED: usize = 4_096;

/// The rules that can never decide, each with the first rule to blame.
pub fn shadowed_packet_rules(rules: &[model::PacketRule]) -> Vec<Shadow> {
    let rules = &rules[..rules.len().min(COMPARED)];
    // One without either, or with both, is wrong for another reason.
    let decides: Vec<_> = rules
        .iter()
        .map(|rule| (rule.allow == Some(true)) != (rule.deny == Some(true)))
        .collect();
    let rules = rules.iter().enumerate();
    let rules: Vec<_> = rules
        .map(|(place, rule)| PacketRule::of(place, rule))
        .collect();

    let blame = |(dead, later): (usize, &PacketRule)| {
        let mut earlier = rules[..dead].iter();
        let by = earlier.position(|earlier| decides[earlier.place] && covers(earlier, later))?;
        Some(Shadow { dead, by })
    };
    rules.iter().enumerate().filter_map(blame).collect()
}

/// Whether every flow that matches `later` certainly matches `earlier`.
fn covers(earlier: &PacketRule, later: &PacketRule) -> bool {
    earlier.opened_by == later.opened_by
        && is_within(&later.users, &earlier.users, |one, other| one == other)
        && is_within(&later.protocols, &earlier.protocols, |one, other| {
            one == other
        })
        && is_within(&later.to, &earlier.to, holds)
        && is_within(&later.from, &earlier.from, holds)
        && covers_ports(earlier, later)
}

/// Later fragments have no port: a rule with ports takes them if it denies, and does not if it allows.
fn covers_ports(earlier: &PacketRule, later: &PacketRule) -> bool {
    if earlier.ports.is_empty() {
        return true;
    }
    let takes_fragments = !earlier.allow || later.allow;
    takes_fragments
        && is_within(&later.ports, &earlier.ports, |one, other| {
            other.first <= one.first && one.last <= other.last
        })
}

/// Whether each of one list is within one of the other; an empty list means any.
fn is_within<T>(list: &[T], wider: &[T], is_in: impl Fn(&T, &T) -> bool) -> bool {
    if wider.is_empty() {
        return true;
    }
    !list.is_empty()
        && list
            .iter()
            .all(|one| wider.iter().any(|other| is_in(one, other)))
}

fn holds(one: &IpPrefix, wider: &IpPrefix) -> bool {
    wider.covers(one)
}

#[cfg(test)]
mod tests {
    use hermes_proto::ip::{Packet, TCP, UDP};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::packets::{OpenedBy, PacketPolicy};
    use crate::{Names, Whom};

    fn read(rules: Value) -> Vec<model::PacketRule> {
        serde_json::from_value(rules).unwrap()
    }

    fn shadowed(rules: Value) -> Vec<(usize, usize)> {
        let found = shadowed_packet_rules(&read(rules));
        found
            .iter()
            .map(|shadow| (shadow.dead, shadow.by))
            .collect()
    }

    #[test]
    fn what_an_earlier_rule_takes_is_told_with_that_rule() {
        let web = json!({ "to": "10.0.2.0/24", "protocol": "tcp", "port": [443, "8000-8999"], "allow": true });
        let one = json!({ "user": "alice", "to": "10.0.2.7/32", "protocol": "tcp", "port": 8080, "allow": true });
        assert_eq!(shadowed(json!([web, one])), [(1, 0)]);
        assert_eq!(shadowed(json!([one, web])), []);

        // Its fragments are another matter.
        let denies = json!({ "to": "10.0.2.7/32", "protocol": "tcp", "port": 443, "deny": true });
        assert_eq!(shadowed(json!([web, denies])), []);
        assert_eq!(
            shadowed(json!([{ "protocol": ["tcp", "udp"], "allow": true }, denies])),
            [(1, 0)]
        );

        for other in [
            json!({ "opened_by": "target", "to": "10.0.2.7/32", "protocol": "tcp", "port": 443, "allow": true }),
            json!({ "to": "10.0.3.7/32", "protocol": "tcp", "port": 443, "allow": true }),
            json!({ "protocol": "tcp", "port": 443, "allow": true }),
            json!({ "to": "10.0.2.7/32", "port": 443, "allow": true }),
            json!({ "to": "10.0.2.7/32", "protocol": "tcp", "port": "8080-9000", "allow": true }),
            json!({ "to": "10.0.2.7/32", "protocol": "tcp", "allow": true }),
        ] {
            assert_eq!(shadowed(json!([web, other.clone()])), [], "{other}");
        }
        let staff = json!({ "user": ["group:staff", "bob"], "allow": true });
        assert_eq!(
            shadowed(json!([staff, { "user": "bob", "deny": true }])),
            [(1, 0)]
        );
        assert_eq!(
            shadowed(json!([staff, { "user": "eve", "deny": true }])),
            []
        );
    }

    /// A packet of IPv4 with ports, or a later fragment.
    fn packet(from: u8, to: u8, protocol: u8, port: u16, is_later: bool) -> Vec<u8> {
        let fragment = if is_later { 32 } else { 0 };
        let mut bytes = vec![0x45, 0, 0, 40, 0, 0, 0, fragment, 64, protocol, 0, 0];
        bytes.extend([10, 0, 1, from, 10, 0, 2, to]);
        let sum = hermes_proto::ip::checksum::checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(50_000_u16.to_be_bytes());
        bytes.extend(port.to_be_bytes());
        bytes.resize(32, 0);
        bytes.extend([0x50, 0x02, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    fn rule() -> impl Strategy<Value = Value> {
        let port = prop_oneof![
            Just(json!(null)),
            (1_u16..5).prop_map(|port| json!(port)),
            (1_u16..3).prop_map(|port| json!(format!("{port}-{}", port + 2))),
        ];
        let protocol = prop_oneof![
            Just(json!(null)),
            Just(json!("tcp")),
            Just(json!(["tcp", "udp"]))
        ];
        let net = |third: u8| {
            prop_oneof![
                Just(json!(null)),
                (0_u8..4).prop_map(move |host| json!(format!("10.0.{third}.{host}/32"))),
                (0_u8..2).prop_map(move |half| json!(format!("10.0.{third}.{}/31", 2 * half))),
            ]
        };
        (port, protocol, net(1), net(2), any::<bool>()).prop_map(
            |(port, protocol, from, to, allow)| {
                let effect = if allow { "allow" } else { "deny" };
                let mut rule = json!({ effect: true });
                for (key, value) in [
                    ("port", port),
                    ("protocol", protocol),
                    ("from", from),
                    ("to", to),
                ] {
                    if !value.is_null() {
                        rule[key] = value;
                    }
                }
                rule
            },
        )
    }

    proptest! {
        #[test]
        fn a_rule_that_is_told_of_never_decides(
            rules in prop::collection::vec(rule(), 1..6),
            flows in prop::collection::vec((0_u8..4, 0_u8..4, any::<bool>(), 1_u16..6, any::<bool>()), 40),
        ) {
            let read = read(Value::Array(rules));
            let dead: Vec<_> = shadowed_packet_rules(&read).iter().map(|shadow| shadow.dead).collect();
            let compiled: Vec<_> = read.iter().enumerate().map(|(place, rule)| PacketRule::of(place, rule)).collect();
            let names = Names::default();
            let whom = Whom::new(&names, None, crate::ClaimedGroups::default());
            let policy = PacketPolicy::compile(&compiled, false, &whom).unwrap();

            for (from, to, is_tcp, port, is_later) in flows {
                let protocol = if is_tcp { TCP } else { UDP };
                let bytes = packet(from, to, protocol, port, is_later);
                let packet = Packet::parse(&bytes).unwrap();
                let decided = policy.decide(&packet, OpenedBy::Client).rule;
                if let Some(rule) = decided {
                    prop_assert!(!dead.contains(&(rule as usize)), "{rule} of {read:?}");
                }
            }
        }
    }
}
