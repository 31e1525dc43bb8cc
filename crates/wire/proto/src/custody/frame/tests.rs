//! Frames: their layout, and refusals.

use proptest::prelude::*;

use super::*;

const OBJECT: ObjectId = ObjectId {
    exchange: [9; 16],
    part: ObjectPart::Response,
};

fn encoded(frame: &CustodyFrame) -> Bytes {
    let mut output = BytesMut::new();
    frame.encode(&mut output);
    output.freeze()
}

fn object(part: u8) -> Vec<u8> {
    [vec![9; 16], vec![part]].concat()
}

fn decoded(parts: &[&[u8]]) -> Result<Vec<CustodyFrame>, CustodyError> {
    decode_frames(&Bytes::from(parts.concat()))
}

#[test]
fn a_req_says_ranges_by_their_gaps() {
    let ranges = vec![
        CustodyRange {
            offset: 10,
            length: 5,
        },
        CustodyRange {
            offset: 20,
            length: 1,
        },
    ];
    let req = CustodyFrame::Req {
        object: OBJECT,
        serial: 7,
        taken: 4,
        limit: 60,
        ranges,
    };
    assert_eq!(
        encoded(&req)[18..],
        [7, 4, 60, 2, 10, 5, 5, 1],
        "after the type and the object"
    );
    assert_eq!(decode_frames(&encoded(&req)), Ok(vec![req]));
}

#[test]
fn data_say_how_much_there_is() {
    let data = CustodyFrame::Data {
        object: OBJECT,
        serial: 7,
        extent: Extent {
            total: Some(20),
            available: 10,
        },
        prompt: true,
        offset: 3,
        bytes: Bytes::from_static(b"abc"),
    };
    assert_eq!(encoded(&data)[18..], *b"\x07\x03\x14\x0a\x03\x03abc");
    assert_eq!(decode_frames(&encoded(&data)), Ok(vec![data]));
}

#[test]
fn ranges_that_touch_or_are_empty_are_refused() {
    let req = |rest: &[u8]| decoded(&[&[1], &object(1), &[0, 0, 60], rest]);
    assert!(req(&[1, 0, 5]).is_ok());
    assert!(req(&[0]).is_err(), "none");
    assert!(req(&[1, 0, 0]).is_err(), "empty");
    assert!(req(&[2, 0, 5, 0, 5]).is_err(), "touching");
    assert!(req(&[17]).is_err(), "too many");
    let far = [&[2, 0, 5][..], &[0xff; 8], &[1]].concat();
    assert!(req(&far).is_err(), "beyond what can be written");
}

#[test]
fn an_extent_cannot_contradict_itself() {
    let status = |rest: &[u8]| decoded(&[&[3], &object(0), &[0], rest]);
    assert!(status(&[1, 5, 5]).is_ok());
    assert!(status(&[1, 5, 6]).is_err(), "more than all");
    assert!(status(&[2, 5]).is_err(), "a flag of DATA");
    let data = |rest: &[u8]| decoded(&[&[2], &object(0), &[0], rest]);
    assert!(data(&[0, 3, 0, 3, 1, 2, 3]).is_ok());
    assert!(data(&[1, 2, 2, 0, 3, 1, 2, 3]).is_err(), "beyond the total");
    assert!(data(&[0, 0, 0, 0]).is_err(), "no bytes");
    assert!(data(&[0, 3, 0, 4, 1, 2, 3]).is_err(), "cut off");
}

#[test]
fn unknown_types_and_codes_are_refused() {
    assert!(decoded(&[&[9]]).is_err());
    assert!(decoded(&[&[4], &object(1), &[4]]).is_err());
    assert!(decoded(&[&[5], &object(1), &[2]]).is_err());
    assert!(decoded(&[&[5], &object(2), &[0]]).is_err());
    assert_eq!(decoded(&[&[0, 0, 0]]), Ok(vec![]), "padding");
}

fn frames() -> impl Strategy<Value = CustodyFrame> {
    let object = (any::<[u8; 16]>(), any::<bool>()).prop_map(|(exchange, up)| ObjectId {
        exchange,
        part: if up {
            ObjectPart::Request
        } else {
            ObjectPart::Response
        },
    });
    let extent = (any::<Option<u32>>(), any::<u32>()).prop_map(|(more, available)| Extent {
        total: more.map(|more| u64::from(available) + u64::from(more)),
        available: available.into(),
    });
    let ranges = proptest::collection::vec((1..1_u64 << 40, 1..1_u64 << 40), 1..=MAX_RANGES);
    let ranges = ranges.prop_map(|steps| {
        let mut end = 0;
        let range = |(gap, length)| {
            let offset = end + gap;
            end = offset + length;
            CustodyRange { offset, length }
        };
        steps.into_iter().map(range).collect()
    });
    prop_oneof![
        (object.clone(), any::<[u32; 3]>(), ranges).prop_map(
            |(object, [serial, taken, limit], ranges): (_, _, Vec<_>)| CustodyFrame::Req {
                object,
                serial: serial.into(),
                taken: taken.into(),
                limit: limit.into(),
                ranges
            }
        ),
        (object.clone(), 0..varint::MAX, extent.clone()).prop_map(|(object, serial, extent)| {
            CustodyFrame::Status {
                object,
                serial,
                extent,
            }
        }),
        (object.clone(), 0_u8..4).prop_map(|(object, code)| CustodyFrame::Err {
            object,
            code: ErrCode::decode(code).unwrap()
        }),
        (object, 0_u8..2).prop_map(|(object, code)| CustodyFrame::Fin {
            object,
            code: FinCode::decode(code).unwrap()
        }),
        (any::<[u8; 16]>(), any::<u32>(), any::<bool>(), extent).prop_map(
            |(exchange, keep, once, extent)| {
                CustodyFrame::Offer {
                    exchange,
                    keep,
                    once,
                    extent,
                }
            }
        ),
        any::<[u8; 8]>().prop_map(CustodyFrame::Challenge),
        any::<[u8; 8]>().prop_map(CustodyFrame::Response),
    ]
}

proptest! {
    #[test]
    fn frames_survive_a_round_trip(frames in proptest::collection::vec(frames(), 0..6)) {
        let mut output = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut output));
        prop_assert_eq!(decode_frames(&output.freeze()), Ok(frames));
    }

    #[test]
    fn any_bytes_are_no_danger(data in proptest::collection::vec(any::<u8>(), 0..120)) {
        fuzz_one(&data);
    }
}
