//! Why a file cannot be converted at all.

/// Why a file cannot be converted at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct Unreadable {
    /// The line, from 1 on.
    pub line: Option<u32>,
    /// The reason.
    pub reason: String,
}

impl Unreadable {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self {
            line: None,
            reason: reason.into(),
        }
    }

    pub(crate) fn at(line: u32, reason: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            ..Self::new(reason)
        }
    }
}
