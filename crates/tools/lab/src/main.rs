//! `hermes-lab`: the commands of the lab.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hermes_lab::{
    browse, cache, control, faults, forwarder, functions, hops, hostile, intermittent, ip, origin,
    overhead, papers, plan, policy, push, rate_limit, socks, split, video,
};

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
    /// Downloads over three links of which one is up at a time, in namespaces, beside what the links allow.
    Intermittent(intermittent::IntermittentArguments),
    /// What IP tunnels cost: Hermes, VPNs in user space, and a bare copier of packets as the bound, in namespaces.
    Ip(ip::IpArguments),
    /// The experiments of the papers that Hermes comes from, a page each.
    Papers(papers::PaperArguments),
    /// How long changes of an overlay take, and what a controller costs, with up to 10,000 agents.
    Control(control::ControlArguments),
    /// What a decision costs: rules, Rego, OPA and Envoy's RBAC.
    Policy(policy::PolicyArguments),
    /// SOCKS beside dante, sing-box and microsocks: new connections, a thousand at once, bulk, memory, round trips.
    Socks(socks::SocksArguments),
    /// The relay beside NATS: latency, rates, fan-out, large messages, idle subscribers.
    Push(push::PushArguments),
    /// Connections that are split on their way, beside none and beside forwarders of TCP, in namespaces.
    Split(split::SplitArguments),
    /// Functions on the way: processing rates of chains, and requests at the distances of the paper, in namespaces.
    Functions(functions::FunctionsArguments),
    /// How long plans for all pairs of up to a thousand areas take.
    Plan(plan::PlanArguments),
    /// Clients of an origin that bounds its rate: alone, behind Hermes that paces them, and behind Envoy.
    RateLimit(rate_limit::RateLimitArguments),
    /// RTP from ffmpeg over a link that loses packets: by itself, through tunnels that mend losses, and by SRT, in namespaces.
    Video(video::VideoArguments),
    /// A page in Chromium over a slow link that loses packets, directly and through nodes, in namespaces.
    Browse(browse::BrowseArguments),
    /// Caches beside each other: the rules of RFC 9111, case by case, and the cost of a hit.
    Cache(cache::CacheArguments),
    /// What attacks cost a node with its defaults, and a bystander on it: memory, processor time, latency.
    Hostile(hostile::HostileArguments),
    /// Run a program at one end of a link with faults: delay, jitter, loss, a rate, reordering, times when it is down.
    Link(faults::LinkArguments),
    /// The server at the far end; started by the others.
    #[command(hide = true)]
    Origin(origin::OriginArguments),
    /// Copies packets between two TUN devices; started by the others.
    #[command(hide = true)]
    Copier(ip::copier::CopierArguments),
    /// One half of the null pair; started by the others.
    #[command(hide = true)]
    Forwarder(forwarder::ForwarderArguments),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Overhead(arguments) => overhead::run(&arguments),
        Command::Hops(arguments) => hops::run(&arguments),
        Command::Intermittent(arguments) => intermittent::run(&arguments),
        Command::Ip(arguments) => ip::run(&arguments),
        Command::Copier(arguments) => ip::copier::copy(&arguments),
        Command::Papers(arguments) => papers::run(&arguments),
        Command::Control(arguments) => control::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Socks(arguments) => socks::run(&arguments),
        Command::Push(arguments) => push::run(&arguments),
        Command::Split(arguments) => split::run(&arguments),
        Command::Functions(arguments) => functions::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
        Command::RateLimit(arguments) => rate_limit::run(&arguments),
        Command::Video(arguments) => video::run(&arguments),
        Command::Browse(arguments) => browse::run(&arguments),
        Command::Cache(arguments) => cache::run(&arguments),
        Command::Hostile(arguments) => hostile::run(&arguments),
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
