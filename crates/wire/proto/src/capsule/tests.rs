//! Claims about the Capsule Protocol.

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 1500;

fn stream(capsules: &[(u64, &[u8])]) -> Bytes {
    let mut output = BytesMut::new();
    for (code, value) in capsules {
        encode_header(CapsuleType::from(*code), value.len() as u64, &mut output);
        output.extend_from_slice(value);
    }
    output.freeze()
}

#[test]
fn writes_type_and_length_before_the_value() {
    assert_eq!(
        stream(&[(0, b"ab"), (0x4000, b"")])[..],
        [0, 2, b'a', b'b', 0x80, 0, 0x40, 0, 0]
    );
}

#[test]
fn names_the_types_of_the_registry() {
    for code in [0, 1, 2, 3, 4, 0x1c0f_e323, varint::MAX] {
        assert_eq!(CapsuleType::from(code).code(), code);
    }
    assert_eq!(CapsuleType::from(3), CapsuleType::RouteAdvertisement);
}

#[test]
fn slices_a_value_that_lies_in_one_chunk() {
    let chunk = stream(&[(0, b"first"), (7, b"second")]);
    let mut decoder = CapsuleDecoder::new(LIMIT);
    decoder.push(chunk.clone());
    let capsule = decoder.next().unwrap().unwrap();
    assert_eq!(capsule.value.as_ptr(), chunk[2..].as_ptr());
    assert_eq!(decoder.next().unwrap().unwrap().value, "second");
    assert_eq!(decoder.next(), Ok(None));
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn puts_a_split_capsule_together() {
    let mut decoder = CapsuleDecoder::new(LIMIT);
    for byte in stream(&[(0x4000, b"split")]).chunks(1) {
        assert_eq!(decoder.next(), Ok(None));
        decoder.push(Bytes::copy_from_slice(byte));
    }

    let capsule = decoder.next().unwrap().unwrap();
    assert_eq!(
        (capsule.kind, &capsule.value[..]),
        (CapsuleType::Other(0x4000), &b"split"[..])
    );
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn accepts_chunks_before_the_last_one_is_used_up() {
    let chunk = stream(&[(0, b"a")]);
    let mut decoder = CapsuleDecoder::new(LIMIT);
    decoder.push(chunk.clone());
    decoder.push(chunk);
    assert!(decoder.next().unwrap().is_some());
    assert!(decoder.next().unwrap().is_some());
    assert_eq!(decoder.next(), Ok(None));
}

#[test]
fn drops_a_long_capsule_of_an_unknown_type_without_holding_it() {
    let mut head = BytesMut::new();
    encode_header(CapsuleType::Other(99), 1 << 40, &mut head);
    let mut decoder = CapsuleDecoder::new(LIMIT);
    decoder.push(head.freeze());

    for _ in 0..100 {
        decoder.push(Bytes::from(vec![0; 65_536]));
        assert_eq!(decoder.next(), Ok(None));
        assert_eq!(decoder.reader.held(), 0);
    }

    assert_eq!(decoder.discarded(), 1);
    assert_eq!(decoder.finish(), Err(CapsuleError::Truncated));
}

#[test]
fn goes_on_after_a_dropped_capsule() {
    let long = vec![0; LIMIT as usize + 1];
    let mut decoder = CapsuleDecoder::new(LIMIT);
    decoder.push(stream(&[(99, &long), (0, b"after")]));
    assert_eq!(decoder.next().unwrap().unwrap().value, "after");
    assert_eq!(decoder.discarded(), 1);
}

#[test]
fn fails_on_a_long_capsule_of_a_known_type_and_stays_failed() {
    for code in 0..=3 {
        let mut decoder = CapsuleDecoder::new(LIMIT);
        decoder.push(stream(&[(code, &vec![0; LIMIT as usize + 1])]));
        let error = CapsuleError::TooLong {
            code,
            length: LIMIT + 1,
            limit: LIMIT,
        };

        assert_eq!(decoder.next(), Err(error));
        decoder.push(stream(&[(0, b"a")]));
        assert_eq!(decoder.next(), Err(error));
        assert_eq!(decoder.finish(), Err(error));
    }
}

#[test]
fn takes_a_capsule_of_exactly_the_limit_and_an_empty_one() {
    let longest = vec![7; LIMIT as usize];
    let mut decoder = CapsuleDecoder::new(LIMIT);
    decoder.push(stream(&[(0, &longest), (0, b"")]));
    assert_eq!(decoder.next().unwrap().unwrap().value, longest);
    assert!(decoder.next().unwrap().unwrap().value.is_empty());
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn an_end_inside_a_capsule_is_malformed() {
    let whole = stream(&[(0x4000, b"value")]);
    for end in 1..whole.len() {
        let mut decoder = CapsuleDecoder::new(LIMIT);
        decoder.push(whole.slice(..end));
        assert_eq!(decoder.finish(), Err(CapsuleError::Truncated));
        assert_eq!(decoder.next(), Ok(None));
        assert_eq!(decoder.finish(), Err(CapsuleError::Truncated));
    }
}

proptest! {
    #[test]
    fn survives_a_round_trip_however_it_is_cut(
        capsules in proptest::collection::vec((0_u64..=varint::MAX, proptest::collection::vec(any::<u8>(), 0..100)), 0..10),
        piece in 1_usize..40,
    ) {
        let borrowed: Vec<_> = capsules.iter().map(|(code, value)| (*code, &value[..])).collect();
        let (found, discarded, end) = decode_all(&stream(&borrowed), LIMIT, piece);
        let found: Vec<_> = found.into_iter().map(|capsule| (capsule.kind.code(), capsule.value.to_vec())).collect();
        prop_assert_eq!(found, capsules);
        prop_assert_eq!((discarded, end), (0, Ok(())));
    }
}
