//! The next hop of a route: where its exchanges are sent, with all that the configuration says of the path there.
//!
//! It is made with the snapshot, so that no exchange looks a name up or puts levels of the configuration over each other.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use hermes_config::model::{Document, Hedge, PlugUse, Retry, Route, Tunnel, TunnelAnswer};
use hermes_http::Kind;
use hermes_http::h1::client::Receiver;
use hermes_plug::{Connector, Handler, Names, Plugs, Store, Transform};
use hermes_proto::functions_field::NodeFunctions;
use hermes_proto::uri_template::UriTemplate;
use hermes_rules::retry::Policy;
use hermes_rules::route::{self, Act, Split};
use hermes_upstream::{Hop, Timeouts, Upstream};

use crate::outliving::ResumePolicy;

/// The transform that asks other nodes for their functions.
pub(crate) const AT: &str = "at";

/// A route, as the data plane meets it.
pub type CompiledRoute = route::Route<Arc<Next>>;

/// The policy of exchanges for which none is configured.
static UNPROCESSED_ONLY: Policy = Policy::unprocessed_only();

/// Where an exchange goes, and how.
pub struct Next {
    /// Where.
    pub to: To,
    /// The time-outs of each attempt: the upstream's, under those of the route.
    pub timeouts: Timeouts,
    /// When a failed attempt is followed by another; `None` where nothing is configured.
    retry: Option<Policy>,
    /// A second attempt beside a slow one.
    pub hedge: Option<Hedge>,
    /// Transforms and handlers on the way.
    pub through: Through,
    /// How its tunnels outlive their path.
    resume: Option<ResumePolicy>,
    /// The same for connections to names of the overlay, which do where nothing says otherwise.
    resume_of_names: Option<ResumePolicy>,
    /// The handler that carries requests there, in place of a connection.
    carrier: Option<Handled>,
    /// Whether their clients are answered before they are open.
    answers_early: bool,
    /// The store of its broadcasts.
    store: Option<Arc<dyn Store>>,
    /// Connections from here, beside it or in its place.
    direct: Option<Box<Direct>>,
}

/// Connections to the target from here, though the route leads to a next proxy.
pub struct Direct {
    /// The head start of the proxy; `None` where it has to fail first.
    pub after: Option<Duration>,
    /// Whether requests have it, too, or tunnels alone.
    takes_requests: bool,
    /// The way from here.
    pub next: Next,
}

impl Direct {
    fn compile(document: &Document, plugs: &Plugs, route: &Route) -> Option<Box<Self>> {
        let direct = route.tunnel.as_ref()?.direct()?;
        Some(Box::new(Self {
            after: direct.after(),
            takes_requests: direct.takes_requests(),
            next: Next::end(To::Target, document, plugs, route),
        }))
    }
}

/// Transforms and handlers between the exchanges of a route and its next hop.
pub struct Through {
    /// The handlers that get its requests, in their order.
    pub between: Vec<Handled>,
    /// The transforms that the route asks for, in its order.
    pub own: Vec<(String, Arc<dyn Transform>)>,
    /// The transforms that this node can undo for its peers.
    pub known: Names<dyn Transform>,
    /// The functions that nodes further on are asked for, in the order of the nodes.
    pub elsewhere: Vec<NodeFunctions>,
    /// The functions that the document defines, for which peers may ask.
    pub defined: HashMap<String, Arc<dyn Transform>>,
}

impl Through {
    /// Names that no plug has, and settings that are wrong, were reported.
    fn compile(document: &Document, route: &Route, plugs: &Plugs) -> Self {
        let known = plugs.transforms.clone();
        let mut own: Vec<(String, Arc<dyn Transform>)> = Vec::new();
        let mut between = Vec::new();
        let mut elsewhere: Vec<NodeFunctions> = Vec::new();
        for named in &route.through {
            let is_node = meant(document, named).name == AT;
            // Bytes do not come back: a name behind another node's is one there.
            if let Some(last) = elsewhere.last_mut().filter(|_| !is_node) {
                last.functions.push(named.name.clone());
                continue;
            }
            let name = named.name.clone();
            let means = meant(document, named);
            // Where both have the name, the transform is meant.
            if known.find(&means.name).is_ok() {
                let transform = known.named("through", means).ok();
                let asked = transform
                    .as_ref()
                    .and_then(|transform| transform.elsewhere());
                elsewhere.extend(asked.cloned());
                own.extend(transform.map(|transform| (name, transform)));
            } else if let Ok(handler) = plugs.handlers.named("through", means)
                && handler.stands_between()
            {
                between.push(Handled { name, handler });
            }
        }

        // Records name those of other nodes by these nodes.
        let asking = own
            .iter_mut()
            .filter(|(_, transform)| transform.elsewhere().is_some());
        for ((name, _), asked) in asking.zip(&elsewhere) {
            *name = format!("{}: {}", asked.node, asked.functions.join(", "));
        }

        let defined = document.functions.iter().filter_map(|(name, named)| {
            let transform = known.named("functions", named).ok()?;
            Some((name.clone(), transform))
        });
        Self {
            between,
            own,
            elsewhere,
            defined: defined.collect(),
            known,
        }
    }
}

