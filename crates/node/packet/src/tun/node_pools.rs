//! The pools of all devices of a node: packets of one device's client to another's do not pass by
//! the kernel between them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_proto::ip::IpPrefix;
use parking_lot::RwLock;

/// The prefixes from which devices of a node give addresses: to clients, or to names. Bounded by the document.
#[derive(Debug, Default)]
pub struct NodePools {
    pools: RwLock<Vec<DevicePool>>,
    last: AtomicU64,
    /// Grows with each change.
    revision: AtomicU64,
}

#[derive(Debug)]
struct DevicePool {
    device: u64,
    prefixes: Vec<IpPrefix>,
    /// Whether its clients and those of other devices like it may send to each other.
    is_open: bool,
}

/// A device's pool among those of its node, until this is dropped.
#[derive(Debug)]
pub(super) struct PoolEntry {
    all: Arc<NodePools>,
    device: u64,
    is_open: bool,
}

impl NodePools {
    /// A device gives out addresses of these prefixes.
    pub(super) fn enter(self: &Arc<Self>, prefixes: Vec<IpPrefix>, is_open: bool) -> PoolEntry {
        let device = self.last.fetch_add(1, Ordering::Relaxed);
        self.pools.write().push(DevicePool {
            device,
            prefixes,
            is_open,
        });
        self.revision.fetch_add(1, Ordering::Release);
        PoolEntry {
            all: self.clone(),
            device,
            is_open,
        }
    }
}

impl PoolEntry {
    /// Grows whenever pools change.
    pub(super) fn revision(&self) -> u64 {
        self.all.revision.load(Ordering::Acquire)
    }

    /// Whether an address is of another device's pool, which clients of this one may not send to.
    pub(super) fn is_of_another(&self, address: IpAddr) -> bool {
        let pools = self.all.pools.read();
        let longest = |pool: &DevicePool| {
            let holding = pool.prefixes.iter().filter(|one| one.contains(address));
            holding.map(|prefix| prefix.length()).max()
        };
        let own = pools.iter().find(|pool| pool.device == self.device);
        let own = own.and_then(longest);
        let mut others = pools
            .iter()
            .filter(|pool| pool.device != self.device && !(self.is_open && pool.is_open));
        // The kernel leads to the longest.
        others.any(|pool| longest(pool) > own)
    }
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        let device = self.device;
        self.all.pools.write().retain(|pool| pool.device != device);
        self.all.revision.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(all: &Arc<NodePools>, prefix: &str, is_open: bool) -> PoolEntry {
        all.enter(vec![prefix.parse().unwrap()], is_open)
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_pool_of_another_device_is_known_both_ways_until_it_is_gone() {
        let all = Arc::new(NodePools::default());
        let one = enter(&all, "10.7.0.0/24", false);
        let other = enter(&all, "10.8.0.0/24", false);
        assert!(one.is_of_another(address("10.8.0.224")));
        assert!(other.is_of_another(address("10.7.0.137")));
        assert!(!one.is_of_another(address("10.7.0.137")));
        assert!(!one.is_of_another(address("10.9.0.1")));
        let before = one.revision();
        drop(other);
        assert!(!one.is_of_another(address("10.8.0.224")));
        assert_ne!(one.revision(), before);
    }

    #[test]
    fn devices_that_are_both_open_are_one() {
        let all = Arc::new(NodePools::default());
        let one = enter(&all, "10.7.0.0/24", true);
        let other = enter(&all, "10.8.0.0/24", true);
        let closed = enter(&all, "10.9.0.0/24", false);
        assert!(!one.is_of_another(address("10.8.0.1")));
        assert!(one.is_of_another(address("10.9.0.1")));
        assert!(closed.is_of_another(address("10.7.0.1")));
        drop(other);
    }

    #[test]
    fn a_pool_within_a_wider_one_is_another() {
        let all = Arc::new(NodePools::default());
        let wide = enter(&all, "10.0.0.0/8", false);
        let narrow = enter(&all, "10.8.0.0/24", false);
        // A device that is replaced has the same for a moment.
        let again = enter(&all, "10.8.0.0/24", false);
        assert!(wide.is_of_another(address("10.8.0.1")));
        assert!(!narrow.is_of_another(address("10.8.0.1")));
        assert!(narrow.is_of_another(address("10.9.0.1")));
        drop(again);
    }
}
