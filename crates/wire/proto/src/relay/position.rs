//! Positions in a channel.

use std::fmt;
use std::str::FromStr;

/// A place between two messages of a channel: behind the message of this number, 0 before the first. Written `EPOCH.SEQUENCE`, the
/// epoch as eight hexadecimal digits.
///
/// # Examples
/// ```
/// use hermes_proto::relay::Position;
///
/// let position: Position = "00c0ffee.4182".parse()?;
/// assert_eq!((position.epoch, position.sequence), (0xc0ffee, 4182));
/// assert_eq!(position.to_string(), "00c0ffee.4182");
/// # Ok::<(), hermes_proto::relay::PositionError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The life of the channel: sequences of two epochs cannot be compared.
    pub epoch: u32,
    /// The number of the message.
    pub sequence: u64,
}

/// A text is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a position is written EPOCH.SEQUENCE, such as 00c0ffee.4182")]
pub struct PositionError;

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}.{}", self.epoch, self.sequence)
    }
}

impl FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (epoch, sequence) = text.split_once('.').ok_or(PositionError)?;
        let is_plain = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if epoch.len() != 8 || !is_plain(epoch) || !is_plain(sequence) {
            return Err(PositionError);
        }
        Ok(Self {
            epoch: u32::from_str_radix(epoch, 16).map_err(|_| PositionError)?,
            sequence: sequence.parse().map_err(|_| PositionError)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_texts_are_no_positions() {
        for text in [
            "",
            ".",
            "1.2",
            "00c0ffee",
            "00c0ffee.",
            "00c0ffee.-1",
            "00c0ffee.a",
            "+0c0ffee.1",
            "00c0ffee.99999999999999999999",
        ] {
            assert_eq!(text.parse::<Position>(), Err(PositionError), "{text}");
        }
    }
}
