//! Users and neighbours, and the bounds of their shares in the bytes that are held.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::room::{CROWDED, HELD};

/// An owner of bytes that are held: a user of one neighbour, or of this node, by numbers that this process gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user. Users of two neighbours are two, whatever they are called.
    pub user: u64,
    /// The neighbour that named the user; `None` for one of this node.
    pub neighbour: Option<u64>,
}

/// Bytes that owners hold.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    users: HashMap<u64, u64>,
    neighbours: HashMap<u64, u64>,
}

/// Bytes of many objects: running sums, so that no datagram has to look at all of them. Its copies are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct HeldBytes(Arc<Mutex<HeldSums>>);

#[derive(Debug, Default)]
struct HeldSums {
    all: u64,
    holdings: Holdings,
}

/// The bytes of one object, which are given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct HeldAccount {
    sums: Option<HeldBytes>,
    owner: Option<Owner>,
    bytes: u64,
}

impl HeldBytes {
    /// An account of one more object.
    pub(crate) fn account(&self, owner: Option<Owner>) -> HeldAccount {
        HeldAccount {
            sums: Some(self.clone()),
            owner,
            bytes: 0,
        }
    }

    /// Bytes of all.
    pub(crate) fn all(&self) -> u64 {
        self.0.lock().all
    }

    /// Bytes that an owner may hold beside those that it has, where `held` of `limit` are held in all.
    pub(crate) fn left(&self, owner: Owner, held: u64, limit: u64) -> u64 {
        self.0.lock().holdings.left(owner, held, limit)
    }
}

impl HeldAccount {
    /// Bytes of the object.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sets the bytes of the object.
    pub(crate) fn set(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.grow(bytes - self.bytes);
        } else if bytes < self.bytes {
            self.shrink(self.bytes - bytes);
        }
    }

    /// One of the same owner, without bytes.
    pub(crate) fn fresh(&self) -> Self {
        Self {
            sums: self.sums.clone(),
            owner: self.owner,
            bytes: 0,
        }
    }

    /// Counts more bytes.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(sums) = &self.sums {
            let mut sums = sums.0.lock();
            sums.all += bytes;
            if let Some(owner) = self.owner {
                sums.holdings.add(owner, bytes);
            }
        }
    }

    /// Counts fewer bytes.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        self.bytes -= bytes;
        if let Some(sums) = &self.sums {
            let mut sums = sums.0.lock();
            sums.all -= bytes;
            if let Some(owner) = self.owner {
                sums.holdings.remove(owner, bytes);
            }
        }
    }

    /// Counts its bytes for this owner.
    pub(crate) fn belongs(&mut self, owner: Owner) {
        let bytes = self.bytes;
        self.shrink(bytes);
        self.owner = Some(owner);
        self.grow(bytes);
    }

    /// Whether its owner holds as much as one may, where `held` of `limit` are held in all.
    pub(crate) fn is_crowded(&self, held: u64, limit: u64) -> bool {
        let known = self.sums.as_ref().zip(self.owner);
        known.is_some_and(|(sums, owner)| sums.left(owner, held, limit) == 0)
    }
}

/// Bytes of a head that are held whatever others hold: those of usual heads.
#[doc(alias = "bound")]
const USUAL_HEAD: u64 = 8 * 1024;

impl HeldAccount {
    /// Whether a head takes more than there is for it: of its owner's share of what is held for readers, or of all where it has no owner.
    pub(crate) fn is_too_much(&self) -> bool {
        let Some(sums) = self.sums.as_ref().filter(|_| self.bytes > USUAL_HEAD) else {
            return false;
        };
        let held = sums.all();
        match self.owner {
            Some(owner) => sums.left(owner, held, HELD) == 0,
            None => held >= CROWDED,
        }
    }
}

impl Drop for HeldAccount {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// A part of the room that others leave.
#[derive(Debug, Clone, Copy)]
enum Share {
    Half,
    ThreeQuarters,
}

impl Holdings {
    /// An owner holds so many more.
    pub(crate) fn add(&mut self, owner: Owner, bytes: u64) {
        *self.users.entry(owner.user).or_default() += bytes;
        if let Some(neighbour) = owner.neighbour {
            *self.neighbours.entry(neighbour).or_default() += bytes;
        }
    }

