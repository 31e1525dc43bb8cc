//! Signatures that came already: none is taken twice.

use std::collections::{HashSet, VecDeque};

/// Seconds around its time in which a signature is good: messages take their time, and clocks differ.
pub const LASTS: u64 = 60;

/// Signatures of the last two minutes, each with a guard that is dropped when it is forgotten. One that is older is refused by its time.
#[derive(Debug)]
pub struct ReplayWindow<Guard> {
    known: HashSet<[u8; 16]>,
    /// In the order in which they came.
    order: VecDeque<Seen<Guard>>,
    most: usize,
    reserve: usize,
}

/// The room that a signature may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// That of all.
    Shared,
    /// Also what is kept for senders of few, so that a crowd of greedy ones cannot refuse them.
    Reserve,
}

#[derive(Debug)]
struct Seen<Guard> {
    at: u64,
    id: [u8; 16],
    _guard: Guard,
}

/// A reason for which a signature is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Replay {
    /// Its time is too far from ours.
    #[error("the signature was not made within the last {LASTS} seconds: is the clock right?")]
    Stale,
    /// It came already.
    #[error("the signature came already")]
    Known,
    /// There is no room to remember further ones.
    #[error("too many signatures came within two minutes")]
    Full,
}

impl<Guard> ReplayWindow<Guard> {
    /// A window of at most so many signatures, and of `reserve` more.
    #[must_use]
    pub fn new(most: usize, reserve: usize) -> Self {
        Self {
            known: HashSet::new(),
            order: VecDeque::new(),
            most,
            reserve,
        }
    }

    /// Whether a signature of this time may be taken, in seconds since 1970.
    ///
    /// # Errors
    /// It is too old, or of the future.
    pub fn check_time(created: u64, now: u64) -> Result<(), Replay> {
        match created.abs_diff(now) <= LASTS {
            true => Ok(()),
            false => Err(Replay::Stale),
        }
    }

    /// Takes a signature, which must have been verified: only then may it cost room.
    ///
    /// # Errors
    /// It came already, or there is no room.
    pub fn take(&mut self, id: [u8; 16], now: u64, guard: Guard, room: Room) -> Result<(), Replay> {
        self.forget(now);
        if self.known.contains(&id) {
            return Err(Replay::Known);
        }
        // Forgetting an earlier one for it would let that one come again.
        let most = match room {
            Room::Shared => self.most,
            Room::Reserve => self.most + self.reserve,
        };
        if self.order.len() >= most {
            return Err(Replay::Full);
        }
        self.known.insert(id);
        self.order.push_back(Seen {
            at: now,
            id,
            _guard: guard,
        });
        Ok(())
    }

    /// Forgets what would be refused by its time.
    pub fn forget(&mut self, now: u64) {
        // One that is ahead of us by the most comes again until twice that time is over.
        while let Some(first) = self.order.front()
            && now > first.at + 2 * LASTS
        {
            self.known.remove(&first.id);
            self.order.pop_front();
        }
    }

    /// Signatures that it remembers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it remembers none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_twice_whenever_it_comes_and_little_is_remembered() {
        let mut random = fastrand::Rng::with_seed(37);
        let mut window = ReplayWindow::new(100_000, 0);
        let mut taken = HashSet::new();
        let mut now = 10_000_u64;
        let mut sent: Vec<(u64, [u8; 16])> = Vec::new();
        for round in 0..20_000_u64 {
            now += u64::from(random.bool());
            // Half are new, with a clock that is wrong by a little; half are old.
            let (created, id) = match random.bool() || sent.is_empty() {
                true => {
                    let mut id = [0; 16];
                    id[..8].copy_from_slice(&round.to_le_bytes());
                    (now + random.u64(0..120) - 60, id)
                }
                false => sent[random.usize(0..sent.len())],
            };
            sent.push((created, id));
            let is_good = ReplayWindow::<()>::check_time(created, now).is_ok()
                && window.take(id, now, (), Room::Shared).is_ok();
            if is_good {
                assert!(taken.insert(id), "{id:?} was taken twice");
            }
        }
        assert!(taken.len() > 5_000);
        assert!(window.len() < 500, "{}", window.len());
        window.forget(now + 121);
        assert!(window.is_empty());
    }

    #[test]
    fn a_full_window_refuses_instead_of_forgetting() {
        let mut window = ReplayWindow::new(1, 1);
        let mut take = |id, now, room| window.take([id; 16], now, (), room);
        assert_eq!(take(1, 0, Room::Shared), Ok(()));
        assert_eq!(take(2, 0, Room::Shared), Err(Replay::Full));
        assert_eq!(take(3, 0, Room::Reserve), Ok(()));
        assert_eq!(take(4, 0, Room::Reserve), Err(Replay::Full));
        assert_eq!(take(1, 120, Room::Shared), Err(Replay::Known));
        assert_eq!(take(2, 121, Room::Shared), Ok(()));
        assert_eq!(ReplayWindow::<()>::check_time(0, 61), Err(Replay::Stale));
        assert_eq!(ReplayWindow::<()>::check_time(121, 60), Err(Replay::Stale));
    }
}
