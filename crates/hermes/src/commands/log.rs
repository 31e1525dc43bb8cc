//! `hermes log LEVEL`: changes what a running node logs.

use clap::Args;
use http::Method;
use serde_json::json;

use crate::admin::{self, Which};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes log`.
#[derive(Debug, Args)]
pub struct Log {
    /// Filter: `info`, `debug`, or `hermes_proxy=debug,info`.
    level: String,
    #[command(flatten)]
    which: Which,
}

/// Sends the filter; it holds until the node ends or is told otherwise.
///
/// # Errors
/// When the node cannot be reached or the filter cannot be read (exit code 2).
pub async fn run(log: &Log, output: Output) -> Result<(), Failure> {
    let socket = log.which.socket()?;
    match admin::call(&socket, Method::PUT, "/log", &log.level).await? {
        (200..300, _) if output.json => output.value(&json!({ "level": log.level })),
        (200..300, _) => output.line(format_args!("the node logs {} from now on", log.level)),
        (status @ 400..500, answer) => return Err(Failure::invalid(admin::refusal("/log", status, &answer))),
        (status, answer) => return Err(Failure::failed(admin::refusal("/log", status, &answer))),
    }
    Ok(())
}
