//! The settings of a rendezvous: `handle: { rendezvous: {..} }`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::Problem;
use hermes_config::model::Duration as Time;
use hermes_proto::ip::IpPrefix;
use schemars::JsonSchema;
use serde::Deserialize;

/// Networks of all relays together.
#[doc(alias = "bound")]
const NETWORKS: usize = 1000;

/// Where clients are sent. Relays tell by themselves that they are there, with the `key_file` of `plugs: { relay: {..} }`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RendezvousSettings {
    /// For a relay, as `HOST:PORT`, the networks whose clients are near to it. Default: no relay is nearer than others.
    near: BTreeMap<String, Vec<String>>,
    /// The choice of a relay: `table` (the default) remembers it, `hash` takes that of the channel's hash, the same at each rendezvous.
    mapping: Mapping,
    /// Silence after which a relay is gone; 12s.
    lost_after: Option<Time>,
}

/// The choice of a relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Mapping {
    /// The relay of a channel is remembered.
    #[default]
    Table,
    /// It follows from the channel's name and the relays that are there.
    Hash,
}

/// The rules of a rendezvous.
#[derive(Debug, Clone)]
pub(super) struct RendezvousRules {
    near: Vec<NearRelay>,
    pub(super) is_stateless: bool,
    pub(super) lost_after: Duration,
}

#[derive(Debug, Clone)]
struct NearRelay {
    relay: Arc<str>,
    networks: Vec<IpPrefix>,
}

impl RendezvousSettings {
    /// The rules.
    ///
    /// # Errors
    /// Networks that are none, or too many.
    pub(super) fn rules(&self) -> Result<RendezvousRules, Vec<Problem>> {
        let mut wrong = Vec::new();
        let mut near = Vec::new();
        for (relay, texts) in &self.near {
            let mut networks = Vec::new();
            for text in texts {
                match text.parse() {
                    Ok(network) => networks.push(network),
                    Err(error) => {
                        let problem = Problem::new("near", format!("{text}: {error}"));
                        wrong.push(problem.remedy("write a network such as 10.0.0.0/8"));
                    }
                }
            }
            near.push(NearRelay {
                relay: relay.as_str().into(),
                networks,
            });
        }
        if near.iter().map(|near| near.networks.len()).sum::<usize>() > NETWORKS {
            let problem = Problem::new("near", format!("it has more than {NETWORKS} networks"));
            wrong.push(problem.remedy("write larger ones"));
        }
        match wrong.is_empty() {
            true => Ok(RendezvousRules {
                near,
                is_stateless: self.mapping == Mapping::Hash,
                lost_after: self
                    .lost_after
                    .map_or(Duration::from_secs(12), |time| time.0),
            }),
            false => Err(wrong),
        }
    }
}

impl RendezvousRules {
    /// The relays that are nearest to a client: those with the longest prefix of its address.
    pub(super) fn near(&self, client: Option<IpAddr>) -> Vec<Arc<str>> {
        let Some(client) = client else {
            return Vec::new();
        };
        let mut longest = 0;
        let mut nearest = Vec::new();
        for near in &self.near {
            let around = near
                .networks
                .iter()
                .filter(|network| network.contains(client));
            // One bit more, so that 0.0.0.0/0 is nearer than nothing.
            let length = around
                .map(|network| network.length() + 1)
                .max()
                .unwrap_or(0);
            if length > longest {
                longest = length;
                nearest.clear();
            }
            if length > 0 && length == longest {
                nearest.push(near.relay.clone());
            }
        }
        nearest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_network_is_the_nearest() {
        let settings: RendezvousSettings = serde_json::from_value(serde_json::json!({
            "near": { "a:80": ["10.0.0.0/8"], "b:80": ["10.1.0.0/16", "0.0.0.0/0"] }
        }))
        .unwrap();
        let rules = settings.rules().unwrap();
        let near = |client: &str| rules.near(Some(client.parse().unwrap()));
        assert_eq!(near("10.2.0.1"), ["a:80".into()]);
        assert_eq!(near("10.1.0.1"), ["b:80".into()]);
        assert_eq!(near("192.0.2.1"), ["b:80".into()]);
        assert!(near("2001:db8::1").is_empty());
        let settings: RendezvousSettings =
            serde_json::from_value(serde_json::json!({ "near": { "a:80": ["10/8", "x"] } }))
                .unwrap();
        assert_eq!(settings.rules().unwrap_err().len(), 2);
    }
}
