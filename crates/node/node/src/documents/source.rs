//! Where the documents of a node come from, and where the last confirmed one is kept.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermes_config::{Loaded, write_whole};

use super::revision::Revision;
use super::state::StateFile;

/// Where the documents of a node come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentSource {
    /// This file, which each reload reads again. The last confirmed document is kept in the folder for state while a later one
    /// may have to return to it.
    File(PathBuf),
    /// The caller of [`crate::NodeHandle::apply`], such as an agent. A reload reads the files again that the document in force
    /// names.
    Caller {
        /// The file that always holds the last confirmed document, for [`last_confirmed`] at the next start.
        kept: PathBuf,
    },
}

impl From<PathBuf> for DocumentSource {
    fn from(file: PathBuf) -> Self {
        Self::File(file)
    }
}

impl DocumentSource {
    /// The file of the document in force.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::File(file) => Some(file),
            Self::Caller { .. } => None,
        }
    }

    /// A document from here, of which the snapshot of this number was made.
    pub(crate) fn revision(&self, loaded: &Loaded, number: u64) -> Revision {
        Revision {
            text: write_whole(&loaded.document, &loaded.places).into(),
            files: loaded.files.clone(),
            number,
            places: match self {
                Self::File(_) => None,
                Self::Caller { .. } => Some(Arc::new(loaded.places.clone())),
            },
        }
    }

    /// Where the last confirmed document of this node outlives the process.
    pub(crate) fn state(&self, node: &str) -> StateFile {
        match self {
            Self::File(file) => StateFile::new(node, file),
            Self::Caller { kept } => StateFile::at(kept),
        }
    }
}

/// The last confirmed document that a node kept there, as [`DocumentSource::Caller`] says: a node starts with it where no one can be
/// asked for another. `None` where there is none; one that cannot be read is in the log.
pub fn last_confirmed(kept: &Path) -> Option<Loaded> {
    let kept = StateFile::at(kept).read()?;
    kept.confirmed
        .loaded()
        .inspect_err(|problems| tracing::warn!("the last confirmed document: {problems}"))
        .ok()
}
