//! `hermes confirm`: the configuration that was given with `--confirm` stays.

use clap::Args;
use hermes_api::Revision;
use hermes_observe::admin::Confirmation;
use http::Method;

use super::overlay::ask::ControllerSocket;
use crate::admin::{self, Named};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes confirm`.
#[derive(Debug, Args)]
pub struct Confirm {
    /// The change of the overlay that was applied with --confirm, not one node's.
    #[arg(long, conflicts_with_all = ["name", "admin", "node"])]
    overlay: bool,
    #[command(flatten)]
    controller: ControllerSocket,
    #[command(flatten)]
    node: Named,
}

/// Confirms the configuration in force; a confirmed one may be confirmed again.
///
/// # Errors
/// When the node cannot be reached, or has returned to an earlier configuration already.
pub async fn run(confirm: &Confirm, output: Output) -> Result<(), Failure> {
    if confirm.overlay {
        return of_overlay(&confirm.controller, output).await;
    }
    let socket = confirm.node.socket()?;
    let (status, answer) = admin::call(&socket, Method::POST, "/confirm", "").await?;

    match status {
        200 if output.json => output.value(&answer),
        200 => output.line(said(admin::typed(answer)?)),
        409 => {
            let reason = answer["error"].as_str().unwrap_or_default();
            return Err(Failure::failed(reason)
                .remedy("mend the file and reload it, with --confirm if you like"));
        }
        _ => return Err(Failure::failed(admin::refusal("/confirm", status, &answer))),
    }

    Ok(())
}

async fn of_overlay(controller: &ControllerSocket, output: Output) -> Result<(), Failure> {
    let answer = controller.post("/confirm", &()).await?;
    if output.json {
        output.value(&answer);
    } else {
        let revision: Revision = admin::typed(answer["revision"].clone())?;
        output.line(format_args!("revision {revision} is confirmed"));
    }
    Ok(())
}

fn said(confirmation: Confirmation) -> String {
    let Confirmation {
        revision,
        confirmed,
    } = confirmation;
    match confirmed {
        true => format!("revision {revision} is confirmed"),
        false => format!("nothing to confirm: revision {revision} stays"),
    }
}
