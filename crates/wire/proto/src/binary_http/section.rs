//! How far a section of a message has come. Each byte is looked at once, however few of them come at a time: a head that was read from its
//! beginning with each datagram would cost its reader the square of its length.

use super::{BinaryHttpError, MAX_SECTION, REQUEST};
use crate::varint;

/// Field lines of a section: more than listeners and upstreams take by default, which are 128 and 1024.
#[doc(alias = "bound")]
pub const MAX_LINES: usize = 4096;

/// Texts of the control data of a request: method, scheme, authority and path.
const CONTROL: u8 = 4;

/// A section that is on its way.
#[derive(Debug)]
pub(super) struct SectionProgress {
    /// Everything before this place is whole.
    at: usize,
    next: SectionPart,
    lines: usize,
}

/// A part of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SectionPart {
    /// The framing indicator, which is to be this one.
    Kind(u64),
    /// Texts of a request's control data that are still missing.
    Control(u8),
    /// The status of a response.
    Status,
    /// The name of a field, or the end of the section. Behind an interim head, another head
    /// follows.
    Name { is_interim: bool },
    /// The value of a field.
    Value { is_interim: bool },
    /// Nothing: the section is complete.
    Nothing,
}

impl SectionProgress {
    /// The head of a message of this kind.
    pub(super) fn head(kind: u64) -> Self {
        Self::beginning_with(SectionPart::Kind(kind))
    }

    /// The trailing fields.
    pub(super) fn trailers() -> Self {
        Self::beginning_with(SectionPart::Name { is_interim: false })
    }

    fn beginning_with(next: SectionPart) -> Self {
        Self {
            at: 0,
            next,
            lines: 0,
        }
    }

    /// Where the search goes on: bytes before this are not looked at again.
    #[cfg(test)]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Looks at the bytes that were added since the last call. Returns the section's length, once
    /// it is whole.
    ///
    /// # Errors
    /// The section is of another kind, or too large.
    pub(super) fn look(&mut self, input: &[u8]) -> Result<Option<usize>, BinaryHttpError> {
        while self.next != SectionPart::Nothing {
            if !self.step(input)? {
                let is_long = input.len() > MAX_SECTION;
                return if is_long {
                    Err(BinaryHttpError::TooLong)
                } else {
                    Ok(None)
                };
            }
        }
        if self.at > MAX_SECTION {
            return Err(BinaryHttpError::TooLong);
        }
        Ok(Some(self.at))
    }

    /// Goes past one part, if it is there.
    fn step(&mut self, input: &[u8]) -> Result<bool, BinaryHttpError> {
        let mut rest = &input[self.at..];
        let Some(number) = varint::decode(&mut rest) else {
            return Ok(false);
        };

        let length = if self.next.is_text() { number } else { 0 };
        if length > MAX_SECTION as u64 {
            return Err(BinaryHttpError::TooLong);
        }
        let Some(after) = rest.len().checked_sub(length as usize) else {
            return Ok(false);
        };
        self.next = self.next.follower(number)?;
        if matches!(self.next, SectionPart::Value { .. }) {
            self.lines += 1;
        }
        if self.lines > MAX_LINES {
            return Err(BinaryHttpError::TooManyLines);
        }
        self.at = input.len() - after;
        Ok(true)
    }
}

impl SectionPart {
    /// Whether its number is the length of a text.
    fn is_text(self) -> bool {
        match self {
            Self::Kind(_) | Self::Status | Self::Nothing => false,
            Self::Control(_) | Self::Name { .. } | Self::Value { .. } => true,
        }
    }

    /// The state behind this one, where it holds such a number.
    fn follower(self, number: u64) -> Result<Self, BinaryHttpError> {
        Ok(match self {
            Self::Kind(kind) if number != kind => return Err(BinaryHttpError::Kind),
            Self::Kind(REQUEST) => Self::Control(CONTROL),
            Self::Kind(_) => Self::Status,
            Self::Control(1) => Self::Name { is_interim: false },
            Self::Control(left) => Self::Control(left.saturating_sub(1)),
            // RFC 9292, 3.5.1: interim responses come before the final one.
            Self::Status => Self::Name {
                is_interim: (100..200).contains(&number),
            },
            Self::Name { is_interim: true } if number == 0 => Self::Status,
            Self::Name { .. } if number == 0 => Self::Nothing,
            Self::Name { is_interim } => Self::Value { is_interim },
            Self::Value { is_interim } => Self::Name { is_interim },
            Self::Nothing => Self::Nothing,
        })
    }
}
