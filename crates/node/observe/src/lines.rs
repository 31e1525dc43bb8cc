//! How many lines of one kind the log gets, by owner: an owner of endless lines leaves room for
//! those about others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hermes_net::memory::Owner;

/// Log lines of one kind about one user or source within `SPAN`; all are counted.
#[doc(alias = "bound")]
const LINES: u32 = 10;

/// Log lines of one kind about all users within `SPAN`, and as many about all strangers.
#[doc(alias = "bound")]
const ALL: u32 = 100;

/// The time over which those lines are counted.
#[doc(alias = "bound")]
const SPAN: Duration = Duration::from_secs(10);

/// Counts the lines of one kind.
#[derive(Debug)]
pub struct LineShares {
    /// About one owner in a span.
    most: u32,
    began: Option<Instant>,
    /// Lines about each owner in this span: no more owners than lines.
    told: HashMap<Owner, u32>,
    about_users: u32,
    about_strangers: u32,
    left_out: u64,
}

impl Default for LineShares {
    fn default() -> Self {
        Self::new(LINES)
    }
}

impl LineShares {
    /// At most so many lines about one user or source within ten seconds.
    pub fn new(most: u32) -> Self {
        Self {
            most,
            began: None,
            told: HashMap::new(),
            about_users: 0,
            about_strangers: 0,
            left_out: 0,
        }
    }

    /// If a line about `owner` may be written at `now`: how many of this kind, about anyone, were left out since the last one.
    ///
    /// An owner has as many lines as are left for others, so that there is one for the one who
    /// comes next. Users and sources are counted apart, so that endless sources do not take lines
    /// of users.
    pub fn next(&mut self, owner: Owner, now: Instant) -> Option<u64> {
        if self
            .began
            .is_none_or(|began| now.saturating_duration_since(began) >= SPAN)
        {
            *self = Self {
                began: Some(now),
                left_out: self.left_out,
                ..Self::new(self.most)
            };
        }

        let all = match owner {
            Owner::User(_) => &mut self.about_users,
            Owner::Source(_) | Owner::Listener(_) | Owner::LocalUser(_) | Owner::Local => {
                &mut self.about_strangers
            }
        };
        let own = self.told.get(&owner).copied().unwrap_or_default();
        if own >= self.most.min(ALL - *all) {
            self.left_out += 1;
            return None;
        }

        *all += 1;
        self.told.insert(owner, own + 1);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> Owner {
        Owner::User(name.into())
    }

    #[test]
    fn a_flood_is_told_of_in_a_few_lines_and_what_is_left_out_is_counted() {
        let (mut lines, began) = (LineShares::default(), Instant::now());
        let mut next = |now| lines.next(user("greedy"), now);
        let told = (0..1000).filter(|_| next(began).is_some()).count();
        assert_eq!(told, LINES as usize);
        assert_eq!(next(began + SPAN), Some(1000 - u64::from(LINES)));
        assert_eq!(next(began + SPAN), Some(0));
    }

    #[test]
    fn one_who_has_lines_without_end_leaves_others_theirs() {
        let (mut lines, now) = (LineShares::default(), Instant::now());
        for _ in 0..10_000 {
            lines.next(user("greedy"), now);
        }
        assert_eq!(
            lines.next(user("alice"), now),
            Some(10_000 - u64::from(LINES))
        );

        // Sources without end fill the share of strangers, and nothing more.
        for source in 0..10_000_u32 {
            lines.next(Owner::Source(std::net::Ipv4Addr::from(source).into()), now);
        }
        assert!(lines.told.len() <= 2 * ALL as usize);
        assert!(lines.next(user("alice"), now).is_some());
        assert!(lines.next(user("bob"), now).is_some());
    }
}
