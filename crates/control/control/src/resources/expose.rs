//! The resources that make a server known by a name.

use hermes_api::Name;
use hermes_config::model::{EndpointAddress, TargetMatch, UserMatch};
use serde_json::{Value as Json, json};

use super::{API_VERSION, Finding, Resource};

/// In place of an address, the relay of the node itself.
const RELAY: &str = "relay";

/// A server that becomes known.
#[derive(Debug, Clone, Copy)]
pub struct Exposure<'a> {
    /// The name that users ask for, such as `VIDEO`.
    pub name: &'a str,
    /// The node that connects to the server.
    pub node: &'a Name,
    /// The server's address, as this node reaches it; or `relay`, the one of the node itself.
    pub address: &'a str,
    /// The users that may ask for it: names, `group:ops`, or `*` for all.
    pub to: &'a [String],
}

/// A server that cannot become known like this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadExposure {
    /// The name is none.
    #[error("`{0}` cannot be a name here: write one such as VIDEO or DB:5432")]
    Name(String),
    /// The address is none.
    #[error("`{0}` is no address: write one such as 127.0.0.1:8000, or relay for the node's own")]
    Address(String),
    /// A user is none.
    #[error("`{0}` names no user: write a name, group:NAME or * for all")]
    User(String),
    /// No user would be allowed.
    #[error("no user may ask for it: name some, or * for all")]
    NoUser,
    /// A resource has a wrong form.
    #[error("{0}")]
    Resource(Box<Finding>),
}

/// The resources that make a server known: Service, Name and Policy.
///
/// # Errors
/// Name, address or a user is none.
pub fn expose(exposure: &Exposure<'_>) -> Result<Vec<Resource>, BadExposure> {
    let Exposure {
        name,
        node,
        address,
        to,
    } = exposure;
    let _: TargetMatch = name
        .parse()
        .map_err(|_| BadExposure::Name((*name).to_owned()))?;
    let resource_name = resource_name(name).ok_or_else(|| BadExposure::Name((*name).to_owned()))?;
    let service = match *address {
        RELAY => json!({ "handle": RELAY, "at": [{ "node": node }] }),
        _ => {
            let _: EndpointAddress = address
                .parse()
                .map_err(|_| BadExposure::Address((*address).to_owned()))?;
            json!({ "at": [{ "node": node, "address": address }] })
        }
    };
    if to.is_empty() {
        return Err(BadExposure::NoUser);
    }
    for user in *to {
        let parsed: Result<UserMatch, _> = user.parse();
        parsed.map_err(|_| BadExposure::User(user.clone()))?;
    }

    let users: Json = match to {
        [only] => only.as_str().into(),
        several => several.to_vec().into(),
    };
    let known = json!({ "name": name, "service": resource_name });
    let rule = json!({ "match": { "target": name, "user": users }, "allow": true });
    let policy = json!({ "rules": [rule] });
    [("Service", service), ("Name", known), ("Policy", policy)]
        .into_iter()
        .map(|(kind, spec)| {
            let metadata = json!({ "name": resource_name });
            let json = json!({ "apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec });
            Resource::from_json(&json).map_err(|found| BadExposure::Resource(Box::new(found)))
        })
        .collect()
}

/// The name of the resources: that of the target, with hyphens for all that cannot stand in one.
fn resource_name(target: &str) -> Option<Name> {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    };
    let name: String = target.chars().map(letter).collect();
    name.trim_matches('-').parse().ok()
}
