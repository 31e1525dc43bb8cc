//! Those who wait for an origin: users take turns, and each user's requests go in their order.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hermes_net::memory::Owner;
use tokio::sync::Notify;

/// Requests that wait for one origin.
#[doc(alias = "bound")]
const IN_ALL: usize = 10_000;

/// One that waits.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) who: Owner,
    /// Told when it may be its turn.
    pub(crate) turn: Notify,
}

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Users, the next one first.
    users: VecDeque<Owner>,
    waiting: HashMap<Owner, VecDeque<Arc<Ticket>>>,
    count: usize,
}

impl Turns {
    /// Adds a request at the end of its user's; `None` where too many wait. One that comes again after a refusal stands at their head.
    pub(crate) fn enter(&mut self, who: &Owner, is_first: bool) -> Option<Arc<Ticket>> {
        if self.count >= IN_ALL {
            return None;
        }
        let ticket = Arc::new(Ticket {
            who: who.clone(),
            turn: Notify::new(),
        });
        let waiting = self.waiting.entry(who.clone()).or_default();
        if waiting.is_empty() {
            self.users.push_back(who.clone());
        }
        match is_first {
            true => waiting.push_front(ticket.clone()),
            false => waiting.push_back(ticket.clone()),
        }
        self.count += 1;
        Some(ticket)
    }

    /// The request whose turn it is.
    pub(crate) fn next(&self) -> Option<&Arc<Ticket>> {
        self.waiting.get(self.users.front()?)?.front()
    }

    /// Takes a request out: its user's next one comes after those of others.
    pub(crate) fn take(&mut self, ticket: &Arc<Ticket>) {
        let Some(waiting) = self.waiting.get_mut(&ticket.who) else {
            return;
        };
        let before = waiting.len();
        let was_next = waiting
            .front()
            .is_some_and(|first| Arc::ptr_eq(first, ticket));
        waiting.retain(|other| !Arc::ptr_eq(other, ticket));
        self.count -= before - waiting.len();
        let is_over = waiting.is_empty();

        let at = self.users.iter().position(|who| *who == ticket.who);
        match at {
            Some(at) if is_over => {
                self.users.remove(at);
                self.waiting.remove(&ticket.who);
            }
            Some(0) if was_next => self.users.rotate_left(1),
            _ => {}
        }
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_one_request_waits_for_one_of_each_other_user_at_most() {
        let mut turns = Turns::default();
        let [many, one] = ["many", "one"].map(|name| Owner::User(name.into()));
        for _ in 0..100 {
            turns.enter(&many, false).unwrap();
        }
        turns.enter(&one, false).unwrap();
        let mut order = Vec::new();
        while let Some(next) = turns.next().cloned() {
            order.push(next.who.clone());
            turns.take(&next);
        }
        assert_eq!(order.len(), 101);
        assert_eq!(order[..3], [many.clone(), one, many]);
    }

    #[test]
    fn one_that_leaves_takes_no_turn_and_all_have_a_bound() {
        let mut turns = Turns::default();
        let [many, one] = ["many", "one"].map(|name| Owner::User(name.into()));
        let first = turns.enter(&many, false).unwrap();
        let second = turns.enter(&one, false).unwrap();
        turns.take(&first);
        assert!(Arc::ptr_eq(turns.next().unwrap(), &second));
        for _ in turns.len()..IN_ALL {
            turns.enter(&many, false).unwrap();
        }
        assert!(turns.enter(&one, true).is_none());
    }
}
