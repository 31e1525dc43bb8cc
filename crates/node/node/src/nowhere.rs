//! Upstreams of a configuration that is in force nowhere: none can be reached.

use std::sync::Arc;

use hermes_upstream::{Directory, Upstream};
use http::HeaderValue;

/// Nothing is reached.
pub(crate) struct Nowhere;

impl Directory for Nowhere {
    fn upstream(&self, _: &str) -> Option<Arc<Upstream>> {
        None
    }

    fn token(&self, _: &Upstream) -> Option<HeaderValue> {
        None
    }
}
