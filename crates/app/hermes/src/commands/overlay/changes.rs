//! Showing changes of an overlay, and waiting until they are in force.

use std::pin::pin;
use std::time::Duration;

use hermes_api::Revision;
use hermes_control::service::admin::RollBack;
use hermes_control::service::{Changed, How, Outcome, Spreading};
use serde_json::Value;

use super::ask::ControllerSocket;
use super::overview;
use crate::admin;
use crate::failure::Failure;
use crate::output::{Colour, Output, note};

/// How a change is made, with the name of its author.
pub(super) fn how() -> How {
    let author = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER"));
    How {
        author: author.unwrap_or_else(|_| "operator".to_owned()),
        ..How::default()
    }
}

/// Shows a change.
pub(super) fn show(changed: &Changed, output: Output) {
    let lines = [
        (Colour::Good, '+', &changed.added),
        (Colour::Good, '~', &changed.changed),
        (Colour::Bad, '-', &changed.removed),
    ];
    for (colour, sign, keys) in lines {
        for key in keys {
            let line = format!("{sign} {key}");
            output.line(if sign == '~' {
                line
            } else {
                output.paint(colour, &line)
            });
        }
    }
    for key in &changed.restarts {
        output.line(format_args!("in force after a restart of the node: {key}"));
    }
}

/// Shows a change that was not made, and the nodes that would get another document.
///
/// # Errors
/// The controller is of another version.
pub(super) fn foresee(answer: Value, output: Output) -> Result<(), Failure> {
    let changed: Changed = admin::typed(answer)?;
    if output.json {
        output.value(&changed);
        return Ok(());
    }
    show(&changed, output);
    for reason in &changed.guarded {
        output.line(output.paint(Colour::Bad, &format!("needs --force: {reason}")));
    }
    match changed.documents.as_slice() {
        [] => output.line("no node's document would change"),
        documents => output.line(format_args!(
            "documents that would change: {}; {} of the nodes that attend get another one",
            documents.join(", "),
            changed.nodes
        )),
    }
    Ok(())
}

/// Waits until a change is in force at every node that attends, and says so.
///
/// # Errors
/// A node refused it, so that it was taken back; or the controller cannot be reached any more.
pub(super) async fn follow(
    controller: &ControllerSocket,
    answer: Value,
    output: Output,
) -> Result<(), Failure> {
    let changed: Changed = admin::typed(answer)?;
    let is_empty =
        changed.added.is_empty() && changed.changed.is_empty() && changed.removed.is_empty();
    if !output.json {
        show(&changed, output);
    }
    if is_empty {
        if output.json {
            output.value(&changed);
        } else {
            output.line(format_args!(
                "no difference from revision {}",
                changed.revision
            ));
        }
        return Ok(());
    }

    let outcome = ended(controller, changed.revision, output).await?;
    if output.json {
        output.value(&serde_json::json!({ "changed": changed, "outcome": outcome }));
    }
    match outcome.stopped {
        None if output.json => Ok(()),
        // The object above says it: scripts read one.
        Some(_) if output.json => Err(Failure::told(1)),
        None => {
            let count = changed.nodes;
            let nodes = if count == 1 { "node" } else { "nodes" };
            output.line(format_args!(
                "revision {} is in force at {count} {nodes}",
                changed.revision
            ));
            Ok(())
        }
        Some(refusal) => Err(Failure::failed(format!(
            "revision {} was stopped at {} and taken back: {}",
            changed.revision, refusal.node, refusal.reason
        ))),
    }
}

/// How often a terminal is told how far a change has spread.
const LOOK: Duration = Duration::from_millis(200);

/// The end of a change. A terminal is told meanwhile how far it has spread.
async fn ended(
    controller: &ControllerSocket,
    revision: Revision,
    output: Output,
) -> Result<Outcome, Failure> {
    let path = format!("/outcome?{revision}");
    let mut ending = pin!(controller.get(&path));
    let is_told = output.terminal && !output.json;
    let mut told = String::new();
    loop {
        tokio::select! {
            outcome = ending.as_mut() => return admin::typed(outcome?),
            () = tokio::time::sleep(LOOK), if is_told => {}
        }
        // One that is over, or a controller that does not answer, is told of by the outcome.
        let Ok(answer) = controller.get("/spreading").await else {
            continue;
        };
        let Ok(Some(spreading)) = admin::typed::<Option<Spreading>>(answer) else {
            continue;
        };
        let words = overview::words(&spreading);
        if words != told {
            note(&words);
            told = words;
        }
    }
}

/// Returns to an earlier state, as a new revision, and waits until it is in force.
///
/// # Errors
/// The state is not kept, another change came first, or a node refused.
pub async fn roll_back(
    controller: &ControllerSocket,
    to: Option<Revision>,
    output: Output,
) -> Result<(), Failure> {
    let how = How {
        message: match to {
            Some(revision) => format!("return to revision {revision}"),
            None => "return to the revision before".to_owned(),
        },
        ..how()
    };
    let answer = controller
        .change("/rollback", &RollBack { to, how })
        .await?;
    follow(controller, answer, output).await
}
