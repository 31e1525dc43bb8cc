//! The table of live exchanges.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use hermes_net::PeerAddress;
use hermes_net::clock;
use hermes_proto::refusal_id::RefusalId;
use hermes_upstream::Upstream;
use http::Method;
use parking_lot::Mutex;
use serde::Serialize;

use super::counters::{Counters, FlowCounters};
use super::counts::Counts;
use super::functions::{self, FunctionCounts, FunctionView};
use super::listener::ListenerTelemetry;
use super::recovery::{RecoverySource, RecoveryView};
use super::span::Span;

/// Parts of the table, so that workers rarely meet at one lock.
const SHARDS: u64 = 16;

/// Age at which a tunnel writes its first `long` record, and the time between two of them.
pub const LONG_AFTER: Duration = Duration::from_secs(600);

/// Bytes of a text that a client chose, in records and views: the queue of records stays below some
/// megabytes.
#[doc(alias = "bound")]
pub(super) const TEXT_LIMIT: usize = 1024;

/// The facts known when an exchange begins.
#[derive(Debug, Clone)]
pub struct Begin {
    /// `http`, `connect`, `connect-tcp`, `connect-udp` or `upgrade`; a tunnel over POST is known [later](crate::Exchange::is_post).
    pub kind: &'static str,
    /// The listener's name.
    pub listener: Arc<str>,
    /// Where it comes from.
    pub source: PeerAddress,
    /// How it came: `h1`, `h2`, `tcp` or `udp`.
    pub protocol: &'static str,
}

/// The identifier of an exchange, unique across restarts. It is formatted only when it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id {
    /// Makes identifiers of this process differ from those of the one before it.
    pub(super) prefix: u32,
    /// Counts the exchanges of this process.
    pub(super) number: u64,
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}-{}", self.prefix, self.number)
    }
}

/// One live exchange.
#[derive(Debug)]
pub(super) struct Live {
    pub id: Id,
    pub begin: Begin,
    pub began: SystemTime,
    pub since: Instant,
    pub facts: Mutex<Facts>,
    pub status: AtomicU16,
    pub span: OnceLock<Span>,
    pub counters: Counters,
    pub listener: Arc<ListenerTelemetry>,
    /// Whether it is a POST that is a tunnel, which only its route says.
    post: AtomicBool,
    ended: AtomicBool,
    /// How many `long` records are due or written: the next is due when one more [`LONG_AFTER`] has passed.
    long: AtomicU64,
    settled: Mutex<Settled>,
}

/// The facts learnt on the way.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub target: String,
    pub method: Option<Method>,
    pub user: Option<String>,
    pub route: Option<Arc<str>>,
    /// Where it goes.
    pub hop: Option<Hop>,
    /// While another way is opened: the hop of its latest attempt.
    pub ahead: Option<Option<Hop>>,
    /// The attempts, in their order.
    pub tried: Vec<Attempt>,
    /// The decisions about it, and their makers.
    pub decided_by: DecidedBy,
    /// The later proxy that refused it. Boxed, like the other rare ones: each open tunnel has room for them.
    pub refused_by: Option<Box<LaterRefusal>>,
    /// Names of the refusals.
    pub names: Names,
    /// Its recoveries.
    pub outlived: Outlived,
    /// The works on its payload.
    pub worked: PayloadWorks,
}

/// The works on the payload of an exchange.
#[derive(Debug, Clone, Default)]
pub(super) struct PayloadWorks {
    /// The functions on its way.
    pub functions: Option<FunctionCounts>,
    /// Recovery of its datagrams, where both ends take part.
    pub recovery: Option<Arc<dyn RecoverySource>>,
}

/// The decisions about an exchange, and their makers.
#[derive(Debug, Clone, Default)]
pub(super) struct DecidedBy {
    /// The filters' decisions, and their reasons.
    pub filters: Vec<String>,
    /// The groups that its user's token claims, for refused exchanges.
    pub claimed: Vec<String>,
    /// Fields of its client that were not believed.
    pub removed: Vec<String>,
}

/// The recoveries of an exchange.
#[derive(Debug, Clone, Default)]
pub(super) struct Outlived {
    /// How often its tunnel went on by another path because that broke.
    pub resumed: u32,
    /// The reason why it waits.
    pub waits: Option<String>,
    /// Attempts that are counted and not listed.
    pub forgotten: usize,
    /// When its tunnel took another path last, and why.
    pub moved: Option<Box<MovedPath>>,
}

