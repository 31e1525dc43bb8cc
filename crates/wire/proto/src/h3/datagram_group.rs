//! HTTP datagrams in streams of QUIC, one stream for each group of them: an extension of ours, as RFC 9297 has none.
//!
//! QUIC sends a lost part of a stream again, and datagrams have numbers, so that a receiver can put them [in order](super::datagram_order). The
//! stream is unidirectional; its type is that of [`StreamType::DatagramGroup`], and it is sent only to a peer whose SETTINGS have the same number
//! with the value 1.
//!
//! ```text
//! Datagram Group { Stream Type (varint), Quarter Stream ID (varint), First Number (varint), Grouped Datagram ... }
//! Grouped Datagram { Length (varint), HTTP Datagram Payload }
//! ```

use bytes::{Buf, Bytes, BytesMut};

use super::code::{Code, Fault};
use super::datagram::{MAX_QUARTER, encode_prefix};
use super::streams::StreamType;
use crate::varint;

/// The largest payload of a datagram: a context ID, and an IP packet.
pub const LARGEST: usize = varint::MAX_SIZE + 65_535;

/// The beginning of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupHead {
    /// The request stream that it belongs to.
    pub stream: u64,
    /// The number of its first datagram. All grouped datagrams of a session and direction are numbered, from 0 on.
    pub first: u64,
}

impl GroupHead {
    /// Appends it, behind the type of its stream.
    pub fn encode(self, output: &mut BytesMut) {
        varint::encode(StreamType::DatagramGroup.number(), output);
        self.encode_rest(output);
    }

    fn encode_rest(self, output: &mut BytesMut) {
        encode_prefix(self.stream, output);
        varint::encode(self.first, output);
    }
}

/// Appends a datagram whose payload is `prefix` and `payload`.
pub fn encode(prefix: &[u8], payload: &[u8], output: &mut BytesMut) {
    let length = prefix.len() + payload.len();
    output.reserve(varint::MAX_SIZE + length);
    varint::encode(length as u64, output);
    output.extend_from_slice(prefix);
    output.extend_from_slice(payload);
}

/// Reads a group behind the type of its stream.
#[derive(Debug, Default)]
pub struct GroupDecoder {
    input: BytesMut,
}

impl GroupDecoder {
    /// Takes bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that wait for more.
    pub fn held(&self) -> usize {
        self.input.len()
    }

    /// The head of the group, which is read first; `None` when more bytes are needed.
    ///
    /// # Errors
    /// There is no such stream.
    pub fn head(&mut self) -> Result<Option<GroupHead>, Fault> {
        let mut rest = &self.input[..];
        let Some(quarter) = varint::decode(&mut rest) else {
            return Ok(None);
        };
        if quarter > MAX_QUARTER {
            return Err(fault("a quarter stream ID above 2^60 - 1"));
        }
        let Some(first) = varint::decode(&mut rest) else {
            return Ok(None);
        };
        self.input.advance(self.input.len() - rest.len());
        Ok(Some(GroupHead {
            stream: quarter * 4,
            first,
        }))
    }

    /// The payload of the next datagram; `None` when more bytes are needed.
    ///
    /// # Errors
    /// It is longer than any.
    pub fn next_datagram(&mut self) -> Result<Option<Bytes>, Fault> {
        let mut rest = &self.input[..];
        let Some(length) = varint::decode(&mut rest) else {
            return Ok(None);
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > LARGEST {
            return Err(fault("a datagram of a group is longer than any"));
        }
        if rest.len() < length {
            return Ok(None);
        }

        self.input.advance(self.input.len() - rest.len());
        Ok(Some(self.input.split_to(length).freeze()))
    }
}

const fn fault(reason: &'static str) -> Fault {
    Fault::stream(Code::DatagramError, reason)
}

/// Decodes arbitrary bytes: however they are cut, they are the same datagrams, which survive a round trip.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let whole = decode_all(&[data]);
    let pieces: Vec<_> = data.chunks(3).collect();
    assert_eq!(decode_all(&pieces), whole);

    let Some((head, datagrams)) = whole else {
        return;
    };
    let mut again = BytesMut::new();
    head.encode_rest(&mut again);
    for datagram in &datagrams {
        encode(&[], datagram, &mut again);
    }
    assert_eq!(decode_all(&[&again]), Some((head, datagrams)));
}

/// The head of a group, and its datagrams up to the first mistake.
#[cfg(test)]
fn decode_all(pieces: &[&[u8]]) -> Option<(GroupHead, Vec<Bytes>)> {
    let mut decoder = GroupDecoder::default();
    let mut head = None;
    let mut datagrams = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        if head.is_none() {
            head = decoder.head().ok()?;
        }
        if head.is_none() {
            continue;
        }
        while let Ok(Some(datagram)) = decoder.next_datagram() {
            datagrams.push(datagram);
        }
    }
    Some((head?, datagrams))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::h3::TypeDecoder;

    #[test]
    fn a_group_is_read_as_it_is_written_however_it_is_cut() {
        let mut group = BytesMut::new();
        let head = GroupHead {
            stream: 44,
            first: 70_000,
        };
        head.encode(&mut group);
        encode(&[0], b"one", &mut group);
        encode(&[], b"", &mut group);
        encode(&[], &[7; 2000], &mut group);

        let mut rest = &group[..];
        let kind = TypeDecoder::default().handle(&mut rest);
        assert_eq!(kind, Some(StreamType::DatagramGroup));
        let datagrams = vec![
            Bytes::from_static(b"\0one"),
            Bytes::new(),
            Bytes::from(vec![7; 2000]),
        ];
        assert_eq!(decode_all(&[rest]), Some((head, datagrams.clone())));
        let bytes: Vec<_> = rest.chunks(1).collect();
        assert_eq!(decode_all(&bytes), Some((head, datagrams)));
    }

    #[test]
    fn refuses_a_stream_that_cannot_be_and_a_datagram_longer_than_any() {
        let mut decoder = GroupDecoder::default();
        decoder.push(&[0xFF; 8]);
        assert_eq!(decoder.head().unwrap_err().code, Code::DatagramError);

        let mut decoder = GroupDecoder::default();
        let mut long = BytesMut::new();
        varint::encode(LARGEST as u64 + 1, &mut long);
        decoder.push(&long);
        assert_eq!(
            decoder.next_datagram().unwrap_err().code,
            Code::DatagramError
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_the_same_however_they_are_cut(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            fuzz_one(&data);
        }
    }
}
