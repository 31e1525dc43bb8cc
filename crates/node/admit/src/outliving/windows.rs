//! The replay window of a tunnel: charged to the tunnel's user, or to its source.

use hermes_net::memory::{Charge, Overdrawn, OwnerAccount, Purpose};
use hermes_proto::resumable::LEAST_WINDOW;

/// The bytes that the window of one tunnel may hold. It grows by [`LEAST_WINDOW`] bytes.
pub struct WindowShare {
    charge: Charge,
    /// The most that it takes, in bytes.
    most: usize,
}

impl WindowShare {
    /// The share of a new tunnel, which takes up to `most` bytes.
    ///
    /// # Errors
    /// Its owner has no room for the least window: then the tunnel is an ordinary one.
    pub fn take(account: &OwnerAccount, most: usize) -> Result<Self, Overdrawn> {
        let charge = account.charge(Purpose::Sessions, LEAST_WINDOW)?;
        Ok(Self { charge, most })
    }

    /// How many bytes that is.
    pub fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// Takes more, if it may.
    pub fn grow(&mut self) {
        if self.bytes() < self.most {
            self.charge.grow_if_free(LEAST_WINDOW);
        }
    }

    /// Gives back bytes that a window with so many in it does not need: it may need twice as many in a moment.
    pub(crate) fn shrink(&mut self, held: usize) {
        let needed = (held * 2).div_ceil(LEAST_WINDOW).max(1) * LEAST_WINDOW;
        if needed * 2 <= self.bytes() {
            self.charge.shrink(self.bytes() - needed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_net::memory::{BUDGET, CONNECTION, Memory, Owner};

    fn account(name: &str) -> (&'static Memory, OwnerAccount) {
        let memory: &'static Memory = Box::leak(Box::new(Memory::new(BUDGET, CONNECTION)));
        (memory, memory.owner(Owner::User(name.into())))
    }

    #[test]
    fn windows_grow_as_they_may_and_give_back() {
        let (memory, alice) = account("alice");
        let mut share = WindowShare::take(&alice, 4 * LEAST_WINDOW).unwrap();
        assert_eq!(share.bytes(), LEAST_WINDOW);
        (0..10).for_each(|_| share.grow());
        assert_eq!(share.bytes(), 4 * LEAST_WINDOW);

        share.shrink(LEAST_WINDOW + 1);
        assert_eq!(share.bytes(), 4 * LEAST_WINDOW, "it may grow again");
        share.shrink(0);
        assert_eq!(share.bytes(), LEAST_WINDOW);
        drop(share);
        assert_eq!(memory.charged(), 0);
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let (memory, alice) = account("alice");
        let take = |of: &OwnerAccount| WindowShare::take(of, 1).ok();
        let all: Vec<_> = std::iter::from_fn(|| take(&alice)).collect();
        // Three quarters of an owner's share: sessions leave the rest to uses that are not optional.
        assert!(
            all.len() >= BUDGET / 4 * 3 / 4 / LEAST_WINDOW - 1,
            "{}",
            all.len()
        );
        let bob = memory.owner(Owner::User("bob".into()));
        assert!(take(&bob).is_some());
    }
}
