//! A value of known length, collected as it arrives.

use bytes::{Bytes, BytesMut};

/// Bytes set aside at first for a value that arrives in pieces: a length alone does not cost memory.
#[doc(alias = "bound")]
const FIRST_ALLOCATION: usize = 2048;

/// The buffer grows to this many times the bytes received: long values are moved a few times only,
/// and a sender pays for a quarter of the memory that it announces.
#[doc(alias = "bound")]
const AHEAD: usize = 4;

/// The received part of a value. A value that arrives whole is not copied.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    bytes: BytesMut,
}

impl Gathered {
    /// How many bytes are here.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Takes the missing part of a value of `length` bytes from `input`; returns the value, once it
    /// is whole.
    pub(crate) fn take(&mut self, length: usize, input: &mut Bytes) -> Option<Bytes> {
        let missing = length - self.bytes.len();
        if self.bytes.is_empty() && input.len() >= missing {
            return Some(input.split_to(missing));
        }

        let piece = input.split_to(missing.min(input.len()));
        self.make_room(length, piece.len());
        self.bytes.extend_from_slice(&piece);
        let is_whole = self.bytes.len() == length;
        is_whole.then(|| std::mem::take(&mut self.bytes).freeze())
    }

    /// Has room for so many bytes more of a value of `length`.
    fn make_room(&mut self, length: usize, more: usize) {
        let arrived = self.bytes.len() + more;
        if more == 0 || arrived <= self.bytes.capacity() {
            return;
        }
        let room = (AHEAD * arrived).max(FIRST_ALLOCATION).min(length);
        self.bytes.reserve(room - self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_alone_costs_little() {
        let mut gathered = Gathered::default();
        assert_eq!(gathered.take(1 << 30, &mut Bytes::new()), None);
        assert_eq!(gathered.bytes.capacity(), 0);
        assert_eq!(gathered.take(1 << 30, &mut Bytes::from_static(b"x")), None);
        assert!(gathered.bytes.capacity() <= 2 * FIRST_ALLOCATION);
    }

    #[test]
    fn what_arrives_whole_is_where_it_was() {
        let mut input = Bytes::from_static(b"value and more");
        let place = input.as_ptr();
        let value = Gathered::default().take(5, &mut input).unwrap();
        assert_eq!((value.as_ptr(), &input[..]), (place, &b" and more"[..]));
    }

    proptest! {
        #[test]
        fn pieces_make_the_value_and_never_cost_much_more(
            value in proptest::collection::vec(any::<u8>(), 0..20_000),
            piece in 1_usize..5000,
        ) {
            let mut gathered = Gathered::default();
            let mut whole = None;
            for (index, chunk) in value.chunks(piece).enumerate() {
                whole = gathered.take(value.len(), &mut Bytes::copy_from_slice(chunk));
                let arrived = (index + 1) * piece;
                prop_assert!(gathered.bytes.capacity() <= 2 * (AHEAD * arrived).max(FIRST_ALLOCATION));
            }
            prop_assert_eq!(whole.unwrap_or_default(), value);
        }
    }
}
