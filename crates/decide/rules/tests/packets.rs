//! Policy on packets.

#![expect(
    clippy::unwrap_used,
    reason = "the functions around the tests are tests, too"
)]

use std::net::{IpAddr, Ipv6Addr};

use hermes_proto::ip::checksum::checksum;
use hermes_proto::ip::{IpPrefix, Packet, TCP, UDP};
use hermes_rules::packets::{
    MAX_PACKET_RULES, OpenedBy, PacketDecision, PacketPolicy, PacketRule, PortRange,
};
use hermes_rules::{ClaimedGroups, Names, Whom};
use proptest::prelude::*;

const CLIENT: &str = "10.9.0.17";
const HOST: &str = "198.51.100.7";

const SYN: u8 = 0x02;
const SYN_ACK: u8 = 0x12;
const ACK: u8 = 0x10;

fn whom<'a>(names: &'a Names, user: Option<&'a str>) -> Whom<'a> {
    Whom::new(names, user, ClaimedGroups::default())
}

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn ports(first: u16, last: u16) -> Vec<PortRange> {
    vec![PortRange { first, last }]
}

/// A packet of IPv4 with a protocol that has ports; `flags` are those of TCP.
fn packet(from: (&str, u16), to: (&str, u16), protocol: u8, flags: u8) -> Vec<u8> {
    let mut transport = from.1.to_be_bytes().to_vec();
    transport.extend(to.1.to_be_bytes());
    transport.resize(20, 0);
    transport[12] = 0x50;
    transport[13] = flags;
    raw(from.0, to.0, protocol, 0, &transport)
}

fn raw(from: &str, to: &str, protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let [from, to] = [from, to].map(|text| text.parse::<IpAddr>().unwrap());
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from, to) else {
        panic!("packets of these tests are of IPv4")
    };
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(payload);
    packet
}

fn decide(policy: &PacketPolicy, packet: &[u8], sender: OpenedBy) -> PacketDecision {
    policy.decide(&Packet::parse(packet).unwrap(), sender)
}

fn allows(policy: &PacketPolicy, packet: &[u8], sender: OpenedBy) -> bool {
    decide(policy, packet, sender).is_allowed
}

fn compile(rules: &[PacketRule]) -> PacketPolicy {
    PacketPolicy::compile(rules, false, &whom(&Names::default(), Some("alice"))).unwrap()
}

/// A web server, and nothing else.
fn web() -> PacketPolicy {
    let mut web = PacketRule::allow("web");
    web.to = vec![prefix("198.51.100.0/24")];
    web.protocols = vec![TCP];
    web.ports = ports(443, 443);
    compile(&[web])
}

#[test]
fn what_a_rule_allows_passes_with_its_answers() {
    let policy = web();
    let client = (CLIENT, 40_000);
    let host = (HOST, 443);
    for flags in [SYN, ACK] {
        assert!(allows(
            &policy,
            &packet(client, host, TCP, flags),
            OpenedBy::Client
        ));
    }
    for flags in [SYN_ACK, ACK] {
        assert!(allows(
            &policy,
            &packet(host, client, TCP, flags),
            OpenedBy::Target
        ));
    }
    for other in [(HOST, 80), ("203.0.113.1", 443)] {
        assert!(!allows(
            &policy,
            &packet(client, other, TCP, SYN),
            OpenedBy::Client
        ));
        assert!(!allows(
            &policy,
            &packet(other, client, TCP, ACK),
            OpenedBy::Target
        ));
    }
    assert!(!allows(
        &policy,
        &packet(client, host, UDP, 0),
        OpenedBy::Client
    ));
}

#[test]
fn a_target_opens_no_connection_unless_a_rule_says_so() {
    let opening = packet((HOST, 443), (CLIENT, 22), TCP, SYN);
    assert!(!allows(&web(), &opening, OpenedBy::Target));

    let mut ssh = PacketRule::allow("ssh");
    ssh.opened_by = OpenedBy::Target;
    ssh.from = vec![prefix(HOST)];
    ssh.ports = ports(22, 22);
    let policy = compile(&[ssh]);
    assert!(allows(&policy, &opening, OpenedBy::Target));
    let answer = packet((CLIENT, 22), (HOST, 443), TCP, SYN_ACK);
    assert!(allows(&policy, &answer, OpenedBy::Client));
    let reverse = packet((CLIENT, 443), (HOST, 22), TCP, SYN);
    assert!(!allows(&policy, &reverse, OpenedBy::Client));
}

