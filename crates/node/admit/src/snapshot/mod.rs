//! A snapshot: one valid configuration, ready to decide with.
//!
//! It is immutable. An exchange keeps the one that it began with; knowledge from run time lives elsewhere.

mod address_rules;
pub(crate) mod hidden_paths;
mod known_user;
mod limit_log;
mod listener;
mod own_credentials;
mod report_sinks;
pub mod split_tunnels;
mod this_node;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::{
    self, Action, Attach, Chain, Document, Duration as Interval, FilePath, Keepalive, PlugUse,
    PolicyDefault,
};
use hermes_config::{Loaded, Places, Problem, Problems, child, element};
use hermes_identity::is_sent;
use hermes_net::quic::Record;
use hermes_net::{LocalAddresses, StreamInfo};
use hermes_observe::{PolicyTally, Telemetry};
use hermes_packet::Side;
use hermes_plug::door::DoorId;
use hermes_plug::{Handler, Plugs, Transform};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{AUTHORIZATION, PROXY_AUTHORIZATION};
use hermes_proto::functions_field::{FUNCTIONS, NODES, NodeFunctions};
use hermes_rules::policy::{Effect, Rule};
use hermes_rules::route::{Unfit, hops_of};
use hermes_rules::{Denied, Rules, Source, TrailerRules, chains, ends, is_in_custody, lint};
use hermes_upstream::Upstream;
use http::{HeaderName, HeaderValue};

use crate::filter;
use crate::filter::{Checkpoint, FlowRego};
use crate::next::{self, Next};
use crate::node_name::node_name;
use crate::remote_device;
use crate::signed_routes::SignedRoutes;
use address_rules::AddressRules;
pub use limit_log::SessionBound;
pub use listener::is_challenge;
pub use listener::{Counted, ListenerHttp, ListenerRules, ListenerTls, UserBounds};
pub use own_credentials::OwnCredentials;
pub use report_sinks::ReportSinks;
pub use this_node::ThisNode;

/// One valid configuration.
pub struct Snapshot {
    /// Counts the snapshots of this process, from 1.
    pub revision: u64,
    /// The document that it was compiled from.
    pub document: Document,
    /// The files that the document stands in.
    pub files: Vec<PathBuf>,
    /// This node, as others see it.
    pub node: ThisNode,
    /// The compiled rules.
    pub rules: Rules<Arc<Next>>,
    /// The deciders beside the rules.
    pub policing: Policing,
    /// Whether a route has tunnels that come or leave as POST.
    pub(crate) tunnels_by_post: bool,
    /// The upstreams, by name.
    pub upstreams: HashMap<String, Arc<Upstream>>,
    /// The listeners' rules, by name.
    pub listeners: HashMap<Arc<str>, Arc<ListenerRules>>,
    /// Which listener is behind which door.
    pub doors: HashMap<DoorId, Arc<str>>,
    /// The addresses that a request may choose.
    addresses: AddressRules,
    /// Where reports of exchanges, decisions and connections go.
    pub reports: ReportSinks,
}

/// The deciders beside the rules.
pub struct Policing {
    /// Counts the decisions of the policy, if there is one.
    pub tally: Option<PolicyTally>,
    /// The policy on flows of tunnels of IP packets.
    pub flows: Option<Arc<FlowRego>>,
    /// The filters that are asked before a route is chosen, in their order.
    pub filters: Vec<Checkpoint>,
    /// The fields with credentials that a filter is to see.
    pub(crate) filtered_credentials: Vec<HeaderName>,
    /// The routes whose requests need a signed URL.
    pub(crate) signed: SignedRoutes,
}

