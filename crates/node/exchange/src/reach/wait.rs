//! How long something is waited for, and which key of the configuration says so.

use std::time::Duration;

use hermes_config::model::{self, Chain};
use hermes_config::{child, element};
use hermes_net::clock;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;
use tokio::time::Instant;

use super::retry::Tries;

/// A time that something may take, if there is a bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) time: Option<Duration>,
    pub(crate) key: TimeoutKey,
}

/// The key that sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeoutKey {
    Header,
    Idle,
    PerTry,
}

impl Wait {
    /// When the time is over that begins now.
    pub(crate) fn deadline(self) -> Option<Instant> {
        self.time.map(|time| clock::now() + time)
    }

    /// No response head came meanwhile.
    pub(crate) fn no_head(self, tries: &Tries<'_>) -> Refusal {
        Refusal::new(
            ProxyError::HttpResponseTimeout,
            format!("no response head within {}", self.told(tries)),
        )
    }

    /// The time, the key that sets it, and the node where it is to be set: `60s (upstreams.video.timeouts.header on edge)`.
    pub(crate) fn told(self, tries: &Tries<'_>) -> String {
        let time = self.time.unwrap_or_default();
        let time = if time.subsec_millis() == 0 {
            format!("{}s", time.as_secs())
        } else {
            format!("{time:?}")
        };

        format!(
            "{time} ({} on {})",
            path(tries, self.key),
            tries.routed.snapshot.node.name
        )
    }
}

/// Where the key stands that counts for this exchange; where none is written, the place for one.
fn path(tries: &Tries<'_>, key: TimeoutKey) -> String {
    let document = &tries.routed.snapshot.document;
    let route = &tries.routed.route.config;
    let index = tries.routed.route.index;
    let says = |timeouts: &model::Timeouts| match key {
        TimeoutKey::Header => timeouts.header.is_some(),
        TimeoutKey::Idle => timeouts.idle.is_some(),
        TimeoutKey::PerTry => false,
    };

    let of_route = says(&route.timeouts)
        || key == TimeoutKey::PerTry && route.retry.as_ref().is_some_and(has_per_try);
    let of_node = says(&document.defaults.timeouts);
    let place = match tries.next.upstream() {
        _ if of_route => element("routes", index),
        Some(upstream) => {
            let own = document
                .upstreams
                .get(upstream.name())
                .is_some_and(|config| says(&config.timeouts));
            let name = child("upstreams", Chain::last_of(upstream.name()));
            if own || !of_node {
                name
            } else {
                "defaults".to_owned()
            }
        }
        None if of_node => "defaults".to_owned(),
        None => element("routes", index),
    };

    let key = match key {
        TimeoutKey::Header => "timeouts.header",
        TimeoutKey::Idle => "timeouts.idle",
        TimeoutKey::PerTry => "retry.per_try_timeout",
    };

    format!("{place}.{key}")
}

fn has_per_try(retry: &model::Retry) -> bool {
    retry.per_try_timeout.is_some()
}
