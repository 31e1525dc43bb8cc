//! Use of the node: counts by user, route and upstream.
//!
//! Routes and upstreams are names from the configuration. Users are not: only those with the most use are counted each,
//! all others together, so that no number of users makes the metrics grow.
//!
//! Each thread adds up its own part, which readers put together: an exchange that ends meets no other thread at a lock.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use serde::Serialize;

use super::counts::{Counts, Tally};
use super::live::Live;
use super::top::Top;

/// How often the users who are counted each are chosen anew.
const CHOICE: Duration = Duration::from_secs(10);

/// Parts of the counts by user. More threads than these share them.
const PARTS: usize = 16;

/// Users with counts that wait in a part.
#[doc(alias = "bound")]
const PART_USERS: usize = 32;

thread_local! {
    /// The part of this thread.
    static PART: usize = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed) % PARTS
    };
}

/// All counts, as the administrator sees them.
#[derive(Debug, Serialize)]
pub struct UsageView {
    /// Of everything.
    pub total: Counts,
    /// By user; `(other)` are those without counters of their own, and the empty name those who are unknown.
    pub users: Vec<(String, Counts)>,
    /// By route.
    pub routes: Vec<(String, Counts)>,
    /// By upstream.
    pub upstreams: Vec<(String, Counts)>,
}

/// Counts by user, route and upstream.
#[derive(Debug)]
pub(super) struct Usage {
    parts: [Mutex<Part>; PARTS],
    users: Mutex<Users>,
    routes: Tallies,
    upstreams: Tallies,
}

/// Counts by user since the last look, in the order in which the users came.
#[derive(Debug, Default)]
struct Part(Vec<(String, Counts)>);

#[derive(Debug)]
struct Users {
    total: Counts,
    top: Top,
    chosen: Instant,
}

impl Users {
    fn add(&mut self, part: Part) {
        for (user, gained) in part.0 {
            self.total.add(gained);
            self.top.add(&user, gained);
        }
    }
}

/// Counts by names of the configuration.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<HashMap<String, Arc<Tally>>>);

impl Tallies {
    /// The counts of a name.
    pub fn of(&self, name: &str) -> Arc<Tally> {
        let mut known = self.0.lock();
        match known.get(name) {
            Some(tally) => tally.clone(),
            None => known.entry(name.to_owned()).or_default().clone(),
        }
    }

    fn view(&self) -> Vec<(String, Counts)> {
        // One that is looked up and not yet counted in says nothing.
        let counts = self
            .0
            .lock()
            .iter()
            .map(|(name, tally)| (name.clone(), tally.counts()))
            .collect::<Vec<_>>();
        sorted(
            counts
                .into_iter()
                .filter(|(_, counts)| *counts != Counts::default())
                .collect(),
        )
    }
}

impl Usage {
    /// Counts `users` users each.
    pub fn new(users: usize) -> Arc<Self> {
        let users = Mutex::new(Users {
            total: Counts::default(),
            top: Top::new(users),
            chosen: Instant::now(),
        });
        let (parts, routes, upstreams) = Default::default();
        Arc::new(Self {
            parts,
            users,
            routes,
            upstreams,
        })
    }

    /// Counts this many users each from now on.
    pub fn limit(&self, users: usize) {
        self.all_users().top.limit(users);
    }

    /// The counts of a route.
    pub fn route(&self, name: &str) -> Arc<Tally> {
        self.routes.of(name)
    }

    /// The counts of an upstream.
    pub fn upstream(&self, name: &str) -> Arc<Tally> {
        self.upstreams.of(name)
    }

    /// Adds an exchange's increase so far.
    pub fn add(&self, live: &Live, gained: Counts) {
        if gained == Counts::default() {
            return;
        }
        let facts = live.facts.lock();
        self.add_for(facts.user.as_deref(), gained);

        if let Some(route) = &facts.route {
            self.route(route).add(gained);
        }
        if let Some(upstream) = facts.upstream() {
            self.upstream(upstream).add(gained);
        }
    }

    /// Adds the increase of a user's exchange, but not for its route and its upstream.
    pub fn add_for(&self, user: Option<&str>, gained: Counts) {
        let user = user.unwrap_or_default();
        let mut part = self.parts[PART.with(|part| *part)].lock();
        if let Some((_, counts)) = part.0.iter_mut().find(|(known, _)| known == user) {
            return counts.add(gained);
        }

        if part.0.len() >= PART_USERS {
            self.add_up(&mut part);
        }
        part.0.push((user.to_owned(), gained));
    }

