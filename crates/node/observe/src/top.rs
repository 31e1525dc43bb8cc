//! The users with the most use, found in bounded memory.
//!
//! A user with counters of its own begins at zero when chosen, and the counters of the others only
//! grow, so that every series is a counter. The users waiting to be chosen are kept by the
//! space-saving algorithm (Metwally, Agrawal and El Abbadi, 2005): a newcomer takes the place of
//! the user with the least use, and inherits that use.

use std::collections::HashMap;

use super::counts::Counts;

/// The name under which all others are counted; no scheme of names that is used for users has parentheses.
pub(super) const OTHER: &str = "(other)";

/// Users who wait for a counter of their own, for each that has one.
#[doc(alias = "bound")]
const WAITING: usize = 4;

/// The weight of one exchange beside its bytes.
const EXCHANGE: u64 = 1024;

/// The users with the most use, and all others together.
#[derive(Debug)]
pub(super) struct Top {
    limit: usize,
    chosen: HashMap<String, Entry>,
    waiting: HashMap<String, u64>,
    other: Counts,
}

#[derive(Debug, Default)]
struct Entry {
    counts: Counts,
    /// Recent use: halved at every choice.
    recent: u64,
}

impl Top {
    /// At most `limit` users are counted each.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            chosen: HashMap::new(),
            waiting: HashMap::new(),
            other: Counts::default(),
        }
    }

    /// Changes the limit; with a smaller one, those with the least recent use join the others.
    pub fn limit(&mut self, limit: usize) {
        self.limit = limit;
        while self.chosen.len() > limit {
            self.dismiss();
        }
    }

    /// Counts for `user`, who has now used `gained`.
    pub fn add(&mut self, user: &str, gained: Counts) {
        let weight =
            gained.client_to_target + gained.target_to_client + gained.exchanges * EXCHANGE;
        let full = self.chosen.len() >= self.limit;
        let entry = match self.chosen.get_mut(user) {
            Some(entry) => entry,
            None if full => {
                self.wait(user, weight);
                return self.other.add(gained);
            }
            None => self.chosen.entry(user.to_owned()).or_default(),
        };

        entry.recent += weight;
        entry.counts.add(gained);
    }

    fn wait(&mut self, user: &str, weight: u64) {
        if let Some(waiting) = self.waiting.get_mut(user) {
            *waiting += weight;
            return;
        }

        let mut inherited = 0;
        if self.waiting.len() >= self.limit * WAITING {
            let least = self.waiting.iter().min_by_key(|(_, weight)| **weight);
            let Some((name, weight)) = least.map(|(name, weight)| (name.clone(), *weight)) else {
                return;
            };
            self.waiting.remove(&name);
            inherited = weight;
        }

        self.waiting.insert(user.to_owned(), inherited + weight);
    }

    /// Replaces users that used less lately by waiting ones that used more than twice as much.
    pub fn choose(&mut self) {
        let mut waiting: Vec<(String, u64)> = self.waiting.drain().collect();
        waiting.sort_unstable_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        for (name, weight) in waiting {
            let least = self.chosen.values().map(|entry| entry.recent).min();
            if least.is_some_and(|least| weight / 2 > least) {
                self.dismiss();
                self.chosen.insert(
                    name,
                    Entry {
                        counts: Counts::default(),
                        recent: weight,
                    },
                );
            } else if weight > 1 {
                self.waiting.insert(name, weight / 2);
            }
        }

        self.chosen.values_mut().for_each(|entry| entry.recent /= 2);
    }

    /// Ends the counting of the user with the least recent use.
    fn dismiss(&mut self) {
        let least = self
            .chosen
            .iter()
            .min_by_key(|(_, entry)| entry.recent)
            .map(|(name, _)| name.clone());
        if let Some(name) = least {
            self.chosen.remove(&name);
        }
    }

    /// The counts by user; the others last, if there are any.
    pub fn counts(&self) -> Vec<(String, Counts)> {
        let mut counts: Vec<_> = self
            .chosen
            .iter()
            .map(|(name, entry)| (name.clone(), entry.counts))
            .collect();
        if self.other != Counts::default() {
            counts.push((OTHER.to_owned(), self.other));
        }

        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(top: &mut Top, user: &str, bytes: u64) {
        top.add(
            user,
            Counts {
                client_to_target: bytes,
                ..Counts::default()
            },
        );
    }

    fn counted(top: &Top) -> Vec<(String, u64)> {
        let mut counts: Vec<_> = top
            .counts()
            .into_iter()
            .map(|(name, c)| (name, c.client_to_target))
            .collect();
        counts.sort();
        counts
    }

    #[test]
    fn those_who_come_late_share_a_count_until_they_use_more() {
        let mut top = Top::new(2);
        used(&mut top, "alice", 10_000);
        used(&mut top, "bob", 100);
        used(&mut top, "carol", 5000);
        assert_eq!(
            counted(&top),
            [
                ("(other)".into(), 5000),
                ("alice".into(), 10_000),
                ("bob".into(), 100)
            ]
        );
        top.choose();
        used(&mut top, "carol", 7);
        used(&mut top, "bob", 3);
        assert_eq!(
            counted(&top),
            [
                ("(other)".into(), 5003),
                ("alice".into(), 10_000),
                ("carol".into(), 7)
            ]
        );
    }

    #[test]
    fn any_number_of_users_takes_bounded_memory() {
        let mut top = Top::new(3);
        for user in 0..10_000 {
            used(&mut top, &format!("user{user}"), 1);
            used(&mut top, "heavy", 50);
            if user % 100 == 0 {
                top.choose();
            }
        }
        assert!(top.waiting.len() <= 3 * WAITING && top.counts().len() == 4);
        assert!(top.chosen.contains_key("heavy"));
        top.limit(0);
        used(&mut top, "heavy", 1);
        assert_eq!(top.counts().len(), 1);
    }
}
