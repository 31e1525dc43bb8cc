//! Refusals of one kind, shared between those whose they are: a flood of one user's, or of one source's, pushes out its own.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use hermes_net::memory::Owner;

/// Bytes that the refusals of one kind take together. 8 KiB for each is twice the size of a browser's request.
#[doc(alias = "bound")]
const RING_BYTES: usize = 4 << 20;

/// An entry of a ring.
pub(crate) trait RingEntry {
    /// Whose it is.
    fn owner(&self) -> Owner;

    /// Bytes that it takes.
    fn size(&self) -> usize;
}

/// Refusals of one kind.
pub(crate) struct Ring<R> {
    owners: HashMap<Owner, OwnRefusals<R>>,
    /// How many there are, and how many there were.
    count: usize,
    next: u64,
    /// Bytes that they take.
    bytes: usize,
}

/// Those of one owner, the oldest first, with their numbers.
struct OwnRefusals<R> {
    refusals: VecDeque<NumberedRefusal<R>>,
    bytes: usize,
}

struct NumberedRefusal<R> {
    number: u64,
    refusal: R,
}

impl<R> Default for Ring<R> {
    fn default() -> Self {
        Self {
            owners: HashMap::new(),
            count: 0,
            next: 0,
            bytes: 0,
        }
    }
}

impl<R> Default for OwnRefusals<R> {
    fn default() -> Self {
        Self {
            refusals: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<R: RingEntry> Ring<R> {
    /// Adds one, and returns those that had to go for it: of `most` in all, the oldest of who has most.
    pub fn push(&mut self, refusal: R, most: usize) -> Vec<R> {
        let size = refusal.size();
        let own = self.owners.entry(refusal.owner()).or_default();
        own.refusals.push_back(NumberedRefusal {
            number: self.next,
            refusal,
        });
        own.bytes += size;

        self.next += 1;
        self.count += 1;
        self.bytes += size;

        let mut forgotten = Vec::new();
        // The largest owner pays: one client that is refused in a loop cannot push out the refusals of others.
        while self.count > most || self.bytes > RING_BYTES {
            let Some(oldest) = self.forget() else {
                break;
            };
            forgotten.push(oldest);
        }
        forgotten
    }

    /// Forgets one.
    fn forget(&mut self) -> Option<R> {
        let is_large = self.bytes > RING_BYTES;
        let weight = |own: &OwnRefusals<R>| {
            let held = match is_large {
                true => own.bytes,
                false => own.refusals.len(),
            };
            // Of those who have as many, the one whose is older.
            (
                held,
                Reverse(own.refusals.front().map(|oldest| oldest.number)),
            )
        };
        let heaviest = self.owners.iter_mut().max_by_key(|(_, own)| weight(own));
        let (owner, own) = heaviest?;

        let oldest = own.refusals.pop_front()?.refusal;
        let size = oldest.size();
        own.bytes -= size;
        if own.refusals.is_empty() {
            let owner = owner.clone();
            self.owners.remove(&owner);
        }

        self.count -= 1;
        self.bytes -= size;
        Some(oldest)
    }

    /// All of them, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        let all = self.owners.values().flat_map(|own| &own.refusals);
        all.map(|numbered| &numbered.refusal)
    }
}

impl<R: RingEntry + Clone> Ring<R> {
    /// The latest for which this holds.
    pub fn find(&self, holds: impl Fn(&R) -> bool) -> Option<R> {
        let all = self.owners.values().flat_map(|own| &own.refusals);
        let found = all.filter(|numbered| holds(&numbered.refusal));
        let latest = found.max_by_key(|numbered| numbered.number)?;
        Some(latest.refusal.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Refusal {
        user: String,
        number: usize,
        size: usize,
    }

    impl RingEntry for Refusal {
        fn owner(&self) -> Owner {
            Owner::User(self.user.as_str().into())
        }

        fn size(&self) -> usize {
            self.size
        }
    }

    fn refusal(user: &str, number: usize, size: usize) -> Refusal {
        Refusal {
            user: user.to_owned(),
            number,
            size,
        }
    }

    fn of<'a>(ring: &'a Ring<Refusal>, user: &str) -> Vec<&'a Refusal> {
        ring.iter().filter(|one| one.user == user).collect()
    }

    #[test]
    fn one_users_refusals_push_out_its_own() {
        let mut ring = Ring::default();
        for number in 0..10 {
            assert!(ring.push(refusal("alice", number, 100), 512).is_empty());
        }
        for number in 0..10_000 {
            ring.push(refusal("greedy", number, 100), 512);
        }
        assert_eq!(of(&ring, "alice").len(), 10);
        assert_eq!(of(&ring, "greedy").len(), 502);
        let latest = ring.find(|one| one.user == "greedy");
        assert_eq!(latest, Some(refusal("greedy", 9999, 100)));
        assert_eq!((ring.count, ring.bytes), (512, 51_200));
    }

    #[test]
    fn those_that_are_large_push_out_their_owners() {
        let mut ring = Ring::default();
        for number in 0..100 {
            ring.push(refusal("alice", number, 100), 512);
        }
        for number in 0..1000 {
            ring.push(refusal("greedy", number, 64 << 10), 512);
        }
        assert_eq!(of(&ring, "alice").len(), 100);
        assert!(ring.bytes <= RING_BYTES);
        assert!(of(&ring, "greedy").len() > 50);
    }

    #[test]
    fn of_many_with_one_each_the_oldest_goes() {
        let mut ring = Ring::default();
        for number in 0..1000 {
            ring.push(refusal(&number.to_string(), number, 100), 512);
        }
        assert!(ring.iter().all(|one| one.number >= 488));
        assert_eq!(ring.owners.len(), 512);
    }
}
