//! The order in which passwords are checked: a machine without clocks, tasks or locks.
//!
//! Checks are expensive, and anyone can ask for one. Sources take turns, and within a source its
//! users; of one user at one source the newest comes first, because a person who has just typed
//! waits, and a flood does not. Sources that were wrong lately come last in three turns of four.
//! After a wrong password, its user at that source rests before the next check, longer each time.
//!
//! The turns of `hermes_net` do not fit: no one is known yet, so that a user is one at his source only; order depends on how checks have
//! ended, and on time; and the newest of one user is first, where there the oldest is.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Password checks that wait, of all sources.
#[doc(alias = "bound")]
pub(crate) const WAITING: usize = 4096;

/// Password checks that wait, of one source: a burst of three hundred fits, and no source fills the
/// room of the others.
#[doc(alias = "bound")]
pub(crate) const OF_SOURCE: usize = 512;

/// Wrong passwords of a user at a source before the pair rests: people mistype.
#[doc(alias = "bound")]
const FREE: u32 = 3;

/// The first rest of a user at a source after wrong passwords; each is twice the one before.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(200);

/// The longest such rest: one guess in five seconds.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Users at sources with counted wrong passwords; the oldest is forgotten first.
#[doc(alias = "bound")]
const COUNTED: usize = 4096;

/// How long wrong passwords are counted after the last of them.
#[doc(alias = "bound")]
const COUNTED_FOR: Duration = Duration::from_secs(600);

/// One turn in this many does not ask whether a source was wrong lately.
const ANYONE: u32 = 4;

/// A source, as limits count them; `None` for a Unix socket.
pub(crate) type Source = Option<IpAddr>;

/// A user at a source.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) source: Source,
    pub(crate) user: String,
}

/// The number of a check that waits.
pub(crate) type Ticket = u64;

/// The checks that wait.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    lines: HashMap<Source, Line>,
    /// Every source of `lines` once; the next one first.
    order: VecDeque<Source>,
    waiting: usize,
    running: HashSet<Pair>,
    wrong: Wrong,
    turn: u32,
}

/// The checks of one source.
#[derive(Debug, Default)]
struct Line {
    /// The next user first; of each, the newest ticket last. No queue is empty.
    users: VecDeque<(String, VecDeque<Ticket>)>,
    waiting: usize,
}

/// Users at sources that were wrong lately.
#[derive(Debug, Default)]
struct Wrong {
    pairs: HashMap<Pair, Count>,
    /// Pairs in the order of their last wrong passwords, so that those to forget are in front.
    order: VecDeque<Pair>,
    /// How many pairs each source has here.
    sources: HashMap<Source, usize>,
}

#[derive(Debug)]
struct Count {
    times: u32,
    last: Instant,
}

impl Turns {
    /// Enters a check. Returns another that had to make room for it: the oldest of the user with the most at the source with the most.
    pub(crate) fn enter(&mut self, pair: &Pair, ticket: Ticket) -> Option<Ticket> {
        let own = self.lines.get(&pair.source).map_or(0, |line| line.waiting);
        let lost = match () {
            () if own >= OF_SOURCE => self.drop_of(pair.source),
            () if self.waiting >= WAITING => {
                // The source that waits for most pays: a flood displaces itself.
                let longest = self
                    .lines
                    .iter()
                    .max_by_key(|(_, line)| line.waiting)
                    .map(|(source, _)| *source);
                longest.and_then(|source| self.drop_of(source))
            }
            () => None,
        };

        if !self.lines.contains_key(&pair.source) {
            self.order.push_back(pair.source);
        }
        let line = self.lines.entry(pair.source).or_default();
        match line.users.iter_mut().find(|(user, _)| *user == pair.user) {
            Some((_, tickets)) => tickets.push_back(ticket),
            None => line
                .users
                .push_back((pair.user.clone(), VecDeque::from([ticket]))),
        }

        line.waiting += 1;
        self.waiting += 1;
        lost
    }

