//! Why an exchange of a user reaches a service of the overlay, or where it is refused: node by node, with the resource that decided.

use hermes_api::Name;
use hermes_config::model::ExchangeKind;
use hermes_net::clock::unix_seconds;
use hermes_rules::judge::{Phase, Step};
use http::Method;
use serde::{Deserialize, Serialize};

use super::comparison::shown;
use super::controller::Controller;
use super::outcome::NotChanged;
use super::published::Published;
use crate::compile::{Hop, Onward, Recipient, SupposedExchange};

/// An exchange to be explained.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inquiry {
    /// The user who asks.
    pub user: String,
    /// Host of the target.
    pub host: String,
    /// Port of the target.
    pub port: u16,
    /// Its method; CONNECT asks for bytes.
    pub method: String,
    /// Its path.
    pub path: String,
    /// The node where it enters. Default: each where devices enter.
    #[serde(default)]
    pub from: Option<Name>,
}

/// The way of an exchange from one node where it may enter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayTaken {
    /// The node where it enters.
    pub from: Name,
    /// Upstreams of services that it reaches; none if a node may refuse it.
    pub reaches: Vec<String>,
    /// The nodes that it passes.
    pub hops: Vec<HopTaken>,
}

/// A node on the way of an exchange.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopTaken {
    /// The node.
    pub node: Name,
    /// Nodes before it.
    pub depth: usize,
    /// Whether the exchange ends here without a server.
    pub refused: bool,
    /// Where it goes on, or why not.
    pub said: String,
    /// The comparisons that decided.
    pub steps: Vec<StepTaken>,
}

/// A comparison that decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepTaken {
    /// In words.
    pub said: String,
    /// The path in the document of the node, such as `routes[2]`.
    pub path: String,
    /// The resource that it comes from, as `Kind/tenant/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The field of the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// `FILE:LINE` where it is written, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Controller {
    /// The ways of an exchange through the state in force.
    ///
    /// # Errors
    /// Devices cannot enter at the node, or the method is none.
    pub fn explain(&self, inquiry: &Inquiry) -> Result<Vec<WayTaken>, NotChanged> {
        let state = self.in_force.lock().published.clone();
        let accessible = state.accessible(&self.about.trust_domain);
        let method = Method::from_bytes(inquiry.method.as_bytes())
            .map_err(|error| NotChanged::Conflict(error.to_string()))?;
        let is_connect = method == Method::CONNECT;
        let exchange = SupposedExchange {
            user: &inquiry.user,
            host: &inquiry.host,
            port: inquiry.port,
            kind: match is_connect {
                true => ExchangeKind::Connect,
                false => ExchangeKind::Http,
            },
            method: &method,
            path: if is_connect { "" } else { &inquiry.path },
            now: unix_seconds(),
        };
        let entries = state.entries(&inquiry.user, inquiry.from.as_ref())?;
        let ways = entries.into_iter();
        let ways = ways.map(|from| {
            let walk = accessible.network.explain(from, exchange);
            let reaches = walk.ends().unwrap_or_default().into_keys();
            WayTaken {
                from: from.clone(),
                reaches: reaches.map(str::to_owned).collect(),
                hops: walk.hops.iter().map(|hop| state.hop(hop)).collect(),
            }
        });
        Ok(ways.collect())
    }
}

impl Published {
    /// The nodes where the devices of a user enter, or the one that was named; those at the border for a user of another overlay.
    fn entries(&self, user: &str, named: Option<&Name>) -> Result<Vec<&Name>, NotChanged> {
        let proxies = self.tree.proxies().filter(|(_, node)| node.ingress);
        let entries: Vec<&Name> = match self.tree.peering_of(user) {
            Some(peering) => peering.at.iter().collect(),
            None => proxies.map(|(key, _)| &key.name).collect(),
        };
        let Some(named) = named else {
            return Ok(entries);
        };
        let names: Vec<&str> = entries.iter().map(|entry| entry.as_str()).collect();
        match entries.iter().find(|entry| **entry == named) {
            Some(entry) => Ok(vec![entry]),
            None => Err(NotChanged::Conflict(format!(
                "{user} does not enter at {named}, but at: {}",
                names.join(", ")
            ))),
        }
    }

    fn hop(&self, hop: &Hop) -> HopTaken {
        HopTaken {
            node: hop.node.clone(),
            depth: hop.depth,
            refused: hop.onward == Onward::Refused,
            said: hop.said.clone(),
            steps: decisive(&hop.steps)
                .map(|step| self.step(&hop.node, step))
                .collect(),
        }
    }

    /// A step with the field of the resource that it comes from.
    fn step(&self, node: &Name, step: &Step) -> StepTaken {
        let document = self.document(&Recipient::Node(node.clone()));
        let source = document.and_then(|document| document.compiled.places.locate(&step.path));
        let place = source
            .as_ref()
            .and_then(|source| self.tree.place(&source.key, &source.field));
        StepTaken {
            said: step.said.clone(),
            path: step.path.clone(),
            resource: source.as_ref().map(|source| source.key.to_string()),
            field: source.map(|source| source.field),
            place: place.as_ref().map(shown),
        }
    }
}

/// The last comparison of the policy and that of the routes; the last of all where neither was asked.
fn decisive(steps: &[Step]) -> impl Iterator<Item = &Step> {
    let last = |phase| steps.iter().rfind(|step| step.phase == phase);
    let decided = [last(Phase::Policy), last(Phase::Route)];
    let none = decided.iter().all(Option::is_none);
    let otherwise = steps.last().filter(|_| none);
    decided.into_iter().flatten().chain(otherwise)
}
