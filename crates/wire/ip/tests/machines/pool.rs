//! Addresses for identities.

use std::collections::{HashMap, HashSet};

use hermes_ip::{AddressPool, Lease, LeaseKey, LeaseTextError, PoolError, PoolRange};
use hermes_proto::connect_ip::RequestedAddress;
use hermes_proto::ip::IpPrefix;
use proptest::prelude::*;

const DAY: u64 = 86_400;

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn range(text: &str) -> PoolRange {
    let prefix = prefix(text);
    let each = if prefix.is_ipv4() { 32 } else { 128 };
    PoolRange::new(prefix, each, &[]).unwrap()
}

/// 10.9.0.0/29 has six addresses, of which .1 is this node's.
fn small() -> AddressPool {
    let router = ["10.9.0.1".parse().unwrap()];
    let v4 = PoolRange::new(prefix("10.9.0.0/29"), 32, &router).unwrap();
    AddressPool::new(vec![v4, range("2001:db8:9::/64")], DAY)
}

fn addresses(lease: &Lease) -> [IpPrefix; 2] {
    [lease.v4.unwrap(), lease.v6.unwrap()]
}

#[test]
fn an_identity_has_the_same_addresses_each_time() {
    let mut pool = small();
    let first = pool.acquire("alice", &[], 0).unwrap();
    let other = pool.acquire("bob", &[], 0).unwrap();
    assert_ne!(addresses(&first)[0], addresses(&other)[0]);
    pool.release(&first.key, 10);
    assert_eq!(pool.counts(), (1, 1));
    assert_eq!(pool.acquire("alice", &[], 9 * DAY).unwrap(), first);
}

#[test]
fn tunnels_side_by_side_have_one_each_and_find_it_again() {
    let mut pool = small();
    let leases: Vec<_> = (0..3)
        .map(|_| pool.acquire("alice", &[], 0).unwrap())
        .collect();
    let distinct: HashSet<_> = leases.iter().map(|lease| lease.v4).collect();
    assert_eq!(distinct.len(), 3);
    pool.release(&leases[1].key, 5);
    assert_eq!(pool.acquire("alice", &[], 6).unwrap(), leases[1]);
    for lease in &leases {
        pool.release(&lease.key, 7);
    }
    assert_eq!(pool.acquire("alice", &[], 8).unwrap(), leases[0]);
}

#[test]
fn leases_survive_a_restart() {
    let mut pool = small();
    let names = ["alice", "bob smith", "a\\b\nc\r"];
    let leases = names.map(|name| pool.acquire(name, &[], 0).unwrap());
    let text = pool.to_text(100);

    let mut again = small();
    assert_eq!(again.restore(&text), Ok(0));
    assert_eq!(again.counts(), (0, 3));
    // In another order: each still has its own.
    for (name, lease) in names.iter().zip(&leases).rev() {
        assert_eq!(again.acquire(name, &[], 200).unwrap(), *lease);
    }
    assert_eq!(again.to_text(100), text);
}

#[test]
fn without_the_table_most_find_the_same_address_too() {
    let acquire = |names: &[&str]| {
        let mut pool = AddressPool::new(vec![range("10.0.0.0/8")], DAY);
        let leases = names.iter().map(|name| pool.acquire(name, &[], 0).unwrap());
        leases
            .map(|lease| (lease.key, lease.v4))
            .collect::<HashMap<_, _>>()
    };
    assert_eq!(
        acquire(&["alice", "bob", "carol"]),
        acquire(&["carol", "alice", "bob"])
    );
}

#[test]
fn an_exhausted_pool_says_so() {
    let mut pool = small();
    let leases: Vec<_> = (0..5)
        .map(|number| pool.acquire(&format!("user{number}"), &[], 0).unwrap())
        .collect();
    let v4: HashSet<_> = leases.iter().map(|lease| lease.v4.unwrap()).collect();
    let expected = (2..=6).map(|last| prefix(&format!("10.9.0.{last}")));
    assert_eq!(v4, expected.collect());

    let refused = pool.acquire("late", &[], 1).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "no IPv4 address is free in the pool: 5 leases are in use, 0 are kept for those who return"
    );
    // The lease is gone.
    assert_eq!(pool.counts(), (5, 0));

    // A lease that was kept for long enough is given away first, then the others.
    pool.release(&leases[2].key, 50);
    pool.release(&leases[4].key, 20);
    let lease = pool.acquire("late", &[], DAY + 20).unwrap();
    assert_eq!(lease.v4, leases[4].v4);
    assert_eq!(pool.acquire("user2", &[], DAY + 30).unwrap(), leases[2]);
    assert!(matches!(
        pool.acquire("user4", &[], DAY + 30),
        Err(PoolError::Exhausted {
            in_use: 5,
            kept: 0,
            ..
        })
    ));
}

