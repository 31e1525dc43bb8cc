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
    /// When all rendezvous of the overlay agreed on it.
    agreed: Option<Instant>,
}

/// The relay of a channel as a node finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundRelay {
    pub(super) relay: Arc<str>,
    /// The one before, which is not there any more.
    pub(super) gone: Option<Arc<str>>,
    /// When all rendezvous of the overlay agreed on it.
    pub(super) agreed: Option<Instant>,
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

    /// Whether a relay is there: it has said so within `lost_after`.
    pub(super) fn is_there(&self, relay: &str, lost_after: Duration, now: Instant) -> bool {
        let beat = self.relays.get(relay);
        beat.is_some_and(|beat| now.saturating_duration_since(beat.heard) < lost_after)
    }

    /// The relay of a channel as far as this node knows; `None` if no relay is there. Nothing is remembered yet.
    pub(super) fn look(&mut self, question: &Question<'_>, now: Instant) -> Option<FoundRelay> {
        let lost_after = question.lost_after;
        let chosen = |relay| FoundRelay {
            relay,
            gone: None,
            agreed: None,
        };
        if question.is_stateless {
            let by_hash = self.by_hash(question.channel, lost_after, now)?;
            return Some(chosen(by_hash));
        }
        let Some(known) = self.channels.get_mut(question.channel) else {
            return self.choose(question, now).map(chosen);
        };
        known.asked = now;
        let known = FoundRelay {
            relay: known.relay.clone(),
            gone: None,
            agreed: known.agreed,
        };
        if self.is_there(&known.relay, lost_after, now) {
            return Some(known);
        }
        Some(FoundRelay {
            relay: self.choose(question, now)?,
            gone: Some(known.relay),
            agreed: None,
        })
    }

    /// The relay for a channel that has none: the one that the client would like, one of the nearest, or that of the hash.
    fn choose(&self, question: &Question<'_>, now: Instant) -> Option<Arc<str>> {
        let lost_after = question.lost_after;
        let is_there = |relay: &str| self.is_there(relay, lost_after, now);
        let wish = question.wish.filter(|wish| is_there(wish));
        let wish = wish.and_then(|wish| self.relays.get_key_value(wish));
        if let Some((relay, _)) = wish {
            return Some(relay.clone());
        }
        // Of several that are as near, one and the same for each channel.
        let is_near = |relay: &str| question.near.iter().any(|near| **near == *relay);
        let near = self.highest(question.channel, |relay| is_there(relay) && is_near(relay));
        near.or_else(|| self.by_hash(question.channel, lost_after, now))
    }

    /// Rendezvous hashing: of the relays that are there, the one whose hash with the channel is highest. When one goes, only its channels go
    /// elsewhere.
    fn by_hash(&self, channel: &str, lost_after: Duration, now: Instant) -> Option<Arc<str>> {
        self.highest(channel, |relay| self.is_there(relay, lost_after, now))
    }

    /// Of these relays, the one whose hash with the channel is highest.
    fn highest(&self, channel: &str, is_candidate: impl Fn(&str) -> bool) -> Option<Arc<str>> {
        let candidates = self.relays.keys().filter(|relay| is_candidate(relay));
        let best = candidates.max_by_key(|relay| {
            let hash = digest(&SHA256, format!("{relay}\n{channel}").as_bytes());
            hash.as_ref().to_vec()
        });
        best.cloned()
    }

    /// Remembers the relay of a channel, on which all agreed at this time, or for this node alone. Where there is no room, nothing is remembered: then it
    /// is the one that everyone finds without.
    pub(super) fn remember(
        &mut self,
        question: &Question<'_>,
        found: FoundRelay,
        now: Instant,
    ) -> Arc<str> {
        let FoundRelay { relay, agreed, .. } = found;
        if question.is_stateless {
            return relay;
        }
        if let Some(known) = self.channels.get_mut(question.channel) {
            known.relay = relay.clone();
            known.agreed = agreed;
            known.asked = now;
            return relay;
        }
        let owned = self.owned.get(question.owner).copied().unwrap_or_default();
        if self.channels.len() >= CHANNELS || owned >= OF_ONE {
            let by_hash = self.by_hash(question.channel, question.lost_after, now);
            // What all agreed on holds without being remembered.
            return by_hash.filter(|_| agreed.is_none()).unwrap_or(relay);
        }
        self.owned.insert(question.owner.clone(), owned + 1);
        let assignment = Assignment {
            relay: relay.clone(),
            owner: question.owner.clone(),
            asked: now,
            agreed,
        };
        self.channels.insert(question.channel.into(), assignment);
        relay
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

    impl Table {
        /// The relay of a channel at a node that is alone.
        fn relay(&mut self, question: &Question<'_>, now: Instant) -> Option<Arc<str>> {
            let found = self.look(question, now)?;
            Some(self.remember(question, found, now))
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
    fn the_relay_before_is_named_once_it_is_gone_and_what_all_agreed_on_is_taken() {
        let mut table = Table::default();
        let owner: Arc<str> = "o".into();
        let start = Instant::now();
        assert!(table.beat("a", 1, VALID, start) && table.beat("b", 1, VALID, start));
        let asked = question("/x", &owner);
        let first = table.look(&asked, start).unwrap();
        assert_eq!((&first.gone, first.agreed), (&None, None));
        // Nothing is remembered by a look.
        assert!(table.channels.is_empty());
        let other: Arc<str> = ["a", "b"]
            .into_iter()
            .find(|relay| **relay != *first.relay)
            .unwrap()
            .into();
        let agreed = FoundRelay {
            relay: other.clone(),
            agreed: Some(start),
            ..first
        };
        assert_eq!(table.remember(&asked, agreed.clone(), start), other);
        assert_eq!(table.look(&asked, start), Some(agreed));

        let later = start + LOST;
        let stays = if *other == *"a" { "b" } else { "a" };
        assert!(table.beat(stays, 2, VALID, later));
        let found = table.look(&asked, later).unwrap();
        assert_eq!((&*found.relay, found.gone), (stays, Some(other)));
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