    /// Removes a check that was given up.
    pub(crate) fn leave(&mut self, pair: &Pair, ticket: Ticket) {
        let Some(line) = self.lines.get_mut(&pair.source) else {
            return;
        };
        let Some(user) = line.users.iter().position(|(user, _)| *user == pair.user) else {
            return;
        };

        let tickets = &mut line.users[user].1;
        let Some(at) = tickets.iter().position(|known| *known == ticket) else {
            return;
        };

        tickets.remove(at);
        self.removed(pair.source, user);
    }

    /// The next check, which runs from now on; `None` if all that wait are resting or have a
    /// running one.
    pub(crate) fn next(&mut self, now: Instant) -> Option<(Pair, Ticket)> {
        let anyone = self.turn % ANYONE == ANYONE - 1;
        let found = if anyone {
            None
        } else {
            self.eligible(now, |wrong, source| !wrong.knows(source))
        };

        let (at, user) = found.or_else(|| self.eligible(now, |_, _| true))?;
        self.turn = self.turn.wrapping_add(1);
        // Source and user go behind the others of their lines: they have had their turn.
        let source = self.order.remove(at)?;
        self.order.push_back(source);
        let line = self.lines.get_mut(&source)?;
        let (name, mut tickets) = line.users.remove(user)?;
        let ticket = tickets.pop_back()?;
        let pair = Pair {
            source,
            user: name.clone(),
        };

        line.users.push_back((name, tickets));
        let last = line.users.len() - 1;
        self.removed(source, last);
        self.running.insert(pair.clone());

        Some((pair, ticket))
    }

    /// Ends a check; `right` is the result, if there is one.
    pub(crate) fn done(&mut self, pair: &Pair, right: Option<bool>, now: Instant) {
        self.running.remove(pair);
        self.wrong.forget_before(now);
        match right {
            Some(true) => self.wrong.clear(pair),
            Some(false) => self.wrong.add(pair, now),
            None => {}
        }
    }

    /// Places, in the order of sources and in the line, of the first check that may run.
    fn eligible(
        &self,
        now: Instant,
        may: impl Fn(&Wrong, Source) -> bool,
    ) -> Option<(usize, usize)> {
        let mut sources = self
            .order
            .iter()
            .enumerate()
            .filter(|(_, source)| may(&self.wrong, **source));
        sources.find_map(|(at, source)| {
            let line = self.lines.get(source)?;
            let user = line.users.iter().position(|(user, _)| {
                let pair = Pair {
                    source: *source,
                    user: user.clone(),
                };
                !self.running.contains(&pair)
                    && self
                        .wrong
                        .rests_until(&pair)
                        .is_none_or(|until| until <= now)
            })?;

            Some((at, user))
        })
    }

    /// Drops the oldest check of the user with the most checks at a source.
    fn drop_of(&mut self, source: Source) -> Option<Ticket> {
        let line = self.lines.get_mut(&source)?;
        // Of equals the first in line: `max_by_key` takes the last, and the order is reversed.
        let most = (0..line.users.len())
            .rev()
            .max_by_key(|user| line.users[*user].1.len())?;
        let lost = line.users[most].1.pop_front();
        self.removed(source, most);
        lost
    }

    /// Accounts for a ticket that was taken from this user.
    fn removed(&mut self, source: Source, user: usize) {
        let Some(line) = self.lines.get_mut(&source) else {
            return;
        };
        if line.users[user].1.is_empty() {
            line.users.remove(user);
        }

        line.waiting -= 1;
        self.waiting -= 1;
        if line.waiting == 0 {
            self.lines.remove(&source);
            self.order.retain(|known| *known != source);
        }
    }
}

impl Wrong {
    fn knows(&self, source: Source) -> bool {
        self.sources.contains_key(&source)
    }