    /// Adds a part to all users. It stays locked meanwhile, so that readers do not miss it.
    fn add_up(&self, part: &mut Part) {
        self.users.lock().add(std::mem::take(part));
    }

    /// All users, with the threads' counts: earlier additions are included.
    fn all_users(&self) -> MutexGuard<'_, Users> {
        for part in &self.parts {
            self.add_up(&mut part.lock());
        }
        self.users.lock()
    }

    /// All counts, the most used first.
    pub fn view(&self) -> UsageView {
        let mut users = self.all_users();
        if users.chosen.elapsed() >= CHOICE {
            users.chosen = Instant::now();
            users.top.choose();
        }

        UsageView {
            total: users.total,
            users: sorted(users.top.counts()),
            routes: self.routes.view(),
            upstreams: self.upstreams.view(),
        }
    }
}

fn sorted(mut counts: Vec<(String, Counts)>) -> Vec<(String, Counts)> {
    let bytes = |counts: &Counts| counts.client_to_target + counts.target_to_client;
    counts.sort_by(|(one_name, one), (two_name, two)| {
        bytes(two)
            .cmp(&bytes(one))
            .then_with(|| one_name.cmp(two_name))
    });
    counts
}

/// Writes the counts by user and by upstream as metrics.
#[derive(Debug)]
pub(super) struct UsageCollector(pub Arc<Usage>);

/// One figure of counts.
type Figure = fn(&Counts) -> u64;

/// Figures without a direction: their names, descriptions, and how to read them.
const FIGURES: [(&str, &str, Figure); 4] = [
    ("exchanges", "Exchanges that ended", |counts| {
        counts.exchanges
    }),
    (
        "failures",
        "Exchanges without a response, with a 5xx, or broken off",
        |counts| counts.failures,
    ),
    ("flows", "Flows of IP that were followed", |counts| {
        counts.flows
    }),
    (
        "denied_flows",
        "Flows of IP that were followed and may not pass",
        |counts| counts.denied_flows,
    ),
];

/// Directions of bytes.
const DIRECTIONS: [(&str, Figure); 2] = [
    ("client_to_target", |counts| counts.client_to_target),
    ("target_to_client", |counts| counts.target_to_client),
];

impl Collector for UsageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let view = self.0.view();
        encode(&mut encoder, "user", &view.users)?;
        encode(&mut encoder, "upstream", &view.upstreams)
    }
}

fn encode(
    encoder: &mut DescriptorEncoder,
    label: &str,
    counts: &[(String, Counts)],
) -> Result<(), std::fmt::Error> {
    for (what, help, figure) in FIGURES {
        let name = format!("hermes_{label}_{what}");
        let help = format!("{help}, by {label}");
        let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;
        for (name, counts) in counts {
            let labels = [(label, name.as_str())];
            ConstCounter::new(figure(counts)).encode(family.encode_family(&labels)?)?;
        }
    }

    let name = format!("hermes_{label}_bytes");
    let help = format!("Content and tunnel bytes, by {label}");
    let mut family = encoder.encode_descriptor(&name, &help, None, MetricType::Counter)?;

    for (name, counts) in counts {
        for (direction, figure) in DIRECTIONS {
            let labels = [(label, name.as_str()), ("direction", direction)];
            ConstCounter::new(figure(counts)).encode(family.encode_family(&labels)?)?;
        }
    }

    Ok(())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_threads_count_is_there_for_the_next_reader() {
        let usage = Usage::new(1000);
        let counted = |user: usize| {
            let gained = Counts {
                exchanges: 1,
                client_to_target: user as u64,
                ..Counts::default()
            };
            usage.add_for(Some(&format!("user{user}")), gained);
        };

        thread::scope(|scope| {
            for _ in 0..2 * PARTS {
                scope.spawn(|| (0..3 * PART_USERS).for_each(counted));
            }
        });
        let view = usage.view();
        let each = 2 * PARTS as u64;
        assert_eq!(view.total.exchanges, each * 3 * PART_USERS as u64);
        assert_eq!(view.users.len(), 3 * PART_USERS);
        for (name, counts) in view.users {
            assert_eq!(counts.exchanges, each, "{name}");
            let user: u64 = name["user".len()..].parse().unwrap();
            assert_eq!(counts.client_to_target, each * user);
        }
    }
}