impl Snapshot {
    /// Makes a snapshot of a document. Upstreams that did not change keep the knowledge of `previous` about them. It is a
    /// draft until it is known on which sockets the process listens. `plugs` are those that the document may name.
    ///
    /// # Errors
    /// Everything that is wrong with the document or with the files it names, each with its place.
    pub fn build(
        mut loaded: Loaded,
        previous: Option<&Self>,
        telemetry: &Arc<Telemetry>,
        plugs: &Plugs,
    ) -> Result<Draft, Problems> {
        ends::expand(&mut loaded.document);
        let of_rules = lint(&loaded.document);
        chains::expand(&mut loaded.document);
        let Loaded {
            document, places, ..
        } = &loaded;
        let mut problems = Vec::new();

        let record = record(document, previous);
        let upstreams = upstreams(document, previous, &record, &mut problems);

        let before = previous.map(|previous| &previous.node.credentials);
        let credentials = OwnCredentials::read(document, before, &mut problems);
        let building = listener::Building {
            document,
            certificates: &credentials.certificates,
            previous: previous.map(|previous| &previous.listeners),
            telemetry,
            record: &record,
            plugs,
        };

        let listeners = building.all(&mut problems);
        let mut reports = ReportSinks::read(document, record.clone(), &mut problems);
        remote_device::check(document, &mut problems);
        let policies = plugged(document, plugs, &mut problems);
        let signed = SignedRoutes::read(document, &mut problems);
        let node = node_of(&loaded, previous, &mut problems);
        // Routes name upstreams: without this, a broken upstream would be reported a second time
        // below.
        sound(places, of_rules, problems)?;

        let rules = compile(document, plugs, &node, &upstreams)
            .map_err(|unfit| Problems(vec![places.placed(unfit_route(unfit))]))?;
        reports.hidden_paths = hidden_paths::of(document, plugs, &rules.names);
        Ok(Draft(Self {
            revision: previous.map_or(1, |previous| previous.revision + 1),
            node: ThisNode::new(node, credentials),
            policing: Policing {
                tally: tally(&rules, telemetry),
                flows: policies.flows,
                filters: filter::assemble(document, &rules, policies.filters, &upstreams, plugs),
                filtered_credentials: filtered_credentials(document),
                signed,
            },
            rules,
            tunnels_by_post: tunnels_by_post(document),
            upstreams,
            listeners,
            doors: HashMap::new(),
            addresses: AddressRules::new(&document.egress, &[], LocalAddresses::default()),
            reports,
            files: loaded.files,
            document: loaded.document,
        }))
    }

    /// Removes trailers that may not pass: they come when everything was decided.
    pub fn strip_trailers(&self, trailers: &mut Fields, from: Side) {
        let rules = &self.rules;
        let of = |controlled| TrailerRules {
            overlay: &rules.overlay,
            provenance: &rules.provenance,
            controlled,
        };
        match from {
            Side::Client => of(&rules.controlled).strip_request(trailers),
            Side::Target => of(&rules.controlled_answers).strip_response(trailers),
        }
    }

    /// Whether a request may choose this address.
    ///
    /// # Errors
    /// With the rule that denies it.
    pub fn may_choose(&self, address: SocketAddr) -> Result<(), Denied> {
        self.addresses.check(address)
    }

    /// The rules of the listener behind a door; `None` once no one wants it any more.
    pub fn behind(&self, door: DoorId) -> Option<&Arc<ListenerRules>> {
        self.listeners.get(self.doors.get(&door)?)
    }

    /// The same for one of several tunnels of a device.
    pub(crate) fn behind_tunnel(&self, door: DoorId, tunnel: &str) -> Option<&Arc<ListenerRules>> {
        let key = split_tunnels::key(self.doors.get(&door)?, tunnel);
        self.listeners.get(key.as_str())
    }

    /// The peer that hands an exchange over, with the extent of its trust.
    pub fn source_of<'a>(&'a self, listener: &ListenerRules, source: &'a StreamInfo) -> Source<'a> {
        let certificate = source.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
        let peer = certificate
            .and_then(|names| self.rules.peers.certified(names.all(), names.spiffe_id()));
        let peer = peer.or_else(|| self.rules.peers.neighbour(source.neighbour()?));
        if let Some(peer) = peer {
            return peer;
        }

        if listener.is_trusted(&source.peer) {
            Source::InsecurePeer
        } else {
            Source::Client
        }
    }
}

/// The counters for decisions of the policy, if there is one.
fn tally(rules: &Rules<Arc<Next>>, telemetry: &Telemetry) -> Option<PolicyTally> {
    let policy = rules.policy.as_ref()?;
    let decides = |rule: &Rule| match rule.effect {
        Effect::Allow => Some(true),
        Effect::Deny(_) => Some(false),
        Effect::Set => None,
    };
    let rules = policy.rules().iter();
    let rules = rules.map(|rule| decides(rule).map(|allows| (&rule.name, allows)));
    Some(telemetry.policy(rules, policy.default() == PolicyDefault::Allow))
}

/// A snapshot that does not know yet on which sockets the process listens. Nothing decides by it.
pub struct Draft(Snapshot);

impl Draft {
    /// The document that it was compiled from.
    pub fn document(&self) -> &Document {
        &self.0.document
    }

    /// Name of this node.
    pub fn node(&self) -> &str {
        &self.0.node.name
    }

