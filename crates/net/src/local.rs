//! The addresses of this machine, kept current while they change.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;

use crate::drain::Watch;
use crate::os::{self, AddressChanges};

/// Between two looks where the system does not say that something has changed.
const LOOK: Duration = Duration::from_secs(5);

/// Shortest time between two looks: interfaces that come up have many addresses.
const SHORTEST: Duration = Duration::from_millis(20);

/// The addresses of this machine. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct LocalAddresses {
    known: Arc<RwLock<HashSet<IpAddr>>>,
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
        ip.is_loopback() || ip.is_unspecified() || self.known.read().contains(&ip)
    }

    /// Keeps them current until `watch` drains. By netlink on Linux; elsewhere, and where that is forbidden, by a look every 5 s.
    pub async fn follow(self, watch: Watch) {
        let mut changes = AddressChanges::hear().inspect_err(|error| {
            tracing::info!(%error, "changes of this machine's addresses are noticed within {LOOK:?}, not at once");
        });
        // What changed before anybody listened.
        self.look();
        loop {
            tokio::select! {
                () = watch.graceful() => return,
                changed = changed(&mut changes) => {
                    if let Err(error) = changed {
                        tracing::warn!(%error, "this machine does not tell its addresses any more; they are looked up every {LOOK:?}");
                        changes = Err(error);
                    }
                }
            }
            self.look();
            tokio::time::sleep(SHORTEST).await;
        }
    }

    fn look(&self) {
        let now: HashSet<IpAddr> = os::local_addresses().into_iter().map(|ip| ip.to_canonical()).collect();
        // A list that cannot be had is no reason to open what was closed.
        if !now.is_empty() && *self.known.read() != now {
            *self.known.write() = now;
        }
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
        assert!(os::local_addresses().into_iter().all(|ip| local.contains(ip)));
    }
}