/// Why a tunnel took another path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovedPath {
    /// When, by RFC 3339.
    pub time: String,
    /// Why: the rules changed, or the path before broke.
    pub why: String,
}

/// Names of the refusals of an exchange.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    /// Of its refusal, by this node or by a later one.
    pub refusal: Option<RefusalId>,
    /// Of the last decision to end it, where decisions are logged.
    pub denial: Option<RefusalId>,
}

/// A refusal of a later proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaterRefusal {
    /// The proxy, by the name that it gives itself.
    pub node: String,
    /// The hop's own name for the refusal, if it has one.
    pub id: Option<RefusalId>,
}

/// An upstream's name, and the endpoint there.
#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub upstream: Arc<str>,
    pub endpoint: Arc<str>,
    /// The upstream itself, which knows how far the endpoint is.
    pub measured_by: Option<Arc<Upstream>>,
}

impl Facts {
    /// Notes that it passes this hop.
    pub fn goes_by(&mut self, hop: Hop) {
        self.hop = Some(hop);
    }

    /// The name of its upstream.
    pub fn upstream(&self) -> Option<&Arc<str>> {
        self.hop.as_ref().map(|hop| &hop.upstream)
    }

    /// The endpoint there.
    pub fn endpoint(&self) -> Option<&Arc<str>> {
        self.hop.as_ref().map(|hop| &hop.endpoint)
    }

    /// Milliseconds of a round trip to the endpoint, if its upstream knows them.
    pub fn round_trip_ms(&self) -> Option<f64> {
        let hop = self.hop.as_ref()?;
        hop.measured_by.as_ref()?.round_trip_ms(&hop.endpoint)
    }

    /// The method as views and records say it; empty until it is known.
    pub fn method(&self) -> String {
        self.method
            .as_ref()
            .map_or_else(String::new, |method| clip(method.as_str()))
    }
}

/// One attempt.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// When its endpoint was known.
    pub at: SystemTime,
    pub endpoint: Arc<str>,
    /// Its outcome, if that was not the end of the exchange.
    pub outcome: Option<&'static str>,
}

/// The part that is in the listener's metrics already.
#[derive(Debug, Default)]
struct Settled {
    client_to_target: u64,
    target_to_client: u64,
    flows: u64,
    denied_flows: u64,
}

impl Live {
    pub fn new(id: Id, begin: Begin, listener: Arc<ListenerTelemetry>) -> Self {
        Self {
            id,
            begin,
            began: clock::system_now(),
            since: clock::now().into_std(),
            facts: Mutex::default(),
            status: AtomicU16::new(0),
            span: OnceLock::new(),
            counters: Counters::default(),
            listener,
            post: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            long: AtomicU64::new(0),
            settled: Mutex::default(),
        }
    }

