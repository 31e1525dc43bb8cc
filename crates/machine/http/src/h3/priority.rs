//! In which order the streams of a connection are sent (RFC 9218).
//!
//! More urgent streams come first. Of one urgency, responses that are not incremental (`i` is
//! absent) come one after the other in the order of their requests, and then all others, which
//! share. Streams without a signal share: the client may be a proxy, or wait for all of them. So do
//! all streams of a link between nodes, since one user's must not wait for another's (section 13).
//! A priority counts for bytes written from then on, and orders those that quinn holds: if its send
//! window is full, the next writer is chance.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};

use hermes_proto::h3::{Code, Fault, Priority, Signal};
use parking_lot::Mutex;

use super::stream_state::StreamState;
use crate::priority::Signals;

/// PRIORITY_UPDATEs kept until their requests arrive: few come early, and they are only advice.
#[doc(alias = "bound")]
const EARLY: usize = 16;

/// The levels of one urgency: one that all share who share, and those of streams that come one after the other. Stream numbers
/// start again after this many.
const LEVELS: i32 = 1 << 27;

/// How the streams of a connection are put in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// Requests that the peer may have at once.
    pub(crate) streams: u64,
    /// All are those of one client, which can be sent one after the other.
    pub(crate) in_turn: bool,
}

/// Where a new priority of a request belongs.
#[derive(Debug)]
pub(crate) struct Priorities {
    order: Order,
    requests: Mutex<Requests>,
}

#[derive(Debug, Default)]
struct Requests {
    open: HashMap<u64, Weak<StreamState>>,
    early: VecDeque<(u64, Priority)>,
    /// The stream after the last that was accepted.
    next: u64,
}

impl Priorities {
    /// How streams are put in order.
    pub(crate) fn order(&self) -> Order {
        self.order
    }

    pub(crate) fn new(order: Order) -> Self {
        Self {
            order,
            requests: Mutex::default(),
        }
    }

    /// A request's stream was accepted: PRIORITY_UPDATE finds it now, and one that came before counts.
    pub(crate) fn accept(&self, state: &Arc<StreamState>) {
        let mut requests = self.requests.lock();
        requests.next = requests.next.max(state.id() + 4);
        requests.open.insert(state.id(), Arc::downgrade(state));
        let early = requests
            .early
            .iter()
            .rposition(|(stream, _)| *stream == state.id());

        if let Some((_, priority)) = early.and_then(|place| requests.early.remove(place)) {
            self.update_one(state, priority);
        }
    }

    /// A request's stream was refused.
    pub(crate) fn refuse(&self, stream: u64) {
        let mut requests = self.requests.lock();
        requests.next = requests.next.max(stream + 4);
    }

    /// A request is over.
    pub(crate) fn remove(&self, stream: u64) {
        self.requests.lock().open.remove(&stream);
    }

    /// Gives a request another priority, or keeps it for one that is on its way.
    ///
    /// # Errors
    /// There can be no such request yet (RFC 9218, section 7.2).
    pub(crate) fn update(&self, stream: u64, priority: Priority) -> Result<(), Fault> {
        let mut requests = self.requests.lock();
        if stream / 4 >= requests.next / 4 + self.order.streams {
            return Err(Fault::connection(
                Code::IdError,
                "PRIORITY_UPDATE of a stream that is not allowed yet",
            ));
        }

        if let Some(state) = requests.open.get(&stream).and_then(Weak::upgrade) {
            drop(requests);
            self.update_one(&state, priority);
        // A request that is over needs no priority any more; one to come may overtake its update on another stream.
        } else if stream >= requests.next {
            requests.early.push_back((stream, priority));
            if requests.early.len() > EARLY {
                requests.early.pop_front();
            }
        }

        Ok(())
    }

    fn update_one(&self, state: &StreamState, priority: Priority) {
        state
            .rank
            .change(state.id(), self.order, |signals| signals.update(priority));
    }

    /// Takes a request's own signal; a PRIORITY_UPDATE overrides it (RFC 9218, section 7).
    pub(crate) fn request(&self, state: &StreamState, signal: Option<Signal>) {
        let Some(signal) = signal else { return };
        state
            .rank
            .change(state.id(), self.order, |signals| signals.request(signal));
    }

    /// Takes the origin's signal in its response, which overrides the client's (RFC 9218, section
    /// 8).
    pub(crate) fn response(&self, state: &StreamState, signal: Option<Signal>) {
        let Some(signal) = signal else { return };
        state
            .rank
            .change(state.id(), self.order, |signals| signals.response = signal);
    }
}

/// When the turn of a stream is.
#[derive(Debug, Default)]
pub(crate) struct Rank {
    signals: Mutex<Signals>,
    level: AtomicI32,
}

impl Rank {
    /// As [`SendStream::set_priority`](hermes_net::quic::SendStream::set_priority) takes it.
    pub(crate) fn level(&self) -> i32 {
        self.level.load(Ordering::Relaxed)
    }

    fn change(&self, stream: u64, order: Order, change: impl FnOnce(&mut Signals)) {
        let mut signals = self.signals.lock();
        change(&mut signals);
        let priority = signals.priority();
        let alone = order.in_turn && signals.is_before_later();
        self.level.store(
            level(priority.urgency, alone.then_some(stream)),
            Ordering::Relaxed,
        );
    }
}

/// The level of an urgency; of the streams that do not share it, the first come first.
fn level(urgency: u8, alone: Option<u64>) -> i32 {
    // 0 is the most urgent, 3 the default.
    let shared = (3 - i32::from(urgency)) * LEVELS;
    let turn = alone.map_or(0, |stream| {
        LEVELS - 1 - (stream / 4 % (LEVELS as u64 - 1)) as i32
    });
    shared + turn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_urgent_comes_first_then_the_earlier_and_then_those_that_share() {
        let mut levels = Vec::new();
        for urgency in 0..8 {
            levels.extend(
                [Some(0), Some(4), Some(4 * 100_000_000), None].map(|alone| level(urgency, alone)),
            );
        }
        assert!(
            levels.windows(2).all(|pair| pair[0] > pair[1]),
            "{levels:?}"
        );
        assert_eq!(level(3, None), 0, "what says nothing");
        assert!(level(0, Some(u64::MAX)) > level(0, None) && level(7, None) > i32::MIN);
    }

    #[test]
    fn a_response_stands_above_an_update_and_that_above_the_request() {
        let (rank, order) = (
            Rank::default(),
            Order {
                streams: 1,
                in_turn: false,
            },
        );
        rank.change(0, order, |signals| {
            signals.client = Some(Priority {
                urgency: 1,
                incremental: false,
            })
        });
        assert_eq!(rank.level(), level(1, None));
        rank.change(0, order, |signals| signals.response = Signal::parse(b"i"));
        assert_eq!(
            rank.level(),
            level(1, None),
            "it says nothing of the urgency"
        );
        rank.change(0, order, |signals| signals.response = Signal::parse(b"u=6"));
        assert_eq!(rank.level(), level(6, None));
    }
}
