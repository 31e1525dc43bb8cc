//! `hermes-lab`: the commands of the lab.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hermes_lab::{faults, forwarder, hops, origin, overhead};

/// Measures Hermes against other proxies on this machine.
#[derive(Parser)]
#[command(name = "hermes-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What a pair of proxies costs: latency, bursts, saturation, bulk, datagrams, memory, start.
    Overhead(overhead::OverheadArguments),
    /// What each hop of a chain costs: datagrams, latency, new flows and downloads over HTTP/3, in namespaces.
    Hops(hops::HopArguments),
    /// Run a program at one end of a link with faults: delay, jitter, loss, a rate, reordering, times when it is down.
    Link(faults::LinkArguments),
    /// The server at the far end; started by the others.
    #[command(hide = true)]
    Origin(origin::OriginArguments),
    /// One half of the null pair; started by the others.
    #[command(hide = true)]
    Forwarder(forwarder::ForwarderArguments),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Overhead(arguments) => overhead::run(&arguments),
        Command::Hops(arguments) => hops::run(&arguments),
        Command::Link(arguments) => return faults::run(&arguments),
        Command::Origin(arguments) => origin::serve(&arguments),
        Command::Forwarder(arguments) => forwarder::serve(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hermes-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
