//! A part of the source that the document does not express.

use std::fmt;

/// One thing that was not carried over as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Line of the source, from 1 on.
    pub line: u32,
    /// Whether it is missing, or only works otherwise.
    pub loss: Loss,
    /// The thing in the words of the source, such as `cluster api` or a path of keys.
    pub subject: String,
    /// The reason, and the remedy.
    pub reason: String,
}

/// The kind of loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// The document does not have it.
    LeftOut,
    /// The document has a counterpart that behaves differently.
    Differs,
}

impl Loss {
    /// As it is written.
    pub fn word(self) -> &'static str {
        match self {
            Self::LeftOut => "left out",
            Self::Differs => "differs",
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.loss.word();
        write!(
            out,
            "{}: {word}: {}: {}",
            self.line, self.subject, self.reason
        )
    }
}
