//! A node's memory across restarts: a folder with its identity, the parts it was given, and the statement that it follows.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use hermes_api::{Hash, Name, SealingKey, SignedStatement, Statement, parts};
use hermes_config::{Loaded, Problem, Problems};
use hermes_net::replace_file;
use serde::{Deserialize, Serialize};

use crate::file_bounds::FileBounds;
use crate::{Membership, secrets};

/// Bytes of the longest file that is read here, but for parts.
#[doc(alias = "bound")]
const LONGEST: u64 = 1024 * 1024;

/// Permissions of others to write.
const OTHERS_WRITE: u32 = 0o022;

/// All permissions of others.
const OTHERS: u32 = 0o077;

/// The folder of a node.
///
/// - `membership.json`, `node.key`, `node.pem`: its identity.
/// - `parts/HASH`: parts of statements, which never change.
/// - `data`: files that documents have the node write.
/// - `sealing.key`, `secrets/HASH`: the key of the node's secrets, and the secrets that it opened.
/// - `current.json`: the signed statement that the next start follows. It is replaced as a whole, once all its parts are on the disk.
#[derive(Debug, Clone)]
pub struct State {
    folder: PathBuf,
    /// Files outside of it that documents may name, too.
    allowed: Vec<PathBuf>,
}

/// The statement that a start follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// Its hash.
    pub hash: Hash,
    /// Its content.
    pub statement: Statement,
}

/// A signed statement as its file has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CurrentFile {
    statement: String,
    signature: Vec<u8>,
}

