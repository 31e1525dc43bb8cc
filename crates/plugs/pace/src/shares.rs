//! The requests of each user that are paced at once, whatever their origins.

use std::collections::HashMap;
use std::sync::Arc;

use hermes_net::memory::Owner;
use parking_lot::Mutex;

/// Requests of one user that wait, or were sent and are not answered: for all origins together, so that no one takes them all.
#[doc(alias = "bound")]
const BY_USER: usize = 1000;

/// How many requests each user has.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    held: Mutex<HashMap<Owner, usize>>,
}

/// The place of a request. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    owner: Owner,
}

impl Shares {
    /// A place for a request; `None` where its user has too many.
    pub(crate) fn take(self: &Arc<Self>, owner: &Owner) -> Option<Share> {
        let mut held = self.held.lock();
        let own = held.entry(owner.clone()).or_default();
        if *own >= BY_USER {
            return None;
        }
        *own += 1;
        Some(Share {
            shares: self.clone(),
            owner: owner.clone(),
        })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.held.lock();
        if let Some(own) = held.get_mut(&self.owner) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_a_bound_over_all_origins_and_nothing_is_kept_of_one_who_has_none() {
        let shares = Arc::<Shares>::default();
        let [many, one] = ["many", "one"].map(|name| Owner::User(name.into()));
        let taken: Vec<_> = (0..BY_USER).map(|_| shares.take(&many).unwrap()).collect();
        assert!(shares.take(&many).is_none());
        assert!(shares.take(&one).is_some());
        drop(taken);
        assert!(shares.take(&many).is_some());
        assert!(shares.held.lock().is_empty());
    }
}
