//! A scanner, as transactions know it.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::EndpointAddress;
use hermes_plug::Opener;
use hermes_plug::refusal::Refusal;
use hermes_proto::proxy_status::ProxyError;

use super::options::KnownOptions;
use crate::need::Need;
use crate::room::Place;

/// A scanner.
pub(super) struct Scanner {
    pub(super) to: EndpointAddress,
    pub(super) service: String,
    pub(super) need: Need,
    pub(super) silence: Duration,
    pub(super) options: KnownOptions,
}

/// The means of one exchange: where its tasks run, and its room at the scanner.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) opener: Opener,
    pub(super) _room: Arc<Place>,
}

/// The refusal of a message about which a scanner says nothing that ICAP knows.
pub(super) fn misspoken(reason: &str) -> Refusal {
    Refusal::new(
        ProxyError::HttpProtocolError,
        format!("the scanner {reason}"),
    )
}
