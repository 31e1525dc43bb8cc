//! Turns to ask DNS: few at once, and shared fairly between askers and zones.
//!
//! An asker may have as many turns as are free, so that there is always one for another; the same within the turns of a zone,
//! so that one whose servers are silent takes a part of the turns only, and no user can take all of that part.
//!
//! A zone is taken to be what the last two labels of a name say, or the last three under a short second level of a country
//! (`co.uk`): a list of public suffixes would be exact, and old. Where that joins the zones of strangers, it costs them a wait at
//! the most, and only while one of them is silent.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Lookups at once: enough for a burst, few enough not to flood the server.
#[doc(alias = "bound")]
const CONCURRENT_LOOKUPS: usize = 128;

/// Lookups of one zone at once: a silent zone takes only a part.
#[doc(alias = "bound")]
const LOOKUPS_OF_ZONE: usize = 32;

/// Lookups of one asker that wait for a turn; more fail at once, as they would not have it in time.
#[doc(alias = "bound")]
const WAITING_OF_ASKER: usize = 256;

/// Lookups of all askers that wait for a turn.
#[doc(alias = "bound")]
const WAITING: usize = 4096;

/// Who asks: opaque here, and the same for as long as the process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Asker(u64);

impl Asker {
    /// Whom this stands for: a user's name, or the address of a client without one.
    #[must_use]
    pub fn of(who: impl Hash) -> Self {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        Self(SECRET.get_or_init(RandomState::new).hash_one(who))
    }
}

/// What is taken for a zone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Zone(Arc<str>);

impl Zone {
    /// The zone of a name.
    pub(super) fn of(name: &str) -> Self {
        let labels: Vec<&str> = name.trim_end_matches('.').rsplitn(4, '.').collect();
        let short = |label: &&str| label.len() <= 3;
        let country =
            labels.first().is_some_and(|last| last.len() == 2) && labels.get(1).is_some_and(short);
        let kept = labels.iter().take(if country { 3 } else { 2 }).rev();

        Self(
            kept.copied()
                .collect::<Vec<_>>()
                .join(".")
                .to_ascii_lowercase()
                .into(),
        )
    }
}

/// All turns. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns {
    state: Arc<Mutex<TurnTable>>,
}

/// A turn; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    of: Turns,
    /// `None` once it was given back.
    held: Option<(Asker, Zone)>,
}

/// So many lookups wait that one more would be of no use.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

#[derive(Debug, Default)]
struct TurnTable {
    running: usize,
    waiting: usize,
    askers: HashMap<Asker, Lookups>,
    /// Turns of each asker in each zone.
    zones: HashMap<Zone, HashMap<Asker, usize>>,
    /// Those who wait, in the order in which they are next.
    order: VecDeque<Asker>,
}

/// The lookups of one asker.
#[derive(Debug, Default)]
struct Lookups {
    running: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    zone: Zone,
    tell: oneshot::Sender<Turn>,
}

impl Turns {
    /// A turn, as soon as there is one. Dropping the future gives up the wait.
    ///
    /// # Errors
    /// Too many wait already.
    pub(super) async fn take(&self, asker: Asker, zone: Zone) -> Result<Turn, Full> {
        let told = {
            let mut state = self.state.lock();
            if state.may(asker, &zone) {
                state.begin(asker, &zone);
                return Ok(self.turn(asker, zone));
            }
            state.wait(asker, zone)?
        };
        // The sender is dropped unused only with all turns.
        told.await.map_err(|_| Full)
    }

    fn turn(&self, asker: Asker, zone: Zone) -> Turn {
        Turn {
            of: self.clone(),
            held: Some((asker, zone)),
        }
    }

