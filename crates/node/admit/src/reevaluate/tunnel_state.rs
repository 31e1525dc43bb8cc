//! The state of an open tunnel: how it was opened, where it leads, and how it is decided on again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::LossRecovery;
use hermes_http::h1::client::Receiver;
use hermes_http::{Kind, RequestHead};
use hermes_identity::Proof;
use hermes_net::clock::unix_seconds;
use hermes_proto::tcp_bind;
use hermes_rules::attach::permits;
use hermes_rules::reevaluate::{Destination, End, Reason, Tunnel, Verdict};
use hermes_rules::route::Act;
use hermes_rules::{reevaluate, still_believed};
use hermes_upstream::Upstream;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::latest_word::LatestWord;
use super::order::{Move, Order, Word};
use crate::decide::{Candidate, Denied, Mode};
use crate::entry::Entry;
use crate::filter;
use crate::next::{CompiledRoute, Next};
use crate::post;
use crate::routed::Routed;
use crate::snapshot::{ListenerRules, Snapshot};
use crate::tunnels::{OpenTunnel, Tunnels};
use crate::upgrades::permits_upgrade;

/// Shortest time after which filters are asked about an open tunnel again, whatever they say.
#[doc(alias = "bound")]
const SHORTEST: Duration = Duration::from_secs(1);

/// Pause before filters that gave no answer are asked about an open tunnel again; doubles up to
/// [`LONGEST_PAUSE`].
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(500);

/// Longest pause between such questions.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// Where a tunnel leads, and the request that opened it.
pub struct Opened {
    destination: Destination,
    upstream: Option<Arc<Upstream>>,
    /// The address that the request chose and that is reached; none where the operator wrote it.
    chosen: Option<SocketAddr>,
    /// The request, after *authorize*.
    head: Arc<RequestHead>,
    /// The snapshot by whose rules it was opened, and the route's name there.
    revision: u64,
    route: Arc<str>,
    /// Where it is an attachment: under which name.
    attached: Option<String>,
    /// By the tunnel of IP packets of this listener, if it leaves so.
    by_ip: Option<String>,
    /// The connector or the handler that it leads to.
    plug: Option<String>,
    /// How its route mends losses of datagrams.
    loss: Option<LossRecovery>,
}

impl Opened {
    /// For the request `head`, towards `next`; `address` is the dialled one, where it is known.
    pub fn new(
        routed: &Routed,
        head: &RequestHead,
        next: &Next,
        address: Option<SocketAddr>,
    ) -> Self {
        let upstream = next.upstream().cloned();
        let end = match next.receiver() {
            Receiver::Proxy => End::Proxy,
            Receiver::Origin if next.handled().is_some() => End::Handler,
            Receiver::Origin => End::Socket,
        };

        let rewrite = routed.route.config.rewrite.as_ref();
        let rewritten = rewrite.and_then(|rewrite| rewrite.target.clone());
        let chosen = address.filter(|_| upstream.is_none());
        let destination = Destination { end, rewritten };
        let head = kept(routed, head);
        let revision = routed.snapshot.revision;
        let route = routed.route.name.clone();

        Self {
            destination,
            upstream,
            chosen,
            head,
            revision,
            route,
            attached: None,
            by_ip: by_ip(&routed.route).map(str::to_owned),
            plug: next.plug().map(str::to_owned),
            loss: loss_of(&routed.route).cloned(),
        }
    }

    /// Whether it was connected from here though its route leads to a next proxy.
    fn is_direct(&self) -> bool {
        self.upstream.is_some() && self.chosen.is_some()
    }

    /// The same, connected from here though its route leads to a next proxy.
    #[must_use]
    pub fn from_here(self, address: Option<SocketAddr>) -> Self {
        Self {
            chosen: address,
            ..self
        }
    }

    /// For an answer without end of this handler, which the request `head` asked for.
    pub fn answered(routed: &Routed, head: &RequestHead, handler: &str) -> Self {
        Self {
            destination: Destination {
                end: End::Handler,
                rewritten: None,
            },
            upstream: None,
            chosen: None,
            head: kept(routed, head),
            revision: routed.snapshot.revision,
            route: routed.route.name.clone(),
            attached: None,
            by_ip: None,
            plug: Some(handler.to_owned()),
            loss: None,
        }
    }

