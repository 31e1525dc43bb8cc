//! What is wrong with a listener's `auth`.

/// Something in a listener's `auth` that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct BuildError {
    /// Path in the configuration, e.g. `listeners.web.auth.basic.file`.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// What mends it.
    pub remedy: Option<String>,
}
