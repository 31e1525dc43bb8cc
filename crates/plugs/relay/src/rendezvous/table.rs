//! Which relay has which channel, without input or output.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};

/// Relays of a rendezvous.
#[doc(alias = "bound")]
const RELAYS: usize = 1000;

/// Channels whose relay is remembered. Those beyond go to the relay of their hash, which needs no memory.
#[doc(alias = "bound")]
const CHANNELS: usize = 100_000;

/// Channels that are remembered for one user, or one source without a user.
#[doc(alias = "bound")]
const OF_ONE: usize = 10_000;

/// How long a channel is remembered for which no one asks: longer than a subscription lasts.
const KEPT: Duration = Duration::from_hours(25);

/// The relays that are there, and their channels.
#[derive(Default)]
pub(super) struct Table {
    relays: BTreeMap<Arc<str>, Beat>,
    channels: HashMap<Arc<str>, Assignment>,
    /// Channels of each owner.
    owned: HashMap<Arc<str>, usize>,
}

/// The last heartbeat of a relay.
struct Beat {
    /// By its own clock.
    time: u64,
    heard: Instant,
}

/// The relay of a channel.
struct Assignment {
    relay: Arc<str>,
    owner: Arc<str>,
    asked: Instant,
}

/// A question for the relay of a channel.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) channel: &'a str,
    /// The relay that the client would like.
    pub(super) wish: Option<&'a str>,
    /// The relays that are near to the client.
    pub(super) near: &'a [Arc<str>],
    pub(super) owner: &'a Arc<str>,
    /// Whether nothing is remembered: the hash decides alone.
    pub(super) is_stateless: bool,
    /// Silence after which a relay is gone.
    pub(super) lost_after: Duration,
}

impl Table {
    /// A relay has said that it is there, at this time by its own clock; whether that was news. One that comes again is none. Those who may be
    /// repeated are at most `valid` away from our clock.
    pub(super) fn beat(&mut self, relay: &str, time: u64, valid: Duration, now: Instant) -> bool {
        if let Some(known) = self.relays.get_mut(relay) {
            let is_later = time > known.time;
            if is_later {
                known.time = time;
                known.heard = now;
            }
            return is_later;
        }
        if self.relays.len() >= RELAYS {
            // One that has been silent for so long makes room: none of its heartbeats can be repeated.
            let is_kept = |heard: Instant| now.saturating_duration_since(heard) <= 2 * valid;
            self.relays.retain(|_, beat| is_kept(beat.heard));
        }
        if self.relays.len() >= RELAYS {
            return false;
        }
        self.relays.insert(relay.into(), Beat { time, heard: now });
        true
    }

    /// The relay of a channel; `None` if no relay is there.
    pub(super) fn relay(&mut self, question: &Question<'_>, now: Instant) -> Option<Arc<str>> {
        let lost_after = question.lost_after;
        let is_there = |relay: &str| {
            let beat = self.relays.get(relay);
            beat.is_some_and(|beat| now.saturating_duration_since(beat.heard) < lost_after)
        };
        if question.is_stateless {
            return self.by_hash(question.channel, is_there);
        }
        if let Some(known) = self.channels.get_mut(question.channel)
            && is_there(&known.relay)
        {
            known.asked = now;
            return Some(known.relay.clone());
        }

        let wish = question.wish.filter(|wish| is_there(wish));
        let wish = wish.and_then(|wish| self.relays.get_key_value(wish));
        let wish = wish.map(|(relay, _)| relay.clone());
        let near = || {
            // Of several that are as near, one and the same for each channel.
            let is_near =
                |relay: &str| is_there(relay) && question.near.iter().any(|near| **near == *relay);
            self.by_hash(question.channel, is_near)
        };
        let chosen = wish.or_else(near);
        let chosen = chosen.or_else(|| self.by_hash(question.channel, is_there))?;
        Some(self.remember(question, chosen, now))
    }

    /// Rendezvous hashing: of these relays, the one whose hash with the channel is highest. When one goes, only its channels go elsewhere.
    fn by_hash(&self, channel: &str, is_candidate: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let candidates = self.relays.keys().filter(|relay| is_candidate(relay));
        let best = candidates.max_by_key(|relay| {
            let hash = digest(&SHA256, format!("{relay}\n{channel}").as_bytes());
            hash.as_ref().to_vec()
        });
        best.cloned()
    }

    /// Remembers the relay of a channel. Where there is no room, it is the one that everyone finds without.
    fn remember(&mut self, question: &Question<'_>, chosen: Arc<str>, now: Instant) -> Arc<str> {
        if let Some(known) = self.channels.get_mut(question.channel) {
            known.relay = chosen.clone();
            known.asked = now;
            return chosen;
        }
        let owned = self.owned.get(question.owner).copied().unwrap_or_default();
        if self.channels.len() >= CHANNELS || owned >= OF_ONE {
            let is_there = |relay: &str| {
                let beat = self.relays.get(relay);
                beat.is_some_and(|beat| {
                    now.saturating_duration_since(beat.heard) < question.lost_after
                })
            };
            return self.by_hash(question.channel, is_there).unwrap_or(chosen);
        }
        self.owned.insert(question.owner.clone(), owned + 1);
        let assignment = Assignment {
            relay: chosen.clone(),
            owner: question.owner.clone(),
            asked: now,
        };
        self.channels.insert(question.channel.into(), assignment);
        chosen
    }

