//! Rates between two samples, for the screen and for `--json`.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::caches::CacheRate;
use super::sample::Sample;

/// Tunnels and requests that are shown at most, those that last longest.
const LONGEST: usize = 50;

/// Rates between two samples.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Rates {
    /// Every node.
    pub nodes: Vec<NodeRate>,
    /// Users, by node.
    pub users: Vec<Rate>,
    /// Routes, by node.
    pub routes: Vec<Rate>,
    /// Upstreams, by node.
    pub upstreams: Vec<Rate>,
    /// Caches of nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub caches: Vec<CacheRate>,
    /// Exchanges that are open longest.
    pub longest: Vec<Open>,
}

/// A node.
#[derive(Debug, Clone, Serialize)]
pub struct NodeRate {
    /// Its name.
    pub node: String,
    /// Why it does not answer.
    pub error: Option<String>,
    /// Open exchanges.
    pub live: u64,
    /// What happened.
    #[serde(flatten)]
    pub flow: Flow,
}

/// A user, route or upstream of a node.
#[derive(Debug, Clone, Serialize)]
pub struct Rate {
    /// The node.
    pub node: String,
    /// The name.
    pub name: String,
    /// Upstreams: endpoints that work, and all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<(usize, usize)>,
    /// What happened.
    #[serde(flatten)]
    pub flow: Flow,
}

/// A rate a second, and the total since the node's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Flow {
    /// Exchanges that ended, a second.
    pub exchanges_per_second: f64,
    /// Those of them that failed, a second.
    pub failures_per_second: f64,
    /// Bytes from clients, a second.
    pub client_to_target_per_second: f64,
    /// Bytes to clients, a second.
    pub target_to_client_per_second: f64,
    /// Exchanges that ended since the start.
    pub exchanges: u64,
    /// Bytes of both directions since the start.
    pub bytes: u64,
}

/// An open exchange; one that goes through several of the nodes is one, known by its trace.
#[derive(Debug, Clone, Serialize)]
pub struct Open {
    /// The nodes that carry it.
    pub nodes: Vec<String>,
    /// Its trace.
    pub trace: Option<String>,
    /// `http`, `connect`, `connect-tcp`, `connect-udp` or `upgrade`.
    pub kind: String,
    /// Its target.
    pub target: String,
    /// Its user.
    pub user: Option<String>,
    /// Milliseconds since its beginning.
    pub age_ms: u64,
    /// Bytes from the client.
    pub client_to_target: u64,
    /// Bytes to the client.
    pub target_to_client: u64,
}

impl Rates {
    /// The rates from `before` to `now`, which are samples of the same nodes.
    pub fn between(before: &[Sample], now: &[Sample]) -> Self {
        let mut rates = Self::default();
        for (before, now) in before.iter().zip(now) {
            rates.node(before, now);
        }

        rates.longest = joined(rates.longest);
        rates
            .longest
            .sort_by_key(|open| std::cmp::Reverse(open.age_ms));
        rates.longest.truncate(LONGEST);

        rates
    }

    fn node(&mut self, before: &Sample, now: &Sample) {
        let node = now.node.clone();
        let said = match &now.said {
            Ok(said) => said,
            Err(failure) => {
                let error = Some(failure.reason.clone());
                let flow = Flow::default();
                return self.nodes.push(NodeRate {
                    node,
                    error,
                    live: 0,
                    flow,
                });
            }
        };

        let seconds = now.at.saturating_duration_since(before.at).as_secs_f64();
        let then = before
            .said
            .as_ref()
            .map_or(&Value::Null, |said| &said["usage"]);
        let usage = &said["usage"];
        let live = said["status"]["exchanges"]["live"].as_u64().unwrap_or(0);
        let flow = Flow::between(&then["total"], &usage["total"], seconds);
        self.nodes.push(NodeRate {
            node: node.clone(),
            error: None,
            live,
            flow,
        });

        for (key, into) in [
            ("users", &mut self.users),
            ("routes", &mut self.routes),
            ("upstreams", &mut self.upstreams),
        ] {
            for (name, counts) in pairs(&usage[key]) {
                let earlier = pairs(&then[key]).find(|(known, _)| *known == name);
                let earlier = earlier.map_or(&Value::Null, |(_, counts)| counts);
                let endpoints = (key == "upstreams")
                    .then(|| endpoints(&said["status"], name))
                    .flatten();
                let flow = Flow::between(earlier, counts, seconds);
                into.push(Rate {
                    node: node.clone(),
                    name: name.to_owned(),
                    endpoints,
                    flow,
                });
            }
        }

        let list = said["exchanges"].as_array().into_iter().flatten();
        let then = before.said.as_ref().unwrap_or(&Value::Null);
        let rate = CacheRate::between(&node, then, said, seconds);
        self.caches.extend(rate);
        self.longest
            .extend(list.map(|exchange| Open::of(&node, exchange)));
    }
}

/// One of each trace and target, with the nodes of all.
fn joined(open: Vec<Open>) -> Vec<Open> {
    let mut joined: Vec<Open> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for next in open {
        let key = next.trace.clone().map(|trace| (trace, next.target.clone()));
        match key.as_ref().and_then(|key| places.get(key)) {
            Some(place) => joined[*place].nodes.extend(next.nodes),
            None => {
                places.extend(key.map(|key| (key, joined.len())));
                joined.push(next);
            }
        }
    }

    joined
}

