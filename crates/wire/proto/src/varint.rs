//! Variable-length integers of QUIC (RFC 9000, section 16).
//!
//! The two high bits of the first byte give the length: `00` 1 byte, `01` 2, `10` 4, `11` 8. The rest is the value in
//! network byte order. A value may be written longer than it needs to be.

use bytes::{BufMut, BytesMut};

/// The largest value that can be written: 2^62 - 1.
pub const MAX: u64 = (1 << 62) - 1;

/// The length in bytes of the longest encoding.
pub const MAX_SIZE: usize = 8;

/// Takes one integer off the front of `input`; `None`, with `input` untouched, when bytes are missing.
pub fn decode(input: &mut &[u8]) -> Option<u64> {
    let first = *input.first()?;
    let length = 1_usize << (first >> 6);
    let (encoded, rest) = input.split_at_checked(length)?;
    let value = encoded[1..]
        .iter()
        .fold(u64::from(first & 0x3f), |value, &byte| {
            (value << 8) | u64::from(byte)
        });
    *input = rest;

    Some(value)
}

/// Appends `value` in its shortest encoding.
///
/// # Panics
/// When `value` is above [`MAX`]. Decoded values and lengths of memory never are.
pub fn encode(value: u64, output: &mut BytesMut) {
    match size(value) {
        1 => output.put_u8(value as u8),
        2 => output.put_u16(value as u16 | 0x4000),
        4 => output.put_u32(value as u32 | 0x8000_0000),
        _ => output.put_u64(value | 0xc000_0000_0000_0000),
    }
}

/// The number of bytes that [`encode`] writes: 1, 2, 4 or 8.
///
/// # Panics
/// When `value` is above [`MAX`].
pub fn size(value: u64) -> usize {
    assert!(
        value <= MAX,
        "{value} does not fit a variable-length integer"
    );
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => MAX_SIZE,
    }
}

/// Decodes arbitrary bytes: an integer takes 1, 2, 4 or 8 bytes, and the value survives a round
/// trip.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let mut rest = data;
    while let Some(value) = decode(&mut rest) {
        assert!(value <= MAX);
        let mut again = BytesMut::new();
        encode(value, &mut again);
        assert_eq!(again.len(), size(value));
        assert_eq!(decode(&mut &again[..]), Some(value));
        assert_eq!(decode(&mut &again[..again.len() - 1]), None);
    }

    assert!(rest.len() < MAX_SIZE);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(value: u64) -> BytesMut {
        let mut output = BytesMut::new();
        encode(value, &mut output);
        output
    }

    #[test]
    fn decodes_and_encodes_the_samples_of_rfc_9000_appendix_a_1() {
        let samples: [(&[u8], u64); 4] = [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ];
        for (bytes, value) in samples {
            assert_eq!(decode(&mut &*bytes), Some(value));
            assert_eq!(encoded(value), bytes);
        }
    }

    #[test]
    fn accepts_a_longer_encoding_than_needed() {
        assert_eq!(decode(&mut &[0x40, 0x25][..]), Some(37));
    }

    #[test]
    fn leaves_the_input_alone_when_bytes_are_missing() {
        let mut input = &[0x9d, 0x7f, 0x3e][..];
        assert_eq!(decode(&mut input), None);
        assert_eq!(input.len(), 3);
        assert_eq!(decode(&mut &[][..]), None);
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn refuses_to_encode_more_than_62_bits() {
        size(MAX + 1);
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(value in 0..=MAX, tail in proptest::collection::vec(any::<u8>(), 0..4)) {
            let mut bytes = encoded(value);
            bytes.extend_from_slice(&tail);
            let mut input = &bytes[..];
            prop_assert_eq!(decode(&mut input), Some(value));
            prop_assert_eq!(input, &tail[..]);
        }

        #[test]
        fn is_as_long_as_the_edges_of_its_range_say(shift in 0_u32..62) {
            let value = 1_u64 << shift;
            let expected = if shift < 6 { 1 } else if shift < 14 { 2 } else if shift < 30 { 4 } else { 8 };
            prop_assert_eq!(encoded(value).len(), expected);
        }
    }
}