    /// For an attachment under `name`, which the request `head` asked for.
    pub fn attached(routed: &Routed, head: &RequestHead, name: String) -> Self {
        let destination = Destination {
            end: End::Attachment,
            rewritten: None,
        };

        let revision = routed.snapshot.revision;
        let route = routed.route.name.clone();
        let head = kept(routed, head);

        Self {
            destination,
            upstream: None,
            chosen: None,
            head,
            revision,
            route,
            attached: Some(name),
            by_ip: None,
            plug: None,
            loss: None,
        }
    }
}

impl Opened {
    /// Whether the route mends losses of its datagrams in another way: the two ends agree on that when a path is opened.
    fn is_recovered_anew(&self, route: &CompiledRoute) -> bool {
        self.loss.as_ref() != loss_of(route)
            && self.head.kind() == Kind::ConnectUdp
            && self.destination.end == End::Proxy
    }

    /// Whether it leads there already, and the configuration of that did not change.
    fn leads_to(&self, next: &Next) -> bool {
        match (next.upstream(), &self.upstream) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (None, None) => next.plug() == self.plug.as_deref(),
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

/// The listener by whose tunnel of IP packets a route leaves.
fn by_ip(route: &CompiledRoute) -> Option<&str> {
    route.config.terminate.as_ref()?.ip()
}

/// Whether the route has connections made from here, beside its next proxy.
fn permits_direct(route: &CompiledRoute) -> bool {
    let tunnel = route.config.tunnel.as_ref();
    tunnel.is_some_and(|tunnel| tunnel.direct().is_some())
}

/// How the route mends losses of datagrams.
fn loss_of(route: &CompiledRoute) -> Option<&LossRecovery> {
    route.config.tunnel.as_ref()?.loss()
}

/// Whether the route lets no one wait for a connection, as the tunnel does or did.
fn forbids_listening(route: &CompiledRoute, head: &RequestHead) -> bool {
    let bind = route.config.bind.as_ref();
    matches!(head.kind(), Kind::Connect | Kind::ConnectTcp)
        && tcp_bind::is_asked_for(&head.fields)
        && bind.is_none_or(|bind| bind.tcp.is_none())
}

/// The request of an open tunnel: that which arrived, where neither identity nor rules have changed it.
fn kept(routed: &Routed, head: &RequestHead) -> Arc<RequestHead> {
    let arrived = routed.auth.arrived.as_ref();
    let same = arrived.filter(|arrived| ***arrived == *head);
    same.cloned().unwrap_or_else(|| Arc::new(head.clone()))
}

/// An open tunnel as a request that arrives now: with the fields and the user of the rules in force.
struct Request {
    head: RequestHead,
    user: Option<String>,
    /// How long the decisions count.
    lasts: Option<Duration>,
}

/// The ruling of policy and proof on an open tunnel.
enum Permission {
    /// It may go on; no filter has to be asked.
    Granted(Request),
    /// It may go on if filters say so, which its carrier asks.
    Pending(Request),
}

/// The ruling of the filters on an open tunnel.
enum FilterRuling {
    /// It may go on.
    Granted(Request),
    /// A filter denies it, or gave no answer.
    Denied(Denied),
}

/// The result of questions about an open tunnel.
pub struct Asked {
    /// The order for its carrier, if there is one.
    pub order: Option<Order>,
    /// When filters are to be asked again.
    pub again: Option<Instant>,
}

/// The state of an open tunnel.
pub struct TunnelState {
    /// As it was opened: with its own snapshot and rules.
    routed: Routed,
    movable: bool,
    opened: Mutex<Opened>,
    /// The rules of its listener that were last in force: they stay so where the listener is gone, or its tunnel of a device is.
    listener: Mutex<Arc<ListenerRules>>,
    words: LatestWord,
}

impl TunnelState {
    /// The state of a tunnel that has just been opened.
    pub fn new(routed: &Routed, opened: Opened, movable: bool) -> Self {
        let opened = Mutex::new(opened);
        let listener = Mutex::new(routed.listener.clone());
        let words = LatestWord::default();
        Self {
            routed: routed.clone(),
            movable,
            opened,
            listener,
            words,
        }
    }

    /// The exchange, as it was when the tunnel was opened.
    pub fn as_opened(&self) -> &Routed {
        &self.routed
    }

    /// The fields of the request, after *authorize*.
    pub fn head(&self) -> Arc<RequestHead> {
        self.opened.lock().head.clone()
    }

    /// The mailbox of its carrier.
    pub(super) fn words(&self) -> &LatestWord {
        &self.words
    }

    /// The rules of its listener by this snapshot.
    fn listener(&self, snapshot: &Snapshot) -> Arc<ListenerRules> {
        let mut last = self.listener.lock();
        if let Some(now) = self.routed.entrance.still_in(snapshot) {
            *last = now.clone();
        }
        last.clone()
    }

    /// Resolves when the process is to stop.
    pub async fn stops(&self) {
        self.routed.worker.shared.drain.graceful().await;
    }

    /// Whether the process is to stop.
    pub fn is_stopping(&self) -> bool {
        self.routed.worker.shared.drain.is_draining()
    }

    /// The exchange as it is on a route of another snapshot.
    pub fn routed(&self, snapshot: Arc<Snapshot>, route: Arc<CompiledRoute>) -> Routed {
        let listener = self.listener(&snapshot);
        Routed {
            snapshot,
            listener,
            route,
            ..self.routed.clone()
        }
    }

    /// Why the tunnel may not stay although it cannot be moved: it may outlive a change of hops, but not one of where the overlay ends.
    pub fn forbids(&self, opened: &Opened) -> Option<Reason> {
        let other = self.opened.lock().destination.end != opened.destination.end;
        other.then(|| Reason::OtherAction(opened.route.to_string()))
    }

    /// It leads elsewhere now; says by which snapshot's rules.
    pub fn moved(&self, opened: Opened) -> u64 {
        let revision = opened.revision;
        self.routed.exchange.route(&opened.route);
        *self.opened.lock() = opened;
        revision
    }

    /// Asks the filters of `snapshot` about it, and decides with their answers. Where they give none, it goes on and they are
    /// asked again for as long as they allow.
    pub async fn ask(self: Arc<Self>, snapshot: Arc<Snapshot>) -> Asked {
        let listener = self.listener(&snapshot);
        let began = Instant::now();
        let mut pause = PAUSE;
        loop {
            let mut candidate = self.candidate(&snapshot, &listener);
            let (order, again) = match self.ruling(&mut candidate).await {
                Ok(FilterRuling::Granted(Request { head, user, lasts })) => {
                    let (_, order) = self.verdict(&snapshot, head, user);
                    (order, lasts)
                }
                // A filter that cannot decide lets an open tunnel go on for its grace: a server that restarts should not end all tunnels.
                Ok(FilterRuling::Denied(denied)) if began.elapsed() + pause <= denied.grace => {
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
                Ok(FilterRuling::Denied(denied)) => {
                    let reason = Reason::Denied(denied.refusal.reason());
                    (Some(Order::End(reason)), None)
                }
                Err(reason) => (Some(Order::End(reason)), None),
            };

            if order.is_some() {
                candidate.log_held();
            }
            return Asked {
                order,
                again: again.map(|lasts| Instant::now() + lasts.max(SHORTEST)),
            };
        }
    }

    /// Decides on it, filters included.
    async fn ruling(&self, candidate: &mut Candidate<'_>) -> Result<FilterRuling, Reason> {
        let permitted = self.permission(candidate)?;
        let (Permission::Granted(mut request) | Permission::Pending(mut request)) = permitted;

        self.routed.exchange.refiltered();
        let authorized = candidate.authorize(&mut request.head, &mut request.user);
        Ok(match authorized.await {
            Ok(granted) => {
                request.lasts = [request.lasts, granted.lasts].into_iter().flatten().min();
                FilterRuling::Granted(request)
            }
            Err(denied) => FilterRuling::Denied(denied),
        })
    }

    /// The rules in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.routed.worker.snapshot()
    }

    /// When the credential that it rests on expires, in Unix time.
    pub fn expires(&self) -> Option<u64> {
        self.routed.auth.expires
    }

    /// The table of open tunnels.
    pub fn tunnels(&self) -> &Tunnels {
        &self.routed.worker.shared.tunnels
    }

    /// How it is opened by the rules of this snapshot, after its path broke.
    pub fn anew(&self, snapshot: Arc<Snapshot>) -> Result<Move, Reason> {
        let listener = self.listener(&snapshot);
        let mut candidate = self.candidate(&snapshot, &listener);
        let permitted = self.permission(&mut candidate);
        let (mut head, user) = match permitted.inspect_err(|_| candidate.log_held())? {
            Permission::Granted(Request { head, user, .. }) => (head, user),
            // The filters' answers count until they are asked again.
            Permission::Pending(_) => {
                ((*self.opened.lock().head).clone(), self.routed.user.clone())
            }
        };
        match self.decide(&snapshot, &mut head, user.as_deref()) {
            Verdict::Kept(route) | Verdict::Outlives(route) | Verdict::Moved(route) => Ok(Move {
                snapshot,
                route,
                head,
            }),
            Verdict::Ended(reason) => Err(reason),
        }
    }

    /// The tunnel as an exchange that is decided on by this snapshot.
    fn candidate<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        listener: &'a ListenerRules,
    ) -> Candidate<'a> {
        let Routed {
            source,
            target,
            auth,
            ..
        } = &self.routed;
        Candidate {
            entry: Entry {
                snapshot,
                listener,
                source,
            },
            target,
            auth,
            mode: Mode::Reevaluated(self.routed.logger().holding_back()),
        }
    }

