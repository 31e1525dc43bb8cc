//! The configuration as a client's connections need it.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use hermes_net::LocalEnd;
use http::HeaderValue;

use crate::answers::AnswerLimits;
use crate::upstream::Upstream;

/// A client's questions about the current configuration.
pub trait Directory: Send + Sync {
    /// The upstream of this name, for endpoints that are reached `via` it.
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>>;

    /// All upstreams, for connections that are kept open before an exchange needs one. Default:
    /// none.
    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        Vec::new()
    }

    /// Bounds of the answers of origins that requests choose. Default: those of an upstream.
    fn origin_answers(&self) -> AnswerLimits {
        AnswerLimits::default()
    }

    /// The local end of connections and datagrams to targets that requests choose. Default: chosen
    /// by the machine's routes.
    fn target_local_end(&self) -> LocalEnd {
        LocalEnd::ANY
    }

    /// The value of `Proxy-Authorization` for an upstream that tunnels for us; asked only where
    /// [`Upstream::sends_token`] allows it. Default: none.
    fn token(&self, upstream: &Upstream) -> Option<HeaderValue> {
        let _ = upstream;
        None
    }
}

impl Directory for ArcSwap<HashMap<String, Arc<Upstream>>> {
    fn upstream(&self, name: &str) -> Option<Arc<Upstream>> {
        self.load().get(name).cloned()
    }

    fn upstreams(&self) -> Vec<Arc<Upstream>> {
        self.load().values().cloned().collect()
    }
}
