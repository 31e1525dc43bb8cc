//! The folder of stored responses: whose it is, and the names of its files.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::content::FileId;

/// The file that one process has locked while it uses the folder.
const LOCK: &str = "lock";

/// Permissions of a folder in which others could put a response.
const OTHERS_WRITE: u32 = 0o022;

/// How files of contents, of heads, and of heads that are being written end.
const ENDINGS: [&str; 3] = ["content", "head", "new"];

/// A folder that this process has to itself.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held, so that no other process takes the folder.
    _lock: File,
}

/// Makes a folder if there is none.
///
/// # Errors
/// It cannot be made, it is another user's, or others can write to it.
pub(crate) fn prepare(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Its responses are given to users as their origins' own: no one else may put one there.
    let found = std::fs::metadata(path)?;
    let user = rustix::process::geteuid().as_raw();
    let wrong = if found.uid() != user {
        format!("it belongs to another user than {user}")
    } else if found.mode() & OTHERS_WRITE != 0 {
        "other users can write to it".to_owned()
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, wrong))
}

impl Folder {
    /// Takes a folder; `None` while another process has it.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn take(path: &Path) -> io::Result<Option<Self>> {
        prepare(path)?;
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join(LOCK))?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self {
                path: path.to_owned(),
                _lock: lock,
            })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The file of a content.
    pub(super) fn content(&self, id: FileId) -> PathBuf {
        self.file(id, ENDINGS[0])
    }

    /// The file of a head, which makes its content one of a response.
    pub(super) fn head(&self, id: FileId) -> PathBuf {
        self.file(id, ENDINGS[1])
    }

    /// The file in which a head is written.
    pub(super) fn new_head(&self, id: FileId) -> PathBuf {
        self.file(id, ENDINGS[2])
    }

    fn file(&self, id: FileId, ending: &str) -> PathBuf {
        self.path.join(format!("{:016x}.{ending}", id.0))
    }

    /// The seconds of the machine's clock when something was written last.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn written(&self) -> io::Result<u64> {
        let seconds = std::fs::metadata(&self.path)?.mtime();
        Ok(u64::try_from(seconds).unwrap_or(0))
    }

    /// The numbers of all files that are ours, in their order. Other files are left alone.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn ids(&self) -> io::Result<Vec<FileId>> {
        let files = std::fs::read_dir(&self.path)?.filter_map(Result::ok);
        let mut ids: Vec<_> = files.filter_map(|file| id(&file.path())).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Makes a file for writing.
    ///
    /// # Errors
    /// The disk is full, or fails.
    pub(super) fn create(path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
    }

    /// Removes the files of a response. The head goes first: without it, there is no response.
    pub(super) fn remove(&self, id: FileId) {
        for path in [self.head(id), self.content(id), self.new_head(id)] {
            // It may not have come so far.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn id(path: &Path) -> Option<FileId> {
    let ending = path.extension()?.to_str()?;
    let stem = path.file_stem()?.to_str()?;
    let is_ours = ENDINGS.contains(&ending) && stem.len() == 16;
    let number = u64::from_str_radix(stem, 16).ok()?;
    is_ours.then_some(FileId(number))
}