    /// Gives free turns to the waiting askers, one after the other.
    fn admit(&self, state: &mut TurnTable) {
        let mut left = state.order.len();
        while left > 0 {
            let Some(asker) = state.order.pop_front() else {
                return;
            };
            left -= 1;
            let next = state.next_of(asker);

            if state
                .askers
                .get(&asker)
                .is_some_and(|lookups| !lookups.waiting.is_empty())
            {
                state.order.push_back(asker);
            }

            let Some(Waiting { zone, tell }) = next else {
                continue;
            };

            state.begin(asker, &zone);
            if let Err(mut unwanted) = tell.send(self.turn(asker, zone.clone())) {
                // Given back here, where the lock is held.
                unwanted.held = None;
                state.end(asker, &zone);
            }

            left = state.order.len();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((asker, zone)) = self.held.take() else {
            return;
        };
        let turns = self.of.clone();
        let mut state = turns.state.lock();
        state.end(asker, &zone);
        turns.admit(&mut state);
    }
}

impl TurnTable {
    /// Whether a lookup may run now: its asker, and its asker within the zone, have fewer turns than are free.
    fn may(&self, asker: Asker, zone: &Zone) -> bool {
        let own = self.askers.get(&asker).map_or(0, |lookups| lookups.running);
        if own >= CONCURRENT_LOOKUPS - self.running {
            return false;
        }

        let Some(turns) = self.zones.get(zone) else {
            return true;
        };
        let own = turns.get(&asker).copied().unwrap_or_default();
        own < LOOKUPS_OF_ZONE.saturating_sub(turns.values().sum())
    }

    fn begin(&mut self, asker: Asker, zone: &Zone) {
        self.running += 1;
        self.askers.entry(asker).or_default().running += 1;
        *self
            .zones
            .entry(zone.clone())
            .or_default()
            .entry(asker)
            .or_default() += 1;
    }

    fn end(&mut self, asker: Asker, zone: &Zone) {
        self.running -= 1;
        if let Some(lookups) = self.askers.get_mut(&asker) {
            lookups.running -= 1;
        }

        self.forget(asker);
        let Some(turns) = self.zones.get_mut(zone) else {
            return;
        };

        if let Some(own) = turns.get_mut(&asker) {
            *own -= 1;
            if *own == 0 {
                turns.remove(&asker);
            }
        }

        if turns.is_empty() {
            self.zones.remove(zone);
        }
    }

    /// Forgets askers that hold nothing.
    fn forget(&mut self, asker: Asker) {
        if self
            .askers
            .get(&asker)
            .is_some_and(|lookups| lookups.running == 0 && lookups.waiting.is_empty())
        {
            self.askers.remove(&asker);
        }
    }

    fn wait(&mut self, asker: Asker, zone: Zone) -> Result<oneshot::Receiver<Turn>, Full> {
        if self.waiting >= WAITING {
            return Err(Full);
        }
        let lookups = self.askers.entry(asker).or_default();

        // Those who gave up make room.
        let before = lookups.waiting.len();
        lookups.waiting.retain(|waiting| !waiting.tell.is_closed());
        self.waiting -= before - lookups.waiting.len();

        if lookups.waiting.len() >= WAITING_OF_ASKER {
            return Err(Full);
        }
        let (tell, told) = oneshot::channel();
        lookups.waiting.push_back(Waiting { zone, tell });
        self.waiting += 1;

        if !self.order.contains(&asker) {
            self.order.push_back(asker);
        }
        Ok(told)
    }

    /// Takes out the first lookup of an asker that waits and may run; those that gave up are dropped on the way.
    fn next_of(&mut self, asker: Asker) -> Option<Waiting> {
        let mut lookups = std::mem::take(&mut self.askers.get_mut(&asker)?.waiting);
        let before = lookups.len();
        lookups.retain(|waiting| !waiting.tell.is_closed());
        let found = lookups
            .iter()
            .position(|waiting| self.may(asker, &waiting.zone));
        let next = found.and_then(|index| lookups.remove(index));
        self.waiting -= before - lookups.len();

        if let Some(own) = self.askers.get_mut(&asker) {
            own.waiting = lookups;
        }
        self.forget(asker);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::of(name)
    }

