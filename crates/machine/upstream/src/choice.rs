//! Which endpoint an exchange goes to: health first, then the zone, then the balance.

use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::{self, Balance};
use hermes_net::clock;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::balance::{Candidate, Readiness, RoundRobin, best_readiness, least_request};
use crate::condition::Fitness;
use crate::endpoint::Endpoint;
use crate::ring::{self, Affinity, Ring};
use crate::zones::{self, WHOLE};

/// With fewer healthy endpoints than this, in percent, health is not looked at: all are used. So
/// many unhealthy ones at once tell more of the checks, or of the load, than of the endpoints, and
/// the few left would not carry the load.
const PANIC_BELOW: usize = 50;

/// Weights are multiplied with this where a returning endpoint has a part of its own.
const FINE: u32 = 1000;

/// How an upstream chooses.
#[derive(Debug)]
pub(crate) struct Choice {
    balance: Balance,
    turns: Mutex<RoundRobin>,
    ring: Ring,
    /// The key of the ring.
    hash: Option<model::Hash>,
    /// Where this node stands.
    zone: Option<String>,
    /// Time in which an endpoint that came back grows to all of its weight.
    slow_start: Option<Duration>,
}

impl Choice {
    pub(crate) fn new(
        zone: Option<&str>,
        config: &model::Upstream,
        endpoints: &[Arc<Endpoint>],
    ) -> Self {
        let hashed = config.balance == Balance::RingHash;
        let ring = || Ring::new(endpoints.iter().map(|one| (&*one.text, one.weight)));
        Self {
            balance: config.balance,
            turns: Mutex::default(),
            ring: if hashed { ring() } else { Ring::default() },
            hash: config.hash.clone().filter(|_| hashed),
            zone: zone.map(str::to_owned),
            slow_start: config.slow_start.map(|time| time.0),
        }
    }

    /// Where this node stands.
    pub(crate) fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// The key of the ring.
    pub(crate) fn hash(&self) -> Option<&model::Hash> {
        self.hash.as_ref()
    }

    /// The endpoint to try next; `None` when all were `tried`. Exchanges of one affinity stay together where the balance says
    /// so.
    pub(crate) fn pick(
        &self,
        endpoints: &[Arc<Endpoint>],
        tried: &[usize],
        affinity: Option<Affinity>,
    ) -> Option<usize> {
        // Without a choice, health and balance are beside the point: a failed single endpoint is tried, too.
        if let [_] = endpoints {
            return tried.is_empty().then_some(0);
        }
        // Without an affinity, any point of the ring is as good as another.
        let key = affinity.unwrap_or_else(|| Affinity(fastrand::u64(..)));
        let now = clock::now();
        let mut candidates = self.candidates(endpoints, tried, now);
        // By the key, so that exchanges of one affinity choose the same side each time.
        self.prefer_zone(endpoints, &mut candidates, key.0 % WHOLE);

        match self.balance {
            Balance::RoundRobin => self.turns.lock().pick(&candidates),
            Balance::LeastRequest => least_request(&candidates, |total| fastrand::u64(0..total)),
            Balance::RingHash => {
                let best = best_readiness(&candidates)?;
                let may = |index: usize| candidates[index].readiness == best;
                let grown = |index: usize| {
                    ring::admits(
                        key,
                        &endpoints[index].text,
                        self.part(&endpoints[index], now),
                    )
                };

                let picked = self.ring.pick(key, |index| may(index) && grown(index));

                // If slow start admits no endpoint, one is still better than none.
                picked.or_else(|| self.ring.pick(key, may))
            }
        }
    }

    fn candidates(
        &self,
        endpoints: &[Arc<Endpoint>],
        tried: &[usize],
        now: Instant,
    ) -> Vec<Candidate> {
        let panics = panics(endpoints, now);
        let candidate = |(index, endpoint): (usize, &Arc<Endpoint>)| Candidate {
            weight: self.weight(endpoint, now),
            active: endpoint.active(),
            readiness: match () {
                () if tried.contains(&index) => Readiness::Out,
                () if !panics && endpoint.fitness(now) != Fitness::Healthy => Readiness::Out,
                () if endpoint.is_resting(now) => Readiness::Resting,
                () => Readiness::Ready,
            },
        };

        endpoints.iter().enumerate().map(candidate).collect()
    }

    /// The part of its weight that an endpoint has now.
    fn part(&self, endpoint: &Endpoint, now: Instant) -> f64 {
        self.slow_start
            .map_or(1.0, |time| endpoint.share(time, now))
    }

    fn weight(&self, endpoint: &Endpoint, now: Instant) -> u32 {
        let weight = u32::from(endpoint.weight);
        match self.slow_start {
            // The product is at most 1000 times 1000.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a positive number below 2^20"
            )]
            Some(time) => (f64::from(weight * FINE) * endpoint.share(time, now)) as u32,
            None => weight,
        }
    }

    /// Puts the endpoints of one side, at home or away, after those of the other; `roll` of [`WHOLE`] decides which.
    fn prefer_zone(&self, endpoints: &[Arc<Endpoint>], candidates: &mut [Candidate], roll: u64) {
        let Some(own) = &self.zone else { return };
        let at_home: Vec<_> = endpoints
            .iter()
            .map(|one| one.zone() == Some(own))
            .collect();
        let weight = |home: bool, only_ready: bool| {
            let side = candidates
                .iter()
                .zip(&at_home)
                .filter(|(_, at_home)| **at_home == home);
            let open = side.filter(|(one, _)| !only_ready || one.readiness == Readiness::Ready);
            open.map(|(one, _)| u64::from(one.weight)).sum::<u64>()
        };

        let home =
            roll < zones::stays(weight(true, true), weight(true, false), weight(false, true));
        for (candidate, _) in candidates
            .iter_mut()
            .zip(at_home)
            .filter(|(_, at_home)| *at_home != home)
        {
            if candidate.readiness == Readiness::Ready {
                candidate.readiness = Readiness::Far;
            }
        }
    }
}

/// Whether so few endpoints are healthy that all are used.
pub(crate) fn panics(endpoints: &[Arc<Endpoint>], now: Instant) -> bool {
    let healthy = endpoints
        .iter()
        .filter(|endpoint| endpoint.fitness(now) == Fitness::Healthy)
        .count();
    healthy * 100 < endpoints.len() * PANIC_BELOW
}