    /// The ruling on it now, before filters are asked.
    fn permission(&self, candidate: &mut Candidate<'_>) -> Result<Permission, Reason> {
        let Entry {
            snapshot, listener, ..
        } = candidate.entry;
        self.believed(snapshot, listener)?;

        let mut head;
        let user;
        match &self.routed.auth.arrived {
            Some(arrived) => {
                head = (**arrived).clone();
                user = candidate
                    .believe(&mut head)
                    .map_err(|refusal| Reason::Identity(refusal.reason()))?;
            }
            // Opened on behalf of another, or long only since its answer: its user was decided before.
            None => {
                head = (*self.opened.lock().head).clone();
                user = self.routed.user.clone();
            }
        }
        let lasts = candidate
            .permit(&mut head, user.as_deref())
            .map_err(|refusal| Reason::Denied(refusal.reason()))?
            .lasts;

        // Where rules have hours, the carrier is to know when they change.
        let is_asked = lasts.is_some() || candidate.is_asked(&head, user.as_deref());
        let request = Request { head, user, lasts };
        Ok(match is_asked {
            true => Permission::Pending(request),
            false => Permission::Granted(request),
        })
    }

    /// Whether its user would still be authenticated.
    fn believed(&self, snapshot: &Snapshot, listener: &ListenerRules) -> Result<(), Reason> {
        let Routed { source, auth, .. } = &self.routed;
        let user = auth.user.as_deref();
        listener
            .authenticator
            .still_accepts(&auth.proof, user, unix_seconds())
            .map_err(Reason::Identity)?;
        still_believed(&snapshot.source_of(listener, source), auth.peer, user)?;
        let chain = source.tls.as_ref().and_then(|tls| tls.chain.as_deref());

        if let Some(chain) = chain.filter(|_| auth.peer || auth.proof == Proof::Certificate) {
            // A link goes on when its certificate is renewed; only a user's ends with it.
            let at = if auth.peer {
                chain.last_valid(unix_seconds())
            } else {
                unix_seconds()
            };
            listener
                .still_believes(source, snapshot.revision, at)
                .map_err(Reason::Identity)?;
        }

        Ok(())
    }

