//! The folder where the account and the certificate are kept.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hermes_config::model::Acme;

/// Modes of new files: the folder holds keys.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Permissions of a folder in which others could put another key.
const OTHERS_WRITE: u32 = 0o022;

/// Permissions of a file that others can read or write.
const OTHERS: u32 = 0o077;

/// Bytes of a file that is read: an account takes 1 KiB, a chain with its key 10 KiB.
#[doc(alias = "bound")]
const BYTES: u64 = 256 * 1024;

/// Begins the line that says where a certificate is from. PEM allows text before its blocks (RFC 7468 section 2).
const FROM: &str = "Issued by way of ";

/// The folder, or a file in it, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; {remedy}")]
pub struct FolderError {
    /// The mistake.
    pub reason: String,
    /// How to mend it.
    pub remedy: String,
}

impl FolderError {
    fn new(path: &Path, reason: impl std::fmt::Display, remedy: impl Into<String>) -> Self {
        Self {
            reason: format!("{}: {reason}", path.display()),
            remedy: remedy.into(),
        }
    }

    fn of(path: &Path, error: &io::Error) -> Self {
        let remedy = format!("let this user (uid {}) read and write it", own_user());
        Self::new(path, error, remedy)
    }
}

/// The folder of one `acme`.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The file of the certificate, its issuers and its key.
    pub(crate) certificate: PathBuf,
    account: PathBuf,
    directory: String,
}

impl Folder {
    pub(crate) fn of(settings: &Acme) -> Self {
        let path = settings.folder.0.clone();
        let directory = settings.directory().to_owned();
        Self {
            account: path.join(format!("account-{}.json", plain(&directory))),
            certificate: settings.certificate_file(),
            path,
            directory,
        }
    }

