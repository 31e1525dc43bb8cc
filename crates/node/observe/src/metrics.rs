//! Metrics: their names, their labels, and handles that need no look-up.
//!
//! Every label's value is a name from the configuration or a word of a fixed set, so that no client can make the
//! number of series grow.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use hermes_net::shares::Shares;
use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::broadcasts::BroadcastFamilies;
use super::certificate_metrics::Certificates;
use super::counts::Counts;
use super::decisions::DecisionCounters;
use super::filters::FilterFamilies;
use super::functions::FunctionFamilies;
use super::listener::{ConnectionGuard, ListenerFamilies, ListenerTelemetry};
use super::live::Live;
use super::otlp::SpanCounters;
use super::policies::PolicyFamily;
use super::process::ProcessCollector;
use super::series::{self, Ending, Series};
use super::upstreams::Upstreams;
use super::usage::{Usage, UsageCollector};
use crate::plug_gauges::PlugGauges;
use crate::renewals::Renewals;

/// Bounds of the duration histogram in seconds: from a local answer to a long download.
const DURATIONS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0,
];

/// One label: a fixed name and a value of any kind.
macro_rules! labels {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
        struct $name { $($field: $type),+ }
    };
}

labels!(ExchangeLabels { listener: Arc<str>, kind: &'static str, route: Arc<str>, status: &'static str, reason: &'static str });
labels!(ConnectLabels { upstream: String, kind: &'static str });
labels!(RetryLabels { upstream: String, reason: &'static str });
labels!(UpstreamLabel { upstream: String });
labels!(KindLabel { kind: &'static str });
labels!(UpstreamLabels { upstream: Arc<str>, kind: &'static str });
labels!(ReasonLabel { reason: &'static str });
labels!(OutcomeLabel { outcome: &'static str });

/// Why a datagram was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// A queue on its way was full.
    QueueFull,
    /// The packet waited too long for its tunnel.
    Expired,
    /// The packet is larger than the next hop carries.
    TooLarge,
    /// Its context ID is unknown (RFC 9298 section 4).
    UnknownContext,
    /// The socket refused it.
    SendFailed,
    /// No more sessions are allowed.
    SessionLimit,
    /// A rule on packets forbids it.
    Policy,
    /// The packet is malformed, as a forged super-packet.
    Malformed,
}

impl DropReason {
    /// Every reason, in the order of the variants.
    const ALL: [Self; 8] = [
        Self::QueueFull,
        Self::Expired,
        Self::TooLarge,
        Self::UnknownContext,
        Self::SendFailed,
        Self::SessionLimit,
        Self::Policy,
        Self::Malformed,
    ];

    /// The label's value.
    fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::UnknownContext => "unknown_context",
            Self::SendFailed => "send_failed",
            Self::SessionLimit => "session_limit",
            Self::Policy => "policy",
            Self::Malformed => "malformed",
        }
    }
}

/// The decisions about exchanges, by maker.
#[derive(Debug)]
struct DecisionFamilies {
    filters: FilterFamilies,
    functions: FunctionFamilies,
    policies: PolicyFamily,
    logged: DecisionCounters,
}

/// All families, and the registry that writes them.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    listeners: RwLock<HashMap<String, Arc<ListenerTelemetry>>>,
    per_listener: ListenerFamilies,
    exchanges: Family<ExchangeLabels, Counter>,
    durations: Durations<KindLabel>,
    upstream_durations: Durations<UpstreamLabels>,
    spans: SpanCounters,
    connect_failures: Family<ConnectLabels, Counter>,
    retries: RetryFamilies,
    dropped: [Counter; DropReason::ALL.len()],
    reloads: Family<OutcomeLabel, Counter>,
    access_lost: Counter,
    attached: Gauge,
    decisions: DecisionFamilies,
    broadcasts: BroadcastFamilies,
    pub(super) watched: Watched,
}

/// Values that are read when metrics are.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) upstreams: Upstreams,
    pub(super) certificates: Certificates,
    pub(super) renewals: Renewals,
    pub(super) plugs: PlugGauges,
}

impl Watched {
    fn register(registry: &mut Registry) -> Self {
        let watched = Self::default();
        registry.register_collector(Box::new(watched.upstreams.clone()));
        registry.register_collector(Box::new(watched.certificates.clone()));
        registry.register_collector(Box::new(watched.renewals.clone()));
        registry.register_collector(Box::new(watched.plugs.clone()));
        watched
    }
}

/// Families about attempts that follow others.
#[derive(Debug, Default)]
struct RetryFamilies {
    retries: Family<RetryLabels, Counter>,
    exhausted: Family<UpstreamLabel, Counter>,
}

impl RetryFamilies {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "retries",
            "Attempts after a failed one, or beside a slow one",
            self.retries.clone(),
        );
        let help = "Attempts that the budget did not allow";
        registry.register("retry_budget_exhausted", help, self.exhausted.clone());
    }
}

impl Metrics {
    pub fn new(usage: &Arc<Usage>, shares: &Arc<Shares>) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(UsageCollector(Arc::clone(usage))));
        registry.register_collector(Box::new(ProcessCollector::new(shares)));
        let watched = Watched::register(&mut registry);
        let hermes = registry.sub_registry_with_prefix("hermes");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        hermes.register("build", "What is running", build);
        let per_listener = ListenerFamilies::default();
        per_listener.register(hermes);
        let exchanges = Family::default();
        hermes.register("exchanges", "Exchanges that ended", exchanges.clone());
        let (durations, upstream_durations) = durations(hermes);
        let spans = SpanCounters::register(hermes);
        let connect_failures = Family::default();
        hermes.register(
            "connect_failures",
            "Attempts to connect that failed",
            connect_failures.clone(),
        );
        let retries = RetryFamilies::default();
        retries.register(hermes);
        let reasons = Family::<ReasonLabel, Counter>::default();
        hermes.register(
            "datagrams_dropped",
            "Datagrams not delivered",
            reasons.clone(),
        );
        let reloads = Family::default();
        hermes.register(
            "reloads",
            "Configurations loaded at run time",
            reloads.clone(),
        );
        let access_lost = Counter::default();
        hermes.register(
            "access_records_dropped",
            "Access records not written",
            access_lost.clone(),
        );
        let attached = Gauge::default();
        hermes.register("attached", "Attachments to this node", attached.clone());
        let dropped = DropReason::ALL.map(|reason| {
            reasons.get_or_create_owned(&ReasonLabel {
                reason: reason.label(),
            })
        });
        let decisions = DecisionFamilies {
            filters: FilterFamilies::register(hermes),
            functions: FunctionFamilies::register(hermes),
            policies: PolicyFamily::register(hermes),
            logged: DecisionCounters::register(hermes),
        };
        let broadcasts = BroadcastFamilies::register(hermes);
        let listeners = RwLock::default();

        Self {
            registry,
            listeners,
            per_listener,
            exchanges,
            durations,
            upstream_durations,
            spans,
            connect_failures,
            retries,
            dropped,
            reloads,
            access_lost,
            attached,
            decisions,
            broadcasts,
            watched,
        }
    }

    /// The counters of spans.
    pub fn spans(&self) -> SpanCounters {
        self.spans.clone()
    }

    /// The counter of access records that were not written.
    pub fn access_lost(&self) -> Counter {
        self.access_lost.clone()
    }

    /// Counts an attachment to this node; it is open until the guard is dropped.
    pub fn attached(&self) -> ConnectionGuard {
        ConnectionGuard::of(&self.attached)
    }

    /// The metrics of broadcasts.
    pub fn broadcasts(&self) -> &BroadcastFamilies {
        &self.broadcasts
    }

    /// The metrics of policies.
    pub fn policies(&self) -> &PolicyFamily {
        &self.decisions.policies
    }

    /// The counters of decisions that are to be logged.
    pub fn decisions_logged(&self) -> &DecisionCounters {
        &self.decisions.logged
    }

    /// The metrics of functions.
    pub fn functions(&self) -> &FunctionFamilies {
        &self.decisions.functions
    }

    /// The metrics of filters.
    pub fn filters(&self) -> &FilterFamilies {
        &self.decisions.filters
    }

    /// The handles of a listener.
    pub fn listener(&self, name: &str) -> Arc<ListenerTelemetry> {
        if let Some(known) = self.listeners.read().get(name) {
            return Arc::clone(known);
        }
        let mut listeners = self.listeners.write();
        let handles = || Arc::new(self.per_listener.handles(name));
        Arc::clone(listeners.entry(name.to_owned()).or_insert_with(handles))
    }

    /// Accounts for the end of an exchange, which gained so much since it was last accounted for.
    pub fn ended(
        &self,
        live: &Live,
        class: &'static str,
        now: Instant,
        gained: Counts,
        usage: &Usage,
    ) {
        live.listener.exchange_ended();
        let seconds = now.saturating_duration_since(live.since).as_secs_f64();
        let facts = live.facts.lock();
        usage.add_for(facts.user.as_deref(), gained);

        let ending = Ending {
            listener: &live.listener,
            kind: live.kind(),
            route: facts.route.as_ref(),
            upstream: facts.upstream(),
            status: status_class(live.status()),
            reason: class,
        };

        if series::remembered(ending, |series| series.count(seconds, gained)) {
            return;
        }
        // Finding a series may take a lock of its own.
        let ending = ending.keep();
        drop(facts);

        let series = self.series(&live.begin.listener, ending.ending(), usage);
        series.count(seconds, gained);
        series::remember(ending, series);
    }

    /// The series of an ending.
    fn series(&self, listener: &Arc<str>, ending: Ending<'_>, usage: &Usage) -> Series {
        let Ending {
            kind,
            status,
            reason,
            ..
        } = ending;

        let route = ending.route.cloned().unwrap_or_default();
        let by_upstream = |upstream: &Arc<str>| {
            self.upstream_durations
                .get_or_create_owned(&UpstreamLabels {
                    upstream: upstream.clone(),
                    kind,
                })
        };

        Series {
            ended: self.exchanges.get_or_create_owned(&ExchangeLabels {
                listener: listener.clone(),
                kind,
                route,
                status,
                reason,
            }),
            lasted: self.durations.get_or_create_owned(&KindLabel { kind }),
            upstream_lasted: ending.upstream.map(by_upstream),
            route_use: ending.route.map(|name| usage.route(name)),
            upstream_use: ending.upstream.map(|name| usage.upstream(name)),
        }
    }

    pub fn connect_failure(&self, upstream: &str, kind: &'static str) {
        self.connect_failures
            .get_or_create(&ConnectLabels {
                upstream: upstream.to_owned(),
                kind,
            })
            .inc();
    }

    pub fn retry(&self, upstream: &str, reason: &'static str) {
        self.retries
            .retries
            .get_or_create(&RetryLabels {
                upstream: upstream.to_owned(),
                reason,
            })
            .inc();
    }

    pub fn retry_budget_exhausted(&self, upstream: &str) {
        self.retries
            .exhausted
            .get_or_create(&UpstreamLabel {
                upstream: upstream.to_owned(),
            })
            .inc();
    }

    pub fn datagrams_dropped(&self, reason: DropReason, count: u64) {
        self.dropped[reason as usize].inc_by(count);
    }

    pub fn reload(&self, outcome: &'static str) {
        self.reloads.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// Histograms of how long exchanges take, by kind, and by upstream and kind.
fn durations(registry: &mut Registry) -> (Durations<KindLabel>, Durations<UpstreamLabels>) {
    let histogram: fn() -> Histogram = || Histogram::new(DURATIONS);
    let by_kind = Family::new_with_constructor(histogram);
    registry.register(
        "exchange_duration_seconds",
        "From begin to end of an exchange",
        by_kind.clone(),
    );
    let by_upstream = Family::new_with_constructor(histogram);
    registry.register(
        "upstream_duration_seconds",
        "As above, of exchanges that went to an upstream",
        by_upstream.clone(),
    );

    (by_kind, by_upstream)
}

/// The first digit of a status; `none` for an exchange that had no response.
fn status_class(status: Option<u16>) -> &'static str {
    match status.map(|status| status / 100) {
        Some(1) => "1xx",
        Some(2) => "2xx",
        Some(3) => "3xx",
        Some(4) => "4xx",
        // RFC 9110, 15: a status without a class of its own counts as an error of the server.
        Some(_) => "5xx",
        None => "none",
    }
}
