//! What can be plugged into a node: the traits that other crates implement, and the [`Plugs`] that a node is started with.
//!
//! | trait | what it does | chosen by |
//! |---|---|---|
//! | [`Ingress`] | makes exchanges of connections that speak no HTTP | `ingress: NAME` of a `tcp` listener |
//! | [`Filter`] | sees heads, and says which exchanges may go on | `authorize: [{ filter: NAME }]` |
//! | [`Handler`] | answers here, and may open exchanges of its own | `handle: NAME` of a route |
//! | [`Transform`] | changes the bytes of tunnels | `through: [NAME]` of a route |
//! | [`Mover`] | lets tunnels of bytes go on by another way | the answer of the proxy at their other end |
//!
//! Each trait says what it gets, what it must do and in what time, who is charged, and on which thread it runs. All are asked once
//! for an exchange, never for a packet: what then moves bytes are the node's own loops, and enums; only a tunnel that goes through a
//! transform, or that a mover can move, has that in its way. A plug is registered under a name when the node starts; without an
//! entry of the configuration that names it, it costs nothing.
//!
//! Crates that implement these traits depend on this one, never the other way round. `examples/plugs` has small ones of each kind.

mod filter;
mod handler;
mod ingress;
mod mover;
mod names;
mod transform;

use std::sync::Arc;

pub use filter::{Changes, Deciding, Decision, Denial, Filter, Outcome, Subject, Verdict};
pub(crate) use handler::Opens;
pub use handler::{
    Handler, HandlerRequest, Handling, Opener, OpeningAnswer, RequestContent, Response,
};
pub(crate) use ingress::Takes;
pub use ingress::{Gate, Ingress, Serving};
pub(crate) use names::Names;

pub use mover::{Movable, Mover, NewWay, Position, Resuming};
pub use transform::{Alter, Altering, Malformed, PIECE, Transform};

use crate::compress::Compress;

/// What a node can be told to use, by name. Names are unique for each kind; the later of two is taken.
#[derive(Clone)]
pub struct Plugs {
    pub(crate) ingresses: Names<dyn Ingress>,
    pub(crate) filters: Names<dyn Filter>,
    pub(crate) handlers: Names<dyn Handler>,
    pub(crate) transforms: Names<dyn Transform>,
    pub(crate) mover: Option<Arc<dyn Mover>>,
}

impl Plugs {
    /// Those that are part of every node: the transform `compress`.
    pub fn new() -> Self {
        let plugs = Self {
            ingresses: Names::new("ingress"),
            filters: Names::new("filter"),
            handlers: Names::new("handler"),
            transforms: Names::new("transform"),
            mover: None,
        };
        plugs.transform("compress", Compress::new())
    }

    /// With an ingress.
    #[must_use]
    pub fn ingress(mut self, name: &str, ingress: impl Ingress + 'static) -> Self {
        self.ingresses.add(name, Arc::new(ingress));
        self
    }

    /// With a filter.
    #[must_use]
    pub fn filter(mut self, name: &str, filter: impl Filter + 'static) -> Self {
        self.filters.add(name, Arc::new(filter));
        self
    }

    /// With a handler.
    #[must_use]
    pub fn handler(mut self, name: &str, handler: impl Handler + 'static) -> Self {
        self.handlers.add(name, Arc::new(handler));
        self
    }

    /// With a transform.
    #[must_use]
    pub fn transform(mut self, name: &str, transform: impl Transform + 'static) -> Self {
        self.transforms.add(name, Arc::new(transform));
        self
    }

    /// With a mover, for the tunnels of all routes: the far end of each says whether it knows how.
    #[must_use]
    pub fn mover(mut self, mover: impl Mover + 'static) -> Self {
        self.mover = Some(Arc::new(mover));
        self
    }
}

impl Default for Plugs {
    fn default() -> Self {
        Self::new()
    }
}
