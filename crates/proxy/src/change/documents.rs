//! The document in force and the one before it.
//!
//! They are kept as text: a tenth of the memory of what they mean, and read again as the same documents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::{Loaded, Problems, parse, write_whole};

/// A document that is, or was, in force.
#[derive(Debug, Clone)]
pub(crate) struct Revision {
    /// The whole document, secrets included, with variables as its file has them.
    text: Arc<str>,
    /// The files that it was read from.
    files: Vec<PathBuf>,
    /// The snapshot that was made of it.
    pub(crate) number: u64,
}

impl Revision {
    pub(crate) fn of(loaded: &Loaded, number: u64) -> Self {
        Self {
            text: write_whole(&loaded.document, &loaded.places).into(),
            files: loaded.files.clone(),
            number,
        }
    }

    /// The document. Its places are in the text that is kept, which no file says.
    ///
    /// # Errors
    /// When a variable of the environment is gone that it needs.
    pub(crate) fn loaded(&self) -> Result<Loaded, Problems> {
        let name = format!("document of revision {}", self.number);
        let env = |name: &str| std::env::var(name).ok();
        let read = parse(Path::new(&name), &self.text, &env)?;
        Ok(Loaded {
            files: self.files.clone(),
            ..read
        })
    }
}

/// What was put in force.
#[derive(Debug)]
pub(crate) struct Documents {
    /// The document in force.
    pub(crate) current: Revision,
    /// The one before it; `None` at first, and after it was returned to.
    pub(crate) before: Option<Revision>,
}

impl Documents {
    pub(crate) fn begin(loaded: &Loaded) -> Self {
        Self {
            current: Revision::of(loaded, 1),
            before: None,
        }
    }

    /// Another document is in force.
    pub(crate) fn follow(&mut self, kept: Revision) {
        self.before = Some(std::mem::replace(&mut self.current, kept));
    }
}