    /// When the next password of a pair may be checked, if it was wrong more often than people are.
    fn rests_until(&self, pair: &Pair) -> Option<Instant> {
        let count = self.pairs.get(pair)?;
        let doublings = count.times.checked_sub(FREE)?;
        let pause = PAUSE
            .saturating_mul(1 << doublings.min(16))
            .min(LONGEST_PAUSE);
        Some(count.last + pause)
    }

    fn add(&mut self, pair: &Pair, now: Instant) {
        if let Some(count) = self.pairs.get_mut(pair) {
            *count = Count {
                times: count.times.saturating_add(1),
                last: now,
            };
            self.order.retain(|known| known != pair);
            self.order.push_back(pair.clone());
            return;
        }

        if self.order.len() >= COUNTED
            && let Some(oldest) = self.order.pop_front()
        {
            self.remove(&oldest);
        }

        self.pairs.insert(
            pair.clone(),
            Count {
                times: 1,
                last: now,
            },
        );

        self.order.push_back(pair.clone());
        *self.sources.entry(pair.source).or_default() += 1;
    }

    fn clear(&mut self, pair: &Pair) {
        if self.pairs.contains_key(pair) {
            self.order.retain(|known| known != pair);
            self.remove(pair);
        }
    }

    /// Forgets the oldest pairs whose last wrong password is long ago.
    fn forget_before(&mut self, now: Instant) {
        while let Some(oldest) = self.order.front().cloned() {
            let ended = self
                .pairs
                .get(&oldest)
                .is_none_or(|count| now.duration_since(count.last) >= COUNTED_FOR);
            if !ended {
                return;
            }

            self.order.pop_front();
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, pair: &Pair) {
        if self.pairs.remove(pair).is_none() {
            return;
        }
        if let Some(count) = self.sources.get_mut(&pair.source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&pair.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(source: u8, user: &str) -> Pair {
        Pair {
            source: Some(IpAddr::from([10, 0, 0, source])),
            user: user.to_owned(),
        }
    }

    /// Runs the next check; returns it.
    fn run(turns: &mut Turns, right: bool, now: Instant) -> Option<(Pair, Ticket)> {
        let (pair, ticket) = turns.next(now)?;
        turns.done(&pair, Some(right), now);
        Some((pair, ticket))
    }

    #[test]
    fn a_flood_of_one_source_stands_before_no_one_else() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        for ticket in 0..300 {
            assert_eq!(
                turns.enter(&pair(1, &format!("user{ticket}")), ticket),
                None
            );
        }
        turns.enter(&pair(2, "alice"), 300);
        let first: Vec<_> = (0..2)
            .filter_map(|_| run(&mut turns, false, now))
            .map(|(_, ticket)| ticket)
            .collect();
        assert!(first.contains(&300), "{first:?}");
    }

    #[test]
    fn a_user_of_the_same_source_waits_for_one_check_of_each_other() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        for ticket in 0..300 {
            turns.enter(&pair(1, "mallory"), ticket);
        }
        turns.enter(&pair(1, "alice"), 300);
        let first: Vec<_> = (0..2)
            .filter_map(|_| run(&mut turns, false, now))
            .map(|(_, ticket)| ticket)
            .collect();
        assert_eq!(first, [299, 300], "the newest of each");
    }

    #[test]
    fn wrong_passwords_of_a_pair_rest_longer_each_time_and_no_one_else_does() {
        let (mut turns, mut now) = (Turns::default(), Instant::now());
        for ticket in 0..20 {
            turns.enter(&pair(1, "alice"), ticket);
        }
        for _ in 0..FREE {
            assert!(run(&mut turns, false, now).is_some());
        }
        let mut pauses = Vec::new();
        for _ in 0..7 {
            let began = now;
            while run(&mut turns, false, now).is_none() {
                now += Duration::from_millis(100);
            }
            pauses.push((now - began).as_millis());
        }
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 5000, 5000]);
        turns.enter(&pair(1, "bob"), 100);
        assert_eq!(
            run(&mut turns, true, now).map(|(_, ticket)| ticket),
            Some(100)
        );
        // A password typed now comes before earlier ones, and once it was right nothing rests.
        turns.enter(&pair(1, "alice"), 200);
        now += LONGEST_PAUSE;
        assert_eq!(
            run(&mut turns, true, now).map(|(_, ticket)| ticket),
            Some(200)
        );
        assert!(run(&mut turns, true, now).is_some());
    }

    #[test]
    fn one_check_of_a_pair_runs_at_a_time() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.enter(&pair(1, "alice"), 1);
        turns.enter(&pair(1, "alice"), 2);
        let (running, _) = turns.next(now).unwrap();
        assert_eq!(turns.next(now), None);
        turns.done(&running, Some(true), now);
        assert!(turns.next(now).is_some());
    }

    #[test]
    fn sources_that_were_wrong_lately_come_last_but_come() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        for source in 0..100 {
            turns.done(&pair(source, "alice"), Some(false), now);
            turns.enter(&pair(source, "bob"), u64::from(source));
        }
        for ticket in 200..206 {
            turns.enter(&pair(200, &format!("user{ticket}")), ticket);
        }
        let order: Vec<_> = (0..8)
            .filter_map(|_| run(&mut turns, true, now))
            .map(|(_, ticket)| ticket)
            .collect();
        assert_eq!(
            order.iter().filter(|ticket| **ticket >= 200).count(),
            6,
            "{order:?}"
        );
    }

    #[test]
    fn what_waits_is_bounded_and_the_longest_line_loses() {
        let mut turns = Turns::default();
        for ticket in 0..OF_SOURCE as u64 {
            assert_eq!(turns.enter(&pair(1, "alice"), ticket), None);
        }
        assert_eq!(
            turns.enter(&pair(1, "bob"), 9000),
            Some(0),
            "the oldest of those who have most"
        );
        let mut ticket = 10_000;
        for source in 2..=8 {
            for _ in 0..OF_SOURCE {
                turns.enter(&pair(source, &ticket.to_string()), ticket);
                ticket += 1;
            }
        }
        assert_eq!(turns.waiting, WAITING);
        assert!(turns.enter(&pair(100, "carol"), 1).is_some());
        assert_eq!(turns.waiting, WAITING);
    }

    #[test]
    fn who_leaves_leaves_nothing() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.enter(&pair(1, "alice"), 1);
        turns.enter(&pair(1, "bob"), 2);
        turns.leave(&pair(1, "alice"), 1);
        turns.leave(&pair(1, "alice"), 1);
        turns.leave(&pair(1, "bob"), 2);
        assert!(turns.lines.is_empty() && turns.order.is_empty() && turns.waiting == 0);
        assert_eq!(turns.next(now), None);
    }

    #[test]
    fn who_was_wrong_is_forgotten() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        for user in 0..2 * COUNTED {
            turns.done(&pair(1, &user.to_string()), Some(false), now);
        }
        assert_eq!(
            (turns.wrong.pairs.len(), turns.wrong.order.len()),
            (COUNTED, COUNTED)
        );
        turns.done(&pair(2, "alice"), None, now + COUNTED_FOR);
        assert!(turns.wrong.pairs.is_empty() && turns.wrong.sources.is_empty());
    }

    #[test]
    fn one_who_goes_on_guessing_keeps_no_one_else_from_being_forgotten() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.done(&pair(1, "mallory"), Some(false), now);
        turns.done(&pair(2, "alice"), Some(false), now);
        let later = now + COUNTED_FOR / 2;
        turns.done(&pair(1, "mallory"), Some(false), later);

        turns.done(&pair(3, "bob"), None, now + COUNTED_FOR);
        assert!(turns.wrong.knows(pair(1, "").source) && !turns.wrong.knows(pair(2, "").source));
        assert_eq!(turns.wrong.order.len(), 1);
    }
}
