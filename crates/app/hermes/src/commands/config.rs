//! `hermes config`: the configuration that is in force at a running node.

use clap::Args;
use hermes_node::answers::DocumentView;

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
    let in_force: DocumentView = admin::typed(answer)?;
    if output.json {
        output.value(&in_force.document);
        return Ok(());
    }

    let file = in_force.file.as_deref();
    output.line(format_args!(
        "# node {}, revision {}{}",
        in_force.node,
        in_force.revision,
        file.map_or_else(String::new, |file| format!(", of {}", file.display()))
    ));

    output.raw(&in_force.text);
    Ok(())
}
