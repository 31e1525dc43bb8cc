//! `hermes config`: the configuration that is in force at a running node.

use clap::Args;

use crate::admin::{self, Named};
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes config`.
#[derive(Debug, Args)]
pub struct Config {
    #[command(flatten)]
    node: Named,
}

/// Shows it as YAML that can be a file, or as JSON. Secrets are not in it.
///
/// # Errors
/// When the node cannot be reached, or cannot show it.
pub async fn run(config: &Config, output: Output) -> Result<(), Failure> {
    let answer = admin::ask(&config.node.socket()?, "/config").await?;
    if output.json {
        output.value(&answer["document"]);
        return Ok(());
    }

    let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    output.line(format_args!(
        "# node {}, revision {}{}",
        text("node"),
        answer["revision"],
        answer["file"]
            .as_str()
            .map_or_else(String::new, |file| format!(", of {file}"))
    ));

    output.raw(&text("text"));
    Ok(())
}
