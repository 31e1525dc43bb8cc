//! Users, an origin with a bound, and the pacing between them, in simulated time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hermes_net::memory::Owner;

use crate::answered::{Admission, Answered};
use crate::budget::Budget;
use crate::settings::Mode;
use crate::turns::Turns;
use crate::words::Told;

/// Requests that the origin serves in a window.
const QUOTA: u64 = 40;
const WINDOW: Duration = Duration::from_secs(60);
/// Between sending and the answer of the origin.
const TRIP: Duration = Duration::from_millis(50);
/// Answers come back within this time, in any order.
const BACK: Duration = Duration::from_millis(20);
/// When a simulation is given up.
const END: Duration = Duration::from_secs(3600);

/// How an origin counts, and what it tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OriginKind {
    /// Windows that begin with a first request; `RateLimit` in each answer.
    Tells,
    /// The same, with `Retry-After` in refusals alone.
    Retries,
    /// A bucket of 40 tokens that fills evenly; 429 and no word more.
    Silent,
}

/// An origin at work.
struct Served {
    kind: OriginKind,
    began: Option<Instant>,
    count: u64,
    tokens: f64,
    filled: Instant,
}

impl Served {
    fn new(kind: OriginKind, now: Instant) -> Self {
        Self {
            kind,
            began: None,
            count: 0,
            tokens: QUOTA as f64,
            filled: now,
        }
    }

    fn answer(&mut self, now: Instant) -> (bool, Told) {
        if self.kind == OriginKind::Silent {
            let gained = (now - self.filled).as_secs_f64() * QUOTA as f64 / WINDOW.as_secs_f64();
            self.tokens = (self.tokens + gained).min(QUOTA as f64);
            self.filled = now;
            let is_refused = self.tokens < 1.0;
            if !is_refused {
                self.tokens -= 1.0;
            }
            return (is_refused, Told::default());
        }
        if self.began.is_none_or(|began| now >= began + WINDOW) {
            self.began = Some(now);
            self.count = 0;
        }
        self.count += 1;
        let is_refused = self.count > QUOTA;
        let rest = WINDOW - (now - self.began.unwrap());
        // Whole seconds, rounded up, as in the fields.
        let rest = Duration::from_secs(rest.as_secs() + 1);
        let told = match self.kind {
            OriginKind::Tells => Told {
                left: Some(QUOTA.saturating_sub(self.count)),
                resets_in: Some(rest),
                quota: Some(QUOTA),
                window: Some(WINDOW),
                retry_after: is_refused.then_some(rest),
            },
            _ => Told {
                retry_after: is_refused.then_some(rest),
                ..Told::default()
            },
        };
        (is_refused, told)
    }
}

/// What became of all requests.
#[derive(Debug, Default)]
struct Outcome {
    refusals: u64,
    /// Until the last one was served.
    time: Duration,
    /// When each user's last request was served.
    by_user: BTreeMap<String, Duration>,
}

/// Users with requests each, all at once, through one node.
fn paced(mode: Mode, kind: OriginKind, users: usize, each: usize, seed: u64) -> Outcome {
    let start = Instant::now();
    let mut pacing = Pacing {
        start,
        now: start,
        users,
        budget: Budget::new(mode, start),
        turns: Turns::default(),
        origin: Served::new(kind, start),
        under_way: VecDeque::new(),
        answers: BTreeMap::new(),
        random: Rng::with_seed(seed),
        outcome: Outcome::default(),
    };
    let owners = (0..users).map(|user| Owner::User(user.to_string().into()));
    let owners: Vec<Owner> = owners.collect();
    for owner in (0..each).flat_map(|_| &owners) {
        pacing.turns.enter(owner, false).unwrap();
    }
    while pacing.turns.len() > 0 || !pacing.is_idle() {
        let took = pacing.now - start;
        assert!(took < END, "{mode:?} {kind:?}: {:?}", pacing.outcome);
        pacing.step();
    }
    pacing.outcome
}

struct Pacing {
    start: Instant,
    now: Instant,
    users: usize,
    budget: Budget,
    turns: Turns,
    origin: Served,
    /// When requests were sent, and whose they are.
    under_way: VecDeque<(Instant, Owner)>,
    /// Answers on their way, by the time at which they come.
    answers: BTreeMap<Instant, (Answered, Owner)>,
    random: Rng,
    outcome: Outcome,
}

impl Pacing {
    /// A request is sent, or time goes on to what comes next.
    fn step(&mut self) {
        let next = self.turns.next().cloned();
        let admission = match &next {
            Some(_) => self.budget.admission(self.now),
            None => Admission::AfterAnswer,
        };
        if let (Admission::Now, Some(next)) = (admission, next) {
            self.turns.take(&next);
            self.budget.send(self.now);
            self.under_way.push_back((self.now, next.who.clone()));
            return;
        }
        let counted = self.under_way.front().map(|(sent, _)| *sent + TRIP);
        let comes = self.answers.keys().next().copied();
        let again = match admission {
            Admission::At(at) => Some(at),
            _ => None,
        };
        let next = [counted, comes, again].into_iter().flatten().min().unwrap();
        // A float has no more nanoseconds than so many.
        self.now = self.now.max(next) + Duration::from_nanos(1);
        if counted.is_some_and(|counted| counted <= self.now) {
            self.serve();
        }
        if comes.is_some_and(|comes| comes <= self.now) {
            self.answer();
        }
    }

    fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.answers.is_empty()
    }

    /// The origin answers the request that came first.
    fn serve(&mut self) {
        let (sent, who) = self.under_way.pop_front().unwrap();
        let (is_refused, told) = self.origin.answer(self.now);
        let answered = Answered {
            sent,
            is_refused,
            told,
            users: self.users,
            chance: self.random.f64(),
        };
        let mut comes = self.now + BACK.mul_f64(self.random.f64());
        while self.answers.contains_key(&comes) {
            comes += Duration::from_nanos(1);
        }
        self.answers.insert(comes, (answered, who));
    }

    /// An answer comes.
    fn answer(&mut self) {
        let (_, (answered, who)) = self.answers.pop_first().unwrap();
        self.budget.answer(answered, self.now);
        if answered.is_refused {
            self.outcome.refusals += 1;
            self.turns.enter(&who, true).unwrap();
        } else {
            self.outcome.time = self.now - self.start;
            self.outcome
                .by_user
                .insert(who.to_string(), self.outcome.time);
        }
    }
}

/// The same without pacing: each user asks again on his own, at a random time of up to 2, 4, 8 and so on seconds, 30 at most.
fn unpaced(kind: OriginKind, users: usize, each: usize, seed: u64) -> Outcome {
    let mut random = Rng::with_seed(seed);
    let start = Instant::now();
    let mut origin = Served::new(kind, start);
    // When a request is sent, its user, and how often it was refused.
    let mut sent: Vec<(Instant, usize, u32)> = (0..users * each)
        .map(|index| (start, index % users, 0))
        .collect();
    let mut outcome = Outcome::default();
    while let Some(index) = (0..sent.len()).min_by_key(|index| sent[*index].0) {
        let (at, user, tries) = sent.swap_remove(index);
        let now = at + TRIP;
        let (is_refused, _) = origin.answer(now);
        if is_refused {
            outcome.refusals += 1;
            let most = f64::from((1_u32 << (tries + 1).min(5)) - 1).min(30.0);
            let wait = 0.1 + random.f64() * (most - 0.1);
            sent.push((now + Duration::from_secs_f64(wait), user, tries + 1));
        } else {
            outcome.time = now - start;
            outcome.by_user.insert(user.to_string(), now - start);
        }
    }
    outcome
}

const KINDS: [OriginKind; 3] = [OriginKind::Tells, OriginKind::Retries, OriginKind::Silent];

/// The best schedule: full windows one after the other, or the bucket and what flows into it.
fn best(kind: OriginKind, requests: u64) -> Duration {
    match kind {
        OriginKind::Silent => {
            WINDOW.mul_f64((requests.saturating_sub(QUOTA)) as f64 / QUOTA as f64)
        }
        _ => WINDOW * u32::try_from((requests - 1) / QUOTA).unwrap(),
    }
}

#[test]
fn pacing_takes_97_of_100_refusals_away_and_is_within_a_tenth_of_the_best_schedule() {
    for kind in KINDS {
        for (users, each) in [(10, 24), (50, 8), (100, 4)] {
            for seed in 0..5 {
                let alone = unpaced(kind, users, each, seed);
                let paced = paced(Mode::Learned, kind, users, each, seed);
                let said = format!(
                    "{kind:?}, {users} users: {} refusals in {:?}, {} in {:?} alone",
                    paced.refusals, paced.time, alone.refusals, alone.time
                );
                assert!(
                    paced.refusals as f64 <= 0.03 * alone.refusals as f64,
                    "{said}"
                );
                let best = best(kind, (users * each) as u64);
                assert!(
                    paced.time <= best.mul_f64(1.1) + Duration::from_secs(6),
                    "{said}, best {best:?}"
                );
            }
        }
    }
}

#[test]
fn no_room_of_an_origin_that_tells_it_is_left_whatever_the_order_of_its_answers() {
    for seed in 0..20 {
        for users in [1, 7, 50] {
            let each = 200 / users;
            let paced = paced(Mode::Learned, OriginKind::Tells, users, each, seed);
            let windows = WINDOW * u32::try_from((users * each - 1) as u64 / QUOTA).unwrap();
            let said = format!("{users} users, seed {seed}: {:?}", paced.time);
            assert_eq!(paced.refusals, 0, "{said}");
            // Each window is told in whole seconds.
            assert!(paced.time < windows + Duration::from_secs(6), "{said}");
        }
    }
}

#[test]
fn the_buckets_of_the_paper_refuse_little_too() {
    for mode in [Mode::Atb, Mode::Aatb] {
        let alone = unpaced(OriginKind::Silent, 100, 4, 1);
        let paced = paced(mode, OriginKind::Silent, 100, 4, 1);
        let said = format!(
            "{mode:?}: {} refusals in {:?}, {} alone",
            paced.refusals, paced.time, alone.refusals
        );
        assert!(
            paced.refusals as f64 <= 0.1 * alone.refusals as f64,
            "{said}"
        );
    }
}

#[test]
fn no_user_starves_beside_one_with_many_requests() {
    for kind in KINDS {
        let outcome = paced(Mode::Learned, kind, 20, 12, 3);
        let first = outcome.by_user.values().min().unwrap();
        let last = outcome.by_user.values().max().unwrap();
        assert_eq!(outcome.by_user.len(), 20);
        // All have as many requests: they end within one window of each other.
        assert!(
            *last - *first <= WINDOW + Duration::from_secs(2),
            "{kind:?}: {first:?} to {last:?}"
        );
    }
}
