//! Everything that can be seen of a process, and how it is asked: see [`Telemetry`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use hermes_config::model::Trace;
use hermes_net::Watch;
use hermes_net::clock;
use hermes_net::shares::Shares;
use parking_lot::RwLock;

use crate::LOG;
use crate::access::{AccessLine, AccessSink};
use crate::counts::Counts;
use crate::decisions::Decisions;
use crate::exchange::Exchange;
use crate::flow_record::FlowRecord;
use crate::listener::{ConnectionGuard, ListenerTelemetry};
use crate::live::{Begin, ExchangeView, Id, Live, Table};
use crate::metrics::{DropReason, Metrics};
use crate::otlp::{ExportedNode, Spans};
use crate::policies::PolicyTally;
use crate::post::Destination;
use crate::reason::class_of;
use crate::record::{Event, Record};
use crate::usage::{Usage, UsageView};
use crate::validity::Held;
use crate::vitals::{VitalCounters, Vitals};
use crate::writer::{Fates, Writer};

/// Views of live exchanges in one answer; the rest is only counted, so that an answer stays below some megabytes.
#[doc(alias = "bound")]
pub const VIEW_LIMIT: usize = 5000;

/// Users with counters of their own: users must not decide how much memory metrics take.
#[doc(alias("bound", "metrics.users"))]
const USERS: usize = 20;

/// How often tunnels are looked through for those that are long.
const LONG_SCAN: Duration = Duration::from_secs(30);

/// Everything that can be seen; one a process.
#[derive(Debug)]
pub struct Telemetry {
    pub(crate) node: Arc<str>,
    writer: RwLock<Writer<AccessLine>>,
    table: Table,
    metrics: Metrics,
    usage: Arc<Usage>,
    vitals: VitalCounters,
    shares: Arc<Shares>,
    pub(crate) spans: Spans,
    pub(crate) decisions: Decisions,
    /// Makes identifiers of this process differ from those of the one before it.
    prefix: u32,
    next: AtomicU64,
}

impl Telemetry {
    /// Starts the telemetry of `node`; access records go to `access`.
    #[must_use]
    pub fn new(node: &str, access: AccessSink) -> Arc<Self> {
        let usage = Usage::new(USERS);
        let shares = Arc::new(Shares::default());
        let metrics = Metrics::new(&usage, &shares);

        Arc::new(Self {
            node: node.into(),
            writer: RwLock::new(records(access, &metrics)),
            table: Table::default(),
            spans: Spans::new(metrics.spans()),
            decisions: Decisions::new(metrics.decisions_logged()),
            metrics,
            usage,
            vitals: VitalCounters::default(),
            shares,
            prefix: fastrand::u32(..),
            next: AtomicU64::new(1),
        })
    }

    /// The shares of descriptors, by holder.
    pub fn shares(&self) -> &Arc<Shares> {
        &self.shares
    }

    /// Sends further access records to `access`; earlier ones stay where they went.
    pub fn redirect_access(&self, access: AccessSink) {
        *self.writer.write() = records(access, &self.metrics);
    }

    /// Looks at once whether the file of access records was moved, and begins a new one then.
    pub fn reopen_access(&self) {
        self.writer.read().follow();
    }

    /// Waits at most `limit` until the access records written so far have left the process; false when they have not.
    ///
    /// Blocks the thread: for the end of a process.
    pub fn flush_access(&self, limit: Duration) -> bool {
        self.writer.read().flush(limit)
    }