    /// The kind of the exchange.
    pub fn kind(&self) -> &'static str {
        if self.post.load(Ordering::Relaxed) {
            "post"
        } else {
            self.begin.kind
        }
    }

    /// The exchange is a tunnel over POST.
    pub fn is_post(&self) {
        self.post.store(true, Ordering::Relaxed);
    }

    /// True for the first caller only.
    pub fn end_once(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }

    /// True once every [`LONG_AFTER`] for a tunnel.
    pub fn is_long(&self, now: Instant) -> bool {
        if self.kind() == "http" {
            return false;
        }
        let periods = now.saturating_duration_since(self.since).as_secs() / LONG_AFTER.as_secs();
        self.long.fetch_max(periods, Ordering::Relaxed) < periods
    }

    /// Adds the counters' increase since the last time to the listener's metrics, and returns it.
    pub fn settle(&self) -> Counts {
        // Held to the end: two calls at once would report the same increase twice.
        let mut settled = self.settled.lock();
        let sent = self.counters.client_to_target.load(Ordering::Relaxed);
        let received = self.counters.target_to_client.load(Ordering::Relaxed);
        let flows = self.counters.flows.began.load(Ordering::Relaxed);
        let denied_flows = self.counters.flows.denied.load(Ordering::Relaxed);
        let gained = Counts {
            client_to_target: sent.wrapping_sub(settled.client_to_target),
            target_to_client: received.wrapping_sub(settled.target_to_client),
            flows: flows.wrapping_sub(settled.flows),
            denied_flows: denied_flows.wrapping_sub(settled.denied_flows),
            ..Counts::default()
        };

        self.listener
            .moved(gained.client_to_target, gained.target_to_client);
        *settled = Settled {
            client_to_target: sent,
            target_to_client: received,
            flows,
            denied_flows,
        };

        gained
    }

    /// The identifier of its trace.
    pub fn trace(&self) -> Option<String> {
        self.span.get().map(|span| span.context.trace.to_string())
    }

    /// The status of the final response; `None` before there is one.
    pub fn status(&self) -> Option<u16> {
        Some(self.status.load(Ordering::Relaxed)).filter(|status| *status != 0)
    }

    pub fn learnt(&self, now: Instant) -> Learnt {
        let facts = self.facts.lock();
        let DecidedBy {
            filters,
            claimed,
            removed,
        } = facts.decided_by.clone();
        let tried = facts.tried.iter().map(|tried| tried.endpoint.to_string());
        let tried = tried.collect();
        let refused_by = facts.refused_by.as_deref().cloned();
        // `view` locks them, too.
        drop(facts);

        Learnt {
            view: self.view(now),
            filters,
            claimed,
            removed,
            tried,
            refused_by,
        }
    }

    pub fn view(&self, now: Instant) -> ExchangeView {
        let facts = self.facts.lock().clone();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let limit =
            |limit: &AtomicU16| Some(limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0);
        let progress = ExchangeProgress {
            status: self.status(),
            attempts: facts.tried.len() + facts.outlived.forgotten,
            resumed: facts.outlived.resumed,
            waits: facts.outlived.waits.clone(),
            moved: facts.outlived.moved.as_deref().cloned(),
            flows: FlowCountsView::of(&self.counters.flows),
            functions: functions::views(facts.worked.functions.as_ref()),
            recovery: facts.worked.recovery.as_ref().map(|source| source.view()),
        };
        let age = now.saturating_duration_since(self.since).as_millis();

        ExchangeView {
            id: self.id.to_string(),
            kind: self.kind(),
            protocol: self.begin.protocol,
            began: humantime::format_rfc3339_millis(self.began).to_string(),
            age_ms: u64::try_from(age).unwrap_or(u64::MAX),
            listener: self.begin.listener.to_string(),
            source: self.begin.source.to_string(),
            method: facts.method(),
            upstream: facts.upstream().map(ToString::to_string),
            endpoint: facts.endpoint().map(ToString::to_string),
            user: facts.user,
            target: facts.target,
            route: facts.route.as_deref().map(str::to_owned),
            progress,
            trace: self.trace(),
            client_to_target: count(&self.counters.client_to_target),
            target_to_client: count(&self.counters.target_to_client),
            datagrams_in: count(&self.counters.datagrams_in),
            datagrams_out: count(&self.counters.datagrams_out),
            dropped: count(&self.counters.dropped),
            datagram_limit_in: limit(&self.counters.datagram_limit_in),
            datagram_limit_out: limit(&self.counters.datagram_limit_out),
        }
    }
}

/// At most [`TEXT_LIMIT`] bytes of `text`.
pub(super) fn clip(text: &str) -> String {
    text[..text.floor_char_boundary(TEXT_LIMIT)].to_owned()
}

/// The facts of an exchange at one moment.
#[derive(Debug, Clone)]
pub struct Learnt {
    /// As the administrator sees it.
    pub view: ExchangeView,
    /// The filters' decisions, and their reasons.
    pub filters: Vec<String>,
    /// The groups that its user's token claims, if that was looked at.
    pub claimed: Vec<String>,
    /// Fields of the client that were not believed.
    pub removed: Vec<String>,
    /// The endpoint of each attempt.
    pub tried: Vec<String>,
    /// The later proxy that refused it.
    pub refused_by: Option<LaterRefusal>,
}