#[test]
fn the_first_rule_that_matches_decides_and_is_named() {
    let mut admin = PacketRule::deny("admin");
    admin.to = vec![prefix("198.51.100.7")];
    admin.ports = ports(8000, 8999);
    let mut all = PacketRule::allow("all");
    all.to = vec![prefix("198.51.100.0/24")];
    let packet = |port| packet((CLIENT, 1), (HOST, port), TCP, SYN);

    let policy = compile(&[admin.clone(), all.clone()]);
    for (port, allowed, by) in [
        (8080, false, "admin"),
        (7999, true, "all"),
        (9000, true, "all"),
    ] {
        let decision = decide(&policy, &packet(port), OpenedBy::Client);
        assert_eq!(decision.is_allowed, allowed);
        assert_eq!(policy.by(decision), by);
    }
    let reversed = compile(&[all, admin]);
    assert!(allows(&reversed, &packet(8080), OpenedBy::Client));

    let nothing = compile(&[]);
    let decision = decide(&nothing, &packet(1), OpenedBy::Client);
    assert_eq!(nothing.by(decision), "default");
    assert!(!decision.is_allowed);
}

#[test]
fn rules_are_about_their_users() {
    let mut bob = PacketRule::allow("bob");
    bob.users = vec!["bob".parse().unwrap()];
    for (user, count) in [(Some("alice"), 0), (Some("bob"), 1), (None, 0)] {
        let policy = PacketPolicy::compile(
            std::slice::from_ref(&bob),
            false,
            &whom(&Names::default(), user),
        )
        .unwrap();
        assert_eq!(policy.rules().len(), count, "{user:?}");
    }
}

#[test]
fn where_all_is_allowed_a_denied_flow_has_no_answers_either() {
    let mut no_dns = PacketRule::deny("no dns");
    no_dns.ports = ports(53, 53);
    let policy = PacketPolicy::compile(&[no_dns], true, &Whom::default()).unwrap();
    let question = packet((CLIENT, 5353), (HOST, 53), UDP, 0);
    assert!(!allows(&policy, &question, OpenedBy::Client));
    assert!(allows(
        &policy,
        &packet((CLIENT, 53), (HOST, 5353), UDP, 0),
        OpenedBy::Client
    ));
}

#[test]
fn a_later_fragment_passes_only_where_no_port_matters() {
    let later = raw(CLIENT, HOST, UDP, 100, &[0; 16]);
    let mut by_port = PacketRule::allow("by port");
    by_port.ports = ports(443, 443);
    assert!(!allows(&compile(&[by_port]), &later, OpenedBy::Client));

    let all = PacketRule::allow("all");
    assert!(allows(
        &compile(std::slice::from_ref(&all)),
        &later,
        OpenedBy::Client
    ));
    let mut denied = PacketRule::deny("denied");
    denied.ports = ports(53, 53);
    assert!(!allows(&compile(&[denied, all]), &later, OpenedBy::Client));
}

#[test]
fn errors_pass_and_questions_meet_the_rules() {
    let policy = web();
    // An error is judged by the packet that it quotes: one of the client to port 443 of a host that the rule allows, or to port 80.
    let about = |port: u8| {
        let quoted = raw(CLIENT, HOST, TCP, 0, &[0x9c, 0x40, 0, port, 0, 0, 0, 0]);
        let error = [&[3, 4, 0, 0, 0, 0, 5, 0], &quoted[..]].concat();
        raw("203.0.113.1", CLIENT, 1, 0, &error)
    };
    let known = raw(CLIENT, HOST, TCP, 0, &[0x9c, 0x40, 1, 187, 0, 0, 0, 0]);
    let unreachable = [&[3, 4, 0, 0, 0, 0, 5, 0], &known[..]].concat();
    let unreachable = raw("203.0.113.1", CLIENT, 1, 0, &unreachable);
    assert!(allows(&policy, &unreachable, OpenedBy::Target));
    assert!(!allows(&policy, &about(80), OpenedBy::Target));
    let empty = raw("203.0.113.1", CLIENT, 1, 0, &[3, 4, 0, 0, 0, 0, 5, 0]);
    assert!(!allows(&policy, &empty, OpenedBy::Target));
    let echo = raw(CLIENT, HOST, 1, 0, &[8, 0, 0, 0, 0, 1, 0, 1]);
    assert!(!allows(&policy, &echo, OpenedBy::Client));
    let mut ping = PacketRule::allow("ping");
    ping.protocols = vec![1];
    assert!(allows(&compile(&[ping]), &echo, OpenedBy::Client));
}

/// A packet of IPv6 that opens a connection of TCP.
fn opening_v6(to: &str) -> Vec<u8> {
    let [from, to] = ["2001:db8::17", to].map(|text| text.parse::<Ipv6Addr>().unwrap());
    let mut packet = vec![0x60, 0, 0, 0, 0, 20, TCP, 64];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend([0x9c, 0x40, 0, 80]);
    packet.resize(60, 0);
    packet[52] = 0x50;
    packet[53] = SYN;
    packet
}

