//! Integers with a prefix (RFC 7541, section 5.1, as RFC 9204, section 4.1.1 takes them over).

use bytes::{BufMut, BytesMut};

use super::QpackError;
use crate::varint;

/// Takes an integer off the front of `input`; the first byte holds `prefix` bits of it; `None` when
/// bytes are missing.
///
/// # Errors
/// [`QpackError::Overflow`] above 62 bits (RFC 9204, section 4.1.1).
pub(crate) fn decode(prefix: u8, input: &mut &[u8]) -> Result<Option<u64>, QpackError> {
    let Some((&first, mut rest)) = input.split_first() else {
        return Ok(None);
    };
    let mask = (1_u64 << prefix) - 1;
    let mut value = u64::from(first) & mask;

    if value == mask {
        let mut shift = 0;
        loop {
            let Some((&byte, after)) = rest.split_first() else {
                return Ok(None);
            };
            rest = after;
            if shift > 56 {
                return Err(QpackError::Overflow);
            }

            value += u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }

    if value > varint::MAX {
        return Err(QpackError::Overflow);
    }
    *input = rest;
    Ok(Some(value))
}

/// Appends `value`; `flags` are the bits of the first byte above the `prefix`.
pub(crate) fn encode(value: u64, prefix: u8, flags: u8, output: &mut BytesMut) {
    let mask = (1_u64 << prefix) - 1;
    if value < mask {
        output.put_u8(flags | value as u8);
        return;
    }

    output.put_u8(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        output.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }

    output.put_u8(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(value: u64, prefix: u8) -> BytesMut {
        let mut output = BytesMut::new();
        encode(value, prefix, 0, &mut output);
        output
    }

    #[test]
    fn writes_and_reads_the_samples_of_rfc_7541_appendix_c_1() {
        for (value, prefix, bytes) in [
            (10, 5, &[0x0a][..]),
            (1337, 5, &[0x1f, 0x9a, 0x0a]),
            (42, 8, &[0x2a]),
        ] {
            assert_eq!(encoded(value, prefix), bytes);
            assert_eq!(decode(prefix, &mut &*bytes), Ok(Some(value)));
        }
    }

    #[test]
    fn waits_for_the_last_byte_and_keeps_the_input() {
        let mut input = &[0x1f, 0x9a][..];
        assert_eq!(decode(5, &mut input), Ok(None));
        assert_eq!(input.len(), 2);
        assert_eq!(decode(5, &mut &[][..]), Ok(None));
    }

    #[test]
    fn refuses_more_than_62_bits_and_endless_zeros() {
        assert_eq!(
            decode(5, &mut &[&[0x1f][..], &[0xff; 20]].concat()[..]),
            Err(QpackError::Overflow)
        );
        assert_eq!(
            decode(5, &mut &[&[0x1f][..], &[0x80; 20]].concat()[..]),
            Err(QpackError::Overflow)
        );
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(value in 0..=varint::MAX, shift in 0_u32..62, prefix in 1_u8..=8) {
            let value = value >> shift;
            let bytes = encoded(value, prefix);
            let mut input = &bytes[..];
            prop_assert_eq!(decode(prefix, &mut input), Ok(Some(value)));
            prop_assert!(input.is_empty());
        }
    }
}
