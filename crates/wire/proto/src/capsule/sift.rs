//! Capsules of some types taken out of a stream, everything else passed on as it is.

use bytes::Bytes;

use super::{Capsule, CapsuleError, CapsulePart, CapsuleReader, CapsuleType};
#[cfg(test)]
use crate::datagram_limit;

/// A piece of a stream of capsules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sifted {
    /// A capsule of a type that is taken out.
    Taken(Capsule),
    /// Bytes of another capsule, header included, as they came.
    Other(Bytes),
}

/// Takes the capsules of some types out of a stream, whose other capsules an intermediary forwards
/// unchanged (RFC 9297, section 3.2), however long they are, without holding any part of them.
///
/// Push a chunk, then take pieces until there is none, then push the next.
#[derive(Debug)]
pub struct CapsuleSieve {
    kinds: &'static [CapsuleType],
    limit: u64,
    reader: CapsuleReader,
}

impl CapsuleSieve {
    /// A sieve for capsules of these types, of at most `limit` bytes.
    #[must_use]
    pub fn new(kinds: &'static [CapsuleType], limit: u64) -> Self {
        Self {
            kinds,
            limit,
            reader: CapsuleReader::default(),
        }
    }

    /// Adds received bytes, when [`next`](Self::next) has nothing left.
    pub fn push(&mut self, chunk: Bytes) {
        self.reader.push(chunk);
    }

    /// The next piece, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// [`CapsuleError::TooLong`], upon which the stream must be aborted.
    #[expect(
        clippy::should_implement_trait,
        reason = "None is not the end: more may be pushed"
    )]
    pub fn next(&mut self) -> Result<Option<Sifted>, CapsuleError> {
        while let Some(part) = self.reader.next() {
            match part {
                // RFC 9297, 3.2: others go on, however long they are; the limit is for what is kept here.
                CapsulePart::Header(header) => {
                    if !self.kinds.contains(&CapsuleType::from(header.code)) {
                        return Ok(Some(Sifted::Other(self.reader.header_bytes())));
                    }
                    self.reader.gather(header, self.limit)?;
                }
                CapsulePart::Piece(bytes) => return Ok(Some(Sifted::Other(bytes))),
                CapsulePart::Value(code, value) => {
                    let kind = CapsuleType::from(code);
                    return Ok(Some(Sifted::Taken(Capsule { kind, value })));
                }
            }
        }
        Ok(None)
    }

    /// Whether a capsule may begin here.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.reader.is_between()
    }

    /// The bytes that were pushed and not looked at.
    pub fn take_rest(&mut self) -> Bytes {
        std::mem::take(&mut self.reader.input)
    }
}

/// Sifts arbitrary bytes, whole and in pieces: both find the same datagrams and pass on the same
/// bytes, and a decoder finds the same datagrams and capsules.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let [limit, piece, stream @ ..] = data else {
        return;
    };
    let limit = u64::from(*limit);
    let piece = usize::from(*piece).max(1);

    const DATAGRAMS: &[CapsuleType] = &[CapsuleType::Datagram];
    const LIMITS: &[CapsuleType] = &[CapsuleType::DatagramLimit];
    const PACKETS: &[CapsuleType] = &[CapsuleType::Datagram, CapsuleType::SuperPacket];
    for kinds in [DATAGRAMS, LIMITS, PACKETS] {
        let whole = sift(kinds, stream, limit, stream.len().max(1));
        assert_eq!(whole, sift(kinds, stream, limit, piece));
        for limit in whole
            .0
            .iter()
            .filter_map(|value| datagram_limit::decode(value))
        {
            assert!((datagram_limit::LEAST..=datagram_limit::NONE).contains(&limit));
        }
    }
}

