//! Field sections and tables, against RFC 9204 and against each other.

use proptest::prelude::*;

use bytes::BytesMut;

use super::decode::{all, all_by};
use super::*;

const WIDE: FieldSectionLimits = FieldSectionLimits {
    bytes: 1 << 20,
    lines: 1000,
};

fn line(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (name.into(), value.into())
}

fn written(name: &str, value: &str, sensitive: bool) -> BytesMut {
    let mut output = BytesMut::new();
    let mut encoder = QpackEncoder::default();
    let mut section = encoder.section(0, &mut output);
    section.line(
        LineName::parse(name.as_bytes()),
        value.as_bytes(),
        sensitive,
    );
    section.finish();
    output.split_off(2)
}

#[test]
fn reads_the_sample_of_rfc_9204_appendix_b_1() {
    let section = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(all(section, WIDE), Ok(vec![line(":path", "/index.html")]));
}

#[test]
fn refuses_the_sections_of_appendix_b_that_need_a_dynamic_table() {
    for section in [&b"\x03\x81\x10\x11"[..], b"\x05\x00\x80\xc1\x81"] {
        assert_eq!(all(section, WIDE), Err(QpackError::Dynamic));
    }
    // Without a count that would be required, each dynamic form is refused for itself, and so is a negative base.
    for section in [
        &b"\0\0\x80"[..],
        b"\0\0\x10",
        b"\0\0\x40\0",
        b"\0\0\0\0",
        b"\0\x80",
        b"\0\x81\xc1",
    ] {
        assert_eq!(all(section, WIDE), Err(QpackError::Dynamic));
    }
}

#[test]
fn reads_the_static_reference_of_appendix_b_4() {
    assert_eq!(all(b"\0\0\xc1", WIDE), Ok(vec![line(":path", "/")]));
}

#[test]
fn refuses_what_the_static_table_does_not_have_and_what_is_cut_off() {
    assert_eq!(all(b"\0\0\xff\x24", WIDE), Err(QpackError::NoEntry));
    assert_eq!(
        all(b"\0\0\xff\x23", WIDE),
        Ok(vec![line("x-frame-options", "sameorigin")])
    );
    let section = b"\0\0\x51\x0b/index.html\xff\x23";
    for end in [0, 1, 3, 4, 8, 14, 16] {
        assert_eq!(
            all(&section[..end], WIDE),
            Err(QpackError::Truncated),
            "{end}"
        );
    }
    assert_eq!(
        all(b"\0\0\x27\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", WIDE),
        Err(QpackError::Overflow)
    );
}

#[test]
fn writes_the_shortest_form() {
    assert_eq!(written(":method", "GET", false), &b"\xd1"[..]);
    assert_eq!(written(":status", "500", false), &b"\xff\x08"[..]);
    // "/index.html" is 8 bytes as a Huffman code.
    assert_eq!(written(":path", "/index.html", false)[..2], b"\x51\x88"[..]);
    assert_eq!(written("\u{e9}", "", false), &b"\x22\xc3\xa9\x00"[..]);
}

#[test]
fn marks_what_is_sensitive_and_does_not_refer_to_its_value() {
    assert_eq!(written("authorization", "", true), &b"\x7f\x45\x00"[..]);
    assert_eq!(written(":path", "/", true), &b"\x71\x01/"[..]);
    assert_eq!(written("a\0", "", true)[0], 0x32);
}

#[test]
fn limits_are_exact() {
    let section = b"\0\0\xc1\xc1";
    let limits = |bytes, lines| FieldSectionLimits { bytes, lines };
    assert!(all(section, limits(76, 2)).is_ok());
    assert_eq!(all(section, limits(75, 2)), Err(QpackError::TooLarge));
    assert_eq!(all(section, limits(76, 1)), Err(QpackError::TooMany));
    // Few bytes that stand for many: each of these is the longest entry of the static table.
    let bomb = [&[0, 0][..], &[0xff, 0x16].repeat(10_000)].concat();
    assert_eq!(
        all(&bomb, limits(65_536, 100_000)),
        Err(QpackError::TooLarge)
    );
}