/// A live exchange as the administrator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExchangeView {
    /// Its identifier, the same as in its access records.
    pub id: String,
    /// `http`, `connect`, `connect-tcp`, `connect-udp` or `upgrade`.
    pub kind: &'static str,
    /// How it came: `h1`, `h2`, `tcp` or `udp`.
    pub protocol: &'static str,
    /// When it began (RFC 3339, UTC).
    pub began: String,
    /// Milliseconds since then.
    pub age_ms: u64,
    /// The listener's name.
    pub listener: String,
    /// Where it comes from.
    pub source: String,
    /// The user.
    pub user: Option<String>,
    /// The method; empty until the head was read.
    pub method: String,
    /// The target; empty until the head was read.
    pub target: String,
    /// The route that decided.
    pub route: Option<String>,
    /// The Upstream it went to.
    pub upstream: Option<String>,
    /// The endpoint of the latest attempt.
    pub endpoint: Option<String>,
    /// How far it has come.
    #[serde(flatten)]
    pub progress: ExchangeProgress,
    /// The identifier of its trace.
    pub trace: Option<String>,
    /// Bytes from the client.
    pub client_to_target: u64,
    /// Bytes to the client.
    pub target_to_client: u64,
    /// Datagrams from the client.
    pub datagrams_in: u64,
    /// Datagrams to the client.
    pub datagrams_out: u64,
    /// Datagrams that were not delivered.
    pub dropped: u64,
    /// Bytes of the largest UDP payload that goes on towards the target, where it does so in QUIC datagrams.
    pub datagram_limit_in: Option<u16>,
    /// The same towards the client.
    pub datagram_limit_out: Option<u16>,
}

/// Flows of a tunnel of IP that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FlowCountsView {
    /// Open flows.
    pub open: u64,
    /// Flows that began.
    pub began: u64,
    /// Flows that were denied.
    pub denied: u64,
}

impl FlowCountsView {
    /// `None` without flows.
    fn of(flows: &FlowCounters) -> Option<Self> {
        let began = flows.began.load(Ordering::Relaxed);
        (began > 0).then(|| Self {
            open: flows.open(),
            began,
            denied: flows.denied.load(Ordering::Relaxed),
        })
    }
}

/// How far an exchange has come against failures on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExchangeProgress {
    /// The status of the final response.
    pub status: Option<u16>,
    /// Attempts at the next hop so far.
    pub attempts: usize,
    /// How often its tunnel went on by another path.
    pub resumed: u32,
    /// The reason why it waits; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// When its tunnel took another path last, and why; absent if it never did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<MovedPath>,
    /// Flows of IP, where they are followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flows: Option<FlowCountsView>,
    /// The functions on its way, in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionView>,
    /// Recovery of its datagrams; absent where the two ends did not agree on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryView>,
}

/// Spreads numbers that we count ourselves, which no one can choose so that they meet.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio: numbers that follow each other come to lie far apart, in the high bits too.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(32)
    }
}

/// Exchanges by number.
type Shard = Mutex<HashMap<u64, Arc<Live>, BuildHasherDefault<Spread>>>;

/// Live exchanges by number, in shards. Bounded by the listeners' limits of connections and streams.
#[derive(Debug, Default)]
pub(super) struct Table {
    shards: [Shard; SHARDS as usize],
}

impl Table {
    fn shard(&self, number: u64) -> &Shard {
        // The remainder is below the number of shards.
        &self.shards[(number % SHARDS) as usize]
    }

    pub fn insert(&self, live: Arc<Live>) {
        self.shard(live.id.number)
            .lock()
            .insert(live.id.number, live);
    }

    pub fn remove(&self, number: u64) {
        self.shard(number).lock().remove(&number);
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Calls `visit` for every live exchange. No lock is held meanwhile.
    pub fn each(&self, visit: impl Fn(&Live)) {
        for shard in &self.shards {
            let lives: Vec<_> = shard.lock().values().cloned().collect();
            lives.iter().for_each(|live| visit(live));
        }
    }

    /// The `limit` exchanges that began first, in that order.
    pub fn oldest(&self, limit: usize) -> Vec<Arc<Live>> {
        let mut lives: Vec<Arc<Live>> = Vec::new();
        for shard in &self.shards {
            lives.extend(shard.lock().values().cloned());
        }
        lives.sort_unstable_by_key(|live| live.id.number);
        lives.truncate(limit);
        lives
    }
}
