//! A budget for handshakes, in all and per source: each costs the responder agreements of keys, and its sender nothing.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Handshakes that one group of addresses may begin in a second. Where many groups ask, each has less, so that a group that has not asked
/// yet has its turn before others have their second.
#[doc(alias = "bound")]
const EACH: u32 = 10;

/// Handshakes of one second from addresses where a configured peer was heard last, and as many from all others: each takes some 150 us of a
/// processor.
#[doc(alias = "bound")]
const HALF: u32 = 250;

/// Groups into which addresses fall by a hash that no one else knows: a kilobyte.
#[doc(alias = "bound")]
const GROUPS: usize = 1024;

/// How long a handshake counts.
const SECOND: Duration = Duration::from_secs(1);

/// Counts handshakes from proven addresses.
///
/// Half of the budget is for addresses of configured peers, so that no number of other addresses takes the handshakes of those away.
#[derive(Debug)]
pub struct HandshakeBudget {
    hash: RandomState,
    /// When counting began.
    since: Instant,
    peers: BudgetHalf,
    others: BudgetHalf,
}

/// The handshakes of one second, of one half of the budget.
#[derive(Debug)]
struct BudgetHalf {
    admitted: u32,
    groups: Box<[u8; GROUPS]>,
}

impl HandshakeBudget {
    /// A full budget.
    pub fn new(now: Instant) -> Self {
        Self {
            hash: RandomState::new(),
            since: now,
            peers: BudgetHalf::default(),
            others: BudgetHalf::default(),
        }
    }

    /// Whether a handshake from this address is to be read; `is_peer`, if a configured peer was heard there last.
    pub fn admits(&mut self, from: IpAddr, is_peer: bool, now: Instant) -> bool {
        if now.saturating_duration_since(self.since) >= SECOND {
            self.since = now;
            self.peers.clear();
            self.others.clear();
        }

        let group = self.group_of(from);
        match is_peer {
            true => self.peers.admits(group),
            false => self.others.admits(group),
        }
    }

    /// The group of an address; of IPv6, of its /64, as one host has all of the addresses there.
    fn group_of(&self, from: IpAddr) -> usize {
        let hashed = match from.to_canonical() {
            IpAddr::V4(address) => self.hash.hash_one(address.octets()),
            IpAddr::V6(address) => self.hash.hash_one(&address.octets()[..8]),
        };
        (hashed % GROUPS as u64) as usize
    }
}

impl Default for BudgetHalf {
    fn default() -> Self {
        Self {
            admitted: 0,
            groups: Box::new([0; GROUPS]),
        }
    }
}

impl BudgetHalf {
    fn admits(&mut self, group: usize) -> bool {
        let left = HALF.saturating_sub(self.admitted);
        // The share shrinks with what is left, so that sources that ask much leave something. The first handshake of a group needs one.
        let share = (EACH * left / HALF).max(left.min(1));
        let begun = &mut self.groups[group];
        if u32::from(*begun) >= share {
            return false;
        }
        *begun += 1;
        self.admitted += 1;
        true
    }

    fn clear(&mut self) {
        self.admitted = 0;
        self.groups.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from((0xc000_0000 + number).to_be_bytes())
    }

    #[test]
    fn many_addresses_take_neither_the_turns_of_peers_nor_those_of_other_addresses() {
        let now = Instant::now();
        let mut budget = HandshakeBudget::new(now);
        let mut peers = 0;
        let mut others = 0;
        for second in 0..50 {
            let now = now + SECOND * second;
            for attempt in 0..3000 {
                budget.admits(address(attempt % 60), false, now);
            }
            // One after the other, from addresses that no one has asked from before.
            others += u32::from(budget.admits(address(1000 + second), false, now));
            peers += u32::from(budget.admits(address(5000), true, now));
        }
        assert_eq!(peers, 50);
        // Some fall into a group with one of the sixty.
        assert!(others >= 35, "{others}");
    }

    #[test]
    fn all_together_have_no_more_than_the_budget() {
        let now = Instant::now();
        let mut budget = HandshakeBudget::new(now);
        let attempts = (0..100_000).map(|number| (address(number), number % 2 == 0));
        let admitted = attempts.filter(|(from, is_peer)| budget.admits(*from, *is_peer, now));
        let admitted = admitted.count() as u32;
        assert!(admitted <= 2 * HALF, "{admitted}");
        assert!(!budget.admits(address(7), true, now));
        assert!(budget.admits(address(7), true, now + SECOND));
    }

    #[test]
    fn one_address_has_its_share_and_no_more() {
        let now = Instant::now();
        let mut budget = HandshakeBudget::new(now);
        let from: IpAddr = "2001:db8::1".parse().unwrap();
        let admitted = (0..100).filter(|_| budget.admits(from, false, now)).count() as u32;
        assert!((EACH - 1..=EACH).contains(&admitted), "{admitted}");
        let neighbour = "2001:db8::ffff:1".parse().unwrap();
        assert!(!budget.admits(neighbour, false, now), "the same network");
    }
}