    /// Forgets channels for which no one has asked for long, and relays that have been silent for as long.
    pub(super) fn tick(&mut self, now: Instant) {
        let is_kept = |since: Instant| now.saturating_duration_since(since) < KEPT;
        self.relays.retain(|_, beat| is_kept(beat.heard));
        let owned = &mut self.owned;
        self.channels.retain(|_, assignment| {
            let stays = is_kept(assignment.asked);
            if !stays && let Some(count) = owned.get_mut(&assignment.owner) {
                *count -= 1;
            }
            stays
        });
        owned.retain(|_, count| *count > 0);
    }

    /// Relays that are there, and channels.
    pub(super) fn sizes(&self, lost_after: Duration, now: Instant) -> (usize, usize) {
        let relays = self.relays.values();
        let there = relays
            .filter(|beat| now.saturating_duration_since(beat.heard) < lost_after)
            .count();
        (there, self.channels.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: Duration = Duration::from_secs(12);

    const VALID: Duration = Duration::from_mins(1);

    fn question<'a>(channel: &'a str, owner: &'a Arc<str>) -> Question<'a> {
        Question {
            channel,
            wish: None,
            near: &[],
            owner,
            is_stateless: false,
            lost_after: LOST,
        }
    }

    #[test]
    fn a_channel_keeps_its_relay_until_that_is_silent() {
        let mut table = Table::default();
        let owner: Arc<str> = "o".into();
        let start = Instant::now();
        assert_eq!(table.relay(&question("/x", &owner), start), None);
        for relay in ["a", "b", "c"] {
            assert!(table.beat(relay, 1, VALID, start));
        }
        let near: Arc<str> = "b".into();
        let asked = Question {
            near: std::slice::from_ref(&near),
            ..question("/x", &owner)
        };
        assert_eq!(table.relay(&asked, start).as_deref(), Some("b"));
        let wish = Question {
            wish: Some("c"),
            ..question("/y", &owner)
        };
        assert_eq!(table.relay(&wish, start).as_deref(), Some("c"));
        // Who asks later gets the relay of the first, whatever it would like.
        let other = Question {
            wish: Some("a"),
            ..question("/x", &owner)
        };
        assert_eq!(table.relay(&other, start).as_deref(), Some("b"));
        // A wish for one that is not there is none.
        let unknown = Question {
            wish: Some("z"),
            ..question("/z", &owner)
        };
        assert!(table.relay(&unknown, start).is_some());

        let later = start + LOST;
        assert!(table.beat("a", 2, VALID, later));
        // A replay of the last word of one that is gone.
        assert!(!table.beat("b", 1, VALID, later));
        assert_eq!(table.relay(&asked, later).as_deref(), Some("a"));
        assert!(table.beat("b", 2, VALID, later));
        assert_eq!(table.relay(&asked, later).as_deref(), Some("a"));
    }

    #[test]
    fn only_the_channels_of_a_relay_that_goes_go_elsewhere_by_hash() {
        let mut table = Table::default();
        let owner: Arc<str> = "o".into();
        let start = Instant::now();
        let relays = ["a", "b", "c", "d"];
        relays
            .iter()
            .for_each(|relay| assert!(table.beat(relay, 1, VALID, start)));
        let all = |table: &mut Table, now| -> Vec<Arc<str>> {
            let channels = 0..1000;
            let ask = channels.map(|channel| {
                let name = format!("/c/{channel}");
                let question = Question {
                    is_stateless: true,
                    ..question(&name, &owner)
                };
                table.relay(&question, now).unwrap()
            });
            ask.collect()
        };
        let before = all(&mut table, start);
        for relay in relays {
            let count = before.iter().filter(|chosen| ***chosen == *relay).count();
            assert!((200..300).contains(&count), "{relay}: {count}");
        }
        let later = start + LOST;
        for relay in &relays[..3] {
            assert!(table.beat(relay, 2, VALID, later));
        }
        let after = all(&mut table, later);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == after || **before == *"d");
        }
        assert!(table.channels.is_empty());
    }

    #[test]
    fn one_who_asks_for_very_many_channels_leaves_room_for_others_and_is_served() {
        let mut table = Table::default();
        let start = Instant::now();
        assert!(table.beat("a", 1, VALID, start) && table.beat("b", 1, VALID, start));
        let greedy: Arc<str> = "greedy".into();
        for channel in 0..OF_ONE + 500 {
            let name = format!("/c/{channel}");
            assert!(table.relay(&question(&name, &greedy), start).is_some());
        }
        assert_eq!(table.channels.len(), OF_ONE);
        let modest: Arc<str> = "modest".into();
        let wish = Question {
            wish: Some("b"),
            ..question("/m", &modest)
        };
        assert_eq!(table.relay(&wish, start).as_deref(), Some("b"));
        assert_eq!(table.channels.len(), OF_ONE + 1);
        table.tick(start + KEPT);
        assert!(table.channels.is_empty() && table.owned.is_empty() && table.relays.is_empty());
    }

    #[test]
    fn relays_that_are_silent_make_room_once_nothing_of_them_can_be_repeated() {
        let mut table = Table::default();
        let start = Instant::now();
        for relay in 0..RELAYS {
            assert!(table.beat(&relay.to_string(), 1, VALID, start));
        }
        assert!(!table.beat("new", 1, VALID, start + 2 * VALID));
        let later = start + 2 * VALID + LOST;
        assert!(table.beat("0", 2, VALID, start + VALID));
        assert!(table.beat("new", 1, VALID, later));
        // One that spoke since has kept its place, and its heartbeats are still known.
        assert!(!table.beat("0", 2, VALID, later));
        assert_eq!(table.sizes(2 * VALID, later), (2, 0));
    }
}
