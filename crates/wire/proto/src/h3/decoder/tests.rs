//! Frames on the right and the wrong streams, whole and cut.

use bytes::BytesMut;
use proptest::prelude::*;

use super::super::frame::{encode, encode_goaway, encode_priority_update};
use super::*;

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut output = BytesMut::new();
    encode(FrameType::from(kind), payload, &mut output);
    output.to_vec()
}

fn fault(mut decoder: FrameDecoder, bytes: &[u8]) -> Option<Code> {
    decoder.push(Bytes::copy_from_slice(bytes));
    loop {
        match decoder.next() {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(fault) => {
                assert_eq!(decoder.finish(), Err(fault));
                return Some(fault.code);
            }
        }
    }
}

#[test]
fn content_is_a_slice_of_what_arrived_however_long_its_frame() {
    let mut decoder = FrameDecoder::request(100);
    let chunk = Bytes::from(frame(0, &[7; 60]));
    decoder.push(chunk.clone());
    let Ok(Some(Piece::Data(data))) = decoder.next() else {
        panic!()
    };

    assert_eq!(data.as_ptr(), chunk[2..].as_ptr());
    let mut head = BytesMut::new();
    super::super::frame::encode_head(FrameType::Data, varint::MAX, &mut head);
    decoder.push(head.freeze());

    for _ in 0..10 {
        decoder.push(Bytes::from_static(&[1; 1000]));
        assert_eq!(
            decoder.next(),
            Ok(Some(Piece::Data(Bytes::from_static(&[1; 1000]))))
        );
        assert_eq!(decoder.next(), Ok(None));
    }

    assert_eq!(decoder.finish().unwrap_err().code, Code::FrameError);
}

#[test]
fn types_are_refused_where_they_must_not_stand() {
    let settings = frame(4, &[]);
    for kind in [
        0x02, 0x06, 0x08, 0x09, 0x03, 0x04, 0x07, 0x0d, 0xf_0700, 0xf_0701,
    ] {
        let found = fault(FrameDecoder::request(100), &frame(kind, &[0]));
        assert_eq!(found, Some(Code::FrameUnexpected), "{kind:#x}");
    }

    for kind in [0x00, 0x01, 0x02, 0x05, 0x06, 0x08, 0x09] {
        let bytes = [&settings[..], &frame(kind, &[0])].concat();
        assert_eq!(
            fault(FrameDecoder::control(), &bytes),
            Some(Code::FrameUnexpected),
            "{kind:#x}"
        );
    }
}

#[test]
fn a_control_stream_begins_with_settings_and_with_nothing_else() {
    for kind in [0x07, 0x21, 0x00] {
        assert_eq!(
            fault(FrameDecoder::control(), &frame(kind, &[0])),
            Some(Code::MissingSettings),
            "{kind:#x}"
        );
    }
    assert_eq!(fault(FrameDecoder::control(), &frame(4, &[])), None);
}