/// The part of the program that `through` means: that of the function of this name, if there is one.
pub(crate) fn meant<'d>(document: &'d Document, named: &'d PlugUse) -> &'d PlugUse {
    let function = document.functions.get(&named.name);
    function
        .filter(|_| named.settings.is_none())
        .unwrap_or(named)
}

/// Where an exchange goes.
#[derive(Clone)]
pub enum To {
    /// To an upstream's endpoints: next proxies, or origins that the operator named.
    Upstream {
        /// The upstream.
        upstream: Arc<Upstream>,
        /// Whether its endpoints are proxies or origins.
        receiver: Receiver,
    },
    /// To the origin that the request names.
    Target,
    /// To the far end that a connector opens.
    Connector(NamedConnector),
    /// Nowhere: a handler answers here.
    Handler(Handled),
}

/// A connector, as a route names it.
#[derive(Clone)]
pub struct NamedConnector {
    /// Its name.
    pub name: Arc<str>,
    /// The connector.
    pub connector: Arc<dyn Connector>,
}

/// A handler, as a route names it.
#[derive(Clone)]
pub struct Handled {
    /// Its name.
    pub name: String,
    /// The handler.
    pub handler: Arc<dyn Handler>,
}

/// Whether the route says so.
fn answers_early(route: &Route) -> bool {
    let tunnel = route.tunnel.as_ref().and_then(Tunnel::details);
    tunnel.is_some_and(|tunnel| tunnel.answer == Some(TunnelAnswer::Early))
}

/// The store of a route's broadcasts. Names that no store has, and settings that are wrong, were reported.
fn store_of(route: &Route, plugs: &Plugs) -> Option<Arc<dyn Store>> {
    let broadcast = route.broadcast.as_ref()?;
    plugs.store_of("store", broadcast.store.as_ref()).ok()
}

/// The handler that carries requests to a proxy, where the route says so, or else the upstream.
fn carrier_of(
    receiver: Receiver,
    route: Option<&Retry>,
    upstream: Option<&Retry>,
    plugs: &Plugs,
) -> Option<Handled> {
    let name = Retry::carrier(route, upstream).filter(|_| receiver == Receiver::Proxy)?;
    let handler = plugs.handlers.find(name).ok()?.clone();
    let name = name.to_owned();
    Some(Handled { name, handler })
}

impl Next {
    /// The next hop that `route` names so; `None` if there is no such upstream, connector or handler.
    pub fn compile(
        document: &Document,
        plugs: &Plugs,
        upstreams: &HashMap<String, Arc<Upstream>>,
        route: &Route,
        hop: route::Hop<'_>,
    ) -> Option<Self> {
        let (name, receiver) = match hop {
            route::Hop::Proxy(name) => (name, Receiver::Proxy),
            route::Hop::Origin(name) => (name, Receiver::Origin),
            end => return Self::at_end(end, document, plugs, route),
        };

        let upstream = upstreams.get(name)?.clone();
        // Tunnels end there as far as HTTP goes: what a proxy of SOCKS gives is the connection to the target.
        let receiver = match upstream.is_socks() {
            true => Receiver::Origin,
            false => receiver,
        };
        let config = document.upstreams.get(name);
        let retry = config.and_then(|config| config.retry.as_ref());
        let hedge = config.and_then(|config| config.hedge.as_ref());

        let carrier = carrier_of(receiver, route.retry.as_ref(), retry, plugs);
        Some(Self {
            timeouts: upstream.timeouts().overlaid(&route.timeouts),
            retry: Policy::of(retry, route.retry.as_ref()),
            hedge: route.hedge.as_ref().or(hedge).cloned(),
            through: Through::compile(document, route, plugs),
            answers_early: answers_early(route),
            resume: ResumePolicy::of(route).filter(|_| receiver == Receiver::Proxy),
            resume_of_names: ResumePolicy::of_names(route)
                .filter(|_| receiver == Receiver::Proxy && carrier.is_none()),
            store: store_of(route, plugs),
            carrier,
            direct: Direct::compile(document, plugs, route).filter(|_| receiver == Receiver::Proxy),
            to: To::Upstream { upstream, receiver },
        })
    }

    /// An end of the overlay, as `route` names it.
    fn at_end(
        end: route::Hop<'_>,
        document: &Document,
        plugs: &Plugs,
        route: &Route,
    ) -> Option<Self> {
        let to = match end {
            route::Hop::Proxy(_) | route::Hop::Origin(_) => return None,
            route::Hop::Target => To::Target,
            route::Hop::Connector(name) => {
                let named = route.terminate.as_ref()?.connector()?;
                To::Connector(NamedConnector {
                    name: name.into(),
                    connector: plugs.connectors.named("by", named).ok()?,
                })
            }
            route::Hop::Handler(name) => {
                let named = route.handle.as_ref()?;
                To::Handler(Handled {
                    name: name.to_owned(),
                    handler: plugs.handlers.named("handle", named).ok()?,
                })
            }
        };
        Some(Self::end(to, document, plugs, route))
    }

