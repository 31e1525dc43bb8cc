//! The mappings that are in use, by their files. A reload reads each again: an exchange keeps the one that it began with.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hermes_config::{Problem, Problems};
use parking_lot::{Mutex, RwLock};

use crate::mapping::{FILE, Mapping};

/// Characters of the last refusal that are kept for `status`.
const TOLD: usize = 300;

/// A file, and the mapping that was read from it last.
pub(crate) struct MappedFile {
    pub(crate) file: PathBuf,
    mapping: RwLock<Arc<Mapping>>,
    pub(crate) counts: Counts,
}

/// Messages since the start.
#[derive(Default)]
pub(crate) struct Counts {
    /// Requests that were translated.
    pub(crate) translated: AtomicU64,
    /// Requests that passed as they are.
    pub(crate) passed: AtomicU64,
    /// Requests and answers that were refused.
    pub(crate) refused: AtomicU64,
    /// URIs of answers that the old interface has no path for.
    pub(crate) left: AtomicU64,
    last_refusal: Mutex<Option<String>>,
}

impl Counts {
    /// A message was refused for this reason.
    pub(crate) fn refuse(&self, reason: &str) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let told = reason.chars().take(TOLD).collect();
        *self.last_refusal.lock() = Some(told);
    }

    /// The reason of the last refusal.
    pub(crate) fn last_refusal(&self) -> Option<String> {
        self.last_refusal.lock().clone()
    }
}

impl MappedFile {
    /// The mapping in force.
    pub(crate) fn mapping(&self) -> Arc<Mapping> {
        self.mapping.read().clone()
    }
}

/// The files that functions of this node use.
#[derive(Default)]
pub(crate) struct MappedFiles(Mutex<Vec<Weak<MappedFile>>>);

/// Mappings that were read again.
pub(crate) struct Reread(Vec<(Arc<MappedFile>, Arc<Mapping>)>);

impl MappedFiles {
    /// A file, read now unless a function uses it already.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn open(&self, file: &Path) -> Result<Arc<MappedFile>, Problems> {
        // Two functions of one file share its mapping and its counts.
        if let Some(known) = self.all().into_iter().find(|known| known.file == file) {
            return Ok(known);
        }
        let opened = Arc::new(MappedFile {
            file: file.to_owned(),
            mapping: RwLock::new(Arc::new(read_mapping(file)?)),
            counts: Counts::default(),
        });
        // Held weakly: a file is forgotten with the last function that uses it.
        let mut files = self.0.lock();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(&opened));
        Ok(opened)
    }

    /// Those in use.
    pub(crate) fn all(&self) -> Vec<Arc<MappedFile>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Reads those among these files again.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub(crate) fn reread(&self, files: &[PathBuf]) -> Result<Reread, Vec<Problem>> {
        let mut reread = Vec::new();
        let mut problems = Vec::new();
        // Only those that the document names: the file of a function that ends may be gone.
        for known in self
            .all()
            .into_iter()
            .filter(|known| files.contains(&known.file))
        {
            match read_mapping(&known.file) {
                Ok(mapping) => reread.push((known, Arc::new(mapping))),
                Err(wrong) => problems.extend(wrong.0.into_iter().map(within)),
            }
        }
        match problems.is_empty() {
            true => Ok(Reread(reread)),
            false => Err(problems),
        }
    }
}

/// A mistake of a mapping as one of the document that names it, whose places are other ones.
pub(crate) fn within(problem: Problem) -> Problem {
    let remedy = problem.remedy.clone().unwrap_or_default();
    let told = Problem {
        remedy: None,
        ..problem
    };
    Problem::new("", told.to_string()).remedy(remedy)
}

impl Reread {
    /// Puts them in force.
    pub(crate) fn apply(self) {
        for (file, mapping) in self.0 {
            *file.mapping.write() = mapping;
        }
    }
}

/// Reads a mapping from its file.
///
/// # Errors
/// Everything that is wrong with it, or that it cannot be read.
pub fn read_mapping(file: &Path) -> Result<Mapping, Problems> {
    let failed = |error: std::io::Error| {
        let reason = format!("cannot read {}: {error}", file.display());
        let problem = Problem::new("", reason);
        Problems(vec![problem.remedy("name a file that the node may read")])
    };
    let opened = fs::File::open(file).map_err(failed)?;
    let mut text = String::new();
    // One byte more than may be, which the mapping refuses.
    let mut limited = opened.take(FILE as u64 + 1);
    limited.read_to_string(&mut text).map_err(failed)?;
    Mapping::read(file, &text)
}
