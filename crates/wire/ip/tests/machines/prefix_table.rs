//! From destinations to the values of prefixes.

use std::net::IpAddr;

use hermes_ip::{PrefixTable, PrefixTableError};
use hermes_proto::ip::IpPrefix;
use proptest::prelude::*;

fn table(texts: &[&str]) -> Result<PrefixTable<usize>, PrefixTableError> {
    let prefixes: Vec<_> = texts
        .iter()
        .enumerate()
        .map(|(number, text)| (text.parse().unwrap(), number))
        .collect();
    PrefixTable::new(&prefixes)
}

#[test]
fn the_longest_prefix_has_an_address() {
    let prefixes = [
        "10.0.0.0/8",
        "10.1.2.3/32",
        "10.1.0.0/16",
        "2001:db8::/32",
        "255.255.255.255/32",
        "::/0",
    ];
    let table = table(&prefixes).unwrap();
    for (text, value) in [
        ("9.255.255.255", None),
        ("10.0.0.0", Some(0)),
        ("10.1.2.2", Some(2)),
        ("10.1.2.3", Some(1)),
        ("10.1.2.4", Some(2)),
        ("10.2.0.0", Some(0)),
        ("11.0.0.0", None),
        ("255.255.255.255", Some(4)),
        ("2001:db8::1", Some(3)),
        ("2001:db9::1", Some(5)),
    ] {
        assert_eq!(table.find(text.parse().unwrap()), value, "{text}");
    }
}

#[test]
fn a_prefix_that_is_there_twice_is_refused() {
    let twice = PrefixTableError::Twice("10.0.0.0/8".parse().unwrap());
    assert_eq!(table(&["10.0.0.0/8", "::/0", "10.0.0.0/8"]), Err(twice));
}

/// Few bits differ, so that prefixes lie within one another.
fn prefixes() -> impl Strategy<Value = Vec<IpPrefix>> {
    let v4 = (0..64_u32, 0..=32_u8).prop_map(|(bits, length)| {
        IpPrefix::around(IpAddr::V4((bits << 26 | bits).into()), length)
    });
    let v6 = (0..64_u128, 0..=128_u8).prop_map(|(bits, length)| {
        IpPrefix::around(IpAddr::V6((bits << 122 | bits).into()), length)
    });
    prop::collection::vec(prop_oneof![v4, v6].prop_map(Result::unwrap), 0..24)
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    let v4 = (0..64_u32, 0..64_u32).prop_map(|(high, low)| IpAddr::V4((high << 26 | low).into()));
    let v6 =
        (0..64_u128, 0..64_u128).prop_map(|(high, low)| IpAddr::V6((high << 122 | low).into()));
    prop_oneof![v4, v6]
}

proptest! {
    #[test]
    fn it_finds_what_a_search_through_all_prefixes_finds(
        mut prefixes in prefixes(),
        asked in prop::collection::vec(addresses(), 32),
    ) {
        prefixes.sort_by_key(|prefix| (prefix.address(), prefix.length()));
        prefixes.dedup();
        let entries: Vec<_> = prefixes.iter().copied().zip(0..).collect();
        let table = PrefixTable::new(&entries).unwrap();
        for address in asked {
            let having = entries.iter().filter(|(prefix, _)| prefix.contains(address));
            let longest = having.max_by_key(|(prefix, _)| prefix.length());
            prop_assert_eq!(table.find(address), longest.map(|(_, value): &(_, i32)| *value));
        }
    }
}
