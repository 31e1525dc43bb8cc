//! Both ends of encrypted tunnels, at nodes of their own.

use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};

use ::bytes::{Bytes, BytesMut};
use hermes_plug::{Alter, AlterDatagram, DatagramFate, Malformed, PIECE};

use super::bytes::{Hello, HelloOpener, HelloSealer, ReplyOpener, ReplySealer};
use super::datagrams::{OpenedDatagrams, SealedDatagrams};
use super::seal::TunnelKeys;
use super::*;
use crate::at::keyring::Secret;

/// The key of one of two nodes that share it, for one target.
fn keys(target: &str) -> TunnelKeys {
    let keyring = Keyring::default();
    let secret = Secret::parse(&"5".repeat(64)).unwrap();
    keyring.change(BTreeMap::from([("other".to_owned(), secret)]));
    TunnelKeys::new(keyring.of("other").unwrap(), target.to_owned())
}

/// The two ends of an encrypted tunnel.
struct Ends {
    near: Altering,
    far: Altering,
}

/// At nodes of their own: each remembers for itself.
fn ends(near: &TunnelKeys, far: &TunnelKeys) -> Ends {
    let hello = Arc::new(Hello::default());
    let heard = Arc::new(Hello::default());
    Ends {
        near: Altering {
            to_target: Box::new(HelloSealer::new(near.clone(), hello.clone())),
            to_client: Box::new(ReplyOpener::new(near.clone(), hello)),
        },
        far: Altering {
            to_target: Box::new(HelloOpener::new(far.clone(), heard.clone())),
            to_client: Box::new(ReplySealer::new(far.clone(), heard)),
        },
    }
}

/// All that one piece becomes.
fn altered(alter: &mut dyn Alter, piece: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut input = Bytes::copy_from_slice(piece);
    let mut all = Vec::new();
    loop {
        let mut output = BytesMut::new();
        let before = input.len();
        alter.alter(&mut input, &mut output)?;
        assert!(output.len() <= PIECE);
        if output.is_empty() && (input.is_empty() || input.len() == before) {
            assert!(input.is_empty(), "it goes no further");
            return Ok(all);
        }
        all.extend_from_slice(&output);
    }
}

fn ended(alter: &mut dyn Alter) -> Result<Vec<u8>, Malformed> {
    let mut output = BytesMut::new();
    assert!(alter.end(&mut output)?);
    Ok(output.to_vec())
}

fn is_ready(alter: &mut dyn Alter) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    alter.poll_ready(&mut cx) == Poll::Ready(())
}

#[test]
fn bytes_pass_both_ways_in_any_pieces_and_are_not_seen_between() {
    let Ends { mut near, mut far } = ends(&keys("t:1"), &keys("t:1"));
    // A target that speaks first waits for the proof of the other end, which comes without a byte of the client.
    assert!(!is_ready(&mut *far.to_client));
    let hello = altered(&mut *near.to_target, b"").unwrap();
    assert_eq!(altered(&mut *far.to_target, &hello).unwrap(), b"");
    assert!(is_ready(&mut *far.to_client));
    let banner = altered(&mut *far.to_client, b"220 a server that speaks first").unwrap();
    assert_eq!(
        altered(&mut *near.to_client, &banner).unwrap(),
        b"220 a server that speaks first"
    );

    let long: Vec<u8> = (0..3 * PIECE).map(|at| (at % 251) as u8).collect();
    for piece in [&b"a secret of the client"[..], &long, b"."] {
        let sealed = altered(&mut *near.to_target, piece).unwrap();
        let clear = &piece[..piece.len().min(8)];
        let is_seen = clear.len() == 8 && sealed.windows(8).any(|part| part == clear);
        assert!(!is_seen);
        let mut opened = Vec::new();
        for part in sealed.chunks(1000) {
            opened.extend(altered(&mut *far.to_target, part).unwrap());
        }
        assert_eq!(opened, piece);
    }
    let end = ended(&mut *near.to_target).unwrap();
    assert_eq!(altered(&mut *far.to_target, &end).unwrap(), b"");
    assert_eq!(ended(&mut *far.to_target).unwrap(), b"");
}

