//! `hermes rollback`: back to the configuration before.

use clap::Args;
use hermes_api::Revision;
use http::Method;

use super::overlay::ask::ControllerSocket;
use super::overlay::changes;
use super::reload::ChangeAnswer;
use crate::admin::{self, Named};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes rollback`.
#[derive(Debug, Args)]
pub struct Rollback {
    /// The state of the overlay, not one node's configuration.
    #[arg(long, conflicts_with_all = ["name", "admin", "node"])]
    overlay: bool,
    /// The revision to return to, as `hermes history` lists it. Default: the one before.
    #[arg(long, value_name = "REVISION", requires = "overlay")]
    to: Option<Revision>,
    #[command(flatten)]
    controller: ControllerSocket,
    #[command(flatten)]
    node: Named,
}

/// Returns to the last confirmed configuration, or to the one before the one in force if that is confirmed.
///
/// # Errors
/// When the node cannot be reached, there is no configuration before, or it does not hold any more.
pub async fn run(rollback: &Rollback, output: Output) -> Result<(), Failure> {
    if rollback.overlay {
        return changes::roll_back(&rollback.controller, rollback.to, output).await;
    }
    let socket = rollback.node.socket()?;
    let (status, answer) = admin::call(&socket, Method::POST, "/rollback", "").await?;
    if let (409, Some(reason)) = (status, answer["error"].as_str()) {
        return Err(Failure::failed(reason));
    }

    let answer = ChangeAnswer {
        path: "/rollback",
        subject: "earlier configuration",
        status,
        body: answer,
    };
    answer.show(output)?;

    if !output.json {
        output.line("the file still says otherwise: mend it before the next reload or restart");
    }
    Ok(())
}
