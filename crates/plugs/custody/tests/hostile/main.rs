//! Two nodes and what lies between them: replayed, forged and cut datagrams, amplification, and nodes that lose their memory.

#![expect(
    clippy::unwrap_used,
    reason = "the functions around the tests are tests, too"
)]

mod disk;
mod handshakes;
mod months;
mod neighbour;
mod pair;
mod paths;
mod siblings;
mod tunnels;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use hermes_custody::engine::{HELD, Owner};
use hermes_custody::receiver::{AHEAD, GUARANTEED};
use hermes_custody::{Event, PrivateKey, Reading};
use hermes_proto::custody::ErrCode;

use pair::{KEEP, Pair, client_at, engine, server_at};

#[test]
fn what_was_heard_once_is_not_heard_again() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    pair.answer(b"response");
    pair.settle();
    assert_eq!(pair.response(key), Ok(b"response".to_vec()));
    pair.client.close(key, pair.now);
    pair.settle();

    // Everything once more, from the same addresses: no exchange begins, and no word is changed.
    let asked = pair.asked.len();
    let [to_server, to_client] = pair.sent.clone();
    for datagram in &to_server {
        pair.server.handle_datagram(datagram, client_at(), pair.now);
    }
    for datagram in &to_client {
        pair.client.handle_datagram(datagram, server_at(), pair.now);
    }
    pair.settle();
    assert_eq!(pair.asked.len(), asked);

    // And the two still understand each other.
    let key = pair.open(2, true);
    pair.settle();
    pair.answer(b"another");
    pair.settle();
    assert_eq!(pair.response(key), Ok(b"another".to_vec()));
}

#[test]
fn flipped_bits_deliver_nothing_wrong() {
    let mut rng = Rng::with_seed(11);
    let content: Vec<u8> = (0..40_000).map(|_| rng.u8(..)).collect();
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new();
        let key = pair.open(1, true);
        let mut answered = false;
        for _ in 0..4000 {
            // One datagram of three is changed, in one bit or in its length.
            let mut pass = |datagram: Bytes| {
                let mut bytes = datagram.to_vec();
                match rng.u8(0..6) {
                    0 => bytes[rng.usize(..datagram.len())] ^= 1 << rng.u8(..8),
                    1 => bytes.truncate(rng.usize(..datagram.len())),
                    _ => {}
                }
                Bytes::from(bytes)
            };
            while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
                pair.server
                    .handle_datagram(&pass(datagram), client_at(), pair.now);
            }
            while let Some((_, datagram)) = pair.server.poll_transmit(pair.now) {
                pair.client
                    .handle_datagram(&pass(datagram), server_at(), pair.now);
            }
            while let Some(event) = pair.server.poll_event() {
                if let Event::Asked(key) = event {
                    pair.asked.push(key);
                }
            }
            if !answered && !pair.asked.is_empty() {
                pair.answer(&content);
                answered = true;
            }
            pair.now += Duration::from_millis(1);
            pair.client.handle_timeout(pair.now);
        }
        assert_eq!(pair.asked.len(), 1);
        assert_eq!(pair.response(key), Ok(content.clone()), "seed {seed}");
    }
}

#[test]
fn a_stranger_gets_less_than_it_sends_and_leaves_nothing() {
    let mut pair = Pair::new();
    pair.open(1, true);
    pair.run(Duration::from_millis(1), false, false);
    let hello = pair.sent[0][0].clone();

    // The HELLO of a neighbour, from an address that it is not at: without a cookie nothing comes of it.
    let mut heard = 0;
    let mut said = 0;
    let forged: SocketAddr = "198.51.100.7:53".parse().unwrap();
    for _ in 0..100 {
        heard += hello.len();
        pair.server.handle_datagram(&hello, forged, pair.now);
        while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
            assert_eq!(to, forged);
            said += datagram.len();
        }
    }
    assert!(said <= heard, "{said} for {heard}");
    assert!(pair.server.poll_timeout(pair.now).is_none());
    assert!(pair.server.poll_event().is_none());
}

#[test]
fn an_unknown_key_gets_no_further_than_a_cookie() {
    let mut pair = Pair::new();
    let stranger = PrivateKey::generate().unwrap();
    let (client, next) = engine(&stranger, &pair.keys[1], Some(server_at()), pair.now);
    pair.client = client;
    pair.next = next;
    pair.open(1, true);
    pair.run(Duration::from_secs(5), true, true);
    assert!(pair.asked.is_empty());
    assert!(pair.sent[1].iter().all(|datagram| datagram.len() <= 21));
}

#[test]
fn a_new_address_gets_three_times_what_came_from_it_until_it_answers() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    // The client's next datagram comes from elsewhere, and no one there answers.
    let elsewhere: SocketAddr = "198.51.100.7:53".parse().unwrap();
    pair.now += Duration::from_millis(500);
    let mut heard = 0;
    while let Some((_, datagram)) = pair.client.poll_transmit(pair.now) {
        heard += datagram.len();
        pair.server.handle_datagram(&datagram, elsewhere, pair.now);
    }
    assert!(heard > 0);
    pair.answer(&vec![7; 100_000]);
    let mut said = 0;
    while let Some((to, datagram)) = pair.server.poll_transmit(pair.now) {
        assert_eq!(to, elsewhere);
        said += datagram.len();
    }
    assert!(said <= 3 * heard, "{said} for {heard}");

    // Where it was: the client is heard again, says what it is asked, and gets everything.
    pair.run(Duration::from_secs(3), true, true);
    assert_eq!(pair.response(key), Ok(vec![7; 100_000]));
}

