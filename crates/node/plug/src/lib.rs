//! The plugs of a node: the traits that other crates implement, and the [`Plugs`] that a node is started with.
//!
//! | trait | task | chosen by |
//! |---|---|---|
//! | [`Ingress`] | makes exchanges of connections that speak no HTTP | `ingress: NAME` of a `tcp` listener |
//! | [`Filter`] | sees heads, and says which exchanges may go on | `authorize: [{ filter: NAME }]` |
//! | [`Handler`] | answers here, and may open exchanges of its own; or stands between a request and its next hop | `handle: NAME` of a route; `through: [NAME]` |
//! | [`Connector`] | opens far ends of tunnels | `terminate: { by: NAME }` of a route |
//! | [`Transform`] | changes the bytes of tunnels | `through: [NAME]` of a route |
//! | [`Store`] | keeps contents, also beyond the life of their clients | `broadcast: { store: NAME }` of a route |
//! | [`Plug`] | has settings for the node, work of its own, and something to tell | `plugs: { NAME: {..} }` |
//!
//! Each trait states its input, its duties and their time, the account that is charged, and on which
//! thread it runs. A plug is called once per exchange, never per packet. The node's own loops then
//! move the bytes, through enums; only a tunnel that goes through a transform has a plug on its path.
//! A plug is registered under a name when the node starts, and costs nothing unless the configuration
//! names it. Wherever a key names one, `{ NAME: {..} }` gives it [`Settings`] for that place.
//!
//! Crates that implement these traits depend on this one, never the other way round. `examples/plugs` has small ones of each kind.

mod agreement;
pub mod arrival;
mod connector;
pub mod door;
pub mod feed;
mod filter;
pub mod forwarded;
mod handler;
mod ingress;
mod names;
mod neighbour;
mod node_plugs;
mod onward;
pub mod opening_head;
mod plug;
mod query;
pub mod refusal;
pub mod rest;
mod settings;
mod store;
pub mod target;
pub mod topic;
mod transform;
mod waits;

use std::sync::Arc;

use hermes_config::model::PlugUse;
use hermes_config::{DocumentForm, PlugForm, PlugPlace, Problem};
use hermes_net::Watch;

pub use agreement::{Agreeing, Agreement, Proposal};
pub use connector::{Connecting, Connector, TunnelRequest};
pub use filter::{Changes, Deciding, Decision, Denial, Filter, Outcome, Subject, Verdict};
pub use handler::Opens;
pub use handler::{
    Handler, HandlerRequest, Handling, OpenedTunnel, Opener, OpeningAnswer, OpeningTunnel,
    RequestContent, Response,
};
pub use ingress::{CheckingPassword, Gate, Ingress, Serving, ShownPassword, Takes};
pub use names::Names;
pub use neighbour::{NeighbourState, NeighbourView};
pub use node_plugs::{NodePlugs, PlugChanges};
pub use onward::{Onward, Sends};

pub use plug::{Background, Change, DocumentSettings, Plug};
pub use query::Disobeyed;
pub use query::QueryChanges;
pub use settings::Settings;
pub use store::{NewContent, Store, StoreError, StoreWriter, StoredContent, Storing};
pub use transform::{
    Admitting, Alter, AlterDatagram, Altering, AlteringDatagrams, Beginning, BeginningDatagrams,
    DatagramFate, Detour, Detouring, FunctionSignatures, Malformed, PIECE, Payload, Transform,
    TunnelSubject,
};
pub use waits::Waits;

/// The store of those that name none.
pub const MEMORY: &str = "memory";

/// The plugs that a configuration can name. Names are unique for each kind; the later of two is taken.
#[derive(Clone)]
pub struct Plugs {
    /// Ingresses.
    pub ingresses: Names<dyn Ingress>,
    /// Filters.
    pub filters: Names<dyn Filter>,
    /// Handlers.
    pub handlers: Names<dyn Handler>,
    /// Connectors.
    pub connectors: Names<dyn Connector>,
    /// Transforms.
    pub transforms: Names<dyn Transform>,
    /// Stores.
    pub(crate) stores: Names<dyn Store>,
    /// Plugs as wholes, of whatever kinds.
    pub whole: NodePlugs,
    /// Where they agree with those of other nodes; `None` without a controller.
    pub agreement: Option<Arc<dyn Agreement>>,
}

