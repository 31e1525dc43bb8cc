//! Who belongs to an overlay: tokens, revocations.

use std::time::Duration;

use clap::{Args, Subcommand};
use hermes_api::Name;
use hermes_control::authority::{Revoked, TokenRequest, TokenSummary};
use serde_json::Value;

use super::ask::ControllerSocket;
use crate::admin;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{NOTHING, plain};

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
    /// List the tokens that count, without their secrets.
    List(List),
    /// End a token; the node that joined with it stays a member.
    Delete(DeleteToken),
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
    /// The operator's public key, which the printed command tells the node: it follows no document that this operator has not signed.
    #[arg(long, value_name = "KEY")]
    operator_key: Option<String>,
    /// How long it counts.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = lifetime)]
    lifetime: Duration,
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Arguments of `hermes token list`.
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    controller: ControllerSocket,
}

/// Arguments of `hermes token delete`.
#[derive(Debug, Args)]
struct DeleteToken {
    /// The token, by the ID that `hermes token list` prints.
    id: String,
    #[command(flatten)]
    controller: ControllerSocket,
}

fn lifetime(text: &str) -> Result<Duration, String> {
    crate::commands::reload::confirmed_within(text)
}

/// Makes, lists or ends tokens.
///
/// # Errors
/// The controller cannot be reached, there are too many tokens, or there is none of this ID.
pub async fn token(token: &TokenArguments, output: Output) -> Result<(), Failure> {
    match &token.command {
        TokenCommand::Create(create) => create_token(create, output).await,
        TokenCommand::List(list) => list_tokens(list, output).await,
        TokenCommand::Delete(delete) => delete_token(delete, output).await,
    }
}

async fn list_tokens(list: &List, output: Output) -> Result<(), Failure> {
    let answer = list.controller.get("/tokens").await?;
    if output.json {
        output.value(&answer);
        return Ok(());
    }
    let tokens: Vec<TokenSummary> = admin::typed(answer)?;
    let named = |name: Option<Name>| name.map_or_else(|| NOTHING.to_owned(), |it| it.to_string());
    let mut table = plain(&["ID", "USER", "NAME", "UNTIL", "NODE"]);
    for token in tokens {
        table.add_row([
            token.id,
            named(token.user),
            named(token.name),
            super::look::time(token.until),
            named(token.node),
        ]);
    }
    output.line(table.trim_fmt());
    Ok(())
}

async fn delete_token(delete: &DeleteToken, output: Output) -> Result<(), Failure> {
    let answer = delete.controller.post("/tokens/delete", &delete.id).await?;
    if output.json {
        output.value(&answer);
    } else {
        output.line(format_args!("token {} is no more", delete.id));
    }
    Ok(())
}

async fn create_token(create: &Create, output: Output) -> Result<(), Failure> {
    let request = TokenRequest {
        user: create.user.clone(),
        name: create.name.clone(),
        lifetime_seconds: create.lifetime.as_secs(),
    };
    let answer = create.controller.post("/tokens", &request).await?;
    let about = super::about(&create.controller).await?;
    let token = answer["token"].as_str().unwrap_or_default();
    let key = create.operator_key.as_ref();
    let key = key.map_or_else(String::new, |key| format!(" --operator-key {key}"));
    let command = format!("hermes join {} --token {token}{key}", about.url);
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
