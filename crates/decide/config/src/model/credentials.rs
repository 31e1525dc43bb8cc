//! Credentials that a node shows an upstream, and fields of every request to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::FilePath;
use super::secret::Secret;

/// User and password, shown as Basic (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The user's name; without a colon.
    pub user: String,
    /// File with the password, its first and only line. Must not be readable by others.
    pub password_file: Secret,
}

/// The value of a field that every request to an upstream has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum RequestField {
    /// This text.
    Text(String),
    /// The content of a file.
    File {
        /// File with the value, its first and only line. Must not be readable by others.
        file: FilePath,
    },
}

impl RequestField {
    /// The file that has the value.
    pub fn file(&self) -> Option<&FilePath> {
        match self {
            Self::Text(_) => None,
            Self::File { file } => Some(file),
        }
    }
}
