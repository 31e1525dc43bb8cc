//! `hermes join URL --token TOKEN`: become a node of an overlay, and run as it.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use hermes_agent::enrol::{self, JoinOptions, NotJoined};
use hermes_agent::{ControllerUrl, Membership, State};
use hermes_api::{Name, Token, VerifyingKey};

use super::member;
use crate::commands::run::Signals;
use crate::failure::Failure;
use crate::logging::{self, Logging};
use crate::output::Output;

/// Arguments of `hermes join`.
#[derive(Debug, Args)]
pub struct Join {
    /// The controller, such as https://hub:7443. Not needed again once the node has joined.
    #[arg(requires = "token")]
    controller: Option<ControllerUrl>,
    /// The token that `hermes token create` printed; `-` reads it from standard input, where other users of the machine do not see it.
    #[arg(long, value_name = "TOKEN", requires = "controller")]
    token: Option<String>,
    /// The node's name. Default: this machine's, or one like it that is free.
    #[arg(long)]
    name: Option<Name>,
    /// Where programs on this machine speak to a device. Default: where all devices of the overlay listen, 127.0.0.1:8080.
    #[arg(long, value_name = "ADDRESS", requires = "token")]
    web: Option<SocketAddr>,
    /// The operator's public key, as `hermes operator-key` prints it: the node follows no document that this operator has not signed.
    #[arg(long, value_name = "KEY", requires = "token", value_parser = operator_key)]
    operator_key: Option<VerifyingKey>,
    /// Where the node keeps its key and documents. Default: `node` in the folder for state.
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    #[command(flatten)]
    files: member::AllowedFiles,
    /// Only join; `hermes join` without a token runs the node later.
    #[arg(long)]
    only: bool,
    /// Stop at once when standard input ends.
    #[arg(long, hide = true)]
    until_eof: bool,
    /// What is logged, such as info or hermes_agent=debug.
    #[arg(long, default_value = logging::DEFAULT)]
    log: String,
}

/// Joins unless this folder has joined already, and runs the node until it is told to stop.
///
/// # Errors
/// The token is none, the controller refuses or cannot be reached, or the folder cannot be written.
pub async fn run(join: Join, output: Output) -> Result<(), Failure> {
    let signals = Signals::new(join.until_eof)
        .map_err(|error| Failure::failed(format!("signals: {error}")))?;
    let state = join
        .files
        .state(super::folder(join.state.as_deref(), "node")?)?;
    let membership = membership(&join, &state, output).await?;
    if join.only {
        return Ok(());
    }

    // From here on the node's secrets are in memory.
    let _ = hermes_net::os::allow_dumps(false);
    let _ = hermes_net::os::raise_open_files();
    let logging = Logging::start(&join.log, None).map_err(Failure::failed)?;
    member::run(state, membership, logging, signals).await
}

async fn membership(join: &Join, state: &State, output: Output) -> Result<Membership, Failure> {
    let unread = |error: std::io::Error| Failure::failed(error.to_string());
    let known = state.membership().map_err(unread)?;
    let (Some(url), Some(token)) = (&join.controller, &join.token) else {
        return known.ok_or_else(|| {
            Failure::invalid(format!(
                "{} has joined no overlay",
                state.folder().display()
            ))
            .remedy("write `hermes join https://HUB:7443 --token TOKEN`")
        });
    };

    let token: Token = written(token)?
        .parse()
        .map_err(|error: hermes_api::BadToken| Failure::invalid(error.to_string()))?;
    if let Some(known) = known.filter(|known| known.overlay != token.overlay) {
        return Err(Failure::invalid(format!(
            "{} belongs to overlay {}, the token to {}",
            state.folder().display(),
            known.overlay,
            token.overlay
        ))
        .remedy("name another --state"));
    }
    // People look for a node by the name of its machine.
    let name = join.name.clone().or_else(super::machine_name);
    let joined = enrol::join(
        state,
        url,
        &token,
        JoinOptions {
            name: name.as_ref(),
            binary: member::binary()?,
            web: join.web,
            operator_key: join.operator_key.as_ref(),
        },
    )
    .await;
    let membership = joined.map_err(not_joined)?;
    tell(&membership, state, output);
    Ok(membership)
}

fn operator_key(text: &str) -> Result<VerifyingKey, String> {
    VerifyingKey::from_text(text).map_err(|error| error.to_string())
}

fn tell(membership: &Membership, state: &State, output: Output) {
    if output.json {
        return output.value(membership);
    }
    let of = match &membership.user {
        Some(user) => format!(" of {user}"),
        None => String::new(),
    };
    output.line(format_args!(
        "joined overlay {} as {}{of}; key and documents are in {}",
        membership.overlay,
        membership.node,
        state.folder().display()
    ));
}

/// The token, or the first line of standard input.
fn written(token: &str) -> Result<String, Failure> {
    if token != "-" {
        return Ok(token.to_owned());
    }
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|error| Failure::failed(format!("standard input: {error}")))?;
    Ok(line)
}

fn not_joined(error: NotJoined) -> Failure {
    match error {
        NotJoined::Unreachable(ref reason) if reason.is_of_time() => {
            Failure::unreachable(error.to_string()).remedy(format!(
                "set the clocks of this machine and the controller's: this one's says {}",
                now()
            ))
        }
        NotJoined::Unreachable(_) => Failure::unreachable(error.to_string()),
        NotJoined::Lost(_) => Failure::unreachable(error.to_string())
            .remedy("the same command may be repeated: the token belongs to this node's key"),
        _ => Failure::failed(error.to_string()),
    }
}

/// The time of this machine's clock, in UTC.
fn now() -> String {
    super::look::time(hermes_net::clock::unix_seconds())
}
