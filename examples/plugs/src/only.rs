//! A transform that changes nothing, and lets tunnels begin to some hosts only.

use std::collections::BTreeSet;
use std::sync::Arc;

use hermes_plug::refusal::Refusal;
use hermes_plug::{Beginning, Settings, Transform, TunnelSubject};
use hermes_proto::proxy_status::ProxyError;
use schemars::JsonSchema;
use serde::Deserialize;

/// What stands at `through: [{ only: {..} }]`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OnlySettings {
    /// The hosts that tunnels may go to, in lower case.
    hosts: BTreeSet<String>,
}

/// Refuses tunnels to hosts that its settings do not name; named alone, all.
#[derive(Default)]
pub struct Only(OnlySettings);

impl Transform for Only {
    fn begin<'a>(&'a self, tunnel: &'a TunnelSubject<'a>) -> Beginning<'a> {
        let begun = if self.0.hosts.contains(tunnel.target.host()) {
            Ok(None)
        } else {
            let details = format!("tunnels to {} are not for this route", tunnel.target);
            Err(Refusal::new(ProxyError::HttpRequestDenied, details))
        };
        Box::pin(std::future::ready(begun))
    }

    fn settings(&self) -> Option<Settings<dyn Transform>> {
        let settings =
            Settings::<dyn Transform>::new(|settings: OnlySettings| Ok(Arc::new(Self(settings))));
        Some(settings)
    }
}
