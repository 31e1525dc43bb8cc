//! `hermes completions SHELL`: the script by which the shell completes `hermes`, names of nodes and of an overlay included.

mod names;
mod places;
mod scripts;

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use self::names::Completed;
use crate::commands::overlay::ask::ControllerSocket;
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(required_unless_present_any = ["nodes", "names"])]
    shell: Option<Shell>,
    /// Names of the nodes that run here, for scripts of earlier versions.
    #[arg(long, hide = true)]
    nodes: bool,
    /// Names of this kind, one a line: the scripts ask for them. Prints nothing where no one answers soon.
    #[arg(long, hide = true, value_name = "KIND")]
    names: Option<Completed>,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Prints the script for the program's command line, or names.
pub async fn run(
    completions: &Completions,
    mut program: Command,
    output: Output,
) -> Result<(), Failure> {
    let kind = completions.names.unwrap_or(Completed::Running);
    let Some(shell) = completions.shell else {
        let names = names::names(kind, &completions.controller).await;
        if output.json {
            output.value(&names);
        } else {
            names.iter().for_each(|name| output.line(name));
        }
        return Ok(());
    };

    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "hermes", &mut script);
    let script = scripts::with_names(shell, &String::from_utf8_lossy(&script));
    if output.json {
        output.value(&json!({ "shell": shell.to_string(), "script": script }));
    } else {
        output.raw(&script);
    }

    Ok(())
}
