//! `Hermes-Datagram-Limit`: how a tunnel of UDP says that larger payloads do not go on.
//!
//! A proxy whose path onwards carries smaller QUIC datagrams than it receives drops the larger ones
//! (RFC 9298, section 6.1). With a capsule it tells the sending side that UDP payloads larger than
//! this many bytes are dropped here. The capsule goes only to a peer that has said with the field,
//! in a request or in its answer, that it understands it.
//!
//! ```text
//! Capsule { Type (varint) = 0x2d7c51a9, Length (varint), Bytes of UDP payload (varint) }
//! ```

use bytes::BytesMut;
use http::{HeaderName, HeaderValue};

use crate::capsule::{CapsuleType, encode_header};
use crate::fields::Fields;
use crate::varint;

/// The field.
pub const FIELD: HeaderName = HeaderName::from_static("hermes-datagram-limit");

/// No limit: no UDP payload is larger.
pub const NONE: usize = 65_535;

/// The smallest limit that is heeded, in bytes of UDP payload: a path of QUIC carries twice that, and a peer that says less must
/// not silence everything.
pub const LEAST: usize = 512;

/// The longest value of the capsule, in bytes.
pub const MAX_VALUE: u64 = varint::MAX_SIZE as u64;

/// The field's value.
pub fn understood() -> HeaderValue {
    HeaderValue::from_static("?1")
}

/// Whether the author of these fields understands the capsule.
pub fn is_understood(fields: &Fields) -> bool {
    fields
        .get(FIELD)
        .is_some_and(|value| value.as_bytes().trim_ascii() == b"?1")
}

/// Says in the fields of an answer that this node understands it, if that is of use to the asker.
pub fn answer(request: &Fields, answer: &mut Fields) {
    if is_understood(request) {
        answer.insert(FIELD, understood());
    } else {
        answer.remove(FIELD);
    }
}

/// Appends the capsule.
pub fn encode(limit: usize, output: &mut BytesMut) {
    let limit = limit.min(NONE) as u64;
    encode_header(
        CapsuleType::DatagramLimit,
        varint::size(limit) as u64,
        output,
    );
    varint::encode(limit, output);
}

/// The limit in the value of a capsule, brought between [`LEAST`] and [`NONE`]; `None` if the value
/// is not exactly one number.
pub fn decode(mut value: &[u8]) -> Option<usize> {
    let limit = varint::decode(&mut value)?;
    value
        .is_empty()
        .then(|| usize::try_from(limit).unwrap_or(NONE).clamp(LEAST, NONE))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::capsule::{Capsule, CapsuleDecoder};

    #[test]
    fn a_limit_is_read_as_it_was_written() {
        for limit in [LEAST, 1132, 1412, 20_000, NONE] {
            let mut bytes = BytesMut::new();
            encode(limit, &mut bytes);
            let mut decoder = CapsuleDecoder::new(MAX_VALUE);
            decoder.push(bytes.freeze());
            let Capsule { kind, value } = decoder.next().unwrap().unwrap();
            assert_eq!(
                (kind, decode(&value)),
                (CapsuleType::DatagramLimit, Some(limit))
            );
            assert_eq!(decoder.finish(), Ok(()));
        }
        let mut bytes = BytesMut::new();
        encode(1132, &mut bytes);
        assert_eq!(
            bytes,
            Bytes::from_static(&[0xad, 0x7c, 0x51, 0xa9, 2, 0x44, 0x6c])
        );
    }

    #[test]
    fn a_limit_without_sense_becomes_one_with() {
        assert_eq!(
            [decode(&[0]), decode(&[0x41, 0xff]), decode(&[0xff; 8])],
            [Some(LEAST), Some(LEAST), Some(NONE)]
        );
        assert_eq!(
            [decode(&[]), decode(&[0x44]), decode(&[0x44, 0x6c, 0])],
            [None; 3]
        );
    }

    #[test]
    fn one_who_asks_is_answered() {
        let asks = Fields::from_iter([(FIELD, understood())]);
        let not = Fields::from_iter([(FIELD, HeaderValue::from_static("?0"))]);
        assert_eq!(
            [&asks, &not, &Fields::new()].map(is_understood),
            [true, false, false]
        );
        let mut fields = Fields::new();
        answer(&asks, &mut fields);
        assert!(is_understood(&fields));
        answer(&not, &mut fields);
        assert!(fields.is_empty());
    }
}