    /// An owner holds so many less.
    pub(crate) fn remove(&mut self, owner: Owner, bytes: u64) {
        subtract(&mut self.users, owner.user, bytes);
        if let Some(neighbour) = owner.neighbour {
            subtract(&mut self.neighbours, neighbour, bytes);
        }
    }

    /// Bytes that an owner may hold beside those that it has, where `held` of `limit` are held in all. No user has more than half of what
    /// other users leave. A neighbour may invent users: all of them together have no more than three quarters of what is not theirs.
    pub(crate) fn left(&self, owner: Owner, held: u64, limit: u64) -> u64 {
        let own = |of: &HashMap<u64, u64>, number| of.get(&number).copied().unwrap_or_default();
        let rest = |own: u64| limit.saturating_sub(held.saturating_sub(own));

        let of_user = own(&self.users, owner.user);
        let user = Share::Half.of(rest(of_user)).saturating_sub(of_user);
        let Some(neighbour) = owner.neighbour else {
            return user;
        };
        let of_neighbour = own(&self.neighbours, neighbour);
        let all = Share::ThreeQuarters.of(rest(of_neighbour));
        user.min(all.saturating_sub(of_neighbour))
    }
}

impl Share {
    fn of(self, bytes: u64) -> u64 {
        match self {
            Self::Half => bytes / 2,
            Self::ThreeQuarters => bytes - bytes.div_ceil(4),
        }
    }
}

fn subtract(from: &mut HashMap<u64, u64>, number: u64, bytes: u64) {
    if let Some(held) = from.get_mut(&number) {
        *held = held.saturating_sub(bytes);
        // A neighbour may name users without end: those without bytes are forgotten.
        if *held == 0 {
            from.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 6400;

    fn owner(user: u64, neighbour: u64) -> Owner {
        Owner {
            user,
            neighbour: Some(neighbour),
        }
    }

    #[test]
    fn a_neighbour_that_invents_users_leaves_a_quarter_to_others() {
        let mut holdings = Holdings::default();
        let mut held = 0;
        for user in 0..1000 {
            let more = holdings.left(owner(user, 1), held, LIMIT);
            holdings.add(owner(user, 1), more);
            held += more;
        }
        assert_eq!(held, LIMIT / 4 * 3);

        let other = holdings.left(owner(5000, 2), held, LIMIT);
        assert_eq!(other, LIMIT / 8, "half of what is left");
        let own = Owner {
            user: 6000,
            neighbour: None,
        };
        assert_eq!(holdings.left(own, held, LIMIT), LIMIT / 8);
    }

    #[test]
    fn objects_that_are_gone_are_in_no_sum() {
        let sums = HeldBytes::default();
        let mut one = sums.account(None);
        one.grow(100);
        one.belongs(owner(1, 1));
        let mut other = one.fresh();
        other.grow(50);
        assert_eq!(sums.all(), 150);
        assert_eq!(sums.left(owner(1, 1), 150, LIMIT), LIMIT / 2 - 150);
        one.shrink(40);
        drop(other);
        assert_eq!(sums.all(), 60);
        drop(one);
        assert_eq!(sums.all(), 0);
        assert_eq!(sums.left(owner(1, 1), 0, LIMIT), LIMIT / 2);
    }

    #[test]
    fn what_is_given_back_can_be_had_again() {
        let mut holdings = Holdings::default();
        let first = holdings.left(owner(1, 1), 0, LIMIT);
        holdings.add(owner(1, 1), first);
        assert_eq!(holdings.left(owner(1, 1), first, LIMIT), 0);
        holdings.remove(owner(1, 1), first);
        assert_eq!(holdings.left(owner(1, 1), 0, LIMIT), first);
        assert!(holdings.users.is_empty() && holdings.neighbours.is_empty());
    }
}
