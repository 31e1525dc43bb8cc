//! Where capsules begin in a stream that is passed on as it is (RFC 9297, 3.2).

use super::MAX_HEADER;
use crate::varint;

/// Follows a stream of capsules without holding any of it.
#[derive(Debug, Clone, Default)]
pub struct CapsuleCursor {
    header: [u8; MAX_HEADER],
    held: usize,
    left: u64,
}

impl CapsuleCursor {
    /// Goes on to the end of the capsule that it is in, or to the end of `bytes`; returns how many bytes that is.
    pub fn advance(&mut self, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.left == 0 {
            let Some(byte) = bytes.get(used) else {
                return used;
            };
            used += 1;
            self.header[self.held] = *byte;
            self.held += 1;
            let mut rest = &self.header[..self.held];

            if let Some((_, length)) = varint::decode(&mut rest).zip(varint::decode(&mut rest)) {
                self.held = 0;
                self.left = length;
                if length == 0 {
                    return used;
                }
            }
        }

        let value = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(bytes.len() - used);
        self.left -= value as u64;
        used + value
    }

    /// Whether a capsule may begin here.
    pub fn is_between(&self) -> bool {
        self.held == 0 && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three capsules: of five bytes, empty, and of 300 with a header of two-byte integers.
    fn stream() -> Vec<u8> {
        let mut bytes = vec![0, 5, 1, 2, 3, 4, 5, 0, 0, 0x40, 0, 0x41, 0x2c];
        bytes.extend([7; 300]);
        bytes
    }

    #[test]
    fn stops_at_the_end_of_each_capsule() {
        let (bytes, mut cursor, mut at) = (stream(), CapsuleCursor::default(), 0);
        let mut ends = Vec::new();
        while at < bytes.len() {
            at += cursor.advance(&bytes[at..]);
            assert!(cursor.is_between());
            ends.push(at);
        }
        assert_eq!(ends, [7, 9, 313]);
    }

    #[test]
    fn pieces_of_any_size_have_the_same_ends() {
        let bytes = stream();
        for size in 1..20 {
            let (mut cursor, mut at, mut ends) = (CapsuleCursor::default(), 0, Vec::new());
            for piece in bytes.chunks(size) {
                let mut used = 0;
                while used < piece.len() {
                    used += cursor.advance(&piece[used..]);
                    if cursor.is_between() {
                        ends.push(at + used);
                    }
                }
                at += piece.len();
            }
            assert_eq!(ends, [7, 9, 313], "in pieces of {size}");
        }
    }
}