impl State {
    /// The state in this folder, which is made when something is kept in it.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            allowed: Vec::new(),
        }
    }

    /// Lets documents of controllers name these files, and those in these folders, beside the node's own.
    #[must_use]
    pub fn allow_files(self, allowed: Vec<PathBuf>) -> Self {
        Self { allowed, ..self }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The node's membership; `None` before it has joined.
    ///
    /// # Errors
    /// The file cannot be read, or is not as it was written; or other users can change the folder or read its keys.
    pub fn membership(&self) -> io::Result<Option<Membership>> {
        self.check_privacy()?;
        let path = self.path("membership.json");
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        let read = serde_json::from_str(&text);
        read.map(Some).map_err(|error| damaged(&path, &error))
    }

    /// Whether the folder and its keys are this user's alone. Who else can write there decides which controller this node follows.
    fn check_privacy(&self) -> io::Result<()> {
        check_owner(&self.folder, OTHERS_WRITE, "700")?;
        for name in ["node.key", "sealing.key"] {
            check_owner(&self.path(name), OTHERS, "600")?;
        }
        check_owner(&self.path("membership.json"), OTHERS_WRITE, "600")
    }

    /// Keeps the outcome of a join or a renewal. The certificate comes first: a membership without one would be no use.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(crate) fn keep_membership(
        &self,
        membership: &Membership,
        certificates: &str,
    ) -> io::Result<()> {
        replace_file(&self.path("node.pem"), certificates)?;
        self.keep_controllers(membership)
    }

    /// Keeps the membership alone, such as with other controllers.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(crate) fn keep_controllers(&self, membership: &Membership) -> io::Result<()> {
        let text = serde_json::to_string_pretty(membership).map_err(io::Error::other)?;
        replace_file(&self.path("membership.json"), &text)
    }

    /// The key of the node, as PEM; made if there is none.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(crate) fn key(&self) -> io::Result<String> {
        let path = self.path("node.key");
        if let Some(text) = read(&path)? {
            return Ok(text);
        }
        let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
        let text = key.serialize_pem();
        // Before it is shown to anyone: a join that is cut is repeated with the same key.
        replace_file(&path, &text)?;
        Ok(text)
    }

    /// The key by which the node opens its secrets; made if there is none.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(crate) fn sealing_key(&self) -> io::Result<SealingKey> {
        let path = self.path("sealing.key");
        if let Some(text) = read(&path)? {
            return SealingKey::from_text(&text).map_err(|error| damaged(&path, &error));
        }
        let mut bytes = [0; 32];
        aws_lc_rs::rand::fill(&mut bytes).map_err(io::Error::other)?;
        let key = SealingKey::of(bytes).map_err(io::Error::other)?;
        replace_file(&path, &key.to_text())?;
        Ok(key)
    }

    /// The node's certificates, as PEM.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn certificates(&self) -> io::Result<String> {
        fs::read_to_string(self.path("node.pem"))
    }

    /// Authorities that were told at the join, until the first statement brings others.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn authorities(&self) -> io::Result<String> {
        fs::read_to_string(self.path("authorities.pem"))
    }

    /// Keeps the authorities that a controller is believed by.
    ///
    /// # Errors
    /// The disk does not take them.
    pub(crate) fn keep_authorities(&self, authorities: &str) -> io::Result<()> {
        replace_file(&self.path("authorities.pem"), authorities)
    }

    /// The newest revision that the node was ever told, as its text; nothing older is followed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn seen(&self) -> io::Result<Option<String>> {
        read(&self.path("seen"))
    }

    /// Keeps the newest revision.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(crate) fn keep_seen(&self, revision: &str) -> io::Result<()> {
        replace_file(&self.path("seen"), revision)
    }

    /// When the newest endorsement of the operator was signed that the node was told; 0 without one.
    ///
    /// # Errors
    /// The file cannot be read, or is not as it was written.
    pub(crate) fn endorsed(&self) -> io::Result<u64> {
        let path = self.path("endorsed");
        match read(&path)? {
            Some(text) => text.parse().map_err(|error| damaged(&path, &error)),
            None => Ok(0),
        }
    }

    /// Keeps that time.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(crate) fn keep_endorsed(&self, signed: u64) -> io::Result<()> {
        replace_file(&self.path("endorsed"), &signed.to_string())
    }

    /// Keeps parts. They are on the disk when it returns.
    ///
    /// # Errors
    /// The disk does not take them.
    pub(crate) fn keep_part(&self, hash: &Hash, bytes: &[u8]) -> io::Result<()> {
        // Parts are JSON and PEM: a part that is no text was never one of ours.
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        replace_file(&self.part(hash), text)
    }

    /// Whether a part is here, and whole: one that a power cut tore is asked for again.
    pub(crate) fn has_part(&self, hash: &Hash) -> bool {
        fs::read(self.part(hash)).is_ok_and(|bytes| Hash::of(&bytes) == *hash)
    }

    /// Makes a statement the one that starts follow, and lets go of parts that neither it nor `other` names.
    ///
    /// # Errors
    /// The disk does not take it; then the one before stays.
    pub(crate) fn follow(&self, signed: &SignedStatement, statement: &Statement) -> io::Result<()> {
        let file = CurrentFile {
            statement: String::from_utf8_lossy(&signed.bytes).into_owned(),
            signature: signed.signature.clone(),
        };
        let text = serde_json::to_string(&file).map_err(io::Error::other)?;
        replace_file(&self.path("current.json"), &text)?;
        self.sweep(&statement.parts.values().copied().collect())
    }

    /// The statement that a start follows, checked as if it had just come; `None` if there is none yet.
    ///
    /// # Errors
    /// The file cannot be read, was changed, is another node's, or a part is missing.
    pub fn current(&self, membership: &Membership) -> io::Result<Option<Current>> {
        let key = membership.verifying_key().map_err(io::Error::other)?;
        let path = self.path("current.json");
        let Some(text) = read(&path)? else {
            return Ok(None);
        };
        let file: CurrentFile =
            serde_json::from_str(&text).map_err(|error| damaged(&path, &error))?;
        let signed = SignedStatement {
            bytes: file.statement.into_bytes(),
            signature: file.signature,
        };
        // Someone may have changed the file while the node was off.
        let statement = signed
            .verify(&key)
            .map_err(|error| damaged(&path, &error))?;
        if statement.overlay != membership.overlay || statement.node != membership.node {
            let whose = format!("it is for {} of {}", statement.node, statement.overlay);
            return Err(damaged(&path, &whose));
        }
        let current = Current {
            hash: Hash::of(&signed.bytes),
            statement,
        };

        for hash in current.statement.parts.values() {
            let path = self.part(hash);
            if Hash::of(&fs::read(&path)?) != *hash {
                return Err(damaged(&path, &"its content has another hash"));
            }
        }
        Ok(Some(current))
    }

    /// The document of a statement whose parts are all here, with the variables of this node.
    ///
    /// # Errors
    /// Everything that is wrong with its form.
    pub fn document(
        &self,
        statement: &Statement,
        membership: &Membership,
        form: &hermes_config::DocumentForm,
    ) -> Result<Loaded, Problems> {
        let unread = |reason: String| Problems(vec![Problem::new("", reason)]);
        let hash = statement.parts.get(parts::DOCUMENT);
        let path = hash
            .map(|hash| self.part(hash))
            .ok_or_else(|| unread("the statement has no document".to_owned()))?;
        let text = fs::read_to_string(&path).map_err(|error| unread(error.to_string()))?;
        secrets::open(self, statement, membership)?;
        let env = |name: &str| self.variable(name, statement, membership);

        let loaded = form.parse_alone(&path, &text, &env)?;
        let data = self.path("data");
        let is_used = self
            .file_bounds(statement, &data)
            .check(&loaded.document, form)?;
        if is_used {
            make_private(&data).map_err(|error| unread(error.to_string()))?;
        }
        // Its form has no file of the operator's: what is wrong with it is told by its keys.
        Ok(Loaded {
            files: Vec::new(),
            ..loaded
        })
    }

    /// The files that the document of a statement may name.
    fn file_bounds<'a>(&'a self, statement: &Statement, data: &'a Path) -> FileBounds<'a> {
        let parts = statement.parts.values().map(|hash| self.part(hash));
        let secrets = statement.parts.get(parts::SECRETS);
        FileBounds {
            public: parts.chain([self.path("node.pem")]).collect(),
            key: self.path("node.key"),
            secrets: secrets.map(|hash| self.secrets(hash)),
            data,
            allowed: &self.allowed,
        }
    }

    /// The variables that documents of controllers have.
    fn variable(
        &self,
        name: &str,
        statement: &Statement,
        membership: &Membership,
    ) -> Option<String> {
        let part = |name: &str| {
            let hash = statement.parts.get(name)?;
            Some(self.part(hash).to_string_lossy().into_owned())
        };
        match name {
            "HERMES_NODE" => Some(membership.node.to_string()),
            "HERMES_USER" => membership.user.as_ref().map(Name::to_string),
            "HERMES_IDENTITY" => Some(self.folder.to_string_lossy().into_owned()),
            "HERMES_DATA" => Some(self.path("data").to_string_lossy().into_owned()),
            "HERMES_AUTHORITIES" => part(parts::AUTHORITIES),
            "HERMES_REVOKED" => part(parts::REVOKED),
            "HERMES_SECRETS" => {
                let hash = statement.parts.get(parts::SECRETS)?;
                Some(self.secrets(hash).to_string_lossy().into_owned())
            }
            "HERMES_WEB" => membership.web.map(|address| address.to_string()),
            "HERMES_CONTROLLER" => {
                let url: crate::ControllerUrl = membership.controller.parse().ok()?;
                Some(url.host)
            }
            _ => None,
        }
    }

    /// The authorities of a statement, as PEM; `None` where it has none.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn authorities_of(&self, statement: &Statement) -> io::Result<Option<String>> {
        let hash = statement.parts.get(parts::AUTHORITIES);
        let path = hash.map(|hash| self.part(hash));
        path.map(fs::read_to_string).transpose()
    }

    /// Removes parts that no statement names any more.
    fn sweep(&self, kept: &BTreeSet<Hash>) -> io::Result<()> {
        for entry in fs::read_dir(self.path("parts"))? {
            let entry = entry?;
            let name = entry.file_name();
            // Files of others in the folder are left alone.
            let hash = name.to_str().and_then(|name| name.parse::<Hash>().ok());
            if hash.is_some_and(|hash| !kept.contains(&hash)) {
                fs::remove_file(entry.path())?;
            }
        }
        secrets::sweep(&self.path("secrets"), kept)
    }

    /// The folder of the opened secrets of a part.
    pub(crate) fn secrets(&self, hash: &Hash) -> PathBuf {
        self.path("secrets").join(hash.to_string())
    }

    pub(crate) fn part(&self, hash: &Hash) -> PathBuf {
        self.path("parts").join(hash.to_string())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Checks that a file or folder, if it is there, is this user's or root's, and that others have none of these permissions.
fn check_owner(path: &Path, others: u32, mode: &str) -> io::Result<()> {
    let refused = |reason: String| {
        let reason = format!("{}: {reason}", path.display());
        io::Error::new(io::ErrorKind::PermissionDenied, reason)
    };
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(|error| refused(error.to_string()))?,
    };
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user && metadata.uid() != 0 {
        let owner = metadata.uid();
        return Err(refused(format!(
            "it belongs to user {owner}, who could lead this node elsewhere; run as that user, or name another --state"
        )));
    }
    // Root lets a group use the folders of containers.
    let others = match metadata.uid() {
        0 if user != 0 => others & 0o007,
        _ => others,
    };
    if metadata.mode() & others != 0 {
        let shown = path.display();
        return Err(refused(format!(
            "other users can use it; run: chmod {mode} {shown}"
        )));
    }
    Ok(())
}

/// Makes a folder that only this user can look into.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

fn read(path: &Path) -> io::Result<Option<String>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(error)),
        Ok(file) if file.len() > LONGEST => Err(damaged(path, &"it is too long")),
        Ok(_) => fs::read_to_string(path).map(Some).map_err(named),
    }
}

fn damaged(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    let reason = format!("{}: {error}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