    /// An upstream, by its name.
    pub fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.0.upstreams.get(name)
    }

    /// `Proxy-Authorization` for the next proxy.
    pub fn token(&self) -> Option<&HeaderValue> {
        self.0.node.credentials.token.as_ref()
    }

    /// The snapshot, with the sockets that this process listens on: which listener each belongs to, and the addresses, which no
    /// request may choose; and with the source of this machine's addresses.
    #[must_use]
    pub fn with_sockets(
        self,
        doors: HashMap<DoorId, Arc<str>>,
        own: &[SocketAddr],
        local: &LocalAddresses,
    ) -> Snapshot {
        Snapshot {
            doors,
            addresses: AddressRules::new(&self.0.document.egress, own, local.clone()),
            ..self.0
        }
    }
}

/// Whether nothing is wrong with a document: all problems are placed, those of the rules first. A problem at a path of which something is
/// known is left out, and so is one of `defaults` that many entries take over.
fn sound(places: &Places, of_rules: Vec<Problem>, others: Vec<Problem>) -> Result<(), Problems> {
    let of_rules = of_rules.into_iter();
    let mut problems: Vec<_> = of_rules.map(|problem| places.placed(problem)).collect();
    problems.dedup();

    for problem in others {
        let problem = places.placed(problem);
        if !problems.iter().any(|known| known.path == problem.path) {
            problems.push(problem);
        }
    }

    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems))
    }
}

/// Whether a route has tunnels that come or leave as POST.
fn tunnels_by_post(document: &Document) -> bool {
    document.routes.iter().any(|route| route.tunnel.is_some())
}

/// Names of plugs that the program does not have, and settings that these do not take. Returns the policies in Rego.
fn plugged(document: &Document, plugs: &Plugs, problems: &mut Vec<Problem>) -> filter::Policies {
    let mut missing = |found: Result<(), Vec<Problem>>| {
        problems.extend(found.err().into_iter().flatten());
    };

    for (name, config) in &document.listeners {
        if let Some(named) = config.ingress() {
            let path = child(&child("listeners", name), "ingress");
            missing(ingress(&path, named, config.udp().is_some(), plugs));
        }
    }

    for (index, config) in document.authorize.iter().enumerate() {
        if let Some(named) = &config.filter {
            let path = child(&element("authorize", index), "filter");
            missing(plugs.filters.named(&path, named).map(drop));
        }
    }

    for (name, named) in &document.functions {
        missing(function(&child("functions", name), named, plugs).map(|_| ()));
    }
    for (index, route) in document.routes.iter().enumerate() {
        missing(through(&element("routes", index), document, route, plugs));
        missing(plugs_of_route(&element("routes", index), route, plugs));
    }
    filter::read_policies(document, problems)
}

/// An ingress that the program does not have, or that takes no datagrams.
fn ingress(path: &str, named: &PlugUse, is_udp: bool, plugs: &Plugs) -> Result<(), Vec<Problem>> {
    let ingress = plugs.ingresses.named(path, named)?;
    if !is_udp || ingress.takes_datagrams() {
        return Ok(());
    }
    let problem = Problem::new(path, "it is for `tcp` listeners");
    Err(vec![problem.remedy("make it a `tcp` listener")])
}

/// Plugs of a route that the program does not have, or whose settings are wrong.
fn plugs_of_route(path: &str, route: &model::Route, plugs: &Plugs) -> Result<(), Vec<Problem>> {
    if let Some(named) = &route.handle {
        plugs.handlers.named(&child(path, "handle"), named)?;
    }
    let end = route.terminate.as_ref();
    if let Some(named) = end.and_then(model::Terminate::connector) {
        let path = child(&child(path, "terminate"), "by");
        plugs.connectors.named(&path, named)?;
    }
    if let Some(broadcast) = &route.broadcast {
        let path = child(&child(path, "broadcast"), "store");
        plugs.store_of(&path, broadcast.store.as_ref())?;
    }
    Ok(())
}

