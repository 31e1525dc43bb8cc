//! The settings of a relay as a whole: `plugs: { relay: {..} }`.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::Problem;
use hermes_config::model::{DataSource, Duration as Time};
use hermes_plug::DocumentSettings;
use http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{GrantKey, Membership, Successor};

/// How often a relay says that it is there, if it does not say how often.
const BEAT: Duration = Duration::from_secs(4);

/// The shortest time between two heartbeats.
#[doc(alias = "bound")]
const SHORTEST_BEAT: Duration = Duration::from_millis(100);

/// The shortest key in bytes.
const KEY: usize = 16;

/// How channels are handed over between relays.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MoveSettings {
    /// A key of 16 bytes or more that relays share which take over channels from each other. Default: none is taken over.
    key_file: Option<DataSource>,
    /// The relay that takes over the channels when this node stops, as `http://HOST:PORT`: requests to it are routed like any other.
    successor: Option<String>,
    /// Whether it takes them over now. Default: false.
    #[serde(rename = "move")]
    is_now: bool,
    /// The nodes that send clients to this relay, as `http://HOST:PORT`: each hears that it is there.
    rendezvous: Vec<String>,
    /// This relay as its clients reach it, `http://HOST:PORT`.
    at: Option<String>,
    /// How often it says so; 4s.
    beat: Option<Time>,
    /// Whether it serves only channels for which a rendezvous sent the client here. Default: false.
    grants: bool,
}

/// The same, read.
#[derive(Default)]
pub(crate) struct MoveRules {
    /// By which others prove that this relay is to take over.
    pub(crate) key: Option<GrantKey>,
    pub(crate) successor: Option<Arc<Successor>>,
    /// Its part among the relays of a rendezvous.
    pub(crate) membership: Option<Arc<Membership>>,
}

impl MoveSettings {
    /// The rules.
    ///
    /// # Errors
    /// Settings that contradict each other, or a key that cannot be read.
    pub(crate) fn rules(&self, settings: &DocumentSettings<'_>) -> Result<MoveRules, Vec<Problem>> {
        let key = self.key_file.as_ref().map(read_key).transpose();
        let key = key.map_err(|reason| {
            vec![settings.problem(
                "key_file",
                reason,
                "write 16 random bytes or more into it, such as `openssl rand -hex 32`",
            )]
        })?;
        let membership = self.membership(key.as_ref(), settings)?;
        let Some(successor) = &self.successor else {
            if self.is_now {
                let reason = "no one is named who takes the channels over";
                return Err(vec![settings.problem(
                    "move",
                    reason,
                    "add `successor: http://HOST:PORT`",
                )]);
            }
            return Ok(MoveRules {
                key,
                successor: None,
                membership,
            });
        };
        let Some(authority) = authority(successor) else {
            let remedy = "write http://HOST:PORT; over TLS it goes by a route of this node";
            return Err(vec![settings.problem(
                "successor",
                "it is no origin of http://",
                remedy,
            )]);
        };
        let Some(own) = key.clone() else {
            let reason = "it takes channels over only from those who have its key";
            return Err(vec![settings.problem(
                "successor",
                reason,
                "add the `key_file` that it has",
            )]);
        };
        let successor = Successor {
            authority,
            key: own,
            is_now: self.is_now,
        };
        Ok(MoveRules {
            key,
            successor: Some(Arc::new(successor)),
            membership,
        })
    }

    /// Its part among the relays of a rendezvous; `None` where it has none.
    fn membership(
        &self,
        key: Option<&GrantKey>,
        settings: &DocumentSettings<'_>,
    ) -> Result<Option<Arc<Membership>>, Vec<Problem>> {
        if self.rendezvous.is_empty() {
            let reason = "no rendezvous is named that could send clients here";
            let remedy = "add `rendezvous: [\"http://HOST:PORT\"]`";
            return match self.grants {
                true => Err(vec![settings.problem("grants", reason, remedy)]),
                false => Ok(None),
            };
        }
        let wrong = |path: &str, reason: &str, remedy: &str| {
            Err(vec![settings.problem(path, reason, remedy)])
        };
        let Some(key) = key else {
            let reason = "it hears only relays that have its key";
            return wrong("rendezvous", reason, "add the `key_file` that it has");
        };
        let Some(at) = self.at.as_deref().and_then(authority) else {
            let reason = "clients are sent here by a name that they can reach";
            return wrong("at", reason, "write http://HOST:PORT");
        };
        let places = self.rendezvous.iter().map(|place| authority(place));
        let places: Option<Vec<_>> = places.collect();
        let Some(places) = places else {
            let remedy = "write http://HOST:PORT; over TLS it goes by a node beside this one";
            return wrong("rendezvous", "it is no origin of http://", remedy);
        };
        Ok(Some(Arc::new(Membership {
            at,
            rendezvous: places,
            key: key.clone(),
            beat: self.beat.map_or(BEAT, |beat| beat.0.max(SHORTEST_BEAT)),
            needs_grants: self.grants,
        })))
    }
}

fn read_key(source: &DataSource) -> Result<GrantKey, String> {
    let secret = source.secret()?;
    if secret.len() < KEY {
        return Err(format!("the key is shorter than {KEY} bytes"));
    }
    Ok(GrantKey::new(&secret))
}

/// The host and port of an origin.
fn authority(origin: &str) -> Option<String> {
    let uri: Uri = origin.parse().ok()?;
    let is_origin =
        uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
    let host = uri.host().filter(|_| is_origin)?.to_ascii_lowercase();
    Some(format!("{host}:{}", uri.port_u16().unwrap_or(80)))
}
