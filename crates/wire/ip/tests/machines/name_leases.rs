//! Addresses of names.

use std::collections::HashMap;
use std::net::IpAddr;

use hermes_ip::{MAX_NAMES, NAME_ASKED, NAME_KEPT, NameLeases, NamesFull};
use hermes_proto::ip::IpPrefix;
use proptest::prelude::{any, proptest};

fn leases(prefixes: &[&str]) -> NameLeases {
    let prefixes: Vec<IpPrefix> = prefixes.iter().map(|text| text.parse().unwrap()).collect();
    NameLeases::new(&prefixes).unwrap()
}

#[test]
fn a_name_has_an_address_of_each_family_and_keeps_it() {
    let mut names = leases(&["100.64.0.0/16", "fd64::/64"]);
    let video = names.lease("video", 0).unwrap();
    assert!(video[0].is_ipv4() && video[1].is_ipv6(), "{video:?}");
    for _ in 0..1000 {
        let audio = names.lease("audio", 7).unwrap();
        assert!(audio.iter().all(|one| !video.contains(one)));
    }
    assert_eq!(names.lease("video", NAME_KEPT * 9).unwrap(), video);
    assert_eq!(names.name(video[1], 8).as_deref(), Some("video"));
    assert_eq!(names.name("100.64.0.2".parse().unwrap(), 8), None);

    // After a restart it is the same, where it is free.
    let mut again = leases(&["100.64.0.0/16", "fd64::/64"]);
    assert_eq!(again.lease("video", 0).unwrap(), video);
}

#[test]
fn the_addresses_of_the_device_and_of_the_server_are_no_names() {
    let mut names = leases(&["100.64.0.0/29"]);
    let given: Vec<IpAddr> = (0..4)
        .flat_map(|number| names.lease(&number.to_string(), 0).unwrap())
        .collect();
    let prefix = "100.64.0.0/29".parse().unwrap();
    assert!(!given.contains(&NameLeases::device_address(prefix)));
    assert!(!given.contains(&NameLeases::server_address(prefix)));
    assert_eq!(names.lease("one more", 1), Err(NamesFull));
}

#[test]
fn only_names_that_were_not_used_for_long_make_room() {
    let mut names = leases(&["100.64.0.0/29"]);
    let addresses: HashMap<String, IpAddr> = (0..4)
        .map(|number| (number.to_string(), names.lease(&number.to_string(), 0)))
        .map(|(name, leased)| (name, leased.unwrap()[0]))
        .collect();
    for address in addresses.values() {
        names.name(*address, 0).unwrap();
    }

    // A flow uses one of them; another is asked for again.
    assert_eq!(
        names.name(addresses["2"], NAME_KEPT - 1).as_deref(),
        Some("2")
    );
    names.lease("3", NAME_KEPT - 1).unwrap();
    assert_eq!(names.lease("new", NAME_KEPT - 1), Err(NamesFull));
    let new = names.lease("new", NAME_KEPT).unwrap()[0];
    assert_ne!(new, addresses["2"]);
    assert_ne!(new, addresses["3"]);
    assert_eq!(names.name(new, NAME_KEPT).as_deref(), Some("new"));
}

#[test]
fn names_that_were_only_asked_for_make_room_sooner() {
    let mut names = leases(&["100.64.0.0/29"]);
    let video = names.lease("video", 0).unwrap()[0];
    names.name(video, 0).unwrap();
    for number in 0..3 {
        names.lease(&number.to_string(), 0).unwrap();
    }
    assert_eq!(names.lease("news", NAME_ASKED - 1), Err(NamesFull));
    for number in 0..3 {
        names.lease(&format!("later {number}"), NAME_ASKED).unwrap();
    }
    assert_eq!(names.lease("news", NAME_ASKED), Err(NamesFull));
    assert_eq!(names.lease("video", NAME_ASKED).unwrap(), [video]);
}

#[test]
fn there_are_never_more_names_than_the_bound() {
    let mut names = leases(&["fd64::/64"]);
    for number in 0..MAX_NAMES {
        names.lease(&number.to_string(), 0).unwrap();
    }
    assert_eq!(names.lease("one more", NAME_ASKED - 1), Err(NamesFull));
    assert_eq!(names.len(), MAX_NAMES);
    for number in 0..100 {
        names.lease(&format!("later {number}"), NAME_KEPT).unwrap();
    }
    assert_eq!(names.len(), MAX_NAMES);
}

proptest! {
    /// For any questions and uses, at any time: each address is that of one name, both ways.
    #[test]
    fn addresses_and_names_belong_to_each_other(steps in proptest::collection::vec((any::<u8>(), 0..2000_u64), 1..200)) {
        let mut names = leases(&["100.64.0.0/28", "fd64::/124"]);
        let mut now = 0;
        for (name, pause) in steps {
            now += pause;
            let name = name.to_string();
            let Ok(addresses) = names.lease(&name, now) else { continue };
            assert_eq!(addresses.len(), 2);
            for address in addresses {
                assert_eq!(names.peek(address).map(|name| &**name), Some(&*name));
                assert_eq!(names.name(address, now).as_deref(), Some(&*name));
            }
            assert!(names.len() <= 12, "{}", names.len());
        }
    }
}
