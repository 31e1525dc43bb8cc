//! Users and neighbours, whose shares of what is held are bounded.

use std::collections::HashMap;

/// Whose bytes are held: a user of one neighbour, or of this node, by numbers that this process gives them.
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

/// A part of what others leave.
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