/// The values of these types, the other bytes, and whether the stream was sound.
#[cfg(test)]
fn sift(
    kinds: &'static [CapsuleType],
    stream: &[u8],
    limit: u64,
    piece: usize,
) -> (Vec<Bytes>, Vec<u8>, bool) {
    let mut sieve = CapsuleSieve::new(kinds, limit);
    let mut datagrams = Vec::new();
    let mut others = Vec::new();

    for chunk in stream.chunks(piece) {
        sieve.push(Bytes::copy_from_slice(chunk));
        loop {
            match sieve.next() {
                Ok(Some(Sifted::Taken(capsule))) => {
                    assert!(kinds.contains(&capsule.kind));
                    datagrams.push(capsule.value);
                }
                Ok(Some(Sifted::Other(bytes))) => others.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(_) => return (datagrams, others, false),
            }
        }
    }

    (datagrams, others, true)
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use proptest::prelude::*;

    use super::*;
    use crate::capsule::encode_header;

    /// A datagram, an unknown capsule, an empty one, an empty datagram, a long unknown one, a datagram.
    fn stream() -> Vec<u8> {
        let mut bytes = BytesMut::new();
        for (code, length) in [
            (0, 5),
            (0x41, 3),
            (0x42, 0),
            (0, 0),
            (0x1234, 5000),
            (0, 300),
        ] {
            encode_header(CapsuleType::from(code), length, &mut bytes);
            bytes.extend(std::iter::repeat_n(code as u8 + 1, length as usize));
        }
        bytes.to_vec()
    }

    #[test]
    fn datagrams_are_taken_out_and_the_rest_is_passed_on_in_pieces_of_any_size() {
        let stream = stream();
        for piece in [1, 2, 7, 64, 1000, stream.len()] {
            let (datagrams, others, sound) = sift(&[CapsuleType::Datagram], &stream, 300, piece);
            assert!(sound);
            assert_eq!(datagrams, [vec![1; 5], vec![], vec![1; 300]]);
            assert_eq!(
                others.len(),
                (2 + 1 + 3) + (2 + 1) + (2 + 2 + 5000),
                "in pieces of {piece}"
            );
        }
    }

    #[test]
    fn a_datagram_that_is_too_long_breaks_the_stream_and_a_long_unknown_capsule_does_not() {
        assert!(!sift(&[CapsuleType::Datagram], &stream(), 299, 1 << 20).2);
        let long = [
            0x41, 0x40, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3,
        ];
        assert!(sift(&[CapsuleType::Datagram], &long[1..], 10, 4).2);
    }

    #[test]
    fn what_follows_a_capsule_can_be_taken_back() {
        let mut sieve = CapsuleSieve::new(&[CapsuleType::Datagram], 10);
        sieve.push(Bytes::from_static(&[0, 1, 7, 0, 1, 8]));
        assert_eq!(
            sieve.next(),
            Ok(Some(Sifted::Taken(Capsule {
                kind: CapsuleType::Datagram,
                value: Bytes::from_static(&[7])
            })))
        );
        assert!(sieve.is_between());
        assert_eq!(sieve.take_rest(), [0, 1, 8].as_slice());
        sieve.push(Bytes::from_static(&[0]));
        assert_eq!(sieve.next(), Ok(None));
        assert!(!sieve.is_between());
    }

    #[test]
    fn of_two_types_each_is_taken_as_what_it_is() {
        let mut sieve = CapsuleSieve::new(&[CapsuleType::Datagram, CapsuleType::DatagramLimit], 10);
        let mut bytes = BytesMut::new();
        for code in [CapsuleType::DatagramLimit.code(), 0x41, 0] {
            encode_header(CapsuleType::from(code), 0, &mut bytes);
        }
        sieve.push(bytes.freeze());
        let mut kinds = Vec::new();
        while let Some(piece) = sieve.next().unwrap() {
            if let Sifted::Taken(capsule) = piece {
                kinds.push(capsule.kind);
            }
        }
        assert_eq!(kinds, [CapsuleType::DatagramLimit, CapsuleType::Datagram]);
    }

    proptest! {
        #[test]
        fn pieces_change_nothing(data in proptest::collection::vec(any::<u8>(), 0..400)) {
            fuzz_one(&data);
        }
    }
}
