//! The `hermes` program: one binary, one file a subcommand.
//!
//! It is the command line around the data plane, and the demo. Nothing here decides about
//! traffic; that is `hermes-node` and the crates below it.
//!
//! Specifications: none of its own; exit codes are in `hermes --help`.
//!
//! Begin reading in `commands/run.rs`, which is a node from its first line to its last.

mod admin;
mod areas;
mod cli;
mod columns;
mod commands;
mod custody;
mod demo;
mod failure;
mod handover;
mod key_file;
mod log_shares;
mod logging;
mod output;
mod plugs;
mod stop;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use hermes_net::PassedSocket;
use hermes_rego::Metered;

use cli::{ChannelCommand, Cli, Command, FileCommand, NodeCommand, OverlayCommand};
use commands::{
    cache, cert, channel, check, completions, config, confirm, convert, custody_key, diff, echo,
    env, exchanges, exec, log, netcheck, overlay, passwd, plan, policy, refusals, reload, rollback,
    run, schema, sign, status, top, translate, why, wireguard_key,
};
use failure::Failure;
use output::Output;

#[global_allocator]
static ALLOCATOR: Metered<mimalloc::MiMalloc> = Metered(mimalloc::MiMalloc);

/// How long a node may take to say why it has ended.
#[doc(alias = "bound")]
const LAST_WORDS: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let output = Output::new(cli.json);
    let is_node = matches!(cli.command, Some(Command::Run(_)));
    let outcome = passed(cli.command.as_ref()).and_then(|passed| {
        let runtime = runtime()?;
        let outcome = runtime.block_on(dispatch(cli.command, output, passed));
        // Ends without waiting for other threads: one may stand still, such as a reload.
        runtime.shutdown_background();
        outcome
    });

    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let code = ExitCode::from(failure.code);
            if is_node {
                last_words(output, failure);
            } else {
                output.failure(&failure);
            }
            code
        }
    }
}

/// Prints the mistake in the command line, as JSON with `--json`; or the help that was asked for.
fn misused(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if !error.use_stderr() || !wants_json {
        error.exit();
    }

    let said = error.to_string();
    let reason = said.lines().next().unwrap_or_default();
    let reason = reason.strip_prefix("error: ").unwrap_or(reason);
    let failure = Failure::invalid(reason).remedy("hermes help lists the commands");
    Output::new(true).failure(&failure);
    ExitCode::from(failure.code)
}

/// Prints why a node has ended. A reader that stands still must not keep it from ending.
fn last_words(output: Output, failure: Failure) {
    let (done, heard) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        output.failure(&failure);
        drop(done);
    });
    // It resolves, too, when the thread is done.
    let _ = heard.recv_timeout(LAST_WORDS);
}

/// The sockets that a service manager passed to a node. Before anything else opens descriptors or starts threads.
fn passed(command: Option<&Command>) -> Result<Vec<PassedSocket>, Failure> {
    match command {
        Some(Command::Run(_)) => hermes_net::activation::passed_sockets()
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
        Some(command) => run(command, output, passed).await,
    }
}

async fn run(command: Command, output: Output, passed: Vec<PassedSocket>) -> Result<(), Failure> {
    match command {
        Command::Run(run) => run::run(run, passed).await,
        Command::Check(check) => check::run(&check, output).await,
        Command::Schema => schema::run(output),
        Command::Demo(demo) => demo::run(&demo, output).await,
        Command::Node(command) => of_node(command, output).await,
        Command::Policy(policy) => policy::run(&policy, output).await,
        Command::Netcheck(netcheck) => netcheck::run(&netcheck, output).await,
        Command::Echo(echo) => echo::run(echo, output).await,
        Command::Env(env) => env::run(&env, output).await,
        Command::Exec(exec) => exec::run(exec).await,
        Command::Channels(command) => of_channels(command, output).await,
        Command::Overlay(command) => of_overlay(command, output).await,
        Command::Files(command) => make_files(command, output),
        Command::Completions(completions) => {
            completions::run(&completions, Cli::command(), output).await
        }
    }
}

async fn of_node(command: NodeCommand, output: Output) -> Result<(), Failure> {
    match command {
        NodeCommand::Status(status) => status::run(&status, output).await,
        NodeCommand::Top(top) => top::run(&top, output).await,
        NodeCommand::Refusals(refusals) => refusals::run(&refusals, output).await,
        NodeCommand::Exchanges(exchanges) => exchanges::run(&exchanges, output).await,
        NodeCommand::Cache(cache) => cache::run(&cache, output).await,
        NodeCommand::Config(config) => config::run(&config, output).await,
        NodeCommand::Diff(diff) => diff::run(&diff, output).await,
        NodeCommand::Why(why) => why::run(&why, output).await,
        NodeCommand::Reload(reload) => reload::run(&reload, output).await,
        NodeCommand::Confirm(confirm) => confirm::run(&confirm, output).await,
        NodeCommand::Rollback(rollback) => rollback::run(&rollback, output).await,
        NodeCommand::Log(log) => log::run(&log, output).await,
    }
}

async fn of_channels(command: ChannelCommand, output: Output) -> Result<(), Failure> {
    match command {
        ChannelCommand::Subscribe(subscribe) => channel::subscribe::run(&subscribe, output).await,
        ChannelCommand::Publish(publish) => channel::publish::run(&publish, output).await,
    }
}

async fn of_overlay(command: OverlayCommand, output: Output) -> Result<(), Failure> {
    match command {
        OverlayCommand::Controller(controller) => {
            overlay::controller::run(controller, output).await
        }
        OverlayCommand::Join(join) => overlay::join::run(join, output).await,
        OverlayCommand::Token(token) => overlay::members::token(&token, output).await,
        OverlayCommand::Peering(peering) => overlay::peering::run(&peering, output).await,
        OverlayCommand::Expose(expose) => overlay::apply::expose(&expose, output).await,
        OverlayCommand::Get(get) => overlay::look::get(&get, output).await,
        OverlayCommand::Apply(apply) => overlay::apply::run(&apply, output).await,
        OverlayCommand::Delete(delete) => overlay::apply::delete(&delete, output).await,
        OverlayCommand::History(history) => overlay::look::history(&history, output).await,
        OverlayCommand::Nodes(nodes) => overlay::look::nodes(&nodes, output).await,
        OverlayCommand::Certs(certs) => overlay::overview::certs(&certs, output).await,
        OverlayCommand::Ping(ping) => overlay::way::ping::run(&ping, output).await,
        OverlayCommand::Trace(trace) => overlay::way::trace::run(&trace, output).await,
        OverlayCommand::Revoke(revoke) => overlay::members::revoke(&revoke, output).await,
        OverlayCommand::Backup(backup) => overlay::look::backup(&backup, output).await,
        OverlayCommand::OperatorKey(command) => overlay::operator::key(&command, output),
        OverlayCommand::Forget(forget) => overlay::members::forget(&forget, output).await,
    }
}

fn make_files(command: FileCommand, output: Output) -> Result<(), Failure> {
    match command {
        FileCommand::Cert(cert) => cert::run(&cert, output),
        FileCommand::Passwd(passwd) => passwd::run(&passwd, output),
        FileCommand::Sign(sign) => sign::run(&sign, output),
        FileCommand::Convert(convert) => convert::run(&convert, output),
        FileCommand::Plan(plan) => plan::run(&plan, output),
        FileCommand::Translate(translate) => translate::run(&translate, output),
        FileCommand::CustodyKey(key) => custody_key::run(&key, output),
        FileCommand::WireguardKey(key) => wireguard_key::run(&key, output),
    }
}