    /// An end of the overlay that is no upstream.
    fn end(to: To, document: &Document, plugs: &Plugs, route: &Route) -> Self {
        let of_node = Timeouts::default().overlaid(&document.defaults.timeouts);
        Self {
            to,
            timeouts: of_node.overlaid(&route.timeouts),
            retry: Policy::of(None, route.retry.as_ref()),
            hedge: route.hedge.clone(),
            through: Through::compile(document, route, plugs),
            resume: None,
            resume_of_names: None,
            carrier: None,
            direct: None,
            answers_early: answers_early(route),
            store: store_of(route, plugs),
        }
    }

    /// The upstream that it is; `None` for the origin that the request names.
    pub fn upstream(&self) -> Option<&Arc<Upstream>> {
        match &self.to {
            To::Upstream { upstream, .. } => Some(upstream),
            To::Target | To::Connector(_) | To::Handler(_) => None,
        }
    }

    /// The handler that it is.
    pub fn handled(&self) -> Option<&Handled> {
        match &self.to {
            To::Handler(handled) => Some(handled),
            To::Upstream { .. } | To::Target | To::Connector(_) => None,
        }
    }

    /// The connector or handler that it is, by its name.
    pub fn plug(&self) -> Option<&str> {
        match &self.to {
            To::Connector(named) => Some(&named.name),
            To::Handler(handled) => Some(&handled.name),
            To::Upstream { .. } | To::Target => None,
        }
    }

    /// The handler that carries requests there, in place of a connection.
    pub fn carrier(&self) -> Option<&Handled> {
        self.carrier.as_ref()
    }

    /// The store of broadcasts along its route.
    pub fn store(&self) -> Option<&Arc<dyn Store>> {
        self.store.as_ref()
    }

    /// Whether clients of tunnels of bytes are answered before these are open.
    pub fn answers_early(&self) -> bool {
        self.answers_early
    }

    /// Connections from here, beside it or in its place.
    pub fn direct(&self) -> Option<&Direct> {
        self.direct.as_deref()
    }

    /// The same for requests.
    pub fn direct_of_requests(&self) -> Option<&Direct> {
        self.direct().filter(|direct| direct.takes_requests)
    }

    /// How tunnels of bytes through it outlive their path.
    pub fn resume(&self) -> Option<ResumePolicy> {
        self.resume
    }

    /// The same for connections to names of the overlay.
    pub fn resume_of_names(&self) -> Option<ResumePolicy> {
        self.resume.or(self.resume_of_names)
    }

    /// Whether it is an upstream that speaks SOCKS, which takes tunnels alone.
    pub fn is_socks(&self) -> bool {
        self.upstream().is_some_and(|upstream| upstream.is_socks())
    }

    /// Whether it is the origin that the request names.
    pub fn is_target(&self) -> bool {
        matches!(self.to, To::Target)
    }

    /// Whether the next hop is a proxy or an origin.
    pub fn receiver(&self) -> Receiver {
        match &self.to {
            To::Upstream { receiver, .. } => *receiver,
            To::Target | To::Connector(_) | To::Handler(_) => Receiver::Origin,
        }
    }

    /// The kind of its end, on a link or on a connection of the exchange's own.
    pub fn hop(&self, is_link: bool) -> Hop {
        match self.receiver() {
            Receiver::Origin => Hop::Origin,
            Receiver::Proxy if is_link => Hop::Link,
            Receiver::Proxy => Hop::Unwatched,
        }
    }

    /// Whether the link to it is under TLS.
    pub fn is_tls(&self) -> bool {
        self.upstream().is_some_and(|upstream| upstream.is_tls())
    }

    /// The template by which it is asked for tunnels of this kind, where it is not the default one.
    pub fn template(&self, kind: Kind) -> Option<&UriTemplate> {
        self.upstream()?.template(kind)
    }

    /// The name of the upstream or of the connector, for records.
    pub fn name(&self) -> &Arc<str> {
        static TARGET: LazyLock<Arc<str>> = LazyLock::new(|| "(target)".into());
        match &self.to {
            To::Upstream { upstream, .. } => upstream.shared_name(),
            To::Connector(named) => &named.name,
            To::Target | To::Handler(_) => &TARGET,
        }
    }

    /// When a failed attempt is followed by another.
    pub fn policy(&self) -> &Policy {
        self.retry.as_ref().unwrap_or(&UNPROCESSED_ONLY)
    }

    /// Whether that is configured. Where it is not, only requests without effect are tried again, at no cost to the budget.
    pub fn has_policy(&self) -> bool {
        self.retry.is_some()
    }
}

/// Where a route sends an exchange; `None` if it answers here.
pub fn next_hop(route: &CompiledRoute) -> Option<&Arc<Next>> {
    match &route.act {
        Act::Proxy(hops) => Some(pick(hops)),
        Act::Origin(next) => Some(next),
        Act::Attach(_) | Act::Respond(_) | Act::Redirect(_) | Act::Handle(_) => None,
    }
}

/// One of several next proxies, by chance.
pub fn pick(hops: &Split<Arc<Next>>) -> &Arc<Next> {
    let random = if hops.is_choice() {
        fastrand::u64(..)
    } else {
        0
    };
    hops.pick(random)
}
