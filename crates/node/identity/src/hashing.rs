//! Turns at the hashing of passwords: the shell around [`Turns`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{sleep_until, timeout_at};

use crate::turns::{Pair, Source, Ticket, Turns};

/// Passwords hashed at once, where there are so many processors: each keeps one busy for up to a
/// quarter of a second.
#[doc(alias = "bound")]
const AT_ONCE: usize = 4;

/// How long a check may wait for its turn; clients have given up by then.
#[doc(alias = "bound")]
const WAIT: Duration = Duration::from_secs(20);

/// How often a waiting check looks whether someone has rested.
const LOOK: Duration = Duration::from_millis(200);

/// The checks that may hash, and those that wait.
pub(crate) struct Hashing {
    state: Mutex<State>,
}

struct State {
    turns: Turns,
    free: usize,
    waiting: HashMap<Ticket, oneshot::Sender<Turn>>,
    tickets: Ticket,
}

/// A turn, until it is dropped.
pub(crate) struct Turn {
    hashing: Arc<Hashing>,
    pair: Pair,
    right: Option<bool>,
}

/// No turn came in time, or too many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

impl Hashing {
    pub(crate) fn new() -> Arc<Self> {
        let free = available_parallelism().map_or(1, usize::from).min(AT_ONCE);
        let state = State {
            turns: Turns::default(),
            free,
            waiting: HashMap::new(),
            tickets: 0,
        };

        Arc::new(Self {
            state: Mutex::new(state),
        })
    }

    /// Waits for a turn of `user` at `source`.
    ///
    /// # Errors
    /// No turn came.
    pub(crate) async fn turn(self: &Arc<Self>, source: Source, user: &str) -> Result<Turn, Busy> {
        let pair = Pair {
            source,
            user: user.to_owned(),
        };

        let (sender, mut turn) = oneshot::channel();
        let lost = {
            let mut state = self.state.lock();
            state.tickets += 1;
            let ticket = state.tickets;
            let lost = state
                .turns
                .enter(&pair, ticket)
                .and_then(|lost| state.waiting.remove(&lost));
            state.waiting.insert(ticket, sender);
            (lost, ticket)
        };

        // Tells the waiting check, without the lock.
        let (lost, ticket) = lost;
        drop(lost);
        let _waiting = Waiting {
            hashing: self,
            pair: &pair,
            ticket,
        };

        let until = tokio::time::Instant::now() + WAIT;
        loop {
            self.grant();
            let look = (tokio::time::Instant::now() + LOOK).min(until);
            match timeout_at(look, &mut turn).await {
                Ok(turn) => return turn.map_err(|_| Busy),
                Err(_) if look >= until => return Err(Busy),
                Err(_) => sleep_until(look).await,
            }
        }
    }

    /// Grants free turns to waiting checks.
    fn grant(self: &Arc<Self>) {
        // Turns of abandoned checks come back as they are dropped, which takes the lock again.
        let mut gone = Vec::new();
        let mut state = self.state.lock();
        while state.free > 0 {
            let Some((pair, ticket)) = state.turns.next(Instant::now()) else {
                break;
            };
            state.free -= 1;
            let turn = Turn {
                hashing: self.clone(),
                pair,
                right: None,
            };

            match state.waiting.remove(&ticket) {
                Some(waiting) => gone.extend(waiting.send(turn).err()),
                None => gone.push(turn),
            }
        }

        drop(state);
        drop(gone);
    }
}

/// A waiting check: leaves the line when its turn is no longer wanted.
struct Waiting<'a> {
    hashing: &'a Hashing,
    pair: &'a Pair,
    ticket: Ticket,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.hashing.state.lock();
        if state.waiting.remove(&self.ticket).is_some() {
            state.turns.leave(self.pair, self.ticket);
        }
    }
}

impl Turn {
    /// The password was found to be right or wrong.
    pub(crate) fn found(mut self, right: bool) {
        self.right = Some(right);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.hashing.state.lock();
            state.free += 1;
            state.turns.done(&self.pair, self.right, Instant::now());
        }
        self.hashing.grant();
    }
}

impl fmt::Debug for Hashing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hashing").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_come_back_when_their_holder_is_gone() {
        let hashing = Hashing::new();
        let free = hashing.state.lock().free;
        let mut held = Vec::new();
        for user in 0..free {
            held.push(hashing.turn(None, &user.to_string()).await.ok().unwrap());
        }
        let waits = hashing.turn(None, "late");
        assert!(tokio::time::timeout(Duration::ZERO, waits).await.is_err());
        assert!(hashing.state.lock().waiting.is_empty());
        drop(held);
        assert_eq!(hashing.state.lock().free, free);
        hashing.turn(None, "late").await.ok().unwrap().found(true);
        assert_eq!(hashing.state.lock().free, free);
    }
}