#[test]
fn changed_cut_off_and_reordered_bytes_are_noticed() {
    let sealed = |piece: &[u8]| {
        let Ends { mut near, far } = ends(&keys("t:1"), &keys("t:1"));
        let hello = altered(&mut *near.to_target, b"").unwrap();
        let sealed = altered(&mut *near.to_target, piece).unwrap();
        (hello, sealed, near, far)
    };
    let (hello, first, _, mut far) = sealed(b"hello");
    altered(&mut *far.to_target, &hello).unwrap();
    for at in 0..first.len() {
        let Ends { mut far, .. } = ends(&keys("t:1"), &keys("t:1"));
        altered(&mut *far.to_target, &hello).unwrap();
        let mut changed = first.clone();
        changed[at] ^= 1;
        // A length that grew waits for bytes that do not come.
        let read = altered(&mut *far.to_target, &changed);
        assert!(
            read.is_err() || ended(&mut *far.to_target).is_err(),
            "byte {at}"
        );
        assert!(read.unwrap_or_default().is_empty(), "byte {at}");
    }
    altered(&mut *far.to_target, &first).unwrap();
    assert!(
        altered(&mut *far.to_target, &first).is_err(),
        "a record came twice"
    );

    let (hello, first, _, mut far) = sealed(b"hello");
    altered(&mut *far.to_target, &hello).unwrap();
    altered(&mut *far.to_target, &first).unwrap();
    assert!(ended(&mut *far.to_target).is_err(), "it was cut off");
    let Ends { mut far, .. } = ends(&keys("t:1"), &keys("t:1"));
    assert!(altered(&mut *far.to_target, b"GET / HTTP/1.1").is_err());
}

#[test]
fn a_tunnel_opens_once_for_its_target_and_not_at_who_sealed_it() {
    let near = keys("t:1");
    let far = keys("t:1");
    let mut sealing = ends(&near, &far);
    let hello = altered(&mut *sealing.near.to_target, b"once").unwrap();
    let opened = |keys: &TunnelKeys| {
        let mut opening = ends(keys, keys).far;
        altered(&mut *opening.to_target, &hello)
    };
    assert!(opened(&keys("t:2")).is_err(), "for another target");
    assert!(opened(&near).is_err(), "it came back");
    assert_eq!(opened(&far).unwrap(), b"once");
    assert!(opened(&far).is_err(), "it came twice");

    // An answer of an old tunnel opens in no other.
    altered(&mut *sealing.far.to_target, &hello).ok();
    let mut one = ends(&keys("t:1"), &keys("t:1"));
    let hello = altered(&mut *one.near.to_target, b"").unwrap();
    altered(&mut *one.far.to_target, &hello).unwrap();
    let answer = altered(&mut *one.far.to_client, b"old").unwrap();
    let mut other = ends(&keys("t:1"), &keys("t:1"));
    altered(&mut *other.near.to_target, b"").unwrap();
    assert!(altered(&mut *other.near.to_client, &answer).is_err());
}

fn changed(alter: &mut dyn AlterDatagram, datagram: &[u8]) -> Option<Vec<u8>> {
    let mut output = BytesMut::new();
    match alter.alter(datagram, &mut output).unwrap() {
        DatagramFate::Changed => Some(output.to_vec()),
        DatagramFate::Unchanged => panic!("it passed as it is"),
        DatagramFate::Dropped => None,
    }
}

#[test]
fn datagrams_come_in_any_order_once() {
    let mut sealing = SealedDatagrams::new(keys("t:1"), "up");
    let mut opening = OpenedDatagrams::new(keys("t:1"), "up");
    let mut sealed: Vec<_> = (0..200_u8)
        .map(|number| changed(&mut sealing, &[number; 9]).unwrap())
        .collect();
    assert_eq!(sealed[0].len(), 9 + 40);
    sealed.swap(3, 40);
    for (at, datagram) in sealed.iter().enumerate() {
        let number = match at {
            3 => 40,
            40 => 3,
            at => at as u8,
        };
        assert_eq!(
            changed(&mut opening, datagram),
            Some(vec![number; 9]),
            "{at}"
        );
    }
    for datagram in &sealed {
        assert_eq!(changed(&mut opening, datagram), None, "it came twice");
    }
}

#[test]
fn datagrams_that_are_not_genuine_are_dropped_and_change_nothing() {
    let mut sealing = SealedDatagrams::new(keys("t:1"), "up");
    let far = keys("t:1");
    let mut opening = OpenedDatagrams::new(far.clone(), "up");
    let first = changed(&mut sealing, b"first").unwrap();
    let second = changed(&mut sealing, b"second").unwrap();
    for at in 0..first.len() {
        let mut wrong = first.clone();
        wrong[at] ^= 1;
        assert_eq!(changed(&mut opening, &wrong), None, "byte {at}");
        assert_eq!(changed(&mut opening, &first[..at]), None, "{at} bytes");
    }
    assert_eq!(changed(&mut opening, b"in the clear"), None);
    assert_eq!(changed(&mut opening, &first).unwrap(), b"first");
    assert_eq!(changed(&mut opening, &second).unwrap(), b"second");

    // Another session, another direction and another target are no place for them.
    let again = changed(&mut OpenedDatagrams::new(far, "up"), &first);
    let down = changed(&mut OpenedDatagrams::new(keys("t:1"), "down"), &first);
    let other = changed(&mut OpenedDatagrams::new(keys("t:2"), "up"), &first);
    assert_eq!([again, down, other], [None, None, None]);
}
