//! Connections that stay.

use std::time::{Duration, Instant};

use hermes_ip::{MAX_PINS, PIN_SILENCE, PinRoutes, TcpPins};
use hermes_proto::ip::Packet;

use super::packets::{packet, udp};

const CLIENT: &str = "10.9.0.17";
const HOST: &str = "10.0.0.1";

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn tcp(port: u16, flags: u8) -> Vec<u8> {
    let mut segment = port.to_be_bytes().to_vec();
    segment.extend([0, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    packet(CLIENT, HOST, 6, &segment)
}

fn owner(pins: &mut TcpPins<u8>, packet: &[u8], routed: u8, now: Instant) -> u8 {
    let routes = PinRoutes {
        new: routed,
        before: routed,
    };
    pins.owner(&Packet::parse(packet).unwrap(), routes, |_| true, now)
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
    let routes = |to| PinRoutes {
        new: to,
        before: to,
    };
    let is_there = |owner| owner != 1;
    assert_eq!(pins.owner(&segment, routes(2), is_there, now), 2);
    assert_eq!(pins.owner(&segment, routes(3), |_| true, now), 2);
    pins.remove(2);
    assert!(pins.is_empty());
    assert_eq!(pins.owner(&segment, routes(3), |_| true, now), 3);
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
fn connections_that_were_open_before_stay_where_they_were() {
    let now = Instant::now();
    let mut pins = TcpPins::default();
    let mut owner = |packet: &[u8], left_is_there: bool| {
        let routes = PinRoutes { new: 2, before: 1 };
        let is_there = |owner| owner == 2 || left_is_there;
        pins.owner(&Packet::parse(packet).unwrap(), routes, is_there, now)
    };
    assert_eq!(owner(&tcp(1000, ACK), true), 1);
    assert_eq!(owner(&udp(CLIENT, HOST), true), 2);
    assert_eq!(
        owner(&tcp(2000, SYN | ACK), true),
        2,
        "what a host there opened"
    );
    assert_eq!(owner(&tcp(2000, ACK), true), 2);
    assert_eq!(
        owner(&tcp(1000, ACK), false),
        2,
        "no one else would tell its end"
    );
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