/// As many leases as this identity gets.
fn all(pool: &mut AddressPool, identity: &str) -> Vec<Lease> {
    std::iter::from_fn(|| pool.acquire(identity, &[], 0).ok()).collect()
}

#[test]
fn an_identity_has_half_of_what_others_do_not_use() {
    let mut pool = AddressPool::new(vec![range("10.9.0.0/24")], DAY);
    let greedy = all(&mut pool, "greedy");
    assert_eq!(greedy.len(), 127);
    assert_eq!(
        pool.acquire("greedy", &[], 0).unwrap_err(),
        PoolError::Share {
            in_use: 127,
            others: 0,
            all: 254
        }
    );
    assert_eq!(all(&mut pool, "second").len(), 64);

    // And each newcomer has one, as long as there is any.
    let newcomers = (0..63).filter(|n| pool.acquire(&format!("user{n}"), &[], 0).is_ok());
    assert_eq!(newcomers.count(), 63);
    assert!(matches!(
        pool.acquire("late", &[], 0),
        Err(PoolError::Exhausted { .. })
    ));
}

#[test]
fn ten_identities_that_act_together_leave_a_quarter_to_newcomers() {
    let mut pool = AddressPool::new(vec![range("10.9.0.0/24")], DAY);
    let had = (0..10).map(|n| all(&mut pool, &format!("@2001:db8:0:{n}::1")).len());
    let had: Vec<_> = had.collect();
    assert_eq!(had[..2], [127, 64]);
    assert_eq!(had[2..], [1; 8]);
    assert!(matches!(
        pool.acquire("@2001:db8:0:5::2", &[], 0),
        Err(PoolError::Share { .. } | PoolError::Reserved { free: 55, .. })
    ));
    let newcomers = (0..55).map(|n| pool.acquire(&format!("user{n}"), &[], 0));
    assert_eq!(newcomers.filter(Result::is_ok).count(), 55);
}

#[test]
fn sources_of_one_network_share_and_each_finds_its_address_again() {
    let mut pool = AddressPool::new(vec![range("10.9.0.0/28")], DAY);
    let sources = (0..14).map(|n| pool.acquire(&format!("@2001:db8::{n:x}"), &[], 0));
    let leases: Vec<_> = sources.filter_map(Result::ok).collect();
    assert_eq!(leases.len(), 7);
    pool.release(&leases[3].key, 1);
    assert_eq!(pool.acquire("@2001:db8::3", &[], 2).unwrap(), leases[3]);

    assert!(pool.acquire("@2001:db8:0:1::1", &[], 2).is_ok());
    assert!(pool.acquire("@192.0.2.1", &[], 2).is_ok());
}

#[test]
fn kept_leases_of_who_keeps_most_go_first_the_oldest_of_them() {
    let mut pool = AddressPool::new(vec![range("10.9.0.0/28")], DAY);
    let modest = pool.acquire("modest", &[], 0).unwrap();
    pool.release(&modest.key, 0);
    // By and by, it had all the others.
    for round in 0..3 {
        for (at, lease) in all(&mut pool, "greedy").iter().enumerate() {
            pool.release(&lease.key, 10 * round + at as u64);
        }
    }
    assert_eq!(pool.counts(), (0, 8));

    let text = pool.to_text(100);
    let mut pool = AddressPool::new(vec![range("10.9.0.0/28")], DAY);
    assert_eq!(pool.restore(&text), Ok(0));
    let newcomers: Vec<_> = (0..7)
        .map(|n| pool.acquire(&format!("user{n}"), &[], 100).unwrap())
        .collect();
    assert_eq!(pool.counts(), (7, 7));
    assert!(newcomers.iter().all(|lease| lease.v4 != modest.v4));
    assert_eq!(pool.acquire("modest", &[], 100).unwrap(), modest);
}

