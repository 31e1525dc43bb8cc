//! Names of blobs.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256, digest};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The SHA-256 of a blob (FIPS 180-4), which is its name; written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; Self::LENGTH]);

/// A text or a message that is no hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a hash has 64 hexadecimal digits in lower case")]
pub struct BadHash;

impl Hash {
    /// Bytes of a hash.
    pub const LENGTH: usize = 32;

    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = [0; Self::LENGTH];
        hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
        Self(hash)
    }

    /// The hash of all that a reader gives, such as a program, which is not kept in memory.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut context = Context::new(&SHA256);
        let mut piece = [0; 16 * 1024];
        loop {
            match reader.read(&mut piece)? {
                0 => break,
                length => context.update(&piece[..length]),
            }
        }
        let mut hash = [0; Self::LENGTH];
        hash.copy_from_slice(context.finish().as_ref());
        Ok(Self(hash))
    }

    /// Its bytes, as messages carry them.
    pub fn as_bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// The first 12 digits, for people.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

impl TryFrom<&[u8]> for Hash {
    type Error = BadHash;

    fn try_from(bytes: &[u8]) -> Result<Self, BadHash> {
        bytes.try_into().map(Self).map_err(|_| BadHash)
    }
}

impl FromStr for Hash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        let digits = text.as_bytes();
        if digits.len() != 2 * Self::LENGTH {
            return Err(BadHash);
        }

        let mut hash = [0; Self::LENGTH];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(hash))
    }
}

/// Upper case is refused, so that each hash has one spelling.
fn digit(byte: u8) -> Result<u8, BadHash> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(BadHash),
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
        // As one text: trees of thousands of resources are written with each change.
        let digits = self
            .0
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        out.write_str(&digits.collect::<String>())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.short())
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn has_the_digest_of_the_standard() {
        assert_eq!(Hash::of(b"abc").to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(Hash::of(b"abc")));
        let long = vec![7; 100_000];
        assert_eq!(Hash::of_reader(&long[..]).unwrap(), Hash::of(&long));
    }

    #[test]
    fn has_one_spelling() {
        assert_eq!(ABC.to_uppercase().parse::<Hash>(), Err(BadHash));
        assert_eq!(ABC[1..].parse::<Hash>(), Err(BadHash));
        assert_eq!(format!("{ABC}0").parse::<Hash>(), Err(BadHash));
        assert_eq!("é".repeat(32).parse::<Hash>(), Err(BadHash));
    }
}
