//! Whether neighbours answer: said once in the log when that changes, and shown whenever someone looks.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hermes_noise::PublicKey;
use hermes_plug::{NeighbourState, NeighbourView};

use crate::engine::NeighbourId;
use crate::signs::NeighbourSigns;

/// How often it is looked.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// How long a neighbour may leave questions unanswered before that is logged: custody is made for outages of this length.
#[doc(alias = "bound")]
const QUIET: Duration = Duration::from_secs(5);

/// How often it is said at most that one with an unknown key asks.
const UNKNOWN: Duration = Duration::from_secs(60);

/// How long the error of a socket explains a silence.
const EXPLAINS: Duration = Duration::from_secs(5);

/// The states of neighbours that were logged.
#[derive(Debug)]
pub(crate) struct NeighbourLog {
    next: Instant,
    /// Those that do not answer, as was said.
    quiet: HashMap<NeighbourId, NeighbourState>,
    /// When it was said last that someone has a key of no neighbour.
    unknown: Option<Instant>,
}

/// A datagram that the system did not send.
#[derive(Debug, Clone)]
pub(crate) struct NotSent {
    pub(crate) to: SocketAddr,
    pub(crate) error: String,
    pub(crate) at: Instant,
}

impl NeighbourLog {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            next: now,
            quiet: HashMap::new(),
            unknown: None,
        }
    }

    /// When to look at the latest, where exchanges are open or a silence was said.
    pub(crate) fn due(&self, is_idle: bool) -> Option<Instant> {
        let is_needed = !is_idle || !self.quiet.is_empty();
        is_needed.then_some(self.next)
    }

    /// Whether it is time to look at the neighbours.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Logs the changes since the last look.
    pub(crate) fn look(&mut self, views: &[(NeighbourId, NeighbourView)], now: Instant) {
        self.next = now + LOOK;
        for (id, view) in views {
            self.say(*id, view);
        }
        // A neighbour that the configuration has dropped is not waited for.
        self.quiet
            .retain(|quiet, _| views.iter().any(|(id, _)| id == quiet));
    }

    /// Whether a node with an unknown key may be logged again: such nodes cost a line a minute, however many datagrams they send.
    pub(crate) fn may_say_unknown(&self, now: Instant) -> bool {
        let is_early = |last: Instant| now.saturating_duration_since(last) < UNKNOWN;
        !self.unknown.is_some_and(is_early)
    }

    /// Logs that a node asks for keys whose own key is unknown.
    pub(crate) fn say_unknown(&mut self, from: SocketAddr, key: &PublicKey, now: Instant) {
        self.unknown = Some(now);
        tracing::warn!(
            address = %from,
            %key,
            "custody: a node asks for keys, but its own key is not that of a neighbour in `defaults.custody.neighbours`"
        );
    }

    fn say(&mut self, id: NeighbourId, view: &NeighbourView) {
        let neighbour = view.name.as_str();
        let address = view.address.as_deref().unwrap_or("(not known)");
        match view.state {
            NeighbourState::Silent | NeighbourState::Refused => {
                if self.quiet.insert(id, view.state) != Some(view.state) {
                    let reason = view.reason.as_deref().unwrap_or_default();
                    tracing::warn!(
                        neighbour,
                        address,
                        "custody waits for a neighbour: {reason}"
                    );
                }
            }
            NeighbourState::Up => {
                if self.quiet.remove(&id).is_some() {
                    tracing::info!(neighbour, address, "custody: the neighbour answers again");
                }
            }
            NeighbourState::Unheard => {
                self.quiet.remove(&id);
            }
        }
    }
}

/// How a neighbour is, and why.
pub(crate) fn state(
    signs: &NeighbourSigns,
    not_sent: Option<&NotSent>,
    now: Instant,
) -> (NeighbourState, Option<String>) {
    // A short silence is no news: custody is made for outages.
    let is_quiet = signs.unanswered.is_some_and(|time| time >= QUIET);
    if !is_quiet {
        return match signs.heard {
            Some(_) => (NeighbourState::Up, None),
            None => (NeighbourState::Unheard, None),
        };
    }

    let since = signs.heard.map_or_else(
        || "nothing was heard from it yet".to_owned(),
        |heard| format!("nothing was heard from it for {} s", heard.as_secs()),
    );
    let Some(address) = signs.address else {
        let reason =
            format!("{since}: it has to begin, because `address` says nowhere where it is");
        return (NeighbourState::Silent, Some(reason));
    };
    if signs.is_asked_to_prove {
        let reason = format!(
            "{address} answers, and agrees on no keys: one of the two nodes has another key configured than the other one has \
             (`hermes custody-key FILE` prints a node's own)"
        );
        return (NeighbourState::Refused, Some(reason));
    }

    let explains = |not_sent: &&NotSent| {
        not_sent.to == address && now.saturating_duration_since(not_sent.at) < EXPLAINS
    };
    let reason = match not_sent.filter(explains) {
        Some(not_sent) => format!(
            "{since}: this machine cannot send there: {}",
            not_sent.error
        ),
        None => format!(
            "{since}: it is not running, nothing listens at UDP {address}, or the network drops the datagrams"
        ),
    };
    (NeighbourState::Silent, Some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(unanswered: u64) -> NeighbourSigns {
        NeighbourSigns {
            address: Some("192.0.2.1:4500".parse().unwrap()),
            heard: None,
            unanswered: Some(Duration::from_secs(unanswered)),
            is_asked_to_prove: false,
            round_trip: None,
            asking: 1,
            answering: 0,
        }
    }

    fn said(signs: &NeighbourSigns, not_sent: Option<&NotSent>) -> (NeighbourState, String) {
        let (state, reason) = state(signs, not_sent, Instant::now());
        (state, reason.unwrap_or_default())
    }

    #[test]
    fn each_silence_has_its_reason() {
        assert_eq!(said(&signs(1), None).0, NeighbourState::Unheard);
        let (state, reason) = said(&signs(60), None);
        assert_eq!(state, NeighbourState::Silent);
        assert!(reason.contains("192.0.2.1:4500"), "{reason}");

        let not_sent = NotSent {
            to: "192.0.2.1:4500".parse().unwrap(),
            error: "Network is unreachable".to_owned(),
            at: Instant::now(),
        };
        let (_, reason) = said(&signs(60), Some(&not_sent));
        assert!(reason.contains("Network is unreachable"), "{reason}");

        let other_key = NeighbourSigns {
            is_asked_to_prove: true,
            ..signs(60)
        };
        let (state, reason) = said(&other_key, None);
        assert_eq!(state, NeighbourState::Refused);
        assert!(reason.contains("hermes custody-key"), "{reason}");

        let nowhere = NeighbourSigns {
            address: None,
            ..signs(60)
        };
        assert!(said(&nowhere, None).1.contains("`address`"));

        let heard = NeighbourSigns {
            heard: Some(Duration::from_secs(3)),
            unanswered: None,
            ..signs(0)
        };
        assert_eq!(said(&heard, None).0, NeighbourState::Up);
    }
}
