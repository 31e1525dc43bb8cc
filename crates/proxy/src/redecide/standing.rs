//! One open tunnel: the facts of its opening, where it leads, and the same decision again.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_http::RequestHead;
use hermes_http::h1::client::Receiver;
use hermes_rules::redecide::{End, Reason, Rules, Tunnel, Verdict, Way};
use hermes_rules::{Facts, redecide, still_believed};
use hermes_upstream::Upstream;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Order;
use crate::filter;
use crate::forward::{Next, post};
use crate::routed::Routed;
use crate::snapshot::{ListenerRules, Snapshot};

/// Where a tunnel leads.
pub(crate) struct Opened {
    way: Way,
    upstream: Option<Arc<Upstream>>,
    /// The address that the request chose and that is reached; none where the operator wrote it.
    chosen: Option<SocketAddr>,
}

impl Opened {
    /// Towards `next`; `address` is what was dialled, where that is known.
    pub(crate) fn new(routed: &Routed, next: &Next, address: Option<SocketAddr>) -> Self {
        let upstream = match next {
            Next::Upstream { upstream, .. } => Some(upstream.clone()),
            Next::Target => None,
        };
        let end = match next.receiver() {
            Receiver::Proxy => End::Proxy,
            Receiver::Origin => End::Socket,
        };
        let rewrite = routed.snapshot.document.routes[routed.route].rewrite.as_ref();
        let rewritten = rewrite.and_then(|rewrite| rewrite.target.clone());
        let name = upstream.as_ref().map(|upstream| upstream.name().to_owned());
        let chosen = address.filter(|_| upstream.is_none());
        Self { way: Way { end, upstream: name, rewritten }, upstream, chosen }
    }
}

/// An open tunnel.
pub(crate) struct Standing {
    /// As it was opened: with its own snapshot and rules.
    routed: Routed,
    /// The request, after *tag*.
    head: RequestHead,
    movable: bool,
    opened: Mutex<Opened>,
    orders: watch::Sender<Option<Order>>,
}

impl Standing {
    pub(super) fn new(routed: &Routed, head: RequestHead, opened: Opened, movable: bool) -> Self {
        let (opened, orders) = (Mutex::new(opened), watch::Sender::new(None));
        Self { routed: routed.clone(), head, movable, opened, orders }
    }

    pub(super) fn orders(&self) -> watch::Receiver<Option<Order>> {
        self.orders.subscribe()
    }

    /// The request, after *tag*.
    pub(crate) fn head(&self) -> &RequestHead {
        &self.head
    }

    /// The exchange as it is on a route of another snapshot.
    pub(crate) fn routed(&self, snapshot: Arc<Snapshot>, route: usize) -> Routed {
        let listener = self.routed.entrance.rules_in(&snapshot);
        Routed { snapshot, listener, route, ..self.routed.clone() }
    }

    /// It leads elsewhere now.
    pub(crate) fn moved(&self, opened: Opened) {
        *self.opened.lock() = opened;
    }

    /// Decides again and tells the carrier, if there is something to do.
    pub(super) fn redecide(&self, snapshot: &Arc<Snapshot>) -> Verdict {
        let verdict = self.verdict(snapshot);
        let order = match &verdict {
            Verdict::Kept { route } | Verdict::Outlives { route } => {
                self.routed.exchange.route(&snapshot.route_names[*route]);
                None
            }
            Verdict::Moved { route } => Some(Order::Move(snapshot.clone(), *route)),
            Verdict::Ended(reason) => Some(Order::End(reason.clone())),
        };
        // An order that was not followed yet is void: this is the later decision.
        self.orders.send_replace(order);
        verdict
    }

    fn verdict(&self, snapshot: &Snapshot) -> Verdict {
        let listener = self.routed.entrance.rules_in(snapshot);
        if let Err(reason) = self.believed(snapshot, &listener) {
            return Verdict::Ended(reason);
        }
        let opened = self.opened.lock();
        if let Some(Err(denied)) = opened.chosen.map(|address| snapshot.egress.check(address)) {
            return Verdict::Ended(Reason::Egress(denied.to_string()));
        }
        let Routed { source, user, target, .. } = &self.routed;
        let method = post::arrived_with(&self.head);
        let facts = filter::facts(&self.head, target, user.as_deref(), source, &listener.name);
        let facts = Facts { method: &method, ..facts };
        let same_upstream = |name: &str| {
            let pair = snapshot.upstreams.get(name).zip(opened.upstream.as_ref());
            pair.is_some_and(|(new, old)| Arc::ptr_eq(new, old))
        };
        let rules = Rules { document: &snapshot.document, table: &snapshot.table, same_upstream: &same_upstream };
        redecide(&Tunnel { facts, way: &opened.way, movable: self.movable }, &rules)
    }

    /// Whether it would still be believed whose it is.
    fn believed(&self, snapshot: &Snapshot, listener: &ListenerRules) -> Result<(), Reason> {
        let Routed { source, user, belief, .. } = &self.routed;
        listener.authenticator.still_accepts(belief.scheme, user.as_deref()).map_err(Reason::Identity)?;
        still_believed(&snapshot.source_of(listener, source), belief.peer, user.as_deref())
    }
}
