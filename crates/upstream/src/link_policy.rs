//! How the links of an upstream are kept: their PINGs, and how many are open before anyone asks.

use std::time::Duration;

use hermes_config::model::{self, CongestionControl};
use hermes_http::h2::client::Keepalive;

/// How the links of an upstream are kept, defaults filled in.
#[derive(Debug)]
pub(crate) struct LinkPolicy {
    /// Links that each worker keeps to each healthy endpoint.
    pub(crate) warm: usize,
    /// PINGs.
    pub(crate) keepalive: Option<Keepalive>,
    /// How they bound what they have on their way, where that is said.
    pub(crate) congestion: Option<CongestionControl>,
}

impl LinkPolicy {
    pub(crate) fn new(config: &model::Upstream) -> Self {
        const EVERY: Duration = Duration::from_secs(15);
        const TIMEOUT: Duration = Duration::from_secs(5);
        let keepalive = config.keepalive.as_ref().map(|keepalive| Keepalive {
            every: keepalive.every.map_or(EVERY, |every| every.0),
            timeout: keepalive.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        });

        Self {
            warm: usize::from(config.warm),
            keepalive,
            congestion: config.congestion,
        }
    }
}
