//! The failure of a request to a relay.

/// A reason for which a relay did not do as it was asked. Its text is for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The URL, the key or the message is not one that can be sent: nothing was.
    #[error("{0}")]
    Invalid(String),
    /// No one was reached, or went away, or has no room now: another attempt may succeed.
    #[error("{0}")]
    Away(String),
    /// The relay refused, and would again.
    #[error("{0}")]
    Refused(String),
}
