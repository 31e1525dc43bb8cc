//! When links are up, and how long a transfer over them takes at least.

use std::time::Duration;

use fastrand::Rng;

/// Slots of a second that are drawn in advance; then they repeat.
const SLOTS: usize = 600;

/// Which link is up in each slot.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// All of them, always.
    Up,
    /// One at a time.
    One(Vec<usize>),
}

impl Schedule {
    /// Links that stay.
    pub fn up(_: usize) -> Self {
        Self::Up
    }

    /// The link of the client first, then the one behind it.
    pub fn cyclic(links: usize) -> Self {
        Self::One((0..links).collect())
    }

    /// The link of the server first.
    pub fn reverse(links: usize) -> Self {
        Self::One((0..links).rev().collect())
    }

    /// Each slot is drawn by itself.
    pub fn random(links: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self::One((0..SLOTS).map(|_| rng.usize(..links)).collect())
    }

    /// All links in each round, in an order that is drawn for each.
    pub fn permutations(links: usize, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let round = |_| {
            let mut order: Vec<_> = (0..links).collect();
            rng.shuffle(&mut order);
            order
        };
        Self::One((0..SLOTS / links).flat_map(round).collect())
    }

    /// Whether a link is up.
    pub fn is_up(&self, link: usize, at: Duration) -> bool {
        match self {
            Self::Up => true,
            Self::One(order) => order[at.as_secs() as usize % order.len()] == link,
        }
    }
}

/// How long a transfer takes at least that begins at `begin`: the request passes each link when it is up, which takes no time;
/// then the bytes flow back, and each node passes on at once what it has. Headers cost nothing.
pub fn bound(
    schedule: &Schedule,
    links: usize,
    rate: f64,
    size: usize,
    begin: Duration,
) -> Duration {
    /// The step in which bytes flow, in seconds.
    const STEP: f64 = 0.001;
    let step = |count: u64| Duration::from_secs_f64(count as f64 * STEP);
    let mut now = (begin.as_secs_f64() / STEP).round() as u64;

    for link in 0..links {
        while !schedule.is_up(link, step(now)) {
            now += 1;
        }
    }

    let size = size as f64;
    // What each node has, from the client on; the last one is the server.
    let mut has = vec![0.0; links];
    has.push(size);
    while has[0] < size {
        for link in 0..links {
            if schedule.is_up(link, step(now)) {
                has[link] = f64::min(has[link] + rate * STEP, has[link + 1]);
            }
        }
        now += 1;
    }
    step(now) - begin
}

#[test]
fn three_links_in_turn_take_what_a_pencil_says() {
    let cyclic = |size| bound(&Schedule::cyclic(3), 3, 1.25e6, size, Duration::ZERO).as_secs_f64();
    // The request is there after 2 s; 4.19 s of bytes need five slots of each link, the last of which for 0.19 s.
    assert!((cyclic(5 << 20) - 18.2).abs() < 0.02);
    assert!((cyclic(1 << 20) - 6.84).abs() < 0.02);
}
