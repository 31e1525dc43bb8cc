//! The addresses of this machine, kept current while they change.

use std::collections::{BTreeSet, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ipnet::IpNet;
use parking_lot::RwLock;

use crate::drain::Watch;
use crate::os::{self, AddressChanges};

/// Time between two looks at the machine's addresses where the system does not report changes.
#[doc(alias = "bound")]
const LOOK: Duration = Duration::from_secs(5);

/// Shortest time between two looks: interfaces that come up have many addresses.
#[doc(alias = "bound")]
const SHORTEST: Duration = Duration::from_millis(20);

/// The addresses of this machine: those that it has, and prefixes that its routes deliver to it. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LocalAddresses {
    known: Arc<RwLock<PrefixSet>>,
    /// Grows with each change.
    revision: Arc<AtomicU64>,
}

/// Prefixes, and which lengths occur among them: as many look-ups as there are lengths tell whether one holds an address.
#[derive(Debug, Default, PartialEq, Eq)]
struct PrefixSet {
    prefixes: HashSet<IpNet>,
    lengths: BTreeSet<u8>,
}

impl LocalAddresses {
    /// As they are now; [`Self::follow`] keeps them current.
    #[must_use]
    pub fn now() -> Self {
        let all = Self::default();
        all.look();
        all
    }

    /// Whether dialling `ip` reaches this machine, as far as is known.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || ip.is_unspecified() || self.known.read().holds(ip)
    }

    /// Grows whenever they change.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Keeps them current until `watch` drains. By netlink on Linux; elsewhere, and where that is forbidden, by a look every 5 s.
    pub async fn follow(self, watch: Watch) {
        let mut changes = AddressChanges::hear().inspect_err(|error| {
            tracing::info!(%error, "changes of this machine's addresses are noticed within {LOOK:?}, not at once");
        });

        // Changes before the first wait.
        self.look_aside().await;
        loop {
            tokio::select! {
                () = watch.graceful() => return,
                changed = changed(&mut changes) => {
                    if let Err(error) = changed {
                        tracing::warn!(%error, "this machine does not report changes of addresses any more; they are read every {LOOK:?}");
                        changes = Err(error);
                    }
                }
            }

            self.look_aside().await;
            tokio::time::sleep(SHORTEST).await;
        }
    }

    /// Looks on a thread that may wait: a kernel with many routes takes its time to list them.
    async fn look_aside(&self) {
        let all = self.clone();
        if tokio::task::spawn_blocking(move || all.look())
            .await
            .is_err()
        {
            tracing::warn!("this machine's addresses could not be looked up");
        }
    }

    fn look(&self) {
        let now = PrefixSet::from_iter(os::local_addresses());
        // If the list cannot be had, destinations that were closed stay closed.
        if !now.prefixes.is_empty() && *self.known.read() != now {
            *self.known.write() = now;
            self.revision.fetch_add(1, Ordering::Release);
        }
    }
}

impl PrefixSet {
    fn holds(&self, ip: IpAddr) -> bool {
        let prefix = |length: &u8| IpNet::new(ip, *length).ok().map(|net| net.trunc());
        self.lengths
            .iter()
            .filter_map(prefix)
            .any(|net| self.prefixes.contains(&net))
    }
}

impl FromIterator<IpNet> for PrefixSet {
    fn from_iter<T: IntoIterator<Item = IpNet>>(all: T) -> Self {
        let prefixes: HashSet<IpNet> = all.into_iter().collect();
        let lengths = prefixes.iter().map(IpNet::prefix_len).collect();
        Self { prefixes, lengths }
    }
}

async fn changed(changes: &mut std::io::Result<AddressChanges>) -> std::io::Result<()> {
    match changes {
        Ok(changes) => changes.next().await,
        Err(_) => {
            tokio::time::sleep(LOOK).await;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_and_the_unspecified_address_are_this_machine() {
        let local = LocalAddresses::default();
        for ip in ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::"] {
            assert!(local.contains(ip.parse().unwrap()), "{ip}");
        }
        assert!(!local.contains("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn what_the_system_lists_is_this_machine() {
        let local = LocalAddresses::now();
        assert!(
            os::local_addresses()
                .into_iter()
                .all(|net| local.contains(net.network()))
        );
    }

    #[test]
    fn what_is_delivered_here_by_prefix_is_this_machine() {
        let prefixes = ["10.9.0.0/16", "192.0.2.7/32", "2001:db8:9::/48"];
        let known = PrefixSet::from_iter(prefixes.map(|net| net.parse().unwrap()));
        for ip in ["10.9.0.0", "10.9.255.255", "192.0.2.7", "2001:db8:9::1"] {
            assert!(known.holds(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["10.8.255.255", "192.0.2.8", "2001:db8:a::1", "::a09:1"] {
            assert!(!known.holds(ip.parse().unwrap()), "{ip}");
        }
    }
}