    /// Takes turns until there is none at once.
    async fn all(turns: &Turns, asker: Asker, name: impl Fn(usize) -> String) -> Vec<Turn> {
        let mut taken = Vec::new();
        while turns.state.lock().may(asker, &zone(&name(taken.len()))) {
            taken.push(turns.take(asker, zone(&name(taken.len()))).await.unwrap());
        }
        taken
    }

    #[test]
    fn zones_are_two_labels_or_three() {
        for (name, expected) in [
            ("www.Example.org.", "example.org"),
            ("example.org", "example.org"),
            ("a.b.c.example.com", "example.com"),
            ("www.bbc.co.uk.", "bbc.co.uk"),
            ("www.heise.de", "heise.de"),
            ("a.dw.de", "a.dw.de"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(&*zone(name).0, expected, "{name}");
        }
    }

    #[tokio::test]
    async fn a_silent_zone_leaves_turns_to_others() {
        let (turns, alice, bob) = (Turns::default(), Asker::of("alice"), Asker::of("bob"));
        let silent = all(&turns, alice, |index| format!("n{index}.mute.example")).await;
        assert_eq!(silent.len(), LOOKUPS_OF_ZONE / 2);
        assert!(
            turns.state.lock().may(alice, &zone("other.org")),
            "the same user goes on elsewhere"
        );
        assert!(
            turns.state.lock().may(bob, &zone("x.mute.example")),
            "another user goes on in the zone"
        );
        let others: Vec<_> = (0..20)
            .map(|index| {
                let mut state = turns.state.lock();
                let asker = Asker::of(index);
                while state.may(asker, &zone("mute.example")) {
                    state.begin(asker, &zone("mute.example"));
                }
                asker
            })
            .collect();
        assert!(
            turns.state.lock().running <= LOOKUPS_OF_ZONE,
            "{} askers",
            others.len()
        );
        drop(silent);
    }

    #[tokio::test]
    async fn a_user_leaves_turns_to_others_however_many_zones_are_silent() {
        let turns = Turns::default();
        let mut held = Vec::new();
        for index in 0..20 {
            let asker = Asker::of(index);
            let taken = all(&turns, asker, |index| format!("n.mute{index}.example")).await;
            assert!(!taken.is_empty() || index > 5, "asker {index}");
            held.push(taken);
        }
        assert_eq!(held[0].len(), CONCURRENT_LOOKUPS / 2);
        assert!(!held[5].is_empty());
        drop(held);
        let state = turns.state.lock();
        assert!(state.askers.is_empty() && state.zones.is_empty() && state.running == 0);
    }

    #[tokio::test]
    async fn turns_go_round_among_those_who_wait() {
        let (turns, alice) = (Turns::default(), Asker::of("alice"));
        let held = all(&turns, alice, |_| "a.mute.example".to_owned()).await;
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                tokio::spawn({
                    let turns = turns.clone();
                    async move { turns.take(alice, zone("a.mute.example")).await.is_ok() }
                })
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(turns.state.lock().waiting, 3);
        drop(held);
        for one in waiting {
            assert!(one.await.unwrap());
        }
        let state = turns.state.lock();
        assert!(
            state.askers.is_empty()
                && state.order.is_empty()
                && state.waiting == 0
                && state.running == 0
        );
    }

    #[tokio::test]
    async fn those_who_gave_up_hold_nothing_and_waiting_is_bounded() {
        let (turns, alice) = (Turns::default(), Asker::of("alice"));
        let held = all(&turns, alice, |_| "a.mute.example".to_owned()).await;
        let wait = || {
            let mut state = turns.state.lock();
            state.wait(alice, zone("a.mute.example"))
        };
        let gave_up: Vec<_> = (0..WAITING_OF_ASKER).map(|_| wait().unwrap()).collect();
        assert_eq!(wait().unwrap_err(), Full);
        drop(gave_up);
        let mut stays = wait().unwrap();
        assert_eq!(turns.state.lock().waiting, 1);
        drop(held);
        drop(stays.try_recv().unwrap());
        let state = turns.state.lock();
        assert!(
            state.askers.is_empty()
                && state.zones.is_empty()
                && state.waiting == 0
                && state.running == 0
        );
    }
}
