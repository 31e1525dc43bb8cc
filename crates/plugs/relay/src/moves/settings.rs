//! The settings of a relay as a whole: `plugs: { relay: {..} }`.

use std::sync::Arc;

use hermes_config::Problem;
use hermes_config::model::DataSource;
use hermes_plug::DocumentSettings;
use http::Uri;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{GrantKey, Successor};

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
}

/// The same, read.
#[derive(Default)]
pub(crate) struct MoveRules {
    /// By which others prove that this relay is to take over.
    pub(crate) key: Option<GrantKey>,
    pub(crate) successor: Option<Arc<Successor>>,
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
        })
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
