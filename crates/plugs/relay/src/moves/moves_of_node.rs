//! All channels of a node that are on their way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};

use super::hold::HoldOrder;
use super::moving::{BegunMove, Moving, Stopped};
use super::settings::MoveRules;
use super::{GrantKey, Membership, Successor};

/// How long channels stay that the successor has refused, before it is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// Channels that are on their way at the same time.
#[doc(alias = "bound")]
const AT_ONCE: usize = 500;

/// The moves of a node.
#[derive(Default)]
pub(crate) struct Moves {
    rules: RwLock<MoveRules>,
    /// Whether the node stops.
    is_draining: AtomicBool,
    state: Mutex<MovesState>,
    /// Why a rendezvous does not hear of this relay.
    unheard: Mutex<Option<String>>,
}

#[derive(Default)]
struct MovesState {
    moving: Vec<Arc<Moving>>,
    /// No channel goes before.
    again: Option<Instant>,
    /// Channels that went.
    moved: u64,
    /// Why one did not, or not with all of its subscribers; the last one.
    refusal: Option<String>,
}

impl Moves {
    /// Follows a document.
    pub(crate) fn change(&self, rules: MoveRules) {
        *self.rules.write() = rules;
    }

    /// The node stops.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// By which others prove that this relay is to take over.
    pub(crate) fn key(&self) -> Option<GrantKey> {
        self.rules.read().key.clone()
    }

    /// Its part among the relays of a rendezvous.
    pub(crate) fn membership(&self) -> Option<Arc<Membership>> {
        self.rules.read().membership.clone()
    }

    /// A rendezvous has heard that this relay is there, or has not, for this reason.
    pub(crate) fn heard(&self, failure: Option<String>) {
        let mut unheard = self.unheard.lock();
        if *unheard != failure
            && let Some(reason) = &failure
        {
            tracing::info!(reason, "a rendezvous does not hear of this relay");
        }
        *unheard = failure;
    }

    /// Why a rendezvous does not hear of this relay.
    pub(crate) fn unheard(&self) -> Option<String> {
        self.unheard.lock().clone()
    }

    /// The relay that takes over at some time.
    pub(crate) fn successor(&self) -> Option<Arc<Successor>> {
        self.rules.read().successor.clone()
    }

    /// The relay that takes over now.
    pub(crate) fn going(&self) -> Option<Arc<Successor>> {
        let successor = self.successor()?;
        let is_draining = self.is_draining.load(Ordering::Relaxed);
        (successor.is_now || is_draining).then_some(successor)
    }

    /// Looks at the clock: ends what takes too long, and begins with channels, of which `stop` stops so many.
    pub(crate) fn tick(&self, now: Instant, stop: impl FnOnce(usize) -> Vec<Stopped>) {
        let mut state = self.state.lock();
        let (over, moving): (Vec<_>, Vec<_>) = std::mem::take(&mut state.moving)
            .into_iter()
            .partition(|moving| moving.tick(now));
        state.moving = moving;
        for moving in over {
            match moving.refusal() {
                Some(reason) => {
                    state.refusal = Some(reason);
                    state.again = Some(now + AGAIN);
                }
                None => state.moved += 1,
            }
        }
        let waits = state.again.is_some_and(|again| now < again);
        let Some(successor) = self.going().filter(|_| !waits) else {
            return;
        };
        let room = AT_ONCE - state.moving.len();
        let is_last = self.is_draining.load(Ordering::Relaxed);
        for stopped in stop(room) {
            let begun = Moving::begin(stopped, successor.clone(), is_last, now);
            state.moving.push(begun.moving.clone());
            hold(begun);
        }
    }

    /// Its part of the status; `None` without a successor.
    pub(crate) fn status(&self) -> Option<Value> {
        let successor = self.successor()?;
        let state = self.state.lock();
        Some(json!({
            "successor": successor.authority,
            "moving": state.moving.len(),
            "moved": state.moved,
            "refusal": state.refusal,
        }))
    }
}

/// Has the subscriptions of a channel held, by the worker of each.
fn hold(begun: BegunMove) {
    for subscriptions in begun.by_share {
        let share = subscriptions[0].share.clone();
        let order = HoldOrder {
            moving: begun.moving.clone(),
            subscriptions,
        };
        let wakers = share.lock().order(Box::new(move || order.begin()));
        for waker in wakers {
            waker.wake();
        }
    }
}
