//! Failures of stores.

/// A failure of a store, with the place that fails and the remedy where one is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no room for more.
    #[error("store {place} is full: {reason}; {remedy}")]
    Full {
        /// The file, or the server.
        place: String,
        /// As the file system or the server says it.
        reason: String,
        /// How room is made.
        remedy: String,
    },
    /// The file, or the records of a server, are none of a controller's, or were damaged.
    #[error("store {place} cannot be used: {reason}; {remedy}")]
    Foreign {
        /// The file, or the server.
        place: String,
        /// The sign of it.
        reason: String,
        /// How to go on.
        remedy: String,
    },
    /// No server answers.
    #[error(
        "store: no server of {endpoints} answers: {reason}; see that most of its members run and can be reached"
    )]
    Unreachable {
        /// All that were tried.
        endpoints: String,
        /// The last failure, with its server.
        reason: String,
    },
    /// Another controller leads by now, or none.
    #[error("store: this controller does not lead (any more); repeat the command")]
    NotLeading,
    /// Any other failure.
    #[error("store: {0}")]
    Other(String),
}

impl StoreError {
    /// A failure in words.
    pub fn new(reason: impl Into<String>) -> Self {
        Self::Other(reason.into())
    }
}
