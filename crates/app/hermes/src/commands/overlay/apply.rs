//! `hermes apply FILE..`: make an overlay as files describe it; and other changes of its resources.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use hermes_api::{MAX_SECRET, Name, Revision};
use hermes_config::Problem;
use hermes_control::resources::{self, Key, Kind, SecretSpec, Source, Spec};
use hermes_control::service::How;
use hermes_control::service::admin::{self as asked, File};

use super::ask::ControllerSocket;
use super::changes;
use super::operator::{self, ControllerState, Signing};
use crate::admin;
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes apply`.
#[derive(Debug, Args)]
pub struct Apply {
    /// Files of resources; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Refuse unless this revision is in force, as `hermes get` printed it.
    #[arg(long, value_name = "REVISION")]
    base: Option<Revision>,
    /// Return unless `hermes confirm --overlay` comes within this time, such as 60s. The nodes keep the time themselves.
    #[arg(long, value_name = "TIME", value_parser = crate::commands::reload::confirmed_within)]
    confirm: Option<Duration>,
    /// The files are the whole of this set: its resources that they do not name are removed.
    #[arg(long, value_name = "NAME")]
    set: Option<Name>,
    /// Allow to remove much of what there is.
    #[arg(long)]
    force: bool,
    /// Do not wait for how exchanges go at the first nodes with the change; they still get it before others.
    #[arg(long)]
    now: bool,
    /// Sign the documents with this operator's key, for nodes that follow no others.
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
    /// Sign also a state that was not signed before: look at `hermes get` first.
    #[arg(long, requires = "sign")]
    adopt: bool,
    /// Only say which resources and which nodes' documents would change.
    #[arg(long)]
    dry_run: bool,
    /// Why, for the history.
    #[arg(long, short, default_value = "")]
    message: String,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Applies files, and waits until they are in force.
///
/// # Errors
/// The resources are not valid, another change came first, or a node refused.
pub async fn run(apply: &Apply, output: Output) -> Result<(), Failure> {
    let files = files(&apply.files)?;
    let mut asked = asked::Apply {
        secrets: secret_files(&files)?,
        files,
        set: apply.set.clone(),
        how: How {
            base: apply.base,
            confirm_seconds: apply.confirm.map(seconds),
            force: apply.force,
            dry_run: apply.dry_run,
            now: apply.now,
            message: apply.message.clone(),
            ..changes::how()
        },
    };
    let signing = match &apply.sign {
        Some(key) => Some(signed(apply, key, &mut asked).await?),
        None => None,
    };
    let answer = apply.controller.change("/apply", &asked).await?;
    if apply.dry_run {
        return changes::foresee(answer, output);
    }
    changes::follow(&apply.controller, answer, output).await?;
    if let Some(signing) = signing {
        signing.keep()?;
    }
    if let Some(time) = apply.confirm.filter(|_| !output.json) {
        output.line(format_args!(
            "it returns in {time:?} unless you say: hermes confirm --overlay"
        ));
    }
    Ok(())
}

/// Signs the documents that a request leads to, from the state that the controller has now.
async fn signed(apply: &Apply, key: &Path, asked: &mut asked::Apply) -> Result<Signing, Failure> {
    let about = super::about(&apply.controller).await?;
    let state = apply.controller.get("/resources?").await?;
    let told = ControllerState {
        about: &about,
        yaml: state["yaml"].as_str().unwrap_or_default(),
    };
    let signing = operator::sign(key, &told, asked, apply.adopt)?;
    asked.how.endorsements = signing.endorsements.clone();
    // The signatures are about a change of this state alone.
    let base: Revision = admin::typed(state["revision"].clone())?;
    asked.how.base.get_or_insert(base);
    Ok(signing)
}

fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

/// Reads the files; what they say is read by the controller.
pub(super) fn files(paths: &[PathBuf]) -> Result<Vec<File>, Failure> {
    paths.iter().map(|path| file(path)).collect()
}

fn file(path: &Path) -> Result<File, Failure> {
    let text = match path.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(path),
    };
    Ok(File {
        name: path.display().to_string(),
        text: text.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?,
    })
}

/// The texts of files that secrets among these resources name. Mistakes of the resources are left to the controller.
pub(super) fn secret_files(files: &[File]) -> Result<BTreeMap<Key, String>, Failure> {
    let mut texts = BTreeMap::new();
    for file in files {
        let source = Source {
            name: Path::new(&file.name),
            text: &file.text,
        };
        let Ok(read) = resources::read(&[source]) else {
            continue;
        };
        for resource in read.of_kind(Kind::Secret) {
            if let Spec::Secret(SecretSpec {
                file: Some(path), ..
            }) = resource.spec()
            {
                let text = secret_file(Path::new(&file.name), path).map_err(|reason| {
                    let problem = Problem::new("spec.file", reason);
                    Failure::invalid(read.finding(resource.key(), problem).to_string())
                })?;
                texts.insert(resource.key().clone(), text);
            }
        }
    }
    Ok(texts)
}

/// The text of a secret, from the folder of the file that names it. No other folder: who has written the resource is not always who
/// applies it, and would be sent files of this machine.
fn secret_file(beside: &Path, path: &str) -> Result<String, String> {
    let folder = match beside.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let path = folder.join(path);
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    // By true names: a link would lead elsewhere as well.
    let true_name = path.canonicalize().map_err(failed)?;
    if !true_name.starts_with(folder.canonicalize().map_err(failed)?) {
        return Err(format!(
            "{} is not below the folder of this file; copy it there, or write its text as `value`",
            path.display()
        ));
    }
    let file = std::fs::File::open(&true_name).map_err(failed)?;
    let limit = u64::try_from(MAX_SECRET + 1).unwrap_or(u64::MAX);
    let mut text = String::new();
    // A longer one is refused by the controller, with its place.
    file.take(limit).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Arguments of `hermes delete`.
#[derive(Debug, Args)]
pub struct Delete {
    /// Keys of resources, as `hermes get --keys` lists them, such as Name/default/VIDEO.
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<Key>,
    /// Allow to remove much of what there is.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Removes resources, and waits until that is in force.
///
/// # Errors
/// There are no such resources, others need them, or a node refused.
pub async fn delete(delete: &Delete, output: Output) -> Result<(), Failure> {
    let asked = asked::Delete {
        keys: delete.keys.clone(),
        how: How {
            force: delete.force,
            ..changes::how()
        },
    };
    let answer = delete.controller.change("/delete", &asked).await?;
    changes::follow(&delete.controller, answer, output).await
}

/// Arguments of `hermes expose`.
#[derive(Debug, Args)]
pub struct Expose {
    /// The name by which it is reached.
    name: String,
    /// The server, as its node reaches it; `relay` for the node's own relay.
    #[arg(value_name = "HOST:PORT|relay")]
    address: String,
    /// Users who may reach it: names, group:NAME, or * for all.
    #[arg(long, required = true, value_name = "USER", value_delimiter = ',')]
    to: Vec<String>,
    /// The node beside it. Default: the controller's.
    #[arg(long)]
    node: Option<Name>,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Writes the resources by which users reach a server, prints them, and waits until they are in force.
///
/// # Errors
/// The name or the address is none, there is no such node, or a node refused.
pub async fn expose(expose: &Expose, output: Output) -> Result<(), Failure> {
    let node = match &expose.node {
        Some(node) => node.clone(),
        None => super::about(&expose.controller)
            .await?
            .node
            .ok_or_else(|| {
                Failure::invalid("the controller is no node")
                    .remedy("say which one with --node NAME")
            })?,
    };
    let asked = asked::Expose {
        name: expose.name.clone(),
        address: expose.address.clone(),
        node,
        to: expose.to.clone(),
        how: changes::how(),
    };
    let mut answer = expose.controller.change("/expose", &asked).await?;
    if let Some(yaml) = answer["resources"].as_str().filter(|_| !output.json) {
        output.line(yaml.trim_end());
    }
    changes::follow(&expose.controller, answer["changed"].take(), output).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_of_another_leads_to_no_file_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("overlay/keys");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("web.pem"), "its own").unwrap();
        let outside = folder.path().join("outside");
        std::fs::write(&outside, "another's").unwrap();
        std::os::unix::fs::symlink(&outside, inner.join("link")).unwrap();

        let file = folder.path().join("overlay/overlay.yaml");
        assert_eq!(secret_file(&file, "keys/web.pem").unwrap(), "its own");
        for path in ["../outside", "keys/link", outside.to_str().unwrap()] {
            let said = secret_file(&file, path).unwrap_err();
            assert!(said.contains("is not below the folder"), "{said}");
        }
    }
}
