//! The ports that wait for a connection on behalf of each user, or of each source without a user.

use std::collections::HashMap;
use std::sync::Arc;

use hermes_net::memory::Owner;
use parking_lot::Mutex;

/// Ports that wait, of all workers. Who has none is not remembered.
#[derive(Debug, Default)]
pub struct WaitingPorts {
    owners: Arc<Mutex<HashMap<Owner, usize>>>,
}

/// The permit of one port; given back when this is dropped.
#[derive(Debug)]
pub struct WaitingPort {
    owners: Arc<Mutex<HashMap<Owner, usize>>>,
    owner: Owner,
}

impl WaitingPorts {
    /// A permit for another port of `owner`, who may have `most`; `None` where it has as many.
    pub fn take(&self, owner: Owner, most: usize) -> Option<WaitingPort> {
        let mut owners = self.owners.lock();
        let held = owners.get(&owner).copied().unwrap_or_default();
        if held >= most {
            return None;
        }

        owners.insert(owner.clone(), held + 1);
        Some(WaitingPort {
            owners: self.owners.clone(),
            owner,
        })
    }
}

impl Drop for WaitingPort {
    fn drop(&mut self) {
        let mut owners = self.owners.lock();
        if let Some(held) = owners.get_mut(&self.owner) {
            *held -= 1;
            if *held == 0 {
                owners.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_has_so_many_and_gives_them_back() {
        let ports = WaitingPorts::default();
        let alice = || Owner::User("alice".into());
        let first = ports.take(alice(), 2).unwrap();
        let _second = ports.take(alice(), 2).unwrap();
        assert!(ports.take(alice(), 2).is_none());
        assert!(ports.take(Owner::User("bob".into()), 2).is_some());

        drop(first);
        assert!(ports.take(alice(), 2).is_some());
        assert_eq!(ports.owners.lock().len(), 1, "who has none is forgotten");
    }
}