/// Functions that the program does not have, or that nothing undoes where the overlay ends.
fn through(
    path: &str,
    document: &Document,
    route: &model::Route,
    plugs: &Plugs,
) -> Result<(), Vec<Problem>> {
    let mut problems = Vec::new();
    let path = child(path, "through");
    let is_node = |named: &PlugUse| next::meant(document, named).name == next::AT;
    let first_node = route.through.iter().position(is_node);
    let here = first_node.unwrap_or(route.through.len());
    for (at, named) in route.through[..here].iter().enumerate() {
        let path = element(&path, at);
        let means = next::meant(document, named);
        let is_defined = !std::ptr::eq(means, named);
        match function(&path, means, plugs) {
            // Said once, where it is defined.
            Err(_) if is_defined => {}
            Err(missing) => problems.extend(missing),
            Ok(Some(transform)) if transform.needs_peer() && route.terminate.is_some() => {
                let remedy = "remove it here: transforms of the previous node are undone anyway";
                let reason = format!("nothing undoes `{}` where the overlay ends", named.name);
                problems.push(Problem::new(path, reason).remedy(remedy));
            }
            Ok(_) => {}
        }
    }
    problems.extend(elsewhere(&path, here, document, route, plugs));
    problems.extend(in_custody(&path, document, route, plugs));

    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Tunnels in custody pass as they are: a transform would be left out without a word.
fn in_custody(
    path: &str,
    document: &Document,
    route: &model::Route,
    plugs: &Plugs,
) -> Option<Problem> {
    let is_transform = |named: &PlugUse| {
        let means = next::meant(document, named);
        plugs.transforms.find(&means.name).is_ok()
    };
    let has_transform = route.through.iter().any(is_transform);
    (has_transform && is_in_custody(document, route)).then(|| {
        let reason = "tunnels in custody are not changed on their way";
        Problem::new(path, reason).remedy("remove it, or `custody`")
    })
}

/// Functions of nodes further on, from the first that is named on: this node does not know those there, but how they are asked for.
fn elsewhere(
    path: &str,
    first: usize,
    document: &Document,
    route: &model::Route,
    plugs: &Plugs,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut asked = Vec::<NodeFunctions>::new();
    for (at, named) in route.through.iter().enumerate().skip(first) {
        let path = element(path, at);
        let mut wrong = |reason: String, remedy: &str| {
            problems.push(Problem::new(path.clone(), reason).remedy(remedy));
        };
        let means = next::meant(document, named);
        if means.name != next::AT {
            let last = asked.last_mut();
            last.into_iter()
                .for_each(|last| last.functions.push(named.name.clone()));
            if named.settings.is_some() {
                let reason = format!(
                    "`{}` is done by the node before it, and has its settings there",
                    named.name
                );
                wrong(reason, "write its name alone, or write it before that node");
            }
            continue;
        }
        if route.to.is_none() {
            wrong(
                "no other node follows here".to_owned(),
                "use `to`, or remove it",
            );
        }
        match plugs.transforms.named(&path, means) {
            Err(missing) => problems.extend(missing),
            Ok(transform) => asked.extend(transform.elsewhere().cloned()),
        }
    }

    let mut names = HashSet::new();
    let is_twice = !asked.iter().all(|one| names.insert(&one.node));
    let is_long = asked.iter().any(|one| one.functions.len() > FUNCTIONS) || asked.len() > NODES;
    if is_twice || is_long {
        let reason = "a node is asked twice, or for too much";
        let remedy = "name each node once: up to 8 nodes, and 8 functions for each";
        problems.push(Problem::new(path, reason).remedy(remedy));
    }
    problems
}

/// The transform that a function is; `None` for a handler.
fn function(
    path: &str,
    named: &PlugUse,
    plugs: &Plugs,
) -> Result<Option<Arc<dyn Transform>>, Vec<Problem>> {
    // A handler has a name of its own: transforms come first.
    if plugs.transforms.find(&named.name).is_err() && plugs.handlers.find(&named.name).is_ok() {
        let handler = plugs.handlers.named(path, named)?;
        return match not_between(path, &named.name, &*handler) {
            Some(problem) => Err(vec![problem]),
            None => Ok(None),
        };
    }
    plugs.transforms.named(path, named).map(Some)
}

/// A handler that answers by itself where one that stands between is wanted.
fn not_between(path: &str, name: &str, handler: &dyn Handler) -> Option<Problem> {
    (!handler.stands_between()).then(|| {
        let reason = format!("the handler `{name}` answers by itself, and sends nothing on");
        let remedy = format!("write `handle: {name}`, without `to` and `terminate`");
        Problem::new(path, reason).remedy(remedy)
    })
}

/// Which fields with credentials the filters of a document are to see.
fn filtered_credentials(document: &Document) -> Vec<HeaderName> {
    [PROXY_AUTHORIZATION, AUTHORIZATION]
        .into_iter()
        .filter(|name| {
            let mut filters = document.authorize.iter();
            filters.any(|filter| is_sent(&filter.send, name.as_str()))
        })
        .map(HeaderName::from)
        .collect()
}

/// How links to other proxies are watched where the configuration says nothing: a peer that is gone without a word is noticed
/// within 9 s, so that exchanges that wait for it can go elsewhere. Nothing else bounds how long a response head is waited for there.
const LINK_KEEPALIVE: Keepalive = Keepalive {
    every: Some(Interval(Duration::from_secs(4))),
    timeout: Some(Interval(Duration::from_secs(5))),
};

/// The upstreams that are other proxies: routes go on to them, others are reached through them, or listeners attach to them.
fn proxies(document: &Document) -> HashSet<&str> {
    let hops = document
        .routes
        .iter()
        .filter_map(|route| match route.action() {
            Some(Action::To(hops)) => Some(hops_of(hops)),
            _ => None,
        });

    let via = document
        .upstreams
        .values()
        .filter_map(|upstream| upstream.via.as_deref());
    let attach = document
        .listeners
        .values()
        .filter_map(|listener| listener.attach());

    hops.flatten()
        .chain(via)
        .chain(attach.map(Attach::upstream))
        .collect()
}

/// The node's name; a machine that is called otherwise now runs the node that it did.
fn node_of(loaded: &Loaded, previous: Option<&Snapshot>, problems: &mut Vec<Problem>) -> Arc<str> {
    let same = previous.filter(|previous| previous.document.node == loaded.document.node);
    let name = same.map_or_else(
        || node_name(loaded).map(Arc::from),
        |same| Ok(same.node.name.clone()),
    );
    name.unwrap_or_else(|reason| {
        let remedy = "give it one (`hostnamectl hostname`), or write the node's name";
        problems.push(Problem::new("node", reason).remedy(remedy));
        Arc::default()
    })
}

/// The compiled rules.
fn compile(
    document: &Document,
    plugs: &Plugs,
    node: &Arc<str>,
    upstreams: &HashMap<String, Arc<Upstream>>,
) -> Result<Rules<Arc<Next>>, Unfit> {
    Rules::compile(document, node.clone(), |route, hop| {
        Next::compile(document, plugs, upstreams, route, hop).map(Arc::new)
    })
}

/// A route of which lint said nothing and that cannot be taken all the same.
fn unfit_route(unfit: Unfit) -> Problem {
    Problem::new(element("routes", unfit.route), unfit.reason)
}

fn upstreams(
    document: &Document,
    previous: Option<&Snapshot>,
    record: &Record,
    problems: &mut Vec<Problem>,
) -> HashMap<String, Arc<Upstream>> {
    let mut built = HashMap::new();
    let zone = document.zone.as_deref();
    // An upstream keeps the recorder that it was built with, so a new one needs new upstreams.
    let previous = previous.filter(|previous| previous.document.debug == document.debug);

    let mut build = |name: &String, config: &model::Upstream| {
        let kept = previous
            .and_then(|previous| previous.upstreams.get(name))
            .filter(|known| known.same_in(zone, config));
        let upstream = kept
            .cloned()
            .map_or_else(|| Upstream::build_recorded(zone, name, config, record), Ok)?;
        built.insert(name.clone(), upstream);

        Ok::<_, Problem>(())
    };

    let proxies = proxies(document);
    for (name, config) in &document.upstreams {
        let mut config = Cow::Borrowed(config);
        if proxies.contains(name.as_str())
            && config.keepalive.is_none()
            && config.attached.is_none()
        {
            config.to_mut().keepalive = Some(LINK_KEEPALIVE);
        }

        config.to_mut().timeouts = config.timeouts.or(&document.defaults.timeouts);
        if let Err(error) = build(name, &config) {
            // `a > b` is a name of ours: the document knows the mistake under `b`.
            let path = error.path.replacen(name, Chain::last_of(name), 1);
            problems.push(Problem { path, ..error });
        }
    }

    for (index, authorize) in document.authorize.iter().enumerate() {
        if let Some(Err(error)) = authorize
            .own_upstream()
            .map(|config| build(&authorize.asked(), &config))
        {
            let key = error
                .path
                .rsplit_once(".tls.")
                .map_or("url".to_owned(), |(_, key)| format!("tls.{key}"));
            let path = format!("authorize[{index}].{key}");
            problems.push(Problem { path, ..error });
        }
    }

    built
}

/// Connections are recorded where `debug` says; one that changed asks for a new recorder.
fn record(document: &Document, previous: Option<&Snapshot>) -> Record {
    if let Some(same) = previous.filter(|previous| previous.document.debug == document.debug) {
        return same.reports.connections.clone();
    }

    let path = |file: &Option<FilePath>| file.as_ref().map(|file| file.0.clone());
    let qlog = path(&document.debug.qlog);
    let secrets = path(&document.debug.tls_secrets);
    Record::new(qlog.as_deref(), secrets.as_deref())
}
