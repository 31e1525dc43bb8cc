//! The files of a place: its paths, and the routes that its node includes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hermes_plan::Areas;
use hermes_plan::documents::documents;

use crate::ledger::Ledger;

/// Bytes of the file of paths: a thousand of some kilobytes.
#[doc(alias = "bound")]
const PATHS_FILE: u64 = 64 << 20;

/// The folder of a place. All of it may block.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    folder: PathBuf,
}

impl Shelf {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn paths(&self) -> PathBuf {
        self.folder.join("paths.json")
    }

    fn routes(&self) -> PathBuf {
        self.folder.join("routes.yaml")
    }

    /// The paths that were kept; none, if no file is there.
    pub(crate) fn read(&self) -> Result<Ledger, String> {
        let file = self.paths();
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ledger::default()),
            Err(error) => return Err(failed(&error)),
            // A pipe might never end.
            Ok(found) if !found.is_file() || found.len() > PATHS_FILE => {
                return Err(failed(&"it is no file of paths"));
            }
            Ok(_) => {}
        }
        let text = fs::read(&file).map_err(|error| failed(&error))?;
        serde_json::from_slice(&text).map_err(|error| failed(&error))
    }

    /// Writes paths and routes, and has the node read them. If it refuses, the files are as before.
    pub(crate) fn put(
        &self,
        areas: &Areas,
        place: &str,
        ledger: &Ledger,
        reload: &dyn Fn() -> Result<(), String>,
    ) -> Result<(), String> {
        let routes = routes(areas, place, ledger)?;
        let paths = serde_json::to_vec_pretty(ledger).map_err(|error| error.to_string())?;
        let before = fs::read(self.routes()).map_err(|error| self.told(&self.routes(), &error))?;
        self.write(&self.routes(), routes.as_bytes())?;
        let done = reload().and_then(|()| self.write(&self.paths(), &paths));
        if done.is_err() {
            self.write(&self.routes(), &before)?;
            // The node has not changed if it refused, but may have if only the second file failed.
            reload()?;
        }
        done
    }

    /// Replaces a file as a whole: a node that is killed meanwhile starts with the old one or the new one.
    fn write(&self, file: &Path, content: &[u8]) -> Result<(), String> {
        let new = file.with_extension("new");
        let written = fs::File::create(&new)
            .and_then(|mut opened| {
                opened.write_all(content)?;
                opened.sync_all()
            })
            .and_then(|()| fs::rename(&new, file));
        written.map_err(|error| self.told(file, &error))
    }

    fn told(&self, file: &Path, error: &io::Error) -> String {
        format!("{}: {error}", file.display())
    }
}

/// The routes of this place for all paths.
fn routes(areas: &Areas, place: &str, ledger: &Ledger) -> Result<String, String> {
    let made = documents(areas, &ledger.plans()).map_err(|problems| problems.to_string())?;
    let own = made.iter().find(|document| document.place == place);
    let text = own.map_or_else(|| "version: 1\n".to_owned(), |document| document.yaml());
    Ok(format!(
        "# Written by this node for the paths that were asked for.\n{text}"
    ))
}