    /// Whether the folder is there, and only its owner can write to it.
    ///
    /// # Errors
    /// Others can, or the folder is not ours.
    pub(crate) fn check(&self) -> Result<bool, FolderError> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(FolderError::of(&self.path, &error)),
        };
        if !metadata.is_dir() {
            let remedy = "name a folder that only this node uses";
            return Err(FolderError::new(&self.path, "not a folder", remedy));
        }
        self.owned(&self.path, &metadata, OTHERS_WRITE, "chmod 700")?;
        Ok(true)
    }

    /// Makes the folder if it is missing.
    ///
    /// # Errors
    /// The folder cannot be made or used.
    pub(crate) fn ready(&self) -> Result<(), FolderError> {
        if !self.check()? {
            let made = DirBuilder::new().mode(FOLDER_MODE).create(&self.path);
            made.map_err(|error| FolderError::of(&self.path, &error))?;
        }
        Ok(())
    }

    /// The account at this directory, if there is one.
    ///
    /// # Errors
    /// The file cannot be read, or others can read it.
    pub(crate) fn account(&self) -> Result<Option<String>, FolderError> {
        self.read(&self.account)
    }

    /// Keeps the account.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep_account(&self, text: &str) -> Result<(), FolderError> {
        self.replace(&self.account, text)
    }

    /// Forgets the account, which the authority does not know.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn forget_account(&self) -> Result<(), FolderError> {
        fs::remove_file(&self.account).map_err(|error| FolderError::of(&self.account, &error))
    }

    /// Whether there is a certificate from the directory in force; `None` if there is no
    /// certificate.
    ///
    /// # Errors
    /// The file cannot be read, or others can read it.
    pub(crate) fn is_of_directory(&self) -> Result<Option<bool>, FolderError> {
        let text = self.read(&self.certificate)?;
        Ok(text.map(|text| {
            let first = text.lines().next().and_then(|line| line.strip_prefix(FROM));
            first == Some(&self.directory)
        }))
    }

    /// Keeps a certificate with its key, in one file, so that they never disagree.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn keep_certificate(&self, key: &str, chain: &str) -> Result<(), FolderError> {
        let text = format!(
            "{FROM}{}\n{}\n{}\n",
            self.directory,
            key.trim(),
            chain.trim()
        );
        self.replace(&self.certificate, &text)
    }

    fn read(&self, path: &Path) -> Result<Option<String>, FolderError> {
        let failed = |error| FolderError::of(path, &error);
        // Opened first, and asked by its descriptor: the path could lead elsewhere by the time it is read.
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };

        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(FolderError::new(path, "not a file", "remove it"));
        }
        // The file has a private key: one that others could read, or could have written, is not used.
        self.owned(path, &metadata, OTHERS, "chmod 600")?;

        let mut text = String::new();
        file.take(BYTES).read_to_string(&mut text).map_err(failed)?;
        Ok(Some(text))
    }

    /// Whether this user or root owns it, and no one else has the rights in `others`.
    fn owned(
        &self,
        path: &Path,
        metadata: &fs::Metadata,
        others: u32,
        command: &str,
    ) -> Result<(), FolderError> {
        let owner = metadata.uid();
        if owner != own_user() && owner != 0 {
            let reason = format!("it belongs to another user (uid {owner})");
            let remedy = format!("chown {} {}", own_user(), path.display());
            return Err(FolderError::new(path, reason, remedy));
        }

        let mode = metadata.mode() & 0o777;
        if mode & others != 0 {
            let reason = format!("others can use it (mode {mode:04o})");
            let remedy = format!("{command} {}", path.display());
            return Err(FolderError::new(path, reason, remedy));
        }
        Ok(())
    }

    /// Puts a file in the place of another, whole or not at all.
    fn replace(&self, path: &Path, text: &str) -> Result<(), FolderError> {
        self.ready()?;
        // By process: during an upgrade two of them have the folder.
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(FILE_MODE)
                .open(&new)?;
            file.write_all(text.as_bytes())?;
            // Before the rename: after a crash the name must not lead to an empty file.
            file.sync_all()?;
            fs::rename(&new, path)
        };

        write().map_err(|error| {
            let _ = fs::remove_file(&new);
            FolderError::of(path, &error)
        })
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// A directory's URL as a part of a file's name.
fn plain(url: &str) -> String {
    let rest = url.strip_prefix("https://").unwrap_or(url);
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '.' {
            letter
        } else {
            '-'
        }
    };
    rest.chars().map(plain).take(128).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn folder(path: &Path) -> Folder {
        let settings = serde_json::json!({
            "domains": ["a.example"],
            "folder": path,
            "directory": "https://ca.example:14000/dir",
        });
        Folder::of(&serde_json::from_value(settings).unwrap())
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_and_its_files_are_their_owners() {
        let around = tempfile::tempdir().unwrap();
        let folder = folder(&around.path().join("acme"));
        assert_eq!(folder.check(), Ok(false));
        assert_eq!(folder.account(), Ok(None));
        folder.keep_account("{}").unwrap();
        folder.keep_certificate("KEY", "CHAIN").unwrap();

        let of = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(of(&folder.path), FOLDER_MODE);
        assert_eq!(of(&folder.account), FILE_MODE);
        assert_eq!(of(&folder.certificate), FILE_MODE);
        assert_eq!(folder.account().unwrap().as_deref(), Some("{}"));
        assert_eq!(folder.is_of_directory(), Ok(Some(true)));
    }

    #[test]
    fn what_others_can_write_or_read_is_refused_with_the_command_that_mends_it() {
        let around = tempfile::tempdir().unwrap();
        let folder = folder(&around.path().join("acme"));
        folder.keep_account("{}").unwrap();
        mode(&folder.account, 0o644);
        let error = folder.account().unwrap_err();
        assert!(error.remedy.starts_with("chmod 600 "), "{error}");

        mode(&folder.path, 0o777);
        let error = folder.check().unwrap_err();
        assert!(error.remedy.starts_with("chmod 700 "), "{error}");
    }

    #[test]
    fn a_certificate_of_another_directory_is_known() {
        let around = tempfile::tempdir().unwrap();
        let before = folder(&around.path().join("acme"));
        before.keep_certificate("KEY", "CHAIN").unwrap();
        let after = Folder {
            directory: "https://other.example/".to_owned(),
            ..before
        };
        assert_eq!(after.is_of_directory(), Ok(Some(false)));
    }
}
