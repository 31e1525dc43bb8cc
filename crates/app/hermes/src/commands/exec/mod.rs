//! `hermes exec -- CMD ARGS`: a program that uses a node as its proxy, or with `--capture` one that knows no proxy.

mod captured;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use super::env::{Source, variables};
use crate::failure::Failure;

/// Arguments of `hermes exec`.
#[derive(Debug, Args)]
pub struct Exec {
    #[command(flatten)]
    source: Source,
    /// Give the program a network of its own that leads to a node: for programs that know no proxy. It takes no right.
    #[arg(long, conflicts_with_all = ["proxy", "file"])]
    capture: bool,
    /// The socket of a `capture` listener. Default: that of the running node, or $HERMES_CAPTURE.
    #[arg(long, value_name = "PATH", requires = "capture", conflicts_with_all = ["admin", "node"])]
    socket: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Exit codes of a program that is not there, and of one that cannot be run: those of a shell (POSIX, 2.8.2).
const MISSING: u8 = 127;
const CANNOT_RUN: u8 = 126;

/// Becomes the program, so that signals reach it and its exit code is ours.
///
/// # Errors
/// When there is no proxy to use, or the program does not start. Else this does not return.
pub async fn run(exec: Exec) -> Result<(), Failure> {
    let (program, arguments) = exec
        .command
        .split_first()
        .ok_or_else(|| Failure::invalid("no program is named after `--`"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    // Held until the program has taken its place: the node notices its end by it.
    let _held = if exec.capture {
        let socket = captured::socket(exec.socket.clone(), exec.source.which()).await?;
        Some(captured::enter(&socket).await?)
    } else {
        command.envs(variables(&exec.source.proxy().await?));
        None
    };

    Err(not_run(program, &command.exec()))
}

fn not_run(program: &OsString, error: &io::Error) -> Failure {
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::coded(MISSING, format!("the program `{program}` was not found"))
        }
        _ => Failure::coded(CANNOT_RUN, format!("`{program}` cannot be run: {error}")),
    }
}
