//! How the links of an upstream are kept: their PINGs, where they leave from, and how many are open before anyone asks.

use std::time::Duration;

use hermes_config::model::{self, CongestionControl, SocksChoice};
use hermes_http::h2::Keepalive;
use hermes_net::LocalEnd;

/// How the links of an upstream are kept, defaults filled in.
#[derive(Debug)]
pub(crate) struct LinkPolicy {
    /// Links that each worker keeps to each healthy endpoint.
    pub(crate) warm: usize,
    /// PINGs.
    pub(crate) keepalive: Option<Keepalive>,
    /// Where connections leave from.
    pub(crate) from: LocalEnd,
    /// Their congestion control, if it is configured.
    pub(crate) congestion: Option<CongestionControl>,
}

/// The local end of connections. An invalid address is a problem that `lint` reports.
pub fn local_end(addresses: &[String], interface: Option<&str>) -> LocalEnd {
    let addresses = addresses.iter().filter_map(|address| address.parse().ok());
    LocalEnd::new(addresses, interface)
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
            from: local_end(&config.local_address, config.interface.as_deref())
                .opening_fast(config.socks.is_some_and(SocksChoice::opens_fast))
                .over_multipath(config.multipath),
            congestion: config.congestion,
        }
    }
}