#[test]
fn rules_that_deny_ipv4_addresses_deny_the_ipv6_ones_that_hold_them() {
    let names = Names::default();
    let compile = |rule: &PacketRule, default| {
        let rules = std::slice::from_ref(rule);
        PacketPolicy::compile(rules, default, &whom(&names, None)).unwrap()
    };
    let to = vec![prefix("10.0.0.0/8")];
    let deny = PacketRule {
        to: to.clone(),
        ..PacketRule::deny("inner")
    };
    let allow = PacketRule {
        to,
        ..PacketRule::allow("inner")
    };

    let denies = compile(&deny, true);
    let allows_some = compile(&allow, false);
    for held in [
        "64:ff9b::10.1.2.3",
        "2002:a01:203::1",
        "::ffff:10.1.2.3",
        "::10.1.2.3",
    ] {
        let packet = opening_v6(held);
        assert!(!allows(&denies, &packet, OpenedBy::Client), "{held}");
        assert!(!allows(&allows_some, &packet, OpenedBy::Client), "{held}");
    }
    for other in [
        "64:ff9b::192.0.2.1",
        "2001:db8::a01:203",
        "2002:c000:201::1",
    ] {
        assert!(
            allows(&denies, &opening_v6(other), OpenedBy::Client),
            "{other}"
        );
    }

    // A host behind a translator opens it.
    let opened_by_target = PacketRule {
        opened_by: OpenedBy::Target,
        from: vec![prefix("10.0.0.0/8")],
        ..PacketRule::deny("outer")
    };
    let mut packet = opening_v6("2001:db8::99");
    let translated = "64:ff9b::10.1.2.3".parse::<Ipv6Addr>().unwrap();
    packet[8..24].copy_from_slice(&translated.octets());
    let denies = compile(&opened_by_target, true);
    assert!(!allows(&denies, &packet, OpenedBy::Target));
}

#[test]
fn too_many_rules_are_an_error() {
    let many = vec![PacketRule::allow("one"); MAX_PACKET_RULES + 1];
    let error = PacketPolicy::compile(&many, false, &Whom::default()).unwrap_err();
    assert!(error.to_string().starts_with("16385 rules on packets"));
}

/// A rule about few prefixes, protocols and ports, so that many match.
fn any_rule() -> impl Strategy<Value = PacketRule> {
    let prefixes = || {
        let prefix = (0_u8..8, 29_u8..=32)
            .prop_map(|(last, length)| IpPrefix::around([10, 0, 0, last].into(), length).unwrap());
        prop::collection::vec(prefix, 0..3)
    };
    let range = (0_u16..4, 0_u16..4).prop_map(|(first, more)| PortRange {
        first,
        last: first + more,
    });
    let protocols = prop::collection::vec(prop::sample::select(vec![TCP, UDP, 47]), 0..2);
    let from_target = any::<bool>();
    let shape = (any::<bool>(), from_target, prefixes(), prefixes());
    (shape, protocols, prop::collection::vec(range, 0..2)).prop_map(
        |((allow, from_target, from, to), protocols, ports)| PacketRule {
            allow,
            opened_by: if from_target {
                OpenedBy::Target
            } else {
                OpenedBy::Client
            },
            from,
            to,
            protocols,
            ports,
            ..PacketRule::allow("rule")
        },
    )
}

proptest! {
    #[test]
    fn the_index_finds_the_rule_that_a_search_through_all_finds(
        rules in prop::collection::vec(any_rule(), 0..12), from in 0_u8..8, to in 0_u8..8,
        protocol in prop::sample::select(vec![TCP, UDP, 47]), port in 0_u16..6,
    ) {
        let policy = compile(&rules);
        let [source, target] = [from, to].map(|last| format!("10.0.0.{last}"));
        let sent = packet((&source, 9), (&target, port), protocol, SYN);
        let has_ports = protocol != 47;
        let holds = |prefixes: &[IpPrefix], address: &str| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address.parse().unwrap()))
        };
        let first = rules.iter().position(|rule| {
            rule.opened_by == OpenedBy::Client
                && holds(&rule.from, &source)
                && holds(&rule.to, &target)
                && (rule.protocols.is_empty() || rule.protocols.contains(&protocol))
                && (rule.ports.is_empty()
                    || has_ports && rule.ports.iter().any(|range| range.first <= port && port <= range.last))
        });

        let decision = decide(&policy, &sent, OpenedBy::Client);
        let expected = first.is_some_and(|index| rules[index].allow);
        // An answer may be allowed where opening is not; a connection of TCP is opened here.
        if protocol == TCP {
            prop_assert_eq!(decision.is_allowed, expected);
            prop_assert_eq!(decision.rule, first.map(|index| index as u32));
        } else if expected {
            prop_assert!(decision.is_allowed);
        }
    }
}
