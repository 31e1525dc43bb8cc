//! Which way an exchange really took, as the nodes tell.

use hermes_config::model::{FieldMatch, TextMatch};
use http::Method;
use serde_json::Value;

use crate::admin;
use crate::commands::exchanges::list;

use super::evidence::Journey;
use super::files;
use super::place::{NODES, Place};
use super::says::expect;

/// Names in a `Via` field, in its order (RFC 9110, 7.6.3: version, name, perhaps a comment).
pub fn via(field: &str) -> Vec<String> {
    field
        .split(',')
        .filter_map(|hop| hop.split_whitespace().nth(1))
        .map(str::to_owned)
        .collect()
}

/// Follows the live exchange for `target` from node to node: each says which endpoint it took, and an endpoint is
/// where the next node listens.
pub async fn follow(place: &Place, target: &str) -> Result<Journey, String> {
    let mut hops = Vec::new();
    let mut node = NODES[0];
    while hops.len() < NODES.len() {
        let exchange = live(place, node, target).await?;
        hops.push(node.to_owned());
        let endpoint = exchange["endpoint"].as_str().unwrap_or_default();

        match owner(place, endpoint) {
            Some(name) if NODES.contains(&name) => node = name,
            Some(origin) => {
                hops.push(origin.to_owned());
                return Ok(Journey {
                    hops,
                    fields: seen_by_route(place, node, &exchange)?,
                });
            }
            None => {
                return Err(format!(
                    "{node} sent {target} to `{endpoint}`, where no one of the demo is"
                ));
            }
        }
    }

    Err(format!(
        "{target} goes round in circles: {}",
        hops.join(" -> ")
    ))
}

/// The latest live exchange for `target` at a node.
async fn live(place: &Place, node: &str, target: &str) -> Result<Value, String> {
    let asked = admin::call(&place.admin(node), Method::GET, "/exchanges", "").await;
    let (_, answer) = asked.map_err(|failure| failure.reason)?;
    let is_it = |exchange: &&Value| {
        exchange["target"]
            .as_str()
            .is_some_and(|found| found.eq_ignore_ascii_case(target))
    };

    let found = list(&answer).iter().rfind(is_it);
    found
        .cloned()
        .ok_or_else(|| format!("{node} has no live exchange for {target}"))
}

/// Who of the demo listens at `endpoint`: a node, or an origin.
fn owner(place: &Place, endpoint: &str) -> Option<&'static str> {
    let (name, _) = place
        .addresses()
        .iter()
        .find(|(_, address)| address.to_string() == endpoint)?;
    Some(
        NODES
            .into_iter()
            .find(|node| node.eq_ignore_ascii_case(name))
            .unwrap_or(name),
    )
}

/// Fields of the exchange at `node`: its user, and those that its route matches.
fn seen_by_route(place: &Place, node: &str, exchange: &Value) -> Result<Vec<String>, String> {
    let document = files::configuration(place, node)?.document;
    let name = exchange["route"].as_str();
    let route = document
        .routes
        .iter()
        .find(|route| route.name.as_deref() == name);
    let route = route
        .ok_or_else(|| format!("{node} took a route that its file does not have: {name:?}"))?;
    let user = exchange["user"]
        .as_str()
        .map(|user| format!("user: {user}"));

    let asked = route
        .matches
        .fields
        .iter()
        .filter_map(|(name, value)| match value {
            FieldMatch::Value(TextMatch::Exact(text)) => Some(format!("{name}: {text}")),
            _ => None,
        });

    Ok(user.into_iter().chain(asked).collect())
}

/// Fails unless traffic went through every node, in order.
pub fn expect_all_nodes(hops: &[String]) -> Result<(), String> {
    let passed =
        hops.len() == NODES.len() + 1 && hops.iter().zip(NODES).all(|(hop, node)| hop == node);
    expect(passed, || {
        format!("it went another way: {}", hops.join(" -> "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn via_names_the_hops() {
        assert_eq!(
            via("1.1 alice, 2 ingress (Hermes),2.0 core"),
            ["alice", "ingress", "core"]
        );
        assert!(via("").is_empty());
    }

    #[test]
    fn a_short_cut_is_noticed() {
        let hops = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert!(expect_all_nodes(&hops(&["alice", "ingress", "core", "edge", "DB"])).is_ok());
        let error = expect_all_nodes(&hops(&["alice", "ingress", "edge", "DB"])).unwrap_err();
        assert_eq!(error, "it went another way: alice -> ingress -> edge -> DB");
    }
}
