//! Where something is written.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// The file, as it was named by the caller or found through `include`.
    #[serde(serialize_with = "file_name")]
    pub file: Arc<Path>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Place {
    /// A place that the caller knows, such as that of a resource which a document was compiled from.
    pub fn new(file: &Path, line: usize, column: usize) -> Self {
        Self {
            file: file.into(),
            line,
            column,
        }
    }

    /// The beginning of a file.
    pub(crate) fn start(file: &Arc<Path>) -> Self {
        Self {
            file: file.clone(),
            line: 1,
            column: 1,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

fn file_name<S: serde::Serializer>(file: &Arc<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&file.display())
}