#[test]
fn the_only_lease_of_an_identity_waits_for_it_however_many_newcomers_there_are() {
    let mut pool = AddressPool::new(vec![range("10.9.0.0/28")], DAY);
    let own = pool.acquire("alice", &[], 0).unwrap();
    pool.release(&own.key, 1000);
    let newcomers = |pool: &mut AddressPool, now| {
        let identities = (0..40).map(|n| format!("{now}-{n}"));
        let got = identities.filter_map(|one| pool.acquire(&one, &[], now).ok());
        got.collect::<Vec<_>>()
    };
    assert_eq!(newcomers(&mut pool, 1001).len(), 13);
    assert!(newcomers(&mut pool, 1599).is_empty());
    assert_eq!(pool.acquire("alice", &[], 1599).unwrap(), own);

    // A holder that stays away for longer finds another address, if there is one.
    pool.release(&own.key, 2000);
    assert_eq!(
        newcomers(&mut pool, 2600),
        [Lease {
            key: newcomer(2600),
            ..own
        }]
    );
    assert!(matches!(
        pool.acquire("alice", &[], 2600),
        Err(PoolError::Exhausted { .. })
    ));
}

fn newcomer(now: u64) -> LeaseKey {
    LeaseKey {
        identity: format!("{now}-0").into(),
        number: 0,
    }
}

#[test]
fn a_wish_is_granted_if_it_is_free() {
    let mut pool = small();
    let wish = prefix("10.9.0.5");
    let first = pool.acquire("alice", &[wish], 0).unwrap();
    assert_eq!(first.v4, Some(wish));
    let second = pool.acquire("bob", &[wish], 0).unwrap();
    assert_ne!(second.v4, Some(wish));

    for refused in [
        "10.9.0.0",
        "10.9.0.1",
        "10.9.0.7",
        "10.8.0.1",
        "10.9.0.4/31",
    ] {
        let wish = prefix(refused);
        assert_eq!(pool.prefer(&second, &[wish]), second, "{refused}");
    }
    let moved = pool.prefer(&second, &[prefix("10.9.0.6"), prefix("2001:db8:9::5")]);
    assert_eq!(
        addresses(&moved),
        [prefix("10.9.0.6"), prefix("2001:db8:9::5")]
    );
    pool.release(&first.key, 0);
    assert_eq!(pool.prefer(&second, &[wish]).v4, second.v4);
}

#[test]
fn sites_get_prefixes() {
    let sites = PoolRange::new(prefix("2001:db8::/32"), 48, &[]).unwrap();
    let mut pool = AddressPool::new(vec![sites], DAY);
    let lease = pool.acquire("branch", &[], 0).unwrap();
    assert_eq!(lease.v6.unwrap().length(), 48);
    assert_eq!(lease.v4, None);
    assert!(PoolRange::new(prefix("2001:db8::/32"), 31, &[]).is_err());
    assert!(PoolRange::new(prefix("10.0.0.0/8"), 33, &[]).is_err());
}

#[test]
fn a_lease_answers_the_requests_of_its_families() {
    let lease = small().acquire("alice", &[], 0).unwrap();
    let requests = [
        RequestedAddress::any(4, false),
        RequestedAddress::any(9, false),
    ];
    let answers = lease.answer(&requests);
    let ids: Vec<_> = answers.iter().map(|answer| answer.request_id).collect();
    assert_eq!(ids, [0, 4]);
}

#[test]
fn text_that_is_no_lease_says_where() {
    for (text, expected) in [
        ("", LeaseTextError::Head),
        ("hermes leases 2\n", LeaseTextError::Head),
        (
            "hermes leases 1\n10.9.0.2/32 - 0 0 alice\nnonsense\n",
            LeaseTextError::Line(3),
        ),
        (
            "hermes leases 1\n2001:db8::/128 - 0 0 alice\n",
            LeaseTextError::Line(2),
        ),
        (
            "hermes leases 1\n10.9.0.2/32 - 0 0 a\\q\n",
            LeaseTextError::Line(2),
        ),
    ] {
        let mut pool = small();
        assert_eq!(pool.restore(text), Err(expected));
        assert_eq!(pool.counts(), (0, 0));
    }
    let mut pool = small();
    let text = "hermes leases 1\n10.8.0.2/32 - 0 0 moved\n10.9.0.2/32 - 0 0 alice\n10.9.0.2/32 - 0 0 twin\n";
    assert_eq!(pool.restore(text), Ok(2));
}

