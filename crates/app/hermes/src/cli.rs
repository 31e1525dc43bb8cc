//! What can be written on the command line.

use clap::{Parser, Subcommand};

use crate::commands::{
    cache, cert, channel, check, completions, config, confirm, convert, custody_key, diff, echo,
    env, exchanges, exec, log, netcheck, overlay, passwd, plan, policy, refusals, reload, rollback,
    run, sign, status, top, translate, why, wireguard_key,
};
use crate::demo;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed
  2  wrong usage, or a configuration that is not valid
  3  the running node cannot be reached
  `hermes exec` ends with the code of its command; with 127 if there is no such
  program, with 126 if it cannot be run.";

/// Any traffic, carried as HTTP, end to end, under one control.
#[derive(Debug, Parser)]
#[command(name = "hermes", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// Write JSON, for scripts.
    #[arg(long, global = true)]
    pub json: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Subcommands; each is a file of its own.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node until SIGTERM or Ctrl-C; SIGHUP reloads its file.
    Run(run::Run),
    /// Say everything that is wrong with configuration files, and with --connect try their upstreams.
    Check(check::Check),
    /// Print the JSON Schema of configuration files.
    Schema,
    /// Start a small overlay on this machine and send traffic through it.
    Demo(demo::Demo),
    #[command(flatten)]
    Node(NodeCommand),
    /// Run the tests of policies.
    Policy(policy::Policy),
    /// Say what this machine allows a node, and what would mend what it does not; try the paths to upstreams.
    Netcheck(netcheck::Netcheck),
    /// Run servers that show what they got, to try an overlay with.
    Echo(echo::Echo),
    /// Print shell lines that make programs use a node as their proxy.
    Env(env::Env),
    /// Run a program that uses a node as its proxy.
    Exec(exec::Exec),
    #[command(flatten)]
    Channels(ChannelCommand),
    #[command(flatten)]
    Overlay(OverlayCommand),
    #[command(flatten)]
    Files(FileCommand),
    /// Print completions for a shell.
    Completions(completions::Completions),
}

/// Subcommands that ask a running node, or tell it something.
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Show what a running node is and does.
    Status(status::Status),
    /// Show what one or several nodes are busy with, live.
    Top(top::Top),
    /// List the refusals that a running node remembers: who, when, what for, and why.
    Refusals(refusals::Refusals),
    /// Show the exchanges of a running node, live.
    Exchanges(exchanges::Exchanges),
    /// Show the stored responses of a running node, or remove some.
    Cache(cache::CacheArguments),
    /// Show the configuration that is in force at a running node.
    Config(config::Config),
    /// Compare a file with the configuration in force, before a reload.
    Diff(diff::Diff),
    /// Show why an exchange was refused, or what a file or a running node would decide about one, step by step.
    Why(why::Why),
    /// Make a running node read its file again.
    Reload(reload::Reload),
    /// Keep the configuration that a running node was given with --confirm.
    Confirm(confirm::Confirm),
    /// Make a running node return to the configuration before.
    Rollback(rollback::Rollback),
    /// Show or change what a running node logs.
    Log(log::Log),
}

/// Subcommands of channels of a relay.
#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// Print the messages of a channel of a relay, as they come.
    Subscribe(channel::subscribe::Subscribe),
    /// Send messages to a channel of a relay, and say how many receivers there were.
    Publish(channel::publish::Publish),
}

/// Subcommands of overlays.
#[derive(Debug, Subcommand)]
pub enum OverlayCommand {
    /// Run the controller of an overlay, and with --node also one of its nodes.
    Controller(overlay::controller::ControllerArguments),
    /// Join an overlay, and run as one of its nodes.
    Join(overlay::join::Join),
    /// Make tokens, with which devices and nodes join; list them; end them.
    Token(overlay::members::TokenArguments),
    /// Make the overlay of another operator a peer: each side exports its description, and imports the other's.
    Peering(overlay::peering::PeeringArguments),
    /// Let users of the overlay reach a server by a name.
    Expose(overlay::apply::Expose),
    /// Print the resources of the overlay, as `hermes apply` takes them.
    Get(overlay::look::Get),
    /// Make the overlay as files describe it.
    Apply(overlay::apply::Apply),
    /// Remove resources of the overlay.
    Delete(overlay::apply::Delete),
    /// List the last states of the overlay.
    History(overlay::look::History),
    /// List the nodes of the overlay, and whether they are in step.
    Nodes(overlay::look::Nodes),
    /// Ask each node on the way to a name how far it is, as the user of the node beside you.
    Ping(overlay::way::ping::Ping),
    /// Send one exchange to a name, and tell which rule, route and upstream each node took, and how it ended.
    Trace(overlay::way::trace::Trace),
    /// List the certificates of members: issued, renewed, revoked, and when they end.
    Certs(overlay::overview::Certs),
    /// End the membership of a node, or of all nodes of a user.
    Revoke(overlay::members::Revoke),
    /// Write the state of a running controller to a file.
    Backup(overlay::look::Backup),
    /// Free the name of a node that is gone.
    Forget(overlay::members::Forget),
    /// Print the public key of an operator, without whose signature nodes follow no document; made if there is none
    OperatorKey(overlay::operator::OperatorKey),
}

/// Subcommands that make files, and ask no node.
#[derive(Debug, Subcommand)]
pub enum FileCommand {
    /// Make an authority and the certificates of nodes, and renew them.
    Cert(cert::Cert),
    /// Add a user to a file of passwords, change a password, or remove a user.
    Passwd(passwd::Passwd),
    /// Sign a URL, so that anyone who holds it may fetch it for a while.
    Sign(sign::Sign),
    /// Convert a configuration of Envoy, sing-box, WireGuard or PAC, and list what was left out.
    Convert(convert::Convert),
    /// Plan the functions between areas of organisations.
    Plan(plan::PlanCommand),
    /// Run the tests of mappings, by which an old interface is served by a new one.
    Translate(translate::TranslateCommand),
    /// Print the public key that neighbours in custody are to be told, and make the key if there is none.
    CustodyKey(custody_key::CustodyKey),
    /// Print the public key that a peer of WireGuard is to be told, and make the private one if there is none.
    WireguardKey(wireguard_key::WireguardKey),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn json_may_stand_after_the_subcommand() {
        let cli = Cli::try_parse_from(["hermes", "check", "node.yaml", "--json"]).unwrap();
        assert!(cli.json);
    }

    #[test]
    fn help_documents_the_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        assert!(
            help.contains("3  the running node cannot be reached"),
            "{help}"
        );
    }
}
