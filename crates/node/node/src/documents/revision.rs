//! A document that is, or was, in force.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::{Loaded, Places, Problems, parse};

/// A document that is, or was, in force.
#[derive(Clone)]
pub(crate) struct Revision {
    /// The whole document, secrets included, with variables as its file has them.
    pub(crate) text: Arc<str>,
    /// The files that it was read from.
    pub(crate) files: Vec<PathBuf>,
    /// The snapshot that was made of it.
    pub(crate) number: u64,
    /// Where its parts are written, if no file can be read again that would say so.
    pub(crate) places: Option<Arc<Places>>,
}

impl Revision {
    /// The document. Places that were not kept are those in the text, which no file has.
    ///
    /// # Errors
    /// When it needs a variable of the environment that is gone.
    pub(crate) fn loaded(&self) -> Result<Loaded, Problems> {
        let name = format!("document of revision {}", self.number);
        let env = |name: &str| std::env::var(name).ok();
        let read = parse(Path::new(&name), &self.text, &env)?;
        Ok(Loaded {
            files: self.files.clone(),
            places: self.places.as_deref().cloned().unwrap_or(read.places),
            document: read.document,
        })
    }
}

impl fmt::Debug for Revision {
    /// Without the text: secrets may be in it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Revision")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
