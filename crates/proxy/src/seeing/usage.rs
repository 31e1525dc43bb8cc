//! Who and what uses the node: counts by user, route and upstream.
//!
//! Routes and upstreams are names from the configuration. Users are not: only those with the most use are counted each,
//! all others together, so that no number of users makes the metrics grow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use serde::Serialize;
use std::sync::Arc;

use super::live::Live;
use super::top::Top;

/// How often the users who are counted each are chosen anew.
const CHOICE: Duration = Duration::from_secs(10);

/// What exchanges amount to. Only grows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Exchanges that ended.
    pub exchanges: u64,
    /// Those of them that failed: without a response, with a 5xx, or broken off by the target.
    pub failures: u64,
    /// Bytes from clients.
    pub client_to_target: u64,
    /// Bytes to clients.
    pub target_to_client: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.exchanges += other.exchanges;
        self.failures += other.failures;
        self.client_to_target += other.client_to_target;
        self.target_to_client += other.target_to_client;
    }
}

/// All counts, as the administrator sees them.
#[derive(Debug, Serialize)]
pub struct UsageView {
    /// Of everything.
    pub total: Counts,
    /// By user; `(other)` are those who are not counted each, and the empty name those whom nobody knows.
    pub users: Vec<(String, Counts)>,
    /// By route.
    pub routes: Vec<(String, Counts)>,
    /// By upstream.
    pub upstreams: Vec<(String, Counts)>,
}

/// Counts by user, route and upstream.
#[derive(Debug)]
pub(super) struct Usage(Mutex<Tables>);

#[derive(Debug)]
struct Tables {
    total: Counts,
    users: Top,
    routes: HashMap<String, Counts>,
    upstreams: HashMap<String, Counts>,
    chosen: Instant,
}

impl Usage {
    /// Counts `users` users each.
    pub fn new(users: usize) -> Arc<Self> {
        let (routes, upstreams) = Default::default();
        let tables =
            Tables { total: Counts::default(), users: Top::new(users), routes, upstreams, chosen: Instant::now() };
        Arc::new(Self(Mutex::new(tables)))
    }

    /// Counts this many users each from now on.
    pub fn limit(&self, users: usize) {
        self.0.lock().users.limit(users);
    }

    /// Adds what an exchange gained.
    pub fn add(&self, live: &Live, gained: Counts) {
        if gained == Counts::default() {
            return;
        }
        let facts = live.facts.lock();
        let mut tables = self.0.lock();
        tables.total.add(gained);
        tables.users.of(facts.user.as_deref().unwrap_or_default(), gained).add(gained);
        if let Some(route) = &facts.route {
            add(&mut tables.routes, route, gained);
        }
        if let Some(upstream) = &facts.upstream {
            add(&mut tables.upstreams, upstream, gained);
        }
    }

    /// All counts, the most used first.
    pub fn view(&self) -> UsageView {
        let mut tables = self.0.lock();
        if tables.chosen.elapsed() >= CHOICE {
            tables.chosen = Instant::now();
            tables.users.choose();
        }
        let by_name =
            |table: &HashMap<String, Counts>| sorted(table.iter().map(|(name, c)| (name.clone(), *c)).collect());
        UsageView {
            total: tables.total,
            users: sorted(tables.users.counts()),
            routes: by_name(&tables.routes),
            upstreams: by_name(&tables.upstreams),
        }
    }
}

fn add(table: &mut HashMap<String, Counts>, name: &str, gained: Counts) {
    match table.get_mut(name) {
        Some(counts) => counts.add(gained),
        None => drop(table.insert(name.to_owned(), gained)),
    }
}

fn sorted(mut counts: Vec<(String, Counts)>) -> Vec<(String, Counts)> {
    let bytes = |counts: &Counts| counts.client_to_target + counts.target_to_client;
    counts.sort_by(|(one_name, one), (two_name, two)| bytes(two).cmp(&bytes(one)).then_with(|| one_name.cmp(two_name)));
    counts
}

/// Writes the counts by user and by upstream as metrics.
#[derive(Debug)]
pub(super) struct UsageCollector(pub Arc<Usage>);

/// One figure of counts.
type Figure = fn(&Counts) -> u64;

/// Figures that have no direction: their names, what they are, and how to read them.
const FIGURES: [(&str, &str, Figure); 2] = [
    ("exchanges", "Exchanges that ended", |counts| counts.exchanges),
    ("failures", "Exchanges without a response, with a 5xx, or broken off", |counts| counts.failures),
];

/// Directions of bytes.
const DIRECTIONS: [(&str, Figure); 2] =
    [("client_to_target", |counts| counts.client_to_target), ("target_to_client", |counts| counts.target_to_client)];

impl Collector for UsageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let view = self.0.view();
        encode(&mut encoder, "user", &view.users)?;
        encode(&mut encoder, "upstream", &view.upstreams)
    }
}

fn encode(encoder: &mut DescriptorEncoder, label: &str, counts: &[(String, Counts)]) -> Result<(), std::fmt::Error> {
    for (what, help, figure) in FIGURES {
        let (name, help) = (format!("hermes_{label}_{what}"), format!("{help}, by {label}"));
        let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
        for (name, counts) in counts {
            let labels = [(label, name.as_str())];
            ConstCounter::new(figure(counts)).encode(family.encode_family(&labels)?)?;
        }
    }
    let (name, help) = (format!("hermes_{label}_bytes"), format!("Content and tunnel bytes, by {label}"));
    let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
    for (name, counts) in counts {
        for (direction, figure) in DIRECTIONS {
            let labels = [(label, name.as_str()), ("direction", direction)];
            ConstCounter::new(figure(counts)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
