//! `hermes log [LEVEL]`: what a running node logs, and changes of that.

use clap::Args;
use hermes_rules::log_filter;
use http::Method;
use serde_json::json;

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes log`.
#[derive(Debug, Args)]
pub struct Log {
    /// Filter: `info`, `debug`, or `hermes_node=debug,info`. Default: none, and the filter in force is shown.
    level: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// Shows the filter, or sends another; that holds until the node ends or is told otherwise.
///
/// # Errors
/// When the node cannot be reached or the filter would log nothing (exit code 2).
pub async fn run(log: &Log, output: Output) -> Result<(), Failure> {
    let Some(level) = &log.level else {
        return show(log, output).await;
    };
    if let Some((reason, remedy)) = log_filter::mistake(level) {
        return Err(Failure::invalid(reason).remedy(remedy));
    }

    let socket = log.which.socket()?;
    match admin::call(&socket, Method::PUT, "/log", level).await? {
        (200..300, _) if output.json => output.value(&json!({ "level": level })),
        (200..300, _) => output.line(format_args!("the node logs {level} from now on")),
        (status @ 400..500, answer) => {
            return Err(Failure::invalid(admin::refusal("/log", status, &answer)));
        }
        (status, answer) => return Err(Failure::failed(admin::refusal("/log", status, &answer))),
    }

    Ok(())
}

async fn show(log: &Log, output: Output) -> Result<(), Failure> {
    let status = admin::ask(&log.which.socket()?, "/status").await?;
    let level = status["log"].as_str().unwrap_or_default();
    if output.json {
        output.value(&json!({ "level": level }))
    } else {
        output.line(level)
    }

    Ok(())
}