    /// The verdict on it as this user's request, and the order for its carrier.
    fn verdict(
        &self,
        snapshot: &Arc<Snapshot>,
        mut head: RequestHead,
        user: Option<String>,
    ) -> (TunnelVerdict, Option<Order>) {
        let verdict = self.decide(snapshot, &mut head, user.as_deref());
        let order = match &verdict {
            Verdict::Kept(route) | Verdict::Outlives(route) => {
                self.routed.exchange.route(&route.name);
                None
            }
            Verdict::Moved(route) => {
                let moved = Move {
                    snapshot: snapshot.clone(),
                    route: route.clone(),
                    head,
                };
                Some(Order::Move(Arc::new(moved)))
            }
            Verdict::Ended(reason) => Some(Order::End(reason.clone())),
        };

        (verdict, order)
    }

    /// Why it may not go on as a tunnel of this user.
    fn of_another_user(&self, user: Option<&str>) -> Reason {
        let whose = |user: Option<&str>| {
            user.map_or_else(|| "no one's".to_owned(), |user| format!("user {user}'s"))
        };
        Reason::Identity(format!(
            "it would be {} now, not {}",
            whose(user),
            whose(self.routed.user.as_deref())
        ))
    }

    fn decide(
        &self,
        snapshot: &Snapshot,
        head: &mut RequestHead,
        user: Option<&str>,
    ) -> TunnelVerdict {
        if user != self.routed.user.as_deref() {
            return Verdict::Ended(self.of_another_user(user));
        }
        let opened = self.opened.lock();
        if let Some(Err(denied)) = opened.chosen.map(|address| snapshot.may_choose(address)) {
            return Verdict::Ended(Reason::Egress(denied.to_string()));
        }

        let Routed {
            source,
            target,
            auth,
            ..
        } = &self.routed;

        let listener = self.listener(snapshot);
        let whose = listener.known_user(auth, user);
        // Routes see the client's request; the tunnel was opened with the CONNECT that a POST
        // means.
        let asked = head.clone();
        post::arrived(head);
        let facts = filter::facts(&asked, target, whose, source, &listener.name);
        let tunnel = Tunnel {
            facts,
            destination: &opened.destination,
            movable: self.movable,
            relabelled: head.fields != opened.head.fields,
        };

        let verdict = reevaluate(&tunnel, &snapshot.rules.table, |next| opened.leads_to(next));
        let (Verdict::Kept(route) | Verdict::Outlives(route)) = &verdict else {
            return verdict;
        };

        // Conditions that the table of routes does not know.
        let binds = target.is_any() && opened.upstream.is_none();
        if by_ip(route) != opened.by_ip.as_deref()
            || binds && route.config.bind.is_none()
            || opened.upstream.is_none() && forbids_listening(route, &asked)
            || route.config.signed.is_some()
            || opened.is_direct() && !permits_direct(route)
            || opened.attached.is_none() && !permits_upgrade(route, &asked)
        {
            return Verdict::Ended(Reason::OtherAction(route.name.to_string()));
        }

        if self.movable && opened.is_recovered_anew(route) {
            return Verdict::Moved(route.clone());
        }

        match (&route.act, &opened.attached) {
            (Act::Attach(rule), Some(name)) => permits(rule, name, user).map_or_else(
                |reason| Verdict::Ended(Reason::Identity(reason)),
                |()| verdict,
            ),
            _ => verdict,
        }
    }
}

impl OpenTunnel for TunnelState {
    fn reevaluate(&self, snapshot: &Arc<Snapshot>) -> Option<TunnelVerdict> {
        let listener = self.listener(snapshot);
        let mut candidate = self.candidate(snapshot, &listener);
        let (verdict, word) = match self.permission(&mut candidate) {
            Ok(Permission::Pending(_)) => (None, Some(Word::Ask(snapshot.clone()))),
            Ok(Permission::Granted(Request { head, user, .. })) => {
                let (verdict, order) = self.verdict(snapshot, head, user);
                (Some(verdict), order.map(Word::Carry))
            }
            Err(reason) => (
                Some(Verdict::Ended(reason.clone())),
                Some(Word::Carry(Order::End(reason))),
            ),
        };

        if let Some(Verdict::Moved(_) | Verdict::Ended(_)) = verdict {
            candidate.log_held();
        }
        // An order that was not followed yet is void: this is the later decision.
        self.words.say(word);
        verdict
    }
}

/// The verdict on a tunnel.
type TunnelVerdict = Verdict<Arc<Next>>;
