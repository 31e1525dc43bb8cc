//! From destinations to tunnels.

use std::collections::HashMap;
use std::net::IpAddr;

use hermes_ip::{NextHop, RouteConflict, RoutingTable};
use hermes_proto::ip::IpPrefix;
use proptest::prelude::*;

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn the_longest_prefix_counts() {
    let mut table = RoutingTable::new(false);
    for (owner, text) in [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3",
        "2001:db8::/32",
    ]
    .iter()
    .enumerate()
    {
        table.insert(prefix(text), owner).unwrap();
    }
    for (text, owner) in [
        ("192.0.2.1", Some(0)),
        ("10.2.0.1", Some(1)),
        ("10.1.2.4", Some(2)),
        ("10.1.2.3", Some(3)),
        ("2001:db8::1", Some(4)),
        ("2001:db9::1", None),
    ] {
        assert_eq!(table.owner(address(text)), owner, "{text}");
    }
    table.remove(3);
    assert_eq!(table.owner(address("10.1.2.3")), Some(2));
    assert_eq!(table.len(), 4);
}

#[test]
fn two_tunnels_that_claim_one_prefix_are_a_conflict() {
    let mut table = RoutingTable::new(false);
    let claimed = prefix("10.0.0.0/24");
    assert_eq!(table.insert(claimed, 1), Ok(()));
    assert_eq!(table.insert(claimed, 1), Ok(()));
    let conflict = table.insert(claimed, 2).unwrap_err();
    assert_eq!(
        conflict,
        RouteConflict::Owned {
            prefix: claimed,
            owner: 1
        }
    );
    assert_eq!(
        conflict.to_string(),
        "10.0.0.0/24 is already routed to another tunnel"
    );
    assert_eq!(table.prefixes(2), []);
    assert!(!table.withdraw(claimed, 2));

    let wanted = [claimed, prefix("10.0.1.0/24")];
    assert_eq!(table.replace(2, &wanted), [conflict]);
    assert_eq!(table.prefixes(2), [wanted[1]]);
    assert!(table.withdraw(claimed, 1));
    assert_eq!(table.replace(2, &wanted), []);
    assert_eq!(table.replace(2, &[]), []);
    assert!(table.is_empty());
}

#[test]
fn clients_do_not_talk_to_each_other_unless_they_may() {
    for client_to_client in [false, true] {
        let mut table = RoutingTable::new(client_to_client);
        table.insert(prefix("10.0.0.1"), 'a').unwrap();
        table.insert(prefix("10.0.0.2"), 'b').unwrap();
        let expected = match client_to_client {
            true => NextHop::Owner('b'),
            false => NextHop::Forbidden,
        };
        assert_eq!(table.next_hop(Some('a'), address("10.0.0.2")), expected);
        assert_eq!(
            table.next_hop(None, address("10.0.0.2")),
            NextHop::Owner('b')
        );
        assert_eq!(
            table.next_hop(Some('a'), address("192.0.2.1")),
            NextHop::Elsewhere
        );
        // Never back to where it came from.
        assert_eq!(
            table.next_hop(Some('a'), address("10.0.0.1")),
            NextHop::Forbidden
        );
    }
}

#[test]
fn a_tunnel_that_moves_hands_its_routes_over() {
    let mut table = RoutingTable::new(false);
    let both = ["10.0.0.0/24", "2001:db8::/48"].map(prefix);
    assert_eq!(table.replace(1, &both), []);
    table.hand_over(1, 2);
    assert_eq!(table.owner(address("10.0.0.9")), Some(2));
    assert_eq!(table.owner(address("2001:db8::9")), Some(2));
    table.remove(1);
    assert_eq!(table.len(), 2);
    table.remove(2);
    assert!(table.is_empty());
    table.hand_over(2, 3);
    assert!(table.prefixes(3).is_empty());
}

proptest! {
    #[test]
    fn finds_what_a_search_through_all_finds(
        steps in prop::collection::vec((0_u8..5, 0_u8..4, 0_u8..16, 28_u8..=32), 0..60), probes in prop::collection::vec(0_u8..16, 8),
    ) {
        let mut table = RoutingTable::new(true);
        let mut model: HashMap<IpPrefix, u8> = HashMap::new();
        for (step, owner, last, length) in steps {
            let prefix = IpPrefix::around([10, 0, 0, last].into(), length).unwrap();
            match step {
                0 => {
                    table.remove(owner);
                    model.retain(|_, other| *other != owner);
                }
                1 => {
                    let had = model.get(&prefix) == Some(&owner);
                    prop_assert_eq!(table.withdraw(prefix, owner), had);
                    if had {
                        model.remove(&prefix);
                    }
                }
                2 => {
                    table.hand_over(owner, 9);
                    model.values_mut().filter(|other| **other == owner).for_each(|other| *other = 9);
                }
                _ => {
                    let free = *model.entry(prefix).or_insert(owner) == owner;
                    prop_assert_eq!(table.insert(prefix, owner).is_ok(), free);
                }
            }
        }

        prop_assert_eq!(table.len(), model.len());
        for last in probes {
            let probe = IpAddr::from([10, 0, 0, last]);
            let matching = model.iter().filter(|(prefix, _)| prefix.contains(probe));
            let best = matching.max_by_key(|(prefix, _)| prefix.length()).map(|(_, owner)| *owner);
            prop_assert_eq!(table.owner(probe), best);
        }
    }
}
