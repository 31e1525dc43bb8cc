//! An operator's key, without whose signature nodes that know it follow no document.

use std::io::Write;
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
    copy: PathBuf,
    yaml: String,
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
    let copy = key_file.with_extension("signed.yaml");
    let before = parsed("the controller's state", state.yaml)?;
    let known = std::fs::read_to_string(&copy).ok();
    let known = known.map(|text| parsed(&copy.display().to_string(), &text));
    let is_known = known
        .transpose()?
        .is_some_and(|known| same(&known, &before));
    if !is_known && !adopt {
        return Err(Failure::failed(format!(
            "the overlay is not as it was signed last, in {}",
            copy.display()
        ))
        .remedy("look at `hermes get`; with --adopt all of it is signed"));
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
    let endorsements = endorse(&change, &key, unix_milliseconds());
    Ok(Signing {
        endorsements: endorsements.map_err(invalid)?,
        copy,
        yaml: resources::format(next.resources()),
    })
}

impl Signing {
    /// Remembers the state that was signed, once it is in force.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(&self) -> Result<(), Failure> {
        hermes_net::replace_file(&self.copy, &self.yaml)
            .map_err(|error| Failure::failed(format!("{}: {error}", self.copy.display())))
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

fn unix_milliseconds() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.map_or(0, |time| {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    })
}

fn invalid(findings: Findings) -> Failure {
    Failure::invalid(findings.to_string())
}
