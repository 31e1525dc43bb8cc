//! What an overlay is and was: its resources, their history, its nodes.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hermes_api::{Name, Revision};
use hermes_control::service::admin::NodeView;
use hermes_control::store::AuditEntry;
use serde::Deserialize;

use super::ask::ControllerSocket;
use crate::admin;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::plain;

/// Arguments of `hermes get`.
#[derive(Debug, Args)]
pub struct Get {
    /// Only resources whose keys begin so, such as Name or Name/default/VIDEO.
    #[arg(value_name = "KEY", default_value = "")]
    key: String,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Prints resources as a file that `hermes apply` takes.
///
/// # Errors
/// The controller cannot be reached.
pub async fn get(get: &Get, output: Output) -> Result<(), Failure> {
    let answer = get
        .controller
        .get(&format!("/resources?{}", get.key))
        .await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let yaml = answer["yaml"].as_str().unwrap_or_default();
    let revision: Revision = admin::typed(answer["revision"].clone())?;
    output.line(format_args!(
        "# revision {revision}: hermes apply --base {revision} FILE"
    ));
    output.line(yaml.trim_end());
    Ok(())
}

/// Arguments of `hermes history`.
#[derive(Debug, Args)]
pub struct History {
    /// Acts beside changes of the resources: who joined, was given a token, or was revoked, when, and by whom.
    #[arg(long)]
    audit: bool,
    #[command(flatten)]
    controller: ControllerSocket,
}

#[derive(Deserialize)]
struct State {
    revision: Revision,
    author: String,
    time: u64,
    message: String,
}

/// Lists the last states, the newest first.
///
/// # Errors
/// The controller cannot be reached.
pub async fn history(history: &History, output: Output) -> Result<(), Failure> {
    if history.audit {
        return audit(&history.controller, output).await;
    }
    let answer = history.controller.get("/history").await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let states: Vec<State> = admin::typed(answer)?;
    let mut table = plain(&["REVISION", "TIME", "BY", "WHY"]);
    for state in states {
        table.add_row([
            state.revision.to_string(),
            time(state.time),
            state.author,
            state.message,
        ]);
    }
    output.line(table.trim_fmt());
    Ok(())
}

/// Lists the last acts, and whether their chain is whole.
async fn audit(controller: &ControllerSocket, output: Output) -> Result<(), Failure> {
    let mut answer = controller.get("/audit").await?;
    let broken = answer["broken"].as_str().map(str::to_owned);
    if output.json {
        output.value(&answer);
        return broken.map_or(Ok(()), |_| Err(Failure::told(1)));
    }
    let entries: Vec<AuditEntry> = admin::typed(answer["entries"].take())?;
    let mut table = plain(&["NUMBER", "TIME", "BY", "ACT", "OF"]);
    for entry in entries {
        table.add_row([
            entry.number.to_string(),
            time(entry.time),
            entry.who,
            entry.act,
            entry.subject,
        ]);
    }
    output.line(table.trim_fmt());
    match broken {
        None => Ok(()),
        Some(reason) => Err(Failure::failed(format!("the audit was changed: {reason}"))),
    }
}

/// A Unix time as people write it, in UTC.
pub(super) fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| time::OffsetDateTime::from_unix_timestamp(seconds).ok());
    let Some(time) = time else {
        return seconds.to_string();
    };
    format!(
        "{}-{:02}-{:02} {:02}:{:02}:{:02}",
        time.year(),
        u8::from(time.month()),
        time.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// Arguments of `hermes nodes`.
#[derive(Debug, Args)]
pub struct Nodes {
    /// Bring this node up to date first: at once, ahead of its turn in a change, and also with what it has refused.
    #[arg(long, value_name = "NAME")]
    update: Option<Name>,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Lists the members of the overlay, and whether they are in step.
///
/// # Errors
/// The controller cannot be reached.
pub async fn nodes(nodes: &Nodes, output: Output) -> Result<(), Failure> {
    if let Some(node) = &nodes.update {
        nodes.controller.post("/update", node).await?;
        settled(&nodes.controller, node).await?;
    }
    let answer = nodes.controller.get("/nodes").await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let views: Vec<NodeView> = admin::typed(answer)?;
    let mut table = plain(&[
        "NODE",
        "USER",
        "ATTENDS",
        "REVISION",
        "STATE",
        "VERSION",
        "CERTIFICATE UNTIL",
    ]);
    for view in views {
        let state = match view.reason.as_str() {
            "" => view.state,
            reason => format!("{}: {reason}", view.state),
        };
        table.add_row([
            view.node,
            view.user
                .unwrap_or_else(|| crate::table::NOTHING.to_owned()),
            if view.attends { "yes" } else { "no" }.to_owned(),
            view.revision.map_or_else(
                || crate::table::NOTHING.to_owned(),
                |revision| revision.to_string(),
            ),
            state,
            view.version,
            time(view.expires),
        ]);
    }
    output.line(table.trim_fmt());
    Ok(())
}

/// Waits until a node has taken or refused what it was offered, for a while.
async fn settled(controller: &ControllerSocket, node: &Name) -> Result<(), Failure> {
    /// Looks before the node is shown as it is.
    const LOOKS: usize = 50;
    for _ in 0..LOOKS {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let views: Vec<NodeView> = admin::typed(controller.get("/nodes").await?)?;
        let found = views.iter().find(|view| view.node == node.as_str());
        if found.is_some_and(|view| matches!(view.state.as_str(), "in step" | "refused")) {
            break;
        }
    }
    Ok(())
}

/// Arguments of `hermes backup`.
#[derive(Debug, Args)]
pub struct Backup {
    /// The new file. It has the keys of the authority: keep it as you keep them.
    file: PathBuf,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Writes the state of a running controller to a file, which `hermes controller --restore FILE` reads.
///
/// # Errors
/// The controller cannot be reached, or the file is there or cannot be written.
pub async fn backup(backup: &Backup, output: Output) -> Result<(), Failure> {
    // The controller writes it, and stands in another folder.
    let file = std::path::absolute(&backup.file)
        .map_err(|error| Failure::failed(format!("{}: {error}", backup.file.display())))?;
    let answer = backup.controller.post("/backup", &file).await?;
    if output.json {
        output.value(&answer);
    } else {
        output.line(format_args!(
            "the controller's state is in {}",
            file.display()
        ));
    }
    Ok(())
}
