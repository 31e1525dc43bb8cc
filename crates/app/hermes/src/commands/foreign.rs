//! Files that are no configurations of nodes, but of other programs or of an overlay: one problem says so, in place of each key that is
//! not known here.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use hermes_config::{Problem, Problems};
use hermes_convert::{Format, LONGEST};

/// These problems, or that the file belongs to another program or describes an overlay.
pub(super) fn instead(file: &Path, problems: Problems) -> Problems {
    let read = read(file).unwrap_or_default();
    if describes_overlay(&read) {
        return of_overlay(file);
    }
    hermes_convert::recognize(&read).map_or(problems, |format| problem(file, format))
}

/// Whether a file has resources of an overlay, as `hermes get` prints them.
pub(super) fn has_resources(file: &Path) -> bool {
    read(file).is_ok_and(|read| describes_overlay(&read))
}

/// Resources begin with the version of their language; a node's file has no such key.
fn describes_overlay(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    lines.any(|line| line.starts_with("apiVersion:") || line.starts_with("{\"apiVersion\":"))
}

/// That a file has resources of an overlay.
fn of_overlay(file: &Path) -> Problems {
    let file = file.display();
    let reason = format!("{file} has resources of an overlay, and is not the file of one node");
    let remedy = format!("compare it with the overlay: hermes diff '{file}'");
    Problems(vec![Problem::new("", reason).remedy(remedy)])
}

/// The bytes of a regular file that is not too long. A pipe has been read, and another read could wait for its writer.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if file.metadata()?.is_file() {
        let limit = u64::try_from(LONGEST).unwrap_or(u64::MAX);
        File::open(file)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// That a file is of this format.
pub(super) fn problem(file: &Path, format: Format) -> Problems {
    let file = file.display();
    let problem = Problem::new("", format!("{file} is {}", format.title()))
        .remedy(format!("try: hermes convert --from {format} '{file}'"));
    Problems(vec![problem])
}
