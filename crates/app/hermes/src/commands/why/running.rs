//! The answers of a running node.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use hermes_admit::refusals::account::{Account, Later};
use hermes_node::why::SupposedExchange;
use hermes_proto::refusal_id::RefusalId;
use http::Method;
use serde_json::{Value, json};

use crate::admin::{self, Which};
use crate::failure::Failure;

/// Nodes that one path may have, so that answers in a circle come to an end.
#[doc(alias = "bound")]
const PATH: usize = 32;

/// The decision on a supposed exchange by the node of this socket.
///
/// # Errors
/// The node cannot be reached, or the question makes no sense.
pub async fn suppose(socket: &Path, supposed: &SupposedExchange) -> Result<Account, Failure> {
    let question = json!(supposed).to_string();
    match admin::call(socket, Method::POST, "/why", &question).await? {
        (200, answer) => understood(answer),
        (422, answer) => {
            let reason = answer["error"].as_str().unwrap_or_default();
            Err(Failure::invalid(reason))
        }
        (status, answer) => Err(Failure::failed(admin::refusal("/why", status, &answer))),
    }
}

/// The reason of a refusal, from the named node, or else from any node on this machine that knows it.
///
/// # Errors
/// No node knows the refusal, or no node can be reached.
pub async fn refused(which: &Which, id: &str) -> Result<Account, Failure> {
    for socket in sockets(which)? {
        if let Some(account) = recall(&socket, id).await? {
            return Ok(account);
        }
    }
    Err(unknown(id))
}

/// Why this was refused, by each node that knows, in the order of the path: the node that met it first, and then those that it
/// was handed to. `also` are sockets of nodes that run elsewhere.
///
/// # Errors
/// No node knows, or one cannot be reached.
pub async fn follow(which: &Which, also: &[PathBuf], id: &str) -> Result<Vec<Account>, Failure> {
    let is_named = which.admin.is_some() || which.node.is_some();
    let here = match is_named {
        true => vec![which.socket()?],
        // Fails with a remedy when no node runs and none is named.
        false if also.is_empty() => sockets(which)?,
        false => Vec::new(),
    };

    let mut sockets = here;
    for socket in also.iter().cloned().chain(admin::all()) {
        if !sockets.contains(&socket) {
            sockets.push(socket);
        }
    }

    let mut path = Vec::new();
    let mut wanted = id.to_owned();
    while path.len() < PATH {
        let before = path.len();
        let mut further = None;
        let mut silent = Vec::new();
        for socket in sockets {
            match recall(&socket, &wanted).await? {
                Some(account) => {
                    further = further.or_else(|| next(&account, &wanted));
                    path.push(account);
                }
                None => silent.push(socket),
            }
        }

        sockets = silent;
        match further {
            Some(id) if path.len() > before => wanted = id,
            _ => break,
        }
    }

    if path.is_empty() {
        return Err(unknown(id));
    }
    in_order(&mut path);
    Ok(path)
}

/// The name that a later node gave the refusal, where it is another one.
fn next(account: &Account, asked: &str) -> Option<String> {
    let happened = account.happened.as_ref()?;
    let later = happened.refused_by.as_ref()?;
    let id = later.refusal.clone()?;
    // The name comes from another node: it is looked up only if it is a name and nothing else.
    id.parse::<RefusalId>().ok().filter(|_| id != asked)?;
    Some(id)
}

/// Those that handed it on come first, and the one that says no later node refused it is the last. Each of the others only names that one; an
/// answer passes it before it passes those in front of it, so that the first on the path is the last by time.
fn in_order(path: &mut [Account]) {
    let names: Vec<_> = path.iter().map(|account| account.node.clone()).collect();
    let is_last = |account: &Account| {
        let later = account
            .happened
            .as_ref()
            .and_then(|happened| happened.refused_by.as_ref());
        !later.is_some_and(|Later { node, .. }| names.iter().flatten().any(|name| name == node))
    };
    let time = |account: &Account| {
        account
            .happened
            .as_ref()
            .map(|happened| happened.time.clone())
    };
    path.sort_by_cached_key(|account| (is_last(account), Reverse(time(account))));
}

/// The sockets of the nodes that may know.
fn sockets(which: &Which) -> Result<Vec<PathBuf>, Failure> {
    if which.admin.is_some() || which.node.is_some() {
        return Ok(vec![which.socket()?]);
    }

    match admin::all() {
        // Fails with a remedy.
        none if none.is_empty() => Ok(vec![which.socket()?]),
        all => Ok(all),
    }
}

/// A refusal as the node of this socket remembers it.
async fn recall(socket: &Path, id: &str) -> Result<Option<Account>, Failure> {
    let path = format!("/why/{id}");
    match admin::call(socket, Method::GET, &path, "").await? {
        (200, answer) => understood(answer).map(Some),
        (404, _) => Ok(None),
        (status, answer) => Err(Failure::failed(admin::refusal(&path, status, &answer))),
    }
}

fn understood(answer: Value) -> Result<Account, Failure> {
    serde_json::from_value(answer).map_err(|error| {
        Failure::failed(format!("the node's answer is of another version: {error}"))
    })
}

fn unknown(id: &str) -> Failure {
    Failure::failed(format!("no node here remembers {id}")).remedy(
        "ask the node that Proxy-Status names, on its machine or with its admin socket in --also; it remembers its last 1024 refusals",
    )
}
