//! Certificates, secrets, lists and policies: in files of their own, or in the document itself.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::scalar::FilePath;

/// The content of a file: in that file, `PATH` or `{ file: PATH }`, or in the document, `{ inline: VALUE }`, as a program writes it
/// that hands documents in. Nothing shows the latter.
#[derive(Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "DataSourceForm", into = "DataSourceForm")]
pub enum DataSource {
    /// In this file.
    File(FilePath),
    /// This text.
    Inline(String),
}

/// How it is written.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum DataSourceForm {
    /// The file.
    Path(FilePath),
    /// The file.
    File {
        /// The file.
        file: FilePath,
    },
    /// The content itself.
    Inline {
        /// The content of the file.
        inline: String,
    },
}

impl DataSource {
    /// The file, if it is in one.
    pub fn file(&self) -> Option<&FilePath> {
        match self {
            Self::File(file) => Some(file),
            Self::Inline(_) => None,
        }
    }

    /// Makes something of the file, or of the text in its place.
    pub fn either<'a, T>(
        &'a self,
        file: impl FnOnce(&'a Path) -> T,
        inline: impl FnOnce(&'a str) -> T,
    ) -> T {
        match self {
            Self::File(path) => file(&path.0),
            Self::Inline(text) => inline(text),
        }
    }

    /// Reads a secret, without the line end at its end.
    ///
    /// # Errors
    /// Its file cannot be read, or others may read it; or it is empty. No error contains it.
    pub fn secret(&self) -> Result<String, String> {
        match self {
            Self::File(file) => crate::secret(&file.0),
            Self::Inline(text) => match text.trim_end_matches(['\n', '\r']) {
                "" => Err(format!("{self} is empty")),
                text => Ok(text.to_owned()),
            },
        }
    }
}

impl From<FilePath> for DataSource {
    fn from(file: FilePath) -> Self {
        Self::File(file)
    }
}

impl From<PathBuf> for DataSource {
    fn from(file: PathBuf) -> Self {
        Self::File(FilePath(file))
    }
}

impl From<DataSourceForm> for DataSource {
    fn from(form: DataSourceForm) -> Self {
        match form {
            DataSourceForm::Path(file) | DataSourceForm::File { file } => Self::File(file),
            DataSourceForm::Inline { inline } => Self::Inline(inline),
        }
    }
}

impl From<DataSource> for DataSourceForm {
    fn from(secret: DataSource) -> Self {
        match secret {
            DataSource::File(file) => Self::Path(file),
            DataSource::Inline(inline) => Self::Inline { inline },
        }
    }
}

impl JsonSchema for DataSource {
    fn schema_name() -> Cow<'static, str> {
        "DataSource".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        DataSourceForm::json_schema(generator)
    }
}

impl fmt::Display for DataSource {
    /// Where it is.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.fmt(out),
            Self::Inline(_) => out.write_str("the inline value"),
        }
    }
}

impl fmt::Debug for DataSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => out.debug_tuple("File").field(file).finish(),
            Self::Inline(_) => out.debug_struct("Inline").finish_non_exhaustive(),
        }
    }
}
