//! The example of the draft, its rules, and chance.

use proptest::prelude::*;

use super::*;

fn peer(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The value of a capsule with a type and a length of one byte each.
fn value(capsule: &Bytes) -> &[u8] {
    &capsule[2..]
}

fn assign(
    contexts: &mut Contexts,
    context: u64,
    peer: Option<SocketAddr>,
) -> Result<Option<Bytes>, BindError> {
    contexts.handle_capsule(ASSIGN, value(&Assign { context, peer }.encode()), |_| true)
}

fn ack(context: u8) -> Result<Option<Bytes>, BindError> {
    Ok(Some(vec![0x12, 1, context].into()))
}

fn refused(context: u8) -> Result<Option<Bytes>, BindError> {
    Ok(Some(vec![0x13, 1, context].into()))
}

#[test]
fn the_example_of_the_draft() {
    let mut contexts = Contexts::default();
    let first = peer("192.0.2.42:50000");
    let second = peer("203.0.113.11:60000");
    assert_eq!(contexts.inbound(first, b"early"), None);
    assert_eq!(contexts.handle_capsule(0x11, &[2, 0], |_| true), ack(2));
    let uncompressed = b"\x02\x04\xc0\x00\x02\x2a\xc3\x50hello";
    assert_eq!(
        contexts.inbound(first, b"hello").unwrap()[..],
        uncompressed[..]
    );
    let sent = contexts.outbound(Bytes::from_static(uncompressed));
    assert_eq!(sent, Ok(Outbound::To(first, Bytes::from_static(b"hello"))));
    assert_eq!(
        contexts.handle_capsule(0x11, b"\x04\x04\xcb\x00\x71\x0b\xea\x60", |_| true),
        ack(4)
    );
    assert_eq!(
        contexts.inbound(second, b"hello").unwrap()[..],
        *b"\x04hello"
    );
    assert_eq!(
        contexts.outbound(Bytes::from_static(b"\x04hi")),
        Ok(Outbound::To(second, Bytes::from_static(b"hi")))
    );
    assert_eq!(contexts.handle_capsule(0x13, &[2], |_| true), Ok(None));
    assert_eq!(contexts.inbound(first, b"late"), None);
    assert_eq!(
        contexts.outbound(Bytes::from_static(uncompressed)),
        Ok(Outbound::Dropped)
    );
    assert!(contexts.inbound(second, b"still").is_some());
}

#[test]
fn ipv6_peers_are_written_in_sixteen_bytes() {
    let mut contexts = Contexts::default();
    assert_eq!(assign(&mut contexts, 2, None), ack(2));
    let from = peer("[2001:db8::1]:53");
    let datagram = contexts.inbound(from, b"x").unwrap();
    assert_eq!(datagram.len(), 1 + 1 + 16 + 2 + 1);
    assert_eq!(
        contexts.outbound(datagram),
        Ok(Outbound::To(from, Bytes::from_static(b"x")))
    );
}

#[test]
fn contexts_are_registered_once_and_by_their_owner() {
    let one = Some(peer("192.0.2.1:1"));
    let other = Some(peer("192.0.2.2:1"));
    let mut contexts = Contexts::default();
    assert_eq!(assign(&mut contexts, 0, one), Err(BindError::NotTheirs(0)));
    assert_eq!(assign(&mut contexts, 3, one), Err(BindError::NotTheirs(3)));
    assert_eq!(assign(&mut contexts, 2, one), ack(2));
    assert_eq!(assign(&mut contexts, 2, other), Err(BindError::Again(2)));
    assert_eq!(assign(&mut contexts, 4, one), Err(BindError::Again(4)));
    assert_eq!(assign(&mut contexts, 6, None), ack(6));
    assert_eq!(assign(&mut contexts, 8, None), Err(BindError::Again(8)));
    assert_eq!(contexts.handle_capsule(CLOSE, &[6], |_| true), Ok(None));
    assert_eq!(contexts.handle_capsule(CLOSE, &[6], |_| true), Ok(None));
    assert_eq!(assign(&mut contexts, 8, None), ack(8));
    assert_eq!(
        contexts.handle_capsule(ACK, &[2], |_| true),
        Err(BindError::Unasked)
    );
}

#[test]
fn malformed_capsules_are_errors_and_unknown_ones_none() {
    let mut contexts = Contexts::default();
    for bad in [
        &b""[..],
        b"\x02",
        b"\x02\x05",
        b"\x02\x04\x01\x02\x03\x04\x00",
        b"\x02\x00\x00",
        b"\x02\x04\x01\x02\x03\x04\x00\x01x",
    ] {
        assert_eq!(
            contexts.handle_capsule(ASSIGN, bad, |_| true),
            Err(BindError::Malformed),
            "{bad:?}"
        );
    }

    for bad in [&b""[..], b"\x00", b"\x02\x02", b"\x40"] {
        assert_eq!(
            contexts.handle_capsule(CLOSE, bad, |_| true),
            Err(BindError::Malformed),
            "{bad:?}"
        );
    }

    assert_eq!(
        contexts.handle_capsule(0x1234, b"anything", |_| true),
        Ok(None)
    );
}

#[test]
fn what_is_denied_or_too_much_is_refused_and_not_an_error() {
    let mut contexts = Contexts::default();
    let capsule = Assign {
        context: 2,
        peer: Some(peer("10.0.0.1:53")),
    }
    .encode();
    assert_eq!(
        contexts.handle_capsule(ASSIGN, value(&capsule), |_| false),
        refused(2)
    );
    assert_eq!(
        assign(&mut contexts, 2, Some(peer("[::ffff:192.0.2.1]:53"))),
        refused(2)
    );
    assert_eq!(
        assign(&mut contexts, 2, Some(peer("192.0.2.1:0"))),
        refused(2)
    );

    for number in 0..MAX_CONTEXTS as u16 {
        let one = Some(SocketAddr::from(([192, 0, 2, 1], number + 1)));
        assert!(assign(&mut contexts, 2 * (u64::from(number) + 1), one).is_ok());
    }

    assert_eq!(contexts.len(), MAX_CONTEXTS);
    let more = assign(&mut contexts, 4000, None).unwrap().unwrap();
    assert_eq!(more[0], 0x13);
    assert_eq!(contexts.len(), MAX_CONTEXTS);
}

#[test]
fn datagrams_without_a_meaning_are_dropped_and_those_of_context_0_end_the_stream() {
    let mut contexts = Contexts::default();
    assert_eq!(assign(&mut contexts, 2, None), ack(2));
    for dropped in [
        &b"\x04x"[..],
        b"\x02",
        b"\x02\x05\x01\x02\x03\x04\x00\x01",
        b"\x02\x04\x01\x02",
        b"\x02\x04\x01\x02\x03\x04\x00\x00x",
    ] {
        assert_eq!(
            contexts.outbound(Bytes::copy_from_slice(dropped)),
            Ok(Outbound::Dropped),
            "{dropped:?}"
        );
    }

    assert_eq!(
        contexts.outbound(Bytes::from_static(b"\x00x")),
        Err(BindError::ContextZero)
    );
    assert!(contexts.outbound(Bytes::new()).is_err());
}

#[test]
fn only_one_true_boolean_asks() {
    let asks = |lines: &[&str]| {
        let lines = lines
            .iter()
            .map(|line| (CONNECT_UDP_BIND, line.parse::<http::HeaderValue>().unwrap()));
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.append(name, value);
        }

        is_asked_for(&fields)
    };

    assert!(asks(&["?1"]) && asks(&[" ?1 "]) && asks(&["?1;x=y"]));
    for not in [
        &[][..],
        &["?0"],
        &["1"],
        &["?1, ?1"],
        &["?1", "?1"],
        &["?10"],
        &["?1;x, ?1"],
    ] {
        assert!(!asks(not), "{not:?}");
    }
}

proptest! {
    #[test]
    fn keeps_its_invariants(
        steps in proptest::collection::vec((0_u8..4, 0_u8..12, prop_oneof![Just(0_u8), Just(4), Just(6)], 0_u8..4), 0..60),
    ) {
        let mut data = Vec::new();
        for (kind, context, version, host) in steps {
            let mut value = vec![context, version];
            value.extend(std::iter::repeat_n(host, match version { 4 => 4, 6 => 16, _ => 0 }));
            value.extend([0, 53][..if version == 0 { 0 } else { 2 }].iter());
            let value = if kind == 3 { vec![context] } else { value };
            data.extend([if kind == 0 { 0 } else { 0x10 + kind }, value.len() as u8]);
            data.extend(value);
        }

        fuzz_one(&data);
    }
}
