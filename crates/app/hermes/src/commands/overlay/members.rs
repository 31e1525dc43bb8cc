//! Who belongs to an overlay: tokens, revocations.

use std::time::Duration;

use clap::{Args, Subcommand};
use hermes_api::Name;
use hermes_control::authority::{Revoked, TokenRequest};
use serde_json::Value;

use super::ask::ControllerSocket;
use crate::failure::Failure;
use crate::output::Output;

/// Arguments of `hermes token`.
#[derive(Debug, Args)]
pub struct TokenArguments {
    #[command(subcommand)]
    command: TokenCommand,
}

/// Subcommands of `hermes token`.
#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token, and print the command that joins with it.
    Create(Create),
}

/// Arguments of `hermes token create`.
#[derive(Debug, Args)]
struct Create {
    /// For a device of this user. Without it, the token is for a node of the overlay's own.
    #[arg(long)]
    user: Option<Name>,
    /// The name that the node will have. Default: its machine's.
    #[arg(long)]
    name: Option<Name>,
    /// How long it counts.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = lifetime)]
    lifetime: Duration,
    #[command(flatten)]
    controller: ControllerSocket,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    crate::commands::reload::confirmed_within(text)
}

/// Makes a token.
///
/// # Errors
/// The controller cannot be reached, or there are too many tokens.
pub async fn token(token: &TokenArguments, output: Output) -> Result<(), Failure> {
    let TokenCommand::Create(create) = &token.command;
    let request = TokenRequest {
        user: create.user.clone(),
        name: create.name.clone(),
        lifetime_seconds: create.lifetime.as_secs(),
    };
    let answer = create.controller.post("/tokens", &request).await?;
    let about = super::about(&create.controller).await?;
    let token = answer["token"].as_str().unwrap_or_default();
    let command = format!("hermes join {} --token {token}", about.url);
    if output.json {
        output.value(&serde_json::json!({ "token": token, "url": about.url, "command": command }));
    } else {
        output.line(command);
    }
    Ok(())
}

/// Arguments of `hermes revoke`.
#[derive(Debug, Args)]
pub struct Revoke {
    /// The node.
    #[arg(required_unless_present = "user", conflicts_with = "user")]
    node: Option<Name>,
    /// All nodes of this user.
    #[arg(long)]
    user: Option<Name>,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Ends memberships: every node learns it at once, and open tunnels end.
///
/// # Errors
/// There is no such member, or the controller cannot be reached.
pub async fn revoke(revoke: &Revoke, output: Output) -> Result<(), Failure> {
    let whom = match (&revoke.node, &revoke.user) {
        (Some(node), _) => Revoked::Node(node.clone()),
        (None, Some(user)) => Revoked::User(user.clone()),
        (None, None) => return Err(Failure::invalid("say which node, or --user NAME")),
    };
    let answer = revoke.controller.post("/revoke", &whom).await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let nodes = answer["nodes"].as_array().cloned().unwrap_or_default();
    for node in nodes.iter().filter_map(Value::as_str) {
        output.line(format_args!("revoked {node}"));
    }
    Ok(())
}

/// Arguments of `hermes forget`.
#[derive(Debug, Args)]
pub struct Forget {
    /// The node.
    node: Name,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Frees the name of a node that is gone.
///
/// # Errors
/// There is no such member, or the controller cannot be reached.
pub async fn forget(forget: &Forget, output: Output) -> Result<(), Failure> {
    let answer = forget.controller.post("/forget", &forget.node).await?;
    if output.json {
        output.value(&answer);
    } else {
        output.line(format_args!("forgot {}", forget.node));
    }
    Ok(())
}
