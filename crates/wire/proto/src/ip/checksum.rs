//! The checksum of the Internet (RFC 1071), and how it follows a change without being computed anew (RFC 1624).

use std::net::IpAddr;

/// Sums 16-bit words in ones' complement; not yet inverted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes. All but the last that are added have an even length.
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Ones' complement minds neither the width of words nor the order of their bytes (RFC 1071, section 2): the machine's are summed.
        let (words, rest) = bytes.as_chunks::<8>();
        let mut sum = 0_u64;
        for word in words {
            let (added, carry) = sum.overflowing_add(u64::from_ne_bytes(*word));
            sum = added + u64::from(carry);
        }

        let (words, rest) = rest.as_chunks::<4>();
        let halves = (sum & 0xffff_ffff) + (sum >> 32);
        let words: u64 = words
            .iter()
            .map(|word| u64::from(u32::from_ne_bytes(*word)))
            .sum();
        let last = match *rest {
            [] => 0,
            [a] => u32::from(u16::from_ne_bytes([a, 0])),
            [a, b] => u32::from(u16::from_ne_bytes([a, b])),
            [a, b, c, ..] => u32::from_ne_bytes([a, b, c, 0]),
        };

        let folded = Self(halves + words + u64::from(last)).folded();
        Self(self.0 + u64::from(u16::from_be(folded)))
    }

    /// Adds a 16-bit word.
    #[must_use]
    pub fn word(self, word: u16) -> Self {
        Self(self.0 + u64::from(word))
    }

    /// Adds the pseudo-header of a transport of `length` bytes (RFC 9293, section 3.1; RFC 8200, section 8.1).
    #[must_use]
    pub fn pseudo_header(
        self,
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        length: usize,
    ) -> Self {
        let length = length as u64;
        let fixed = Self(self.0 + u64::from(protocol) + (length >> 16) + (length & 0xffff));
        fixed.address(source).address(destination)
    }

    fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.bytes(&address.octets()),
            IpAddr::V6(address) => self.bytes(&address.octets()),
        }
    }

    /// The sum in 16 bits, not inverted: the field of a checksum that has yet to be completed.
    pub fn folded(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        // The carry of the first fold is folded once more.
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// The checksum.
    pub fn checksum(self) -> u16 {
        !self.folded()
    }
}

/// The checksum of a header or a message by itself.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).checksum()
}

/// A checksum after a 16-bit word that it covers has changed: equation 3 of RFC 1624.
pub fn updated(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = Sum(u64::from(!checksum) + u64::from(!old) + u64::from(new));
    sum.checksum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().bytes(&bytes).folded(), 0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624() {
        // Equation 2 would give 0xffff here.
        assert_eq!(updated(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn an_update_is_as_computing_anew(mut bytes in prop::collection::vec(any::<u8>(), 4..64), at in 0_usize..30, new: u16) {
            let at = (2 * at) % (bytes.len() & !1);
            // A sum of nothing but zeros is the one case that has two forms.
            bytes[if at == 0 { 2 } else { 0 }] |= 1;
            let before = checksum(&bytes);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(updated(before, old, new), checksum(&bytes));
        }

        #[test]
        fn words_of_32_bits_sum_as_words_of_16(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let words = bytes.chunks(2).map(|word| [word[0], word.get(1).copied().unwrap_or(0)]);
            let plain = words.fold(Sum::default(), |sum, word| sum.word(u16::from_be_bytes(word)));
            prop_assert_eq!(Sum::default().bytes(&bytes).folded(), plain.folded());
        }
    }
}
