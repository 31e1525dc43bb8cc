//! HTTP datagrams in QUIC datagrams (RFC 9297, section 2.1).
//!
//! ```text
//! HTTP/3 Datagram { Quarter Stream ID (varint), HTTP Datagram Payload }
//! ```

use bytes::{Bytes, BytesMut};

use super::code::{Code, Fault};
use crate::varint;

/// The largest quarter stream ID: four times it is the largest stream ID.
pub const MAX_QUARTER: u64 = (1 << 60) - 1;

/// The stream that a QUIC datagram belongs to, and its payload, which shares its memory.
///
/// # Errors
/// The quarter stream ID is cut off or too large; the connection must be closed.
pub fn decode(datagram: Bytes) -> Result<(u64, Bytes), Fault> {
    let mut rest = &datagram[..];
    let quarter = varint::decode(&mut rest)
        .ok_or(fault("a datagram ends before its quarter stream ID does"))?;
    if quarter > MAX_QUARTER {
        return Err(fault("a quarter stream ID above 2^60 - 1"));
    }
    Ok((quarter * 4, datagram.slice_ref(rest)))
}

/// Appends the prefix of a datagram of this request stream.
pub fn encode_prefix(stream: u64, output: &mut BytesMut) {
    varint::encode(stream / 4, output);
}

/// The bytes that [`encode_prefix`] writes.
pub fn prefix_size(stream: u64) -> usize {
    varint::size(stream / 4)
}

const fn fault(reason: &'static str) -> Fault {
    Fault::connection(Code::DatagramError, reason)
}

/// Decodes arbitrary bytes: the payload is their tail, and the datagram survives a round trip.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let Ok((stream, payload)) = decode(Bytes::copy_from_slice(data)) else {
        return;
    };
    assert!(data.ends_with(&payload) && stream % 4 == 0);
    let mut again = BytesMut::new();
    encode_prefix(stream, &mut again);
    assert_eq!(again.len(), prefix_size(stream));
    again.extend_from_slice(&payload);
    assert_eq!(decode(again.freeze()), Ok((stream, payload)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(quarter: u64) -> Bytes {
        let mut output = BytesMut::new();
        varint::encode(quarter, &mut output);
        output.extend_from_slice(b"payload");
        output.freeze()
    }

    #[test]
    fn the_stream_is_four_times_what_is_written() {
        assert_eq!(decode(encoded(0)), Ok((0, Bytes::from_static(b"payload"))));
        assert_eq!(
            decode(encoded(11)),
            Ok((44, Bytes::from_static(b"payload")))
        );
        assert_eq!(decode(encoded(MAX_QUARTER)).unwrap().0, varint::MAX - 3);
    }

    #[test]
    fn refuses_a_quarter_stream_id_of_no_stream() {
        for datagram in [
            encoded(MAX_QUARTER + 1),
            encoded(varint::MAX),
            Bytes::new(),
            Bytes::from_static(&[0x40]),
        ] {
            assert_eq!(decode(datagram).unwrap_err().code, Code::DatagramError);
        }
    }

    #[test]
    fn a_payload_may_be_empty() {
        assert_eq!(decode(Bytes::from_static(&[1])), Ok((4, Bytes::new())));
    }

    proptest! {
        #[test]
        fn survives_a_round_trip(quarter in 0..=MAX_QUARTER, payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut output = BytesMut::new();
            encode_prefix(quarter * 4, &mut output);
            output.extend_from_slice(&payload);
            fuzz_one(&output);
            prop_assert_eq!(decode(output.freeze()), Ok((quarter * 4, payload.into())));
        }
    }
}
