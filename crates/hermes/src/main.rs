//! The `hermes` program: one binary, one file a subcommand.
//!
//! What it is: the command line around the data plane, and the demo. What it is not: nothing here decides about
//! traffic; that is `hermes-proxy` and `hermes-rules`.
//!
//! Specifications: none of its own; exit codes are in `hermes --help`.
//!
//! Begin reading in `commands/run.rs`, which is a node from its first line to its last.

mod admin;
mod cli;
mod columns;
mod commands;
mod demo;
mod failure;
mod logging;
mod output;
mod stop;
mod table;

use std::process::ExitCode;

use clap::Parser;
use hermes_net::PassedSocket;

use cli::{Cli, Command};
use failure::Failure;
use output::Output;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.json);
    let outcome = passed(cli.command.as_ref()).and_then(|passed| {
        let runtime = runtime()?;
        runtime.block_on(dispatch(cli.command, output, passed))
    });

    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output.failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

/// The sockets that a service manager passed to a node. Before anything else opens descriptors or starts threads.
fn passed(command: Option<&Command>) -> Result<Vec<PassedSocket>, Failure> {
    match command {
        Some(Command::Run(_)) => hermes_net::os::passed_sockets()
            .map_err(|error| Failure::failed(format!("socket activation: {error}"))),
        _ => Ok(Vec::new()),
    }
}

/// One thread for signals, administration and the demo; the data plane brings its own workers.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("the run time does not start: {error}")))
}

async fn dispatch(
    command: Option<Command>,
    output: Output,
    passed: Vec<PassedSocket>,
) -> Result<(), Failure> {
    match command {
        None => commands::welcome(output),
        Some(Command::Run(run)) => commands::run::run(run, passed).await,
        Some(Command::Check(check)) => commands::check::run(&check, output).await,
        Some(Command::Schema) => commands::schema::run(output),
        Some(Command::Demo(demo)) => demo::run(&demo, output).await,
        Some(Command::Status(status)) => commands::status::run(&status, output).await,
        Some(Command::Top(top)) => commands::top::run(&top, output).await,
        Some(Command::Exchanges(exchanges)) => commands::exchanges::run(&exchanges, output).await,
        Some(Command::Config(config)) => commands::config::run(&config, output).await,
        Some(Command::Diff(diff)) => commands::diff::run(&diff, output).await,
        Some(Command::Why(why)) => commands::why::run(&why, output),
        Some(Command::Reload(reload)) => commands::reload::run(&reload, output).await,
        Some(Command::Confirm(confirm)) => commands::confirm::run(&confirm, output).await,
        Some(Command::Rollback(rollback)) => commands::rollback::run(&rollback, output).await,
        Some(Command::Log(log)) => commands::log::run(&log, output).await,
        Some(Command::Echo(echo)) => commands::echo::run(echo, output).await,
        Some(Command::Env(env)) => commands::env::run(&env, output).await,
        Some(Command::Exec(exec)) => commands::exec::run(exec).await,
        Some(Command::Completions(completions)) => commands::completions::run(&completions, output),
    }
}
