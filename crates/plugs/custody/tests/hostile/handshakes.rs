//! What those who are no neighbours do to handshakes: replays, forged answers, floods.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hermes_custody::PrivateKey;
use hermes_custody::noise::initiate;
use hermes_proto::custody::{COOKIE, CustodyPacket};

use crate::neighbour::greet;
use crate::pair::{Pair, client_at, server_at};

fn elsewhere() -> SocketAddr {
    "198.51.100.7:53".parse().unwrap()
}

fn hello_of(datagram: &Bytes) -> Option<(u32, Bytes)> {
    match CustodyPacket::decode(datagram) {
        Ok(CustodyPacket::Hello { epoch, message, .. }) => Some((epoch, message)),
        _ => None,
    }
}

/// What a replayer has: a cookie for its own address.
fn cookie(pair: &mut Pair, recorded: &Bytes) -> [u8; COOKIE] {
    pair.server.handle_datagram(recorded, elsewhere(), pair.now);
    loop {
        let (to, datagram) = pair.server.poll_transmit(pair.now).unwrap();
        if let Ok(CustodyPacket::Retry { cookie, .. }) = CustodyPacket::decode(&datagram)
            && to == elsewhere()
        {
            return cookie;
        }
    }
}

/// Someone repeats recorded HELLOs, several in each millisecond, before and behind each datagram of the client.
fn run_with_replays(pair: &mut Pair, recorded: &[(u32, Bytes)], cookie: [u8; COOKIE]) -> bool {
    let replay = |pair: &mut Pair| {
        for (epoch, message) in recorded {
            let repeated = CustodyPacket::Hello {
                epoch: *epoch,
                cookie,
                message: message.clone(),
            };
            pair.server
                .handle_datagram(&repeated.encode(), elsewhere(), pair.now);
        }
    };
    for _ in 0..3000 {
        replay(pair);
        while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
            pair.server
                .handle_datagram(&datagram, client_at(), pair.now);
            replay(pair);
        }
        while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
            if to == client_at() {
                pair.client
                    .handle_datagram(&datagram, server_at(), pair.now);
            }
        }
        while let Some(event) = pair.server.poll_event() {
            if let hermes_custody::Event::Asked(key) = event {
                pair.asked.push(key);
            }
        }
        pair.now += Duration::from_millis(1);
        pair.client.handle_timeout(pair.now);
        pair.server.handle_timeout(pair.now);
        if !pair.asked.is_empty() {
            return true;
        }
    }
    false
}

#[test]
fn old_hellos_that_someone_repeats_keep_no_neighbours_apart() {
    let mut pair = Pair::new();
    // Two handshakes of the client were heard, each of another process of the server.
    let mut recorded = Vec::new();
    for name in 1..=2 {
        pair.open(name, true);
        pair.settle();
        let hello = pair.sent[0].iter().filter_map(hello_of).next_back();
        recorded.push(hello.unwrap());
        pair.restart_server();
        pair.run(Duration::from_secs(1), true, true);
    }
    let heard = pair.sent[0]
        .iter()
        .rfind(|datagram| hello_of(datagram).is_some());
    let heard = heard.unwrap().clone();

    pair.restart_server();
    pair.asked.clear();
    let cookie = cookie(&mut pair, &heard);
    pair.open(3, true);
    assert!(run_with_replays(&mut pair, &recorded, cookie));
}

#[test]
fn a_neighbour_whose_clock_was_set_back_is_heard() {
    let mut pair = Pair::new();
    // An hour passes for the client, so that its last handshake is of a time that the clock of its next process has not reached.
    pair.now += Duration::from_secs(3600);
    pair.open(1, true);
    pair.settle();
    assert_eq!(pair.asked.len(), 1);
    pair.restart_client();
    pair.open(2, true);
    pair.settle();
    assert_eq!(pair.asked.len(), 2);
}

#[test]
fn forged_answers_spoil_no_handshake() {
    let mut pair = Pair::new();
    pair.open(1, true);
    for _ in 0..2000 {
        while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
            // Someone hears each HELLO, and is faster than the server.
            if let Some((epoch, _)) = hello_of(&datagram) {
                let forged = CustodyPacket::Answer {
                    epoch,
                    own: 7,
                    message: Bytes::from(vec![9; 48]),
                };
                pair.client
                    .handle_datagram(&forged.encode(), server_at(), pair.now);
            }
            pair.server
                .handle_datagram(&datagram, client_at(), pair.now);
        }
        while let Some((_, datagram)) = pair.server.poll_transmit(pair.now) {
            pair.client
                .handle_datagram(&datagram, server_at(), pair.now);
        }
        pair.now += Duration::from_millis(1);
        while let Some(event) = pair.server.poll_event() {
            if matches!(event, hermes_custody::Event::Asked(_)) {
                return;
            }
        }
    }
    panic!("no exchange in two seconds");
}

#[test]
fn no_stranger_gets_more_than_it_sends() {
    let mut pair = Pair::new();
    let now = pair.now;
    let stranger = PrivateKey::generate().unwrap();
    let (_, hello) = initiate(&stranger, &pair.keys[1].public(), 1).unwrap();
    let kinds = [0x11, 0x12, 0x13, 0x14, 0x15, 0x00];
    for kind in kinds {
        for length in 0..200 {
            let mut datagram = vec![0; length];
            if let Some(first) = datagram.first_mut() {
                *first = kind;
            }
            pair.server
                .handle_datagram(&datagram.into(), elsewhere(), now);
            let mut said = 0;
            while let Some((_, answer)) = pair.server.poll_transmit(now) {
                said += answer.len();
            }
            assert!(said <= length, "{said} bytes for {length} of kind {kind:x}");
        }
    }
    // Nor with a cookie.
    let answer = greet(&mut pair.server, &hello, elsewhere(), now);
    assert_eq!(answer, None);
}

#[test]
fn handshakes_from_many_addresses_leave_those_of_neighbours_theirs() {
    let mut pair = Pair::new();
    let stranger = PrivateKey::generate().unwrap();
    // The server has heard its neighbour where it is.
    pair.open(1, true);
    pair.settle();
    pair.restart_client();
    pair.open(2, true);

    let mut hellos = Vec::new();
    for number in 0..60_u8 {
        let from: SocketAddr = ([203, 0, 113, number], 4500).into();
        let (_, message) = initiate(&stranger, &pair.keys[1].public(), 1).unwrap();
        let probe = CustodyPacket::Hello {
            epoch: 7,
            cookie: [0; COOKIE],
            message: message.clone(),
        };
        pair.server.handle_datagram(&probe.encode(), from, pair.now);
        while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
            if let Ok(CustodyPacket::Retry { cookie, .. }) = CustodyPacket::decode(&datagram)
                && to == from
            {
                let hello = CustodyPacket::Hello {
                    epoch: 7,
                    cookie,
                    message: message.clone(),
                };
                hellos.push((from, hello.encode()));
            }
        }
    }
    assert_eq!(hellos.len(), 60);

    let before = pair.server.refused();
    for _ in 0..400 {
        // 24,000 a second.
        for (from, hello) in hellos.iter().take(24) {
            pair.server.handle_datagram(hello, *from, pair.now);
        }
        hellos.rotate_left(24);
        pair.run(Duration::from_millis(1), true, true);
    }
    assert_eq!(pair.asked.len(), 2, "the neighbour was heard");
    let refused = pair.server.refused();
    let read = refused.unknown_keys - before.unknown_keys;
    assert!(read <= 250, "{read} were read");
    assert!(refused.too_many > 9000, "{refused:?}");
}
