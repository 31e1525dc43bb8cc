//! Secrets, and lists that are kept apart as they are: in files of their own, or in the document itself.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::scalar::FilePath;

/// A secret, or a list that is kept as one: in a file, `PATH` or `{ file: PATH }`, or in the document, `{ inline: VALUE }`, as a
/// program writes it that hands documents in. Nothing shows the latter.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "SecretForm", into = "SecretForm")]
pub enum Secret {
    /// In this file.
    File(FilePath),
    /// This text.
    Inline(String),
}

/// How a secret is written.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum SecretForm {
    /// The file.
    Path(FilePath),
    /// The file.
    File {
        /// The file.
        file: FilePath,
    },
    /// The secret itself.
    Inline {
        /// The content of the file.
        inline: String,
    },
}

impl Secret {
    /// The file, if it is in one.
    pub fn file(&self) -> Option<&FilePath> {
        match self {
            Self::File(file) => Some(file),
            Self::Inline(_) => None,
        }
    }

    /// Reads it, without the line end at its end.
    ///
    /// # Errors
    /// Its file cannot be read, or others may read it; or it is empty. No error contains it.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::File(file) => crate::secret(&file.0),
            Self::Inline(text) => match text.trim_end_matches(['\n', '\r']) {
                "" => Err(format!("{self} is empty")),
                text => Ok(text.to_owned()),
            },
        }
    }
}

impl From<FilePath> for Secret {
    fn from(file: FilePath) -> Self {
        Self::File(file)
    }
}

impl From<PathBuf> for Secret {
    fn from(file: PathBuf) -> Self {
        Self::File(FilePath(file))
    }
}

impl From<SecretForm> for Secret {
    fn from(form: SecretForm) -> Self {
        match form {
            SecretForm::Path(file) | SecretForm::File { file } => Self::File(file),
            SecretForm::Inline { inline } => Self::Inline(inline),
        }
    }
}

impl From<Secret> for SecretForm {
    fn from(secret: Secret) -> Self {
        match secret {
            Secret::File(file) => Self::Path(file),
            Secret::Inline(inline) => Self::Inline { inline },
        }
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        SecretForm::json_schema(generator)
    }
}

impl fmt::Display for Secret {
    /// Where it is.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.fmt(out),
            Self::Inline(_) => out.write_str("the inline value"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => out.debug_tuple("File").field(file).finish(),
            Self::Inline(_) => out.debug_struct("Inline").finish_non_exhaustive(),
        }
    }
}
