//! Credentials that a node shows an upstream, and fields of every request to it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_source::DataSource;
use super::scalar::FilePath;

/// User and password, shown as Basic (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The user's name; without a colon.
    pub user: String,
    /// File with the password, its first and only line. Must not be readable by others.
    pub password_file: DataSource,
}

/// The value of a field that every request to an upstream has.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum RequestField {
    /// This text.
    Text(String),
    /// The content of a file.
    File {
        /// File with the value, its first and only line. Must not be readable by others.
        file: FilePath,
    },
    /// A secret that stands in the document.
    Inline {
        /// The value, which nothing shows.
        inline: String,
    },
}

impl RequestField {
    /// The file that has the value.
    pub fn file(&self) -> Option<&FilePath> {
        match self {
            Self::Text(_) | Self::Inline { .. } => None,
            Self::File { file } => Some(file),
        }
    }
}

impl fmt::Debug for RequestField {
    /// Where it is: texts may be secrets, too.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => out.write_str("Text(..)"),
            Self::File { file } => out.debug_tuple("File").field(file).finish(),
            Self::Inline { .. } => out.write_str("Inline(..)"),
        }
    }
}
