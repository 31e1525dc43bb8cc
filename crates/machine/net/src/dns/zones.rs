//! Turns to ask DNS: few at once, and shared fairly between askers and zones.
//!
//! An asker may have as many turns as are free, so that there is always one for another. The same
//! holds within the turns of a zone, so that a zone with silent servers takes only a part of the
//! turns, and no user can take all of that part.
//!
//! The zone of a name is taken to be its last two labels, or the last three under a short second
//! level of a country (`co.uk`): a list of public suffixes would be exact, and old. Where that
//! joins the zones of strangers, it costs them a wait at the most, and only while one of them is
//! silent.

use std::sync::Arc;

use crate::turns::{TurnBounds, Turns};

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

/// The turns of a resolver, by zone.
pub(super) fn lookups() -> Turns<Zone> {
    Turns::new(TurnBounds {
        at_once: CONCURRENT_LOOKUPS,
        of_group: LOOKUPS_OF_ZONE,
        spare: true,
        waiting: WAITING,
        waiting_of_asker: WAITING_OF_ASKER,
    })
}

/// An approximation of the zone of a name.
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

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::turns::{Asker, Turn};

    /// Takes turns until no turn is free.
    async fn all(
        turns: &Turns<Zone>,
        asker: Asker,
        name: impl Fn(usize) -> String,
    ) -> Vec<Turn<Zone>> {
        let mut taken = Vec::new();
        loop {
            let zone = Zone::of(&name(taken.len()));
            let mut next = pin!(turns.take(asker, Some(zone)));
            let polled = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
            match polled {
                Poll::Ready(turn) => taken.push(turn.unwrap()),
                Poll::Pending => return taken,
            }
        }
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
            assert_eq!(&*Zone::of(name).0, expected, "{name}");
        }
    }

    #[tokio::test]
    async fn a_silent_zone_leaves_turns_to_others() {
        let (turns, alice, bob) = (lookups(), Asker::of("alice"), Asker::of("bob"));
        let silent = all(&turns, alice, |index| format!("n{index}.mute.example")).await;
        assert_eq!(silent.len(), LOOKUPS_OF_ZONE / 2);
        let elsewhere = all(&turns, alice, |_| "other.org".to_owned()).await;
        assert!(!elsewhere.is_empty(), "the same user goes on elsewhere");
        let others = all(&turns, bob, |_| "x.mute.example".to_owned()).await;
        assert!(!others.is_empty(), "another user goes on in the zone");
        drop(elsewhere);

        let mut crowd = Vec::new();
        for index in 0..20 {
            crowd.push(all(&turns, Asker::of(index), |_| "mute.example".to_owned()).await);
        }
        assert!(turns.running() <= LOOKUPS_OF_ZONE, "{}", turns.running());
    }

    #[tokio::test]
    async fn a_user_leaves_turns_to_others_however_many_zones_are_silent() {
        let turns = lookups();
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
        assert_eq!(turns.running(), 0);
    }
}
