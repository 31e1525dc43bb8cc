//! Tunnels: two directions, each with an end of its own.

use std::time::Duration;

use bytes::Bytes;
use hermes_custody::{ExchangeKey, Reading};
use hermes_proto::custody::ErrCode;

use crate::pair::{KEEP, Pair};

/// A tunnel on both sides, of which nothing has ended: the client's key, and the server's.
fn open(pair: &mut Pair) -> (ExchangeKey, ExchangeKey) {
    let key = pair.begin(1, false);
    pair.client.tunnel(key);
    pair.client.write(key, Bytes::from_static(b"request"));
    pair.settle();
    let asked = *pair.asked.last().unwrap();
    pair.server.tunnel(asked);
    let said = pair.server.read(asked, 100);
    assert_eq!(said, Reading::Bytes(Bytes::from_static(b"request")));
    (key, asked)
}

fn says(pair: &mut Pair, key: ExchangeKey) -> Reading {
    pair.server.read(key, 100)
}

#[test]
fn a_target_that_has_ended_still_hears_its_client() {
    let mut pair = Pair::new();
    let (key, asked) = open(&mut pair);
    pair.server.write(asked, Bytes::from_static(b"bye"));
    pair.server.finish(asked);
    pair.settle();
    assert_eq!(pair.response(key).unwrap(), b"bye");

    pair.client.write(key, Bytes::from_static(b"more"));
    pair.settle();
    assert_eq!(
        says(&mut pair, asked),
        Reading::Bytes(Bytes::from_static(b"more"))
    );

    // The client says its last words and is gone, while no link is up.
    pair.client.write(key, Bytes::from_static(b"last"));
    pair.client.finish(key);
    let now = pair.now;
    pair.client.close(key, now);
    pair.run(Duration::from_secs(2), false, false);
    assert!(
        !pair.client.is_idle(),
        "it goes on until it has been passed on"
    );
    pair.settle();
    assert_eq!(
        says(&mut pair, asked),
        Reading::Bytes(Bytes::from_static(b"last"))
    );
    assert_eq!(says(&mut pair, asked), Reading::End);
    let now = pair.now;
    pair.server.done_reading(asked, now);
    pair.settle();
    assert!(pair.client.is_idle());
    assert!(pair.server.is_idle());
}

#[test]
fn a_client_of_a_target_that_hears_no_more_is_told() {
    let mut pair = Pair::new();
    let (key, asked) = open(&mut pair);
    let now = pair.now;
    pair.server.done_reading(asked, now);
    pair.settle();
    assert!(!pair.client.is_wanted(key));
    assert_eq!(
        pair.response(key),
        Err(Reading::Waiting),
        "the target may still speak"
    );

    pair.server.write(asked, Bytes::from_static(b"bye"));
    pair.server.finish(asked);
    pair.settle();
    assert_eq!(pair.response(key).unwrap(), b"bye");
    let now = pair.now;
    pair.client.close(key, now);
    pair.settle();
    assert!(pair.client.is_idle() && pair.server.is_idle());
}

#[test]
fn a_tunnel_lasts_as_long_as_its_nodes_hear_each_other() {
    let mut pair = Pair::new();
    let (key, asked) = open(&mut pair);
    pair.run(3 * KEEP, true, true);
    pair.server.write(asked, Bytes::from_static(b"still here"));
    pair.settle();
    let said = pair.client.read(key, 100);
    assert_eq!(said, Reading::Bytes(Bytes::from_static(b"still here")));

    pair.run(KEEP + Duration::from_secs(1), false, false);
    assert_eq!(
        pair.response(key),
        Err(Reading::Broken(ErrCode::Expired)),
        "no longer"
    );
    assert!(pair.client.is_idle() && pair.server.is_idle());
}

#[test]
fn what_broke_is_let_go_on_both_sides() {
    let mut pair = Pair::new();
    for is_tunnel in [true, false] {
        let (key, asked) = if is_tunnel {
            open(&mut pair)
        } else {
            let key = pair.open(2, true);
            pair.settle();
            (key, *pair.asked.last().unwrap())
        };
        pair.server.break_off(asked, ErrCode::Broken);
        pair.settle();
        assert_eq!(pair.response(key), Err(Reading::Broken(ErrCode::Broken)));
        let now = pair.now;
        pair.client.close(key, now);
        pair.settle();
        assert!(pair.client.is_idle());
        assert!(pair.server.is_idle(), "it does not wait for its time");
    }
}

#[test]
fn an_idle_tunnel_does_not_hold_up_what_is_asked_for_later() {
    let mut pair = Pair::new();
    open(&mut pair);
    pair.run(Duration::from_secs(3), true, true);

    let key = pair.open(2, true);
    pair.settle();
    assert_eq!(pair.asked.len(), 2);
    pair.answer(&[7; 100_000]);
    pair.settle();
    assert_eq!(pair.response(key), Ok(vec![7; 100_000]));
}
