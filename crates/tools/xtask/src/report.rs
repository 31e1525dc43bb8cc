//! The report of a check: a place, the rule, and the remedy.

use std::fmt;

/// One broken rule at one place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The file, relative to the repository.
    pub path: String,
    /// The line, 1-based; 0 when the whole file is meant.
    pub line: usize,
    /// The violation, the rule, and the remedy.
    pub message: String,
}

impl Violation {
    /// A violation at a line (0: of the whole file).
    pub fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}