/// Carries the bytes of both QPACK streams to the other side.
fn exchange(encoder: &mut QpackEncoder, decoder: &mut QpackDecoder) {
    decoder.handle(&encoder.take_instructions()).unwrap();
    encoder.handle(&decoder.take_instructions()).unwrap();
}

fn section(encoder: &mut QpackEncoder, stream: u64, lines: &[(&str, &str)]) -> BytesMut {
    let mut output = BytesMut::new();
    let mut section = encoder.section(stream, &mut output);
    for (name, value) in lines {
        section.line(LineName::parse(name.as_bytes()), value.as_bytes(), false);
    }
    section.finish();
    output
}

fn pair(capacity: usize) -> (QpackEncoder, QpackDecoder) {
    let mut encoder = QpackEncoder::default();
    encoder.allow(capacity as u64);
    (encoder, QpackDecoder::new(capacity))
}

#[test]
fn follows_the_example_of_rfc_9204_appendix_b() {
    let mut decoder = QpackDecoder::new(220);
    // B.2: it sets the capacity, inserts two entries, and refers to them.
    decoder
        .handle(b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path")
        .unwrap();
    let first = line(":authority", "www.example.com");
    let second = line(":path", "/sample/path");
    assert_eq!(
        all_by(&mut decoder, b"\x03\x81\x10\x11", WIDE),
        Ok(vec![first.clone(), second])
    );
    assert_eq!(decoder.take_instructions(), &b"\x80"[..]);

    // B.3: a literal name; B.4: a duplicate, and a section on another stream.
    decoder.handle(b"\x4acustom-key\x0ccustom-value").unwrap();
    assert_eq!(decoder.take_instructions(), &b"\x01"[..]);
    decoder.handle(b"\x02").unwrap();
    let third = line("custom-key", "custom-value");
    assert_eq!(
        all_by(&mut decoder, b"\x05\x00\x80\xc1\x81", WIDE),
        Ok(vec![first.clone(), line(":path", "/"), third])
    );
    decoder.cancel(8);
    assert_eq!(decoder.take_instructions(), &b"\x80\x48"[..]);

    // B.5: an insertion with a dynamic name evicts the oldest.
    decoder.handle(b"\x81\x0dcustom-value2").unwrap();
    assert_eq!(decoder.take_instructions(), &b"\x01"[..]);
    let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    assert_eq!(
        decoder.table().lines(),
        [
            (":path", "/sample/path"),
            ("custom-key", "custom-value"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value2")
        ]
        .map(text)
    );
}

#[test]
fn a_line_is_referred_to_once_the_peer_has_confirmed_it() {
    let (mut encoder, mut decoder) = pair(4096);
    let lines = [("x-user", "alice")];
    let plain = section(&mut encoder, 0, &lines);
    assert_eq!(encoder.take_instructions(), &b"\x3f\xe1\x1f"[..]);
    assert_eq!(section(&mut encoder, 4, &lines), plain, "now it repeats");
    assert_eq!(section(&mut encoder, 8, &lines), plain, "not confirmed");
    assert_eq!(encoder.take_instructions()[0] & 0xc0, 0x40);

    let (mut encoder, _) = pair(4096);
    for stream in [0, 4] {
        section(&mut encoder, stream, &lines);
    }
    exchange(&mut encoder, &mut decoder);
    let short = section(&mut encoder, 8, &lines);
    assert_eq!(short, &b"\x02\0\x80"[..]);
    assert_eq!(
        all_by(&mut decoder, &short, WIDE),
        Ok(vec![line("x-user", "alice")])
    );
}

#[test]
fn what_a_section_needs_stays_until_the_peer_has_read_it() {
    let (mut encoder, mut decoder) = pair(128);
    for stream in [0, 4] {
        section(&mut encoder, stream, &[("a", "1")]);
    }
    exchange(&mut encoder, &mut decoder);
    let waits = section(&mut encoder, 8, &[("a", "1")]);
    for value in ["2", "3", "4", "5", "6"] {
        for stream in [12, 16] {
            section(&mut encoder, stream, &[("a", value)]);
        }
        exchange(&mut encoder, &mut decoder);
    }
    assert_eq!(encoder.table().lines()[0], ("a".to_owned(), "1".to_owned()));
    let mut read = decoder.section(8, &waits, WIDE).unwrap();
    assert_eq!(read.next().unwrap().unwrap().value, b"1");

    exchange(&mut encoder, &mut decoder);
    for stream in [20, 24] {
        section(&mut encoder, stream, &[("a", "7")]);
    }
    exchange(&mut encoder, &mut decoder);
    assert_ne!(encoder.table().lines()[0], ("a".to_owned(), "1".to_owned()));
}

#[test]
fn a_peer_that_acknowledges_nothing_is_sent_literals_and_costs_no_more() {
    let (mut encoder, mut decoder) = pair(4096);
    let lines = [("x-user", "alice")];
    for stream in [0, 4] {
        section(&mut encoder, stream, &lines);
    }
    exchange(&mut encoder, &mut decoder);
    let mut referred = 0;
    for stream in 0..10_000 {
        referred += usize::from(section(&mut encoder, stream * 4, &lines)[0] != 0);
    }
    assert_eq!(referred, 256);

    // Nor does one that never takes an instruction.
    for number in 0..10_000 {
        let value = format!("{number:0>1000}");
        for _ in 0..2 {
            section(&mut encoder, 0, &[("x-large", &value)]);
        }
    }
    assert!(encoder.take_instructions().len() < 16 * 1024);
    assert_eq!(decoder.handle(b""), Ok(()));
}

#[test]
fn a_stream_that_is_cancelled_needs_its_entries_no_more() {
    let (mut encoder, mut decoder) = pair(4096);
    let lines = [("x-user", "alice")];
    for stream in [0, 4] {
        section(&mut encoder, stream, &lines);
    }
    exchange(&mut encoder, &mut decoder);
    section(&mut encoder, 8, &lines);
    decoder.cancel(8);
    exchange(&mut encoder, &mut decoder);
    assert_eq!(
        encoder.handle(b"\x88"),
        Err(InstructionError::Acknowledgement)
    );
}

#[test]
fn without_a_table_nothing_is_inserted_or_acknowledged() {
    let decoder = |bytes: &[u8]| QpackDecoder::default().handle(bytes);
    assert_eq!(decoder(b"\x3f\xbd\x01"), Err(InstructionError::Capacity));
    assert_eq!(
        decoder(b"\xc0\x0fwww.example.com"),
        Err(InstructionError::Insert)
    );
    assert_eq!(
        decoder(b"\x4acustom-key\x0ccustom-value"),
        Err(InstructionError::Insert)
    );
    assert_eq!(decoder(b"\x02"), Err(InstructionError::Insert));
    assert_eq!(
        decoder(b"\x81\x0dcustom-value2"),
        Err(InstructionError::Insert)
    );
    assert_eq!(decoder(&[0x20; 100]), Ok(()));
    assert_eq!(decoder(b"\x20\x21"), Err(InstructionError::Capacity));

    let encoder = |bytes: &[u8]| QpackEncoder::default().handle(bytes);
    assert_eq!(encoder(b"\x84"), Err(InstructionError::Acknowledgement));
    assert_eq!(encoder(b"\x01"), Err(InstructionError::Increment));
    assert_eq!(encoder(b"\x00"), Err(InstructionError::Increment));
    assert_eq!(encoder(b"\x48\x7f\xff\x01\x48"), Ok(()));
    assert_eq!(
        encoder(&[&[0x7f][..], &[0xff; 10]].concat()),
        Err(InstructionError::Unreadable)
    );
}

#[test]
fn a_peer_that_lies_about_entries_is_found_out() {
    let table = || {
        let mut decoder = QpackDecoder::new(256);
        decoder.handle(b"\x3f\xe1\x01\x41a\x01b").unwrap();
        decoder
    };
    for (instructions, error) in [
        (&b"\x3f\xe2\x01"[..], InstructionError::Capacity),
        (b"\x01", InstructionError::Insert),
        (b"\x81\x01b", InstructionError::Insert),
        (b"\xff\x24\x01b", InstructionError::Insert),
        // Larger than the table, however it is written, and before it is there.
        (b"\x41a\x7f\x82\x01", InstructionError::Insert),
        (b"\x41a\x7f\x92\x08", InstructionError::Insert),
        (b"\x41a\x81\xff", InstructionError::Unreadable),
    ] {
        let mut decoder = table();
        let whole = [instructions, &[b'x'; 300]].concat();
        assert_eq!(decoder.handle(&whole), Err(error), "{instructions:?}");
    }

    for section in [
        &b"\x03\0\x80"[..],
        b"\x11\0\x80",
        b"\x02\0\x81",
        b"\x02\x80\x80",
        b"\x02\x81\x80",
        b"\x02\0\x10",
        b"\0\0\x80",
    ] {
        assert_eq!(
            all_by(&mut table(), section, WIDE),
            Err(QpackError::Dynamic),
            "{section:?}"
        );
    }
    assert_eq!(
        all_by(&mut table(), b"\x02\0\x80", WIDE),
        Ok(vec![line("a", "b")])
    );
    assert_eq!(
        all_by(&mut table(), b"\x02\x80\x10", WIDE),
        Ok(vec![line("a", "b")])
    );
    assert_eq!(
        all_by(&mut table(), b"\x02\0\x40\x01c", WIDE),
        Ok(vec![line("a", "c")])
    );
    assert_eq!(
        all_by(&mut table(), b"\x02\x80\x00\x01c", WIDE),
        Ok(vec![line("a", "c")])
    );
}

/// A section, the bytes that arrive before it, and whether it is read.
type Step = (Vec<(String, String, bool)>, bool, bool, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = prop_oneof![
        "[a-z:-]{0,20}",
        Just("via".to_owned()),
        Just(":path".to_owned())
    ];
    let value = prop_oneof!["\\PC{0,40}", "[ab]{0,2}", "a{1500}"];
    let lines = prop::collection::vec((name, value, prop::bool::weighted(0.1)), 0..12);
    prop::collection::vec(
        (
            lines,
            any::<bool>(),
            any::<bool>(),
            prop::bool::weighted(0.9),
        ),
        0..40,
    )
}

proptest! {
    /// Sections and instructions overtake each other as they like, on streams that end as they like.
    #[test]
    fn what_is_written_is_read_whatever_overtakes_what(
        announced in prop_oneof![Just(0_usize), 0..6000_usize],
        steps in steps(),
        cut in 1_usize..50,
    ) {
        let mut encoder = QpackEncoder::default();
        encoder.allow(announced as u64);
        let mut decoder = QpackDecoder::new(announced);
        let mut waiting = BytesMut::new();

        for (stream, (lines, tells, hears, is_read)) in (0_u64..).step_by(4).zip(steps) {
            let mut output = BytesMut::new();
            let mut section = encoder.section(stream, &mut output);
            for (name, value, sensitive) in &lines {
                section.line(LineName::parse(name.as_bytes()), value.as_bytes(), *sensitive);
            }
            section.finish();
            waiting.unsplit(encoder.take_instructions());
            if tells {
                for piece in waiting.split().chunks(cut) {
                    decoder.handle(piece).unwrap();
                }
            }

            if is_read {
                let mut read = decoder.section(stream, &output, WIDE).unwrap();
                for (name, value, _) in &lines {
                    let line = read.next().unwrap().unwrap();
                    prop_assert_eq!((line.name.as_bytes(), line.value), (name.as_bytes(), value.as_bytes()));
                }
                prop_assert_eq!(read.next(), Ok(None));
            } else {
                decoder.cancel(stream);
            }
            if hears {
                for piece in decoder.take_instructions().chunks(cut) {
                    encoder.handle(piece).unwrap();
                }
            }
        }
    }
}
