//! A configuration of an upstream that cannot be used.

use std::fmt;

/// A configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError {
    /// Where it stands, such as `upstreams.x.tls.ca_file`.
    pub path: String,
    /// What is wrong.
    pub reason: String,
    /// What mends it, where that is known.
    pub remedy: Option<String>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)?;
        self.remedy
            .as_ref()
            .map_or(Ok(()), |remedy| write!(f, "; {remedy}"))
    }
}

impl std::error::Error for BuildError {}