#[test]
fn a_neighbour_that_has_forgotten_is_asked_again_where_that_does_no_harm() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    assert_eq!(pair.asked.len(), 1);
    pair.restart_server();
    pair.run(Duration::from_secs(2), true, true);
    assert_eq!(pair.asked.len(), 2);
    pair.answer(b"response");
    pair.settle();
    assert_eq!(pair.response(key), Ok(b"response".to_vec()));
}

#[test]
fn what_may_be_done_once_is_done_once_whenever_the_neighbour_forgets() {
    // Which milliseconds of the beginning get through to the server and back, and when the server is started again.
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let mut pair = Pair::new();
        let key = pair.open(1, false);
        for _ in 0..3 {
            for _ in 0..rng.u32(1..60) {
                let to_server = rng.u8(..4) > 0;
                let to_client = rng.bool();
                pair.run(Duration::from_millis(rng.u64(1..20)), to_server, to_client);
            }
            pair.restart_server();
        }
        pair.run(Duration::from_secs(3), true, true);
        assert!(
            pair.asked.len() <= 1,
            "seed {seed}: executed {} times",
            pair.asked.len()
        );
        let lost = pair.response(key) == Err(Reading::Broken(ErrCode::Unknown));
        let waiting = pair.asked.len() == 1 && pair.response(key) == Err(Reading::Waiting);
        assert!(lost || waiting, "seed {seed}: {:?}", pair.response(key));
    }
}

#[test]
fn an_exchange_that_no_one_answers_ends_when_its_time_is_over() {
    let mut pair = Pair::new();
    let key = pair.open(1, true);
    pair.settle();
    pair.run(KEEP, true, true);
    assert!(matches!(pair.response(key), Err(Reading::Broken(_))));
    assert!(
        pair.client
            .poll_timeout(pair.now)
            .is_none_or(|at| at > pair.now)
    );
}

/// A user of the node itself.
fn owner(user: u64) -> Owner {
    Owner {
        user,
        neighbour: None,
    }
}

#[test]
fn no_neighbour_holds_all_in_the_names_of_many_users() {
    let mut pair = Pair::new();
    let slow = (HELD / AHEAD * 2) as u8;
    for name in 1..=slow {
        let key = pair.open(name, true);
        let invented = Owner {
            user: name.into(),
            neighbour: Some(1),
        };
        pair.client.belongs(key, invented);
        pair.settle();
        pair.answer(&vec![name; AHEAD as usize]);
    }
    pair.run(Duration::from_secs(20), true, true);
    let little = u64::from(slow) * GUARANTEED;
    let most = HELD / 4 * 3 + little + AHEAD;
    assert!(pair.client.held() <= most, "{}", pair.client.held());
    assert!(
        pair.client.held() > HELD / 2,
        "no user is held to half of all"
    );
}

#[test]
fn no_user_holds_more_than_half_of_what_others_leave() {
    let mut pair = Pair::new();
    let slow = (HELD / AHEAD + 2) as u8;
    for name in 1..=slow {
        let key = pair.open(name, true);
        pair.client.belongs(key, owner(1));
        pair.settle();
        // What the other side keeps for it has the same bound.
        let asked = *pair.asked.last().unwrap();
        pair.server.belongs(asked, owner(1));
        pair.answer(&vec![name; AHEAD as usize]);
    }
    pair.run(Duration::from_secs(20), true, true);
    let little = u64::from(slow) * GUARANTEED;
    // What is on its way when the bound is reached still arrives.
    let most = HELD / 2 + little + AHEAD;
    assert!(pair.client.held() <= most, "{}", pair.client.held());
    assert!(pair.client.held() > HELD / 3);

    // Another one has room for more than a little, also where no one reads.
    let key = pair.open(200, true);
    pair.client.belongs(key, owner(2));
    let before = pair.client.held();
    pair.settle();
    pair.answer(&vec![7; AHEAD as usize]);
    pair.run(Duration::from_secs(5), true, true);
    let more = pair.client.held() - before;
    assert!(more > 4 * GUARANTEED, "{more}");
}

#[test]
fn a_reader_that_is_slow_cannot_stop_the_others() {
    let mut pair = Pair::new();
    // More than all that may be held, in exchanges that no one reads from.
    let slow = (HELD / AHEAD + 2) as u8;
    for name in 1..=slow {
        pair.open(name, true);
        pair.settle();
        pair.answer(&vec![name; AHEAD as usize + 1000]);
    }
    pair.run(Duration::from_secs(20), true, true);

    let content: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let key = pair.open(200, true);
    pair.settle();
    pair.answer(&content);
    let mut read = Vec::new();
    for _ in 0..20_000 {
        match pair.client.read(key, 64 * 1024) {
            Reading::Bytes(bytes) => read.extend_from_slice(&bytes),
            Reading::Waiting => pair.run(Duration::from_millis(1), true, true),
            Reading::End => break,
            Reading::Broken(code) => panic!("{code:?}"),
        }
    }
    assert!(read == content, "{} bytes", read.len());
}
