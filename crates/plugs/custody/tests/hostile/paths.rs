//! Where a neighbour is: addresses that change, are forged, or are not heard from.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use hermes_custody::{Engine, PrivateKey};
use hermes_proto::custody::CustodyPacket;

use crate::pair::{Pair, client_at, server_at};

/// Nothing is due that is never done: a node would be busy with it.
fn is_at_rest(engine: &mut Engine, pair: &Pair) -> bool {
    while engine.poll_transmit(pair.now).is_some() {}
    let due = engine.poll_timeout(pair.now);
    due.is_none_or(|due| due > pair.now)
}

fn elsewhere() -> SocketAddr {
    "198.51.100.7:53".parse().unwrap()
}

#[test]
fn what_is_given_up_before_the_neighbour_was_heard_leaves_nothing_to_do() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.run(Duration::from_secs(1), false, false);
    let now = pair.now;
    pair.client.close(key, now);
    pair.run(Duration::from_millis(50), false, false);
    let mut client = std::mem::replace(
        &mut pair.client,
        Engine::new(PrivateKey::generate().unwrap(), 1, now),
    );
    assert!(is_at_rest(&mut client, &pair));
}

#[test]
fn an_address_that_falls_silent_before_it_is_known_leaves_nothing_to_do() {
    let mut pair = Pair::new();
    let key = pair.begin(1, true);
    pair.client.write(key, Bytes::from_static(b"request"));
    pair.settle();
    // One datagram from a new address, which says no more: the server wants the rest of the request.
    pair.now += Duration::from_millis(500);
    let (_, datagram) = pair.client.poll_transmit(pair.now).unwrap();
    pair.server
        .handle_datagram(&datagram, elsewhere(), pair.now);
    pair.answer(&vec![7; 100_000]);
    for _ in 0..100 {
        pair.now += Duration::from_millis(100);
        let mut server = std::mem::replace(
            &mut pair.server,
            Engine::new(PrivateKey::generate().unwrap(), 1, pair.now),
        );
        assert!(is_at_rest(&mut server, &pair));
        pair.server = server;
    }
}

#[test]
fn a_challenge_that_is_lost_is_made_again() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    pair.answer(&vec![7; 300_000]);
    // The client is elsewhere from now on; nothing that is said to it there arrives for a second.
    for step in 0..4000 {
        while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
            pair.server
                .handle_datagram(&datagram, elsewhere(), pair.now);
        }
        while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
            if step > 1000 && to == elsewhere() {
                pair.client
                    .handle_datagram(&datagram, server_at(), pair.now);
            }
        }
        pair.now += Duration::from_millis(1);
    }
    assert_eq!(pair.response(key), Ok(vec![7; 300_000]));
}

#[test]
fn a_hello_that_someone_repeats_does_not_lead_the_answers_away() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    let hello = |datagram: &&Bytes| {
        matches!(
            CustodyPacket::decode(datagram),
            Ok(CustodyPacket::Hello { .. })
        )
    };
    let recorded = pair.sent[0].iter().rfind(hello).unwrap().clone();

    // The repeater gets a cookie of its own, as anyone does who receives at an address.
    pair.server
        .handle_datagram(&recorded, elsewhere(), pair.now);
    let (_, retry) = pair.server.poll_transmit(pair.now).unwrap();
    let Ok(CustodyPacket::Retry { cookie, .. }) = CustodyPacket::decode(&retry) else {
        panic!("no cookie");
    };
    let Ok(CustodyPacket::Hello { epoch, message, .. }) = CustodyPacket::decode(&recorded) else {
        panic!("no hello");
    };
    let repeated = CustodyPacket::Hello {
        epoch,
        cookie,
        message,
    };
    pair.server
        .handle_datagram(&repeated.encode(), elsewhere(), pair.now);

    // It has its answer, which it cannot read. What is said next goes where the client is.
    pair.answer(b"response");
    while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
        let is_answer = matches!(
            CustodyPacket::decode(&datagram),
            Ok(CustodyPacket::Answer { .. })
        );
        assert_eq!(to, if is_answer { elsewhere() } else { client_at() });
    }
    pair.settle();
    assert_eq!(pair.response(key), Ok(b"response".to_vec()));
}
