//! The last confirmed document, beside the run of the process: a node that is started anew can still return to it.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_net::replace_file;
use serde::{Deserialize, Serialize};

use super::revision::Revision;

/// Begins the first line, which describes the document below.
const MARK: &str = "# hermes: ";

/// Bytes of a kept document, as of one that the admin socket takes.
#[doc(alias = "bound")]
const BYTES: u64 = 16 * 1024 * 1024;

/// Others can write the file.
const OTHERS_WRITE: u32 = 0o022;

/// Where a node keeps its last confirmed document.
#[derive(Debug)]
pub(crate) struct StateFile {
    /// `None` where there is no folder for it.
    path: Option<PathBuf>,
    /// The file that the node was started with, absolute: another node may have the same name. Empty where there is none.
    of: PathBuf,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    of: PathBuf,
    files: Vec<PathBuf>,
    revision: u64,
    /// How long a document that differs has to be confirmed after a start, if one was not when this was written.
    #[serde(default)]
    unconfirmed_ms: Option<u64>,
    /// Bytes of the document: fewer are left where the file was cut.
    #[serde(default)]
    bytes: Option<u64>,
}

/// The contents of the file, as they are read at a start.
#[derive(Debug)]
pub(crate) struct LastConfirmed {
    /// The last confirmed document.
    pub(crate) confirmed: Revision,
    /// The time to confirm another one, if it was not over.
    pub(crate) time: Option<Duration>,
}

impl StateFile {
    pub(crate) fn new(node: &str, of: &Path) -> Self {
        Self {
            path: state_folder().map(|folder| folder.join(format!("{node}.confirmed.yaml"))),
            of: std::path::absolute(of).unwrap_or_default(),
        }
    }

    /// In this file, which is one node's alone.
    pub(crate) fn at(path: &Path) -> Self {
        Self {
            path: Some(path.to_owned()),
            of: PathBuf::new(),
        }
    }

    /// The document that was kept for this node, if any. Errors are in the log.
    pub(crate) fn read(&self) -> Option<LastConfirmed> {
        let path = self.path.as_ref()?;
        let text = match read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("cannot read {}: {error}", path.display());
                return None;
            }
        };

        let Some((head, document)) = parted(&text) else {
            tracing::warn!(
                "{} is damaged: the unconfirmed configuration stays in force, and there is no earlier one to return to; remove the file",
                path.display()
            );
            return None;
        };
        (head.of == self.of).then(|| LastConfirmed {
            confirmed: Revision {
                text: document.into(),
                files: head.files,
                number: head.revision,
                places: None,
            },
            time: head.unconfirmed_ms.map(Duration::from_millis),
        })
    }

    /// Keeps the last confirmed document. `time`: there is another one in force, which has so long to be confirmed.
    ///
    /// # Errors
    /// Why it cannot be written, with the file's name.
    pub(crate) fn write(&self, confirmed: &Revision, time: Option<Duration>) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Err("there is no state directory: set STATE_DIRECTORY".to_owned());
        };
        let head = Head {
            of: self.of.clone(),
            files: confirmed.files.clone(),
            revision: confirmed.number,
            unconfirmed_ms: time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            bytes: Some(confirmed.text.len() as u64),
        };

        // Paths are text in a document, and numbers are numbers.
        let head = serde_json::to_string(&head).unwrap_or_default();
        replace_file(path, &format!("{MARK}{head}\n{}", confirmed.text))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// Keeps nothing any more.
    pub(crate) fn remove(&self) {
        if let Some(path) = self.path.as_ref().filter(|path| path.exists())
            && let Err(error) = std::fs::remove_file(path)
        {
            tracing::warn!("cannot remove {}: {error}", path.display());
        }
    }
}

/// The service manager's folder for state, or the user's.
pub fn state_folder() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(given) = set("STATE_DIRECTORY") {
        // systemd.exec(5): several are separated by colons.
        return std::env::split_paths(&given).next();
    }

    if rustix::process::getuid().is_root() {
        return Some("/var/lib/hermes".into());
    }
    let of_user = set("XDG_STATE_HOME").map(PathBuf::from);
    let of_home = || set("HOME").map(|home| Path::new(&home).join(".local/state"));
    let folder = of_user
        .filter(|folder| folder.is_absolute())
        .or_else(of_home);

    folder.map(|folder| folder.join("hermes"))
}

/// The head in the first line, and the document below it; `None` where the file is not whole.
fn parted(text: &str) -> Option<(Head, &str)> {
    let (first, document) = text.split_once('\n')?;
    let head: Head = serde_json::from_str(first.strip_prefix(MARK)?).ok()?;
    let is_whole = head
        .bytes
        .is_none_or(|bytes| bytes == document.len() as u64);
    is_whole.then_some((head, document))
}

fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let found = file.metadata()?;
    let own = rustix::process::getuid().as_raw();

    // Its document would be put in force.
    if ![own, 0].contains(&found.uid()) || found.mode() & OTHERS_WRITE != 0 {
        let reason = "it is not this user's alone; remove it";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }

    let mut text = String::new();
    file.take(BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn state(folder: &Path, of: &str) -> StateFile {
        StateFile {
            path: Some(folder.join("new/edge.confirmed.yaml")),
            of: of.into(),
        }
    }

    fn revision() -> Revision {
        Revision {
            text: "version: 1\n".into(),
            files: vec!["/etc/edge.yaml".into()],
            number: 3,
            places: None,
        }
    }

    #[test]
    fn what_is_kept_is_read_by_the_same_node_only() {
        let folder = tempfile::tempdir().unwrap();
        let edge = state(folder.path(), "/etc/edge.yaml");
        assert!(edge.read().is_none());
        edge.write(&revision(), Some(Duration::from_secs(60)))
            .unwrap();
        let read = edge.read().unwrap();
        assert_eq!(read.time, Some(Duration::from_secs(60)));
        assert_eq!(
            (read.confirmed.text, read.confirmed.number),
            (revision().text, 3)
        );
        assert!(state(folder.path(), "/home/edge.yaml").read().is_none());
        edge.write(&revision(), None).unwrap();
        assert_eq!(edge.read().unwrap().time, None);
        edge.remove();
        assert!(edge.read().is_none());
    }

    #[test]
    fn what_others_can_write_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let edge = state(folder.path(), "/etc/edge.yaml");
        edge.write(&revision(), None).unwrap();
        let open = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(edge.path.as_ref().unwrap(), open).unwrap();
        assert!(edge.read().is_none());
    }

    #[test]
    fn what_is_not_ours_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let edge = state(folder.path(), "/etc/edge.yaml");
        edge.write(&revision(), None).unwrap();
        let whole = std::fs::read_to_string(edge.path.as_ref().unwrap()).unwrap();
        let cut = &whole[..whole.len() - 4];
        for text in ["", "version: 1\n", "# hermes: {}\nversion: 1\n", cut] {
            std::fs::write(edge.path.as_ref().unwrap(), text).unwrap();
            assert!(edge.read().is_none(), "{text}");
        }
    }
}