#[test]
fn a_pool_that_was_moved_gives_other_addresses() {
    let mut pool = small();
    pool.acquire("alice", &[], 0).unwrap();
    let mut moved = AddressPool::new(vec![range("10.10.0.0/24")], DAY);
    assert_eq!(moved.restore(&pool.to_text(0)), Ok(1));
    assert!(moved.acquire("alice", &[], 0).unwrap().v4.is_some());
}

proptest! {
    #[test]
    fn no_address_is_given_twice(steps in prop::collection::vec((0_u8..3, 0_u8..6, 0_u8..10), 0..80)) {
        let mut pool = small();
        let mut open: Vec<Lease> = Vec::new();
        let mut now = 0;
        for (step, who, wish) in steps {
            now += DAY / 4;
            match step {
                0 if !open.is_empty() => {
                    let lease = open.swap_remove(usize::from(who) % open.len());
                    pool.release(&lease.key, now);
                }
                1 => {
                    let text = pool.to_text(now);
                    let mut again = small();
                    prop_assert_eq!(again.restore(&text), Ok(0));
                    prop_assert_eq!(again.to_text(now), text);
                }
                _ => {
                    let wish = prefix(&format!("10.9.0.{wish}"));
                    if let Ok(lease) = pool.acquire(&format!("user{who}"), &[wish], now) {
                        open.push(lease);
                    }
                }
            }
            let distinct: HashSet<_> = open.iter().flat_map(addresses).collect();
            prop_assert_eq!(distinct.len(), 2 * open.len());
            prop_assert_eq!(pool.counts().0, open.len());
            let keys: HashSet<_> = open.iter().map(|lease| &lease.key).collect();
            prop_assert_eq!(keys.len(), open.len());
        }
    }

    #[test]
    fn text_of_chance_does_no_harm(lines in prop::collection::vec("[0-9a./: -]{0,40}", 0..6)) {
        let mut pool = small();
        let _ = pool.restore(&format!("hermes leases 1\n{}", lines.join("\n")));
        prop_assert!(pool.acquire("alice", &[], 0).is_ok());
    }
}

#[test]
fn who_comes_back_first_takes_its_own_address_and_not_the_other_s() {
    let mut pool = small();
    let phone = pool.acquire("alice", &[], 0).unwrap();
    let laptop = pool.acquire("alice", &[], 0).unwrap();
    let bob = pool.acquire("bob", &[], 0).unwrap();
    for lease in [&phone, &laptop, &bob] {
        pool.release(&lease.key, 5);
    }

    // The laptop comes first, gets the address of the phone, and asks for its own.
    let back = pool.acquire("alice", &[], 6).unwrap();
    assert_eq!(back.v4, phone.v4);
    let back = pool.prefer(&back, &addresses(&laptop));
    assert_eq!(addresses(&back), addresses(&laptop));
    let other = pool.acquire("alice", &[], 7).unwrap();
    assert_eq!(addresses(&other), addresses(&phone));

    // An address that is kept for someone else is not free.
    let refused = pool.prefer(&other, &addresses(&bob));
    assert_eq!(addresses(&refused), addresses(&phone));
    let bob = pool.acquire("bob", &[], 8).unwrap();
    assert_eq!(pool.counts(), (3, 0));

    // Leases in use change places within one identity only.
    let exchanged = pool.exchange([&back.key, &other.key], true).unwrap();
    assert_eq!(exchanged[0].v4, phone.v4);
    assert_eq!(exchanged[1].v4, laptop.v4);
    assert_eq!(exchanged[0].v6, laptop.v6);
    assert_eq!(pool.exchange([&back.key, &bob.key], true), None);
    assert_eq!(pool.exchange([&back.key, &back.key], true), None);
    pool.release(&other.key, 9);
    assert_eq!(pool.exchange([&back.key, &other.key], true), None);
}
