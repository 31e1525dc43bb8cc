//! Slices, and connections that stay.

use std::time::{Duration, Instant};

use hermes_ip::{MAX_PINS, NextHop, PIN_SILENCE, RouteConflict, SliceError, Slices, TcpPins};
use hermes_proto::ip::{IpPrefix, Packet};

use super::packets::{packet, udp};

const CLIENT: &str = "10.9.0.17";
const HOST: &str = "10.0.0.1";

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut segment = port.to_be_bytes().to_vec();
    segment.extend([0, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    packet(CLIENT, HOST, 6, &segment)
}

fn owner(pins: &mut TcpPins<u8>, packet: &[u8], routed: u8, now: Instant) -> u8 {
    pins.owner(&Packet::parse(packet).unwrap(), routed, |_| true, now)
}

#[test]
fn one_address_is_another_host_for_another_user() {
    let mut slices = Slices::new(false);
    for (user, owner) in [("user1", 1), ("user2", 2)] {
        slices.insert(user, prefix(HOST), owner).unwrap();
    }
    slices.insert("user1", prefix("10.0.0.0/8"), 3).unwrap();
    let next = |user: &str| {
        slices
            .table(user)
            .map(|table| table.next_hop(None, HOST.parse().unwrap()))
    };
    assert_eq!(next("user1"), Some(NextHop::Owner(1)));
    assert_eq!(next("user2"), Some(NextHop::Owner(2)));
    assert_eq!(next("user3"), None);
}

#[test]
fn a_slice_goes_with_its_last_route() {
    let mut slices = Slices::new(false);
    slices.insert("user1", prefix(HOST), 1).unwrap();
    let conflict = slices.insert("user1", prefix(HOST), 2).unwrap_err();
    assert_eq!(
        conflict,
        SliceError::Route(RouteConflict::Owned {
            prefix: prefix(HOST),
            owner: 1
        })
    );
    slices.hand_over("user1", 1, 2);
    assert!(!slices.withdraw("user1", prefix(HOST), 1));
    assert!(slices.withdraw("user1", prefix(HOST), 2));
    assert!(slices.is_empty());

    slices.insert("user2", prefix(HOST), 1).unwrap();
    slices.remove("user2", 1);
    slices.remove("user2", 1);
    assert_eq!(slices.len(), 0);
}

#[test]
fn when_a_route_moves_connections_stay_and_all_else_follows() {
    let now = Instant::now();
    let mut pins = TcpPins::default();
    assert_eq!(owner(&mut pins, &tcp(1000, SYN), 1, now), 1);

    // The route leads to 2 from here on.
    assert_eq!(owner(&mut pins, &tcp(1000, ACK), 2, now), 1);
    assert_eq!(owner(&mut pins, &tcp(2000, SYN), 2, now), 2);
    assert_eq!(owner(&mut pins, &udp(CLIENT, HOST), 2, now), 2);
    // The same ports, opened anew.
    assert_eq!(owner(&mut pins, &tcp(1000, SYN), 2, now), 2);
    assert_eq!(owner(&mut pins, &tcp(1000, ACK), 3, now), 2);
    assert_eq!(pins.len(), 2);
}

#[test]
fn a_connection_stays_while_its_owner_is_there() {
    let now = Instant::now();
    let mut pins = TcpPins::default();
    assert_eq!(owner(&mut pins, &tcp(1000, SYN), 1, now), 1);
    let segment = tcp(1000, ACK);
    let segment = Packet::parse(&segment).unwrap();
    assert_eq!(pins.owner(&segment, 2, |owner| owner != 1, now), 2);
    assert_eq!(pins.owner(&segment, 3, |_| true, now), 2);
    pins.remove(2);
    assert!(pins.is_empty());
    assert_eq!(pins.owner(&segment, 3, |_| true, now), 3);
}

#[test]
fn a_silent_connection_is_forgotten_and_one_that_speaks_is_not() {
    let start = Instant::now();
    let mut pins = TcpPins::default();
    for port in [1000, 2000] {
        assert_eq!(owner(&mut pins, &tcp(port, SYN), 1, start), 1);
    }
    for hour in 1..24 {
        let now = start + Duration::from_secs(3600 * hour);
        assert_eq!(
            owner(&mut pins, &tcp(1000, ACK), 2, now),
            1,
            "after {hour} h"
        );
    }
    assert_eq!(pins.len(), 1);
    let late = start + Duration::from_secs(3600 * 24);
    assert_eq!(owner(&mut pins, &tcp(2000, ACK), 2, late), 2);

    // For as long as it must be remembered, it is.
    let mut pins = TcpPins::default();
    assert_eq!(owner(&mut pins, &tcp(1, SYN), 9, start), 9);
    let before = start + PIN_SILENCE - Duration::from_secs(1);
    assert_eq!(owner(&mut pins, &tcp(1000, SYN), 1, before), 1);
    let after = before + PIN_SILENCE;
    assert_eq!(owner(&mut pins, &tcp(1000, ACK), 2, after), 1);
}

#[test]
fn a_flood_of_connections_uses_no_more_memory() {
    let now = Instant::now();
    let mut pins = TcpPins::default();
    let mut opening = tcp(0, SYN);
    for number in 0..3 * MAX_PINS as u32 {
        let [_, high, low, last] = number.to_be_bytes();
        opening[20..22].copy_from_slice(&[low, last]);
        opening[22..24].copy_from_slice(&[high, 22]);
        owner(&mut pins, &opening, 1, now);
    }
    assert!(pins.len() <= 2 * MAX_PINS);
    assert_eq!(owner(&mut pins, &tcp(7, ACK), 2, now), 2);
}