/// `[[name, counts], ...]`.
fn pairs(list: &Value) -> impl Iterator<Item = (&str, &Value)> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|pair| Some((pair[0].as_str()?, &pair[1])))
}

/// How many endpoints of an upstream work, and how many there are.
fn endpoints(status: &Value, upstream: &str) -> Option<(usize, usize)> {
    let found = status["upstreams"]
        .as_array()?
        .iter()
        .find(|view| view["name"] == upstream)?;
    let all = found["endpoints"].as_array()?;
    let works = |endpoint: &&Value| {
        endpoint["health"]
            .as_str()
            .is_none_or(|health| health == "healthy")
            && endpoint["last_error"].is_null()
    };

    Some((all.iter().filter(works).count(), all.len()))
}

impl Flow {
    fn between(before: &Value, now: &Value, seconds: f64) -> Self {
        let count = |counts: &Value, name: &str| counts[name].as_u64().unwrap_or(0);
        let rate = |name: &str| {
            // A node that was started anew begins at zero.
            let grown = count(now, name).saturating_sub(count(before, name));
            if seconds > 0.0 {
                (grown as f64 / seconds * 10.0).round() / 10.0
            } else {
                0.0
            }
        };

        Self {
            exchanges_per_second: rate("exchanges"),
            failures_per_second: rate("failures"),
            client_to_target_per_second: rate("client_to_target"),
            target_to_client_per_second: rate("target_to_client"),
            exchanges: count(now, "exchanges"),
            bytes: count(now, "client_to_target") + count(now, "target_to_client"),
        }
    }

    /// Bytes of both directions, a second.
    pub fn bytes_per_second(&self) -> f64 {
        self.client_to_target_per_second + self.target_to_client_per_second
    }
}

impl Open {
    fn of(node: &str, exchange: &Value) -> Self {
        let text = |name: &str| exchange[name].as_str().unwrap_or_default().to_owned();
        let count = |name: &str| exchange[name].as_u64().unwrap_or(0);
        Self {
            nodes: vec![node.to_owned()],
            trace: exchange["trace"].as_str().map(str::to_owned),
            kind: text("kind"),
            target: text("target"),
            user: exchange["user"].as_str().map(str::to_owned),
            age_ms: count("age_ms"),
            client_to_target: count("client_to_target"),
            target_to_client: count("target_to_client"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;
    use crate::failure::Failure;

    fn sample(at: Instant, exchanges: u64, bytes: u64) -> Sample {
        let counts = json!({ "exchanges": exchanges, "failures": 0, "client_to_target": 0, "target_to_client": bytes });
        let endpoint = |error: Option<&str>| json!({ "address": "a:1", "last_error": error });
        let said = json!({
            "status": {
                "exchanges": { "live": 3 },
                "upstreams": [{ "name": "next", "endpoints": [endpoint(None), endpoint(Some("refused"))] }],
            },
            "usage": { "total": counts, "users": [["alice", counts]], "routes": [], "upstreams": [["next", counts]] },
            "exchanges": [{ "kind": "connect", "target": "DB:5432", "user": null, "age_ms": 5, "trace": "4b" }],
        });
        Sample {
            node: "core".into(),
            at,
            said: Ok(said),
        }
    }

    #[test]
    fn rates_are_differences_a_second() {
        let start = Instant::now();
        let now = sample(start + Duration::from_secs(2), 20, 3000);
        let rates = Rates::between(&[sample(start, 10, 1000)], std::slice::from_ref(&now));
        let flow = rates.nodes[0].flow;
        assert_eq!(
            (
                flow.exchanges_per_second,
                flow.target_to_client_per_second,
                flow.bytes
            ),
            (5.0, 1000.0, 3000)
        );
        assert_eq!(
            (
                rates.nodes[0].live,
                rates.users[0].flow,
                rates.upstreams[0].endpoints
            ),
            (3, flow, Some((1, 2)))
        );
        assert_eq!(
            (rates.longest[0].target.as_str(), rates.longest[0].age_ms),
            ("DB:5432", 5)
        );
        let again = Rates::between(
            std::slice::from_ref(&now),
            &[sample(now.at + Duration::from_secs(1), 1, 1)],
        );
        assert_eq!(again.nodes[0].flow.exchanges_per_second, 0.0);
    }

    #[test]
    fn a_tunnel_through_several_nodes_is_one() {
        let (start, mut edge) = (Instant::now(), sample(Instant::now(), 1, 1));
        edge.node = "edge".into();
        let samples = [sample(start, 1, 1), edge];
        let rates = Rates::between(&samples, &samples);
        assert_eq!(rates.longest.len(), 1);
        assert_eq!(rates.longest[0].nodes, ["core", "edge"]);
    }

    #[test]
    fn a_node_that_does_not_answer_says_why() {
        let gone = Sample {
            node: "edge".into(),
            at: Instant::now(),
            said: Err(Failure::unreachable("gone")),
        };
        let rates = Rates::between(std::slice::from_ref(&gone), std::slice::from_ref(&gone));
        assert_eq!(rates.nodes[0].error.as_deref(), Some("gone"));
    }
}