impl Plugs {
    /// None. A node adds those that are part of it: the transform `compress` and the store `memory`.
    pub fn new() -> Self {
        Self {
            ingresses: Names::new("ingress"),
            filters: Names::new("filter"),
            handlers: Names::new("handler"),
            connectors: Names::new("connector"),
            transforms: Names::new("transform"),
            stores: Names::new("store"),
            whole: NodePlugs::default(),
            agreement: None,
        }
    }

    /// These, and of the others those whose names are not taken.
    #[must_use]
    pub fn over(self, others: Self) -> Self {
        Self {
            ingresses: self.ingresses.over(&others.ingresses),
            filters: self.filters.over(&others.filters),
            handlers: self.handlers.over(&others.handlers),
            connectors: self.connectors.over(&others.connectors),
            transforms: self.transforms.over(&others.transforms),
            stores: self.stores.over(&others.stores),
            whole: self.whole.over(others.whole),
            agreement: self.agreement.or(others.agreement),
        }
    }

    /// With an ingress.
    #[must_use]
    pub fn ingress(mut self, name: &str, ingress: impl Ingress + 'static) -> Self {
        let settings = ingress.settings();
        self.ingresses.add(name, Arc::new(ingress), settings);
        self
    }

    /// With a filter.
    #[must_use]
    pub fn filter(mut self, name: &str, filter: impl Filter + 'static) -> Self {
        let settings = filter.settings();
        self.filters.add(name, Arc::new(filter), settings);
        self
    }

    /// With a handler.
    #[must_use]
    pub fn handler(mut self, name: &str, handler: impl Handler + 'static) -> Self {
        let settings = handler.settings();
        self.handlers.add(name, Arc::new(handler), settings);
        self
    }

    /// With a connector.
    #[must_use]
    pub fn connector(mut self, name: &str, connector: impl Connector + 'static) -> Self {
        let settings = connector.settings();
        self.connectors.add(name, Arc::new(connector), settings);
        self
    }

    /// With a transform.
    #[must_use]
    pub fn transform(mut self, name: &str, transform: impl Transform + 'static) -> Self {
        let settings = transform.settings();
        self.transforms.add(name, Arc::new(transform), settings);
        self
    }

    /// With a store.
    #[must_use]
    pub fn store(mut self, name: &str, store: impl Store + 'static) -> Self {
        let settings = store.settings();
        self.stores.add(name, Arc::new(store), settings);
        self
    }

    /// Agreeing here with the plugs of other nodes.
    #[must_use]
    pub fn agreeing(mut self, agreement: impl Agreement + 'static) -> Self {
        self.agreement = Some(Arc::new(agreement));
        self
    }

    /// With a plug as a whole: under this name stand its settings for the node.
    #[must_use]
    pub fn plug(mut self, name: &str, plug: impl Plug + 'static) -> Self {
        self.whole.add(name, Arc::new(plug));
        self
    }
}

impl Plugs {
    /// The node runs, until `watch` drains: their work beside the exchanges begins, on the runtime of the caller.
    pub fn start(&self, watch: Watch) {
        let background = Background::new(watch, self.agreement.clone());
        self.whole.start(&background);
    }

    /// The store that a document names at this path; without one, that of the node's memory.
    ///
    /// # Errors
    /// There is none, or its settings are wrong.
    pub fn store_of(
        &self,
        path: &str,
        named: Option<&PlugUse>,
    ) -> Result<Arc<dyn Store>, Vec<Problem>> {
        match named {
            Some(named) => self.stores.named(path, named),
            None => {
                let memory = self.stores.find(MEMORY);
                memory.cloned().map_err(|unknown| vec![unknown])
            }
        }
    }

    /// The form of documents that may name these plugs.
    pub fn form(&self) -> DocumentForm {
        DocumentForm::new(&self.forms())
    }

    /// The form of documents that may name these plugs, and others of which nothing is known.
    pub fn open_form(&self) -> DocumentForm {
        DocumentForm::open(&self.forms())
    }

    fn forms(&self) -> Vec<PlugForm> {
        let forms = self
            .whole
            .forms()
            .chain(self.ingresses.forms(PlugPlace::Ingress))
            .chain(self.filters.forms(PlugPlace::Filter))
            .chain(self.handlers.forms(PlugPlace::Handler))
            .chain(self.transforms.forms(PlugPlace::Transform))
            .chain(self.connectors.forms(PlugPlace::Connector))
            .chain(self.stores.forms(PlugPlace::Store));
        forms.collect()
    }
}

impl Default for Plugs {
    fn default() -> Self {
        Self::new()
    }
}