#[test]
fn unknown_frames_are_passed_over_without_being_held() {
    let mut decoder = FrameDecoder::request(10);
    decoder.push(
        [
            frame(0x21, &[9; 50_000]),
            frame(0x1f * 1000 + 0x21, &[]),
            frame(1, b"x"),
        ]
        .concat()
        .into(),
    );

    assert_eq!(
        decoder.next(),
        Ok(Some(Piece::Frame(Frame::Headers(Bytes::from_static(b"x")))))
    );
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn frames_that_carry_nothing_are_counted_against_those_that_do() {
    let idle = frame(0, &[]).repeat(IDLE_FRAMES as usize);
    assert_eq!(fault(FrameDecoder::request(10), &idle), None);
    let one_more = [&idle[..], &frame(0x21, &[])].concat();
    assert_eq!(
        fault(FrameDecoder::request(10), &one_more),
        Some(Code::ExcessiveLoad)
    );
    let paid = [&idle[..], &frame(0, b"x"), &frame(0x21, &[])].concat();
    assert_eq!(fault(FrameDecoder::request(10), &paid), None);
}

/// A node of an earlier version asks a quiet link for a sign of life twice a second, by an unknown frame.
#[test]
fn a_month_of_frames_that_ask_for_a_sign_of_life_is_no_flood() {
    const MONTH: u32 = 30 * 24 * 3600 * 2;
    let mut now = Instant::now();
    let mut decoder = FrameDecoder::control();
    decoder.push(frame(4, &[]).into());
    assert!(decoder.next().unwrap().is_some());
    let probe = Bytes::from(frame(0x21, &[]));

    for _ in 0..MONTH {
        now += Duration::from_millis(500);
        decoder.push(probe.clone());
        if decoder.is_counting() {
            decoder.handle_time(now);
        }
        assert_eq!(decoder.next(), Ok(None));
    }
}

#[test]
fn frames_that_carry_nothing_are_forgotten_at_a_rate_and_a_flood_is_not() {
    let mut now = Instant::now();
    let mut decoder = FrameDecoder::request(10);
    let mut taken = 0;
    let flood = Bytes::from(frame(0x21, &[]));

    let fault = loop {
        now += IDLE_TIME / 2;
        decoder.push(flood.clone());
        if decoder.is_counting() {
            decoder.handle_time(now);
        }
        match decoder.next() {
            Ok(_) => taken += 1,
            Err(fault) => break fault,
        }
    };

    assert_eq!(fault.code, Code::ExcessiveLoad);
    let most = 2 * IDLE_FRAMES;
    assert!((most - 2..=most + 2).contains(&taken), "{taken}");
}

#[test]
fn what_is_too_long_is_refused_before_it_arrives() {
    let section = Fault::stream(Code::ExcessiveLoad, "a field section is too large");
    let mut decoder = FrameDecoder::request(10);
    decoder.push(Bytes::from_static(&[1, 11]));
    assert_eq!(decoder.next(), Err(section));
    assert_eq!(decoder.next(), Err(section));
    assert_eq!(fault(FrameDecoder::request(10), &frame(1, &[0; 10])), None);
    assert_eq!(
        fault(FrameDecoder::control(), &[4, 0x50, 0x01]),
        Some(Code::ExcessiveLoad)
    );
}

#[test]
fn payloads_have_neither_too_little_nor_too_much() {
    let settings = frame(4, &[]);
    for kind in [0x03, 0x07, 0x0d] {
        for payload in [&[][..], &[0x40], &[0, 0]] {
            let bytes = [&settings[..], &frame(kind, payload)].concat();
            assert_eq!(
                fault(FrameDecoder::control(), &bytes),
                Some(Code::FrameError),
                "{kind:#x} {payload:?}"
            );
        }
    }

    let bytes = [&settings[..], &frame(0xf_0700, &[])].concat();
    assert_eq!(
        fault(FrameDecoder::control(), &bytes),
        Some(Code::FrameError)
    );
}

#[test]
fn goaway_and_priority_update_are_read_as_they_were_written() {
    let mut output = BytesMut::from(&frame(4, &[])[..]);
    encode_goaway(1 << 40, &mut output);
    encode_priority_update(4, b"u=2, i", &mut output);
    let mut decoder = FrameDecoder::control();
    decoder.push(output.freeze());
    assert_eq!(
        decoder.next(),
        Ok(Some(Piece::Frame(Frame::Settings(Bytes::new()))))
    );
    assert_eq!(
        decoder.next(),
        Ok(Some(Piece::Frame(Frame::Goaway(1 << 40))))
    );
    let update = Frame::PriorityUpdate {
        stream: 4,
        value: Bytes::from_static(b"u=2, i"),
    };

    assert_eq!(decoder.next(), Ok(Some(Piece::Frame(update))));
    assert_eq!(decoder.next(), Ok(None));
}

#[test]
fn an_end_within_a_frame_is_an_error_and_between_frames_is_none() {
    let bytes = [frame(1, b"abc"), frame(0, b"de")].concat();
    for end in 0..=bytes.len() {
        let (_, ended) = decode_all(FrameDecoder::request(10), &bytes[..end], 1);
        assert_eq!(ended.is_ok(), [0, 5, 9].contains(&end), "{end}");
    }
}

proptest! {
    #[test]
    fn however_a_stream_is_cut_the_same_is_found(
        frames in proptest::collection::vec(
            (prop_oneof![Just(0_u64), Just(1), Just(0x21), 0_u64..20], proptest::collection::vec(any::<u8>(), 0..120)),
            0..8,
        ),
        stream in 0_u8..2,
        piece in any::<u8>(),
    ) {
        let mut data = vec![stream, piece];
        frames.iter().for_each(|(kind, payload)| data.extend(frame(*kind, payload)));
        fuzz_one(&data);
    }
}
