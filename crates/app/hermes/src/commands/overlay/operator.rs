//! An operator's key, without whose signature nodes that know it follow no document.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use hermes_api::{SignedEndorsement, SigningKey};
use hermes_control::resources::{self, Findings, Kind, Resource, Source, Spec, Tree};
use hermes_control::service::admin::{Apply, applied};
use hermes_control::service::{About, ChangedOverlay, endorse};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes operator-key`.
#[derive(Debug, Args)]
pub struct OperatorKey {
    /// The file of the private key. It stays with the operator: a controller never needs it.
    file: PathBuf,
}

/// Prints the public key, which nodes are told when they join.
///
/// # Errors
/// The key can neither be read nor made.
pub fn key(command: &OperatorKey, output: Output) -> Result<(), Failure> {
    if !command.file.exists() {
        let made = SigningKey::generate().map_err(|error| Failure::failed(error.to_string()))?;
        new_file(&command.file, &made)?;
    }
    let public = read(&command.file)?.verifying().to_text();
    if output.json {
        output.value(&json!({ "public_key": public }));
    } else {
        output.line(public);
    }
    Ok(())
}

fn read(file: &Path) -> Result<SigningKey, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", file.display()));
    let bytes = std::fs::read(file).map_err(|error| failed(&error))?;
    SigningKey::from_pkcs8(&bytes).map_err(|error| failed(&error))
}

/// A file that its owner alone may read.
fn new_file(file: &Path, content: &[u8]) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    let made = options.write(true).create_new(true).mode(0o600).open(file);
    let written = made.and_then(|mut made| made.write_all(content));
    written.map_err(|error| Failure::failed(format!("{}: {error}", file.display())))
}

/// The signatures of a change, and the resources that it leads to.
pub(super) struct Signing {
    pub(super) endorsements: Vec<SignedEndorsement>,
    copy: SignedCopy,
    signed: u64,
    yaml: String,
}

/// The state that was signed last, in a file beside the key.
struct SignedCopy {
    path: PathBuf,
    /// Its text; empty where nothing was signed.
    yaml: String,
    /// When the last signature was made, in Unix milliseconds; 0 without one.
    signed: u64,
}

impl SignedCopy {
    /// Begins the first line of the file.
    const SIGNED: &str = "# signed ";

    fn beside(key_file: &Path) -> Result<Self, Failure> {
        let path = key_file.with_extension("signed.yaml");
        let yaml = match std::fs::read_to_string(&path) {
            Ok(yaml) => yaml,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Failure::failed(format!("{}: {error}", path.display()))),
        };
        let first = yaml.lines().next().unwrap_or_default();
        let signed = first.strip_prefix(Self::SIGNED);
        Ok(Self {
            signed: signed.and_then(|time| time.parse().ok()).unwrap_or(0),
            path,
            yaml,
        })
    }

    /// Whether this is the state that was signed last.
    fn is(&self, state: &Tree) -> Result<bool, Failure> {
        let known = parsed(&self.path.display().to_string(), &self.yaml)?;
        Ok(!self.yaml.is_empty() && same(&known, state))
    }

    /// The time of the next signature: nodes follow none of an earlier time than they have seen, wherever the clock has gone meanwhile.
    fn next_time(&self) -> u64 {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(0));
        now.max(self.signed + 1)
    }

    fn keep(&self, signed: u64, yaml: &str) -> Result<(), Failure> {
        let others = yaml.strip_prefix(Self::SIGNED);
        let yaml = others.map_or(yaml, |line| {
            line.split_once('\n').map_or("", |parts| parts.1)
        });
        hermes_net::replace_file(&self.path, &format!("{}{signed}\n{yaml}", Self::SIGNED))
            .map_err(|error| Failure::failed(format!("{}: {error}", self.path.display())))
    }
}

/// The state of an overlay as a controller tells it. It may lie.
pub(super) struct ControllerState<'a> {
    pub(super) about: &'a About,
    pub(super) yaml: &'a str,
}

/// Signs the documents that a change leads to, as this program makes them. Nothing that a controller tells is signed unless it is the state
/// that was signed last, or `adopt` says that the operator has looked at it.
///
/// # Errors
/// The key cannot be read, the state is another one, or the resources are not valid.
pub(super) fn sign(
    key_file: &Path,
    state: &ControllerState<'_>,
    apply: &Apply,
    adopt: bool,
) -> Result<Signing, Failure> {
    let key = read(key_file)?;
    let copy = SignedCopy::beside(key_file)?;
    let before = parsed("the controller's state", state.yaml)?;
    let is_known = copy.is(&before)?;
    if !is_known && !adopt {
        return Err(Failure::failed(format!(
            "the overlay is not as it was signed last, in {}",
            copy.path.display()
        ))
        .remedy(
            "was the last change stopped, or not confirmed? Look at `hermes get`; with --adopt all of it is signed",
        ));
    }

    let read = resources::read(&apply.sources()).map_err(invalid)?;
    if let Some(secret) = read.resources().find(|resource| is_in_clear(resource)) {
        return Err(Failure::invalid(format!(
            "{}: only the controller seals secrets",
            secret.key()
        ))
        .remedy(
            "apply it first, in a file of its own and without --sign: no document changes by that",
        ));
    }
    let next = applied(&before, apply, &read).map_err(invalid)?;
    let change = ChangedOverlay {
        overlay: &state.about.overlay,
        domain: &state.about.trust_domain,
        before: &before,
        next: &next,
        adopts: !is_known,
    };
    let signed = copy.next_time();
    let endorsements = endorse(&change, &key, signed).map_err(invalid)?;
    // Nodes see the signatures whatever becomes of the change.
    copy.keep(signed, &copy.yaml)?;
    Ok(Signing {
        endorsements,
        copy,
        signed,
        yaml: resources::format(next.resources()),
    })
}

impl Signing {
    /// Remembers the state that was signed, once it is in force.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(&self) -> Result<(), Failure> {
        self.copy.keep(self.signed, &self.yaml)
    }
}

fn parsed(name: &str, text: &str) -> Result<Tree, Failure> {
    let source = Source {
        name: Path::new(name),
        text,
    };
    resources::read(&[source]).map_err(invalid)
}

/// Whether two states have the same resources, but for secrets: their boxes are in no document.
fn same(one: &Tree, other: &Tree) -> bool {
    let compared = |tree: &Tree| -> Vec<Resource> {
        let resources = tree.resources();
        let compared = resources.filter(|resource| resource.key().kind != Kind::Secret);
        compared.cloned().collect()
    };
    compared(one) == compared(other)
}

fn is_in_clear(resource: &Resource) -> bool {
    matches!(resource.spec(), Spec::Secret(secret) if secret.value.is_some() || secret.file.is_some())
}

fn invalid(findings: Findings) -> Failure {
    Failure::invalid(findings.to_string())
}
