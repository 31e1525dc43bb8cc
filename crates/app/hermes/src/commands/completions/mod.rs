//! `hermes completions SHELL`: what the shell needs to complete `hermes`, names of running nodes included.

use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;

use crate::admin;
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    #[arg(required_unless_present = "nodes")]
    shell: Option<Shell>,
    /// The names of the nodes that run here: the scripts ask for them.
    #[arg(long, hide = true)]
    nodes: bool,
}

/// Prints the script for the program's command line.
pub fn run(completions: &Completions, mut program: Command, output: Output) -> Result<(), Failure> {
    let Some(shell) = completions.shell else {
        let sockets = admin::all();
        let names = sockets
            .iter()
            .filter_map(|socket| socket.file_stem()?.to_str());
        if output.json {
            output.value(&names.collect::<Vec<_>>());
        } else {
            names.for_each(|name| output.line(name));
        }
        return Ok(());
    };

    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, "hermes", &mut script);
    let script = with_nodes(shell, &String::from_utf8_lossy(&script));
    if output.json {
        output.value(&json!({ "shell": shell.to_string(), "script": script }));
    } else {
        output.raw(&script);
    }

    Ok(())
}

/// The script, with running nodes after `--node`. The generator knows files and fixed words only.
fn with_nodes(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => {
            let files = "--node)\n                    COMPREPLY=($(compgen -f \"${cur}\"))";
            let nodes = files.replace("-f", "-W \"$(hermes completions --nodes)\" --");
            script.replace(files, &nodes)
        }
        Shell::Zsh => {
            let nodes = "_hermes_nodes() { compadd -- ${(f)\"$(hermes completions --nodes)\"} }\n";
            let (head, rest) = script.split_once('\n').unwrap_or((script, ""));
            let rest: String = rest
                .lines()
                .map(|line| format!("{}\n", zsh(line)))
                .collect();
            format!("{head}\n{nodes}{rest}")
        }
        Shell::Fish => script
            .lines()
            .map(|line| format!("{}\n", fish(line)))
            .collect(),
        _ => script.to_owned(),
    }
}

fn zsh(line: &str) -> String {
    if line.contains("--node=") {
        line.replace(":_default'", ":_hermes_nodes'")
    } else {
        line.to_owned()
    }
}

fn fish(line: &str) -> String {
    if line.contains(" -l node ") {
        format!("{line} -f -a '(hermes completions --nodes)'")
    } else {
        line.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn script(shell: Shell) -> String {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "hermes", &mut script);
        with_nodes(shell, &String::from_utf8(script).unwrap())
    }

    #[test]
    fn nodes_are_completed_after_every_node() {
        for (shell, place, asks) in [
            (
                Shell::Bash,
                "                --node)",
                "$(hermes completions --nodes)",
            ),
            (Shell::Zsh, "--node=", ":_hermes_nodes"),
            (
                Shell::Fish,
                " -l node ",
                "-a '(hermes completions --nodes)'",
            ),
        ] {
            let script = script(shell);
            let (places, asking) = (script.matches(place).count(), script.matches(asks).count());
            assert!(
                places >= 5 && places == asking,
                "{shell}: {places} places, {asking} that ask"
            );
        }
    }
}