    /// Adds an exchange to the table of live ones, until the guard is finished or dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>, begin: Begin) -> Exchange {
        let listener = self.metrics.listener(&begin.listener);
        self.begin_at(begin, listener)
    }

    /// As [`Self::begin`], at the listener with these handles: nothing is looked up.
    #[must_use]
    pub fn begin_at(self: &Arc<Self>, begin: Begin, listener: Arc<ListenerTelemetry>) -> Exchange {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        listener.exchange_began();
        let live = Arc::new(Live::new(
            Id {
                prefix: self.prefix,
                number,
            },
            begin,
            listener,
        ));

        let Begin {
            kind,
            listener,
            source,
            protocol,
        } = &live.begin;

        tracing::debug!(target: LOG, exchange = %live.id, %listener, %source, protocol, kind, "arrives");
        self.table.insert(Arc::clone(&live));
        Exchange::new(Arc::clone(self), live)
    }

    /// The handles of one listener; keep them, the look-up takes a lock.
    #[must_use]
    pub fn listener(&self, name: &str) -> Arc<ListenerTelemetry> {
        self.metrics.listener(name)
    }

    /// Sums over all exchanges that have ended.
    #[must_use]
    pub fn vitals(&self) -> Vitals {
        self.vitals.read()
    }

    /// Live exchanges, oldest first, at most [`VIEW_LIMIT`].
    #[must_use]
    pub fn exchanges(&self) -> Vec<ExchangeView> {
        self.table
            .oldest(VIEW_LIMIT)
            .iter()
            .map(|live| live.view(Instant::now()))
            .collect()
    }

    /// How many exchanges are live.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.table.len()
    }

    /// Counts an attempt to connect to `upstream` (its configured name) that failed; `kind` is from a fixed set.
    pub fn connect_failure(&self, upstream: &str, kind: &'static str) {
        self.metrics.connect_failure(upstream, kind);
    }

    /// Counts an attempt after a failed one, or beside a slow one; `reason` is from a fixed set.
    pub fn retry(&self, upstream: &str, reason: &'static str) {
        self.metrics.retry(upstream, reason);
    }

    /// Counts an attachment to this node; it is open until the guard is dropped.
    #[must_use]
    pub fn attached(&self) -> ConnectionGuard {
        self.metrics.attached()
    }

    /// Counts an attempt that the budget of `upstream` did not allow.
    pub fn retry_budget_exhausted(&self, upstream: &str) {
        self.metrics.retry_budget_exhausted(upstream);
    }

    /// Counts the decisions of a policy's rules: by their positions, each with its name and whether
    /// it allows, if it decides at all. The counter of a name that existed before goes on.
    pub fn policy<'a>(
        &self,
        rules: impl Iterator<Item = Option<(&'a Arc<str>, bool)>>,
        default_allows: bool,
    ) -> PolicyTally {
        PolicyTally::new(self.metrics.policies(), rules, default_allows)
    }

    /// Counts a filter's decision; `outcome` is from a fixed set, `took` is `None` for one that was remembered.
    pub fn filtered(&self, filter: &str, outcome: &'static str, took: Option<Duration>) {
        self.metrics.filters().decided(filter, outcome, took);
    }

    /// Counts the copies of a broadcast on a route (its configured name): those that succeeded, failed and were cancelled.
    pub fn broadcast(&self, route: &str, copies: [usize; 4]) {
        self.metrics.broadcasts().ended(route, copies);
    }

    /// Counts datagrams that were not delivered. Add them to the exchange's counters as well.
    pub fn datagrams_dropped(&self, reason: DropReason, count: u64) {
        self.metrics.datagrams_dropped(reason, count);
    }

    /// Counts a reload and its outcome, which is `applied`, `refused`, `confirmed` or `returned`.
    pub fn reload(&self, outcome: &'static str) {
        self.metrics.reload(outcome);
    }

    /// Says in metrics how long these certificates count, and no others.
    pub fn watch_certificates(&self, held: Vec<Held>) {
        self.metrics.watched.certificates.replace(held);
    }

    /// The certificates in force.
    pub fn certificates(&self) -> Vec<Held> {
        self.metrics.watched.certificates.all()
    }

    /// Shows the plugs' own gauges in the metrics, as `look` returns them.
    pub fn watch_plugs(&self, look: impl Fn() -> Vec<crate::GaugeFamily> + Send + Sync + 'static) {
        self.metrics.watched.plugs.look(Arc::new(look));
    }

    /// Shows the orders of certificates in the metrics, as `look` returns them.
    pub fn watch_renewals(
        &self,
        look: impl Fn() -> Vec<crate::RenewalView> + Send + Sync + 'static,
    ) {
        self.metrics.watched.renewals.look(Arc::new(look));
    }

    /// Says in metrics how these upstreams are, and of no others.
    pub fn watch_upstreams(&self, upstreams: Vec<Arc<hermes_upstream::Upstream>>) {
        self.metrics.watched.upstreams.replace(upstreams);
    }

    /// Counts by user, route and upstream.
    #[must_use]
    pub fn usage(&self) -> UsageView {
        self.settle();
        self.usage.view()
    }

    /// Counts this many users each, 20 if it is not said; the others are counted together.
    pub fn users(&self, limit: Option<usize>) {
        self.usage.limit(limit.unwrap_or(USERS));
    }

    /// Accounts for the traffic of live exchanges so far.
    pub(crate) fn settle(&self) {
        self.table.each(|live| self.usage.add(live, live.settle()));
    }

    /// All metrics in the OpenMetrics text format.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.settle();
        self.metrics.text()
    }

    /// Sends spans and metrics as `config` says at the time, until the process ends. Only the first call does anything.
    pub async fn export(
        self: Arc<Self>,
        config: impl Fn() -> (Trace, Option<Destination>),
        watch: Watch,
    ) {
        let node = ExportedNode {
            name: &self.node,
            spans: &self.spans,
            metrics: &|| self.metrics_text(),
        };
        node.export(config, watch).await;
    }

    /// Writes a `long` record of every tunnel whose last record (or begin) is [`LONG_AFTER`](crate::LONG_AFTER) before `now`.
    pub fn write_long(&self, now: Instant) {
        self.table.each(|live| {
            if live.is_long(now) {
                self.write(live, Event::Long, "", now);
            }
        });
    }

    /// Writes `long` records until the process drains.
    pub async fn watch_long(self: Arc<Self>, watch: Watch) {
        let mut ticks = tokio::time::interval(LONG_SCAN);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let end = watch.graceful();
        tokio::pin!(end);

        loop {
            tokio::select! {
                () = &mut end => return,
                _ = ticks.tick() => self.write_long(Instant::now()),
            }
        }
    }

    /// Accounts for an exchange and takes it out of the table; called once an exchange. In this order: a reader that finds no live exchange
    /// finds all that ended counted.
    pub(crate) fn end(&self, live: &Live, reason: &str) {
        let now = Instant::now();
        let class = class_of(reason);
        let failed = failed(live.status(), class);
        let gained = Counts {
            exchanges: 1,
            failures: u64::from(failed),
            ..live.settle()
        };

        self.metrics.ended(live, class, now, gained, &self.usage);
        if let Some(counts) = &live.facts.lock().worked.functions {
            self.metrics.functions().ended(counts);
        }
        let is_answered_request = live.kind() == "http" && live.status().is_some();
        let lasted = is_answered_request.then(|| now.saturating_duration_since(live.since));
        self.vitals.count(failed, lasted.map(micros));
        self.write(live, Event::End, reason, now);
        if self.spans.wants(live) {
            self.spans.offer(
                live,
                Record::new(live, Event::End, &self.node, reason, SystemTime::now(), now),
                failed,
            );
        }

        self.table.remove(live.id.number);
    }

    fn write(&self, live: &Live, event: Event, reason: &str, now: Instant) {
        let writer = self.writer.read();
        if writer.is_on() {
            let record = Record::new(live, event, &self.node, reason, clock::system_now(), now);
            writer.offer(AccessLine::Exchange(record));
        }
    }

    /// Writes the record of a flow, if records go anywhere.
    pub(crate) fn write_flow(&self, record: impl FnOnce() -> FlowRecord) {
        let writer = self.writer.read();
        if writer.is_on() {
            writer.offer(AccessLine::Flow(record()));
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The writer of access records to a sink.
fn records(access: AccessSink, metrics: &Metrics) -> Writer<AccessLine> {
    let lost = metrics.access_lost();
    let fates = Fates {
        crowded_out: lost.clone(),
        failed: lost,
        ..Fates::default()
    };
    Writer::start(access.0, fates)
}

/// Whether an exchange that ended so has failed on our side or the target's.
fn failed(status: Option<u16>, class: &str) -> bool {
    status.is_none_or(|status| status >= 500) || class == "target_reset"
}
