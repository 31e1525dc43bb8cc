//! Where the demo lives: its folder, its nodes and their addresses.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;

use tempfile::TempDir;

use super::says::Says;

/// The nodes, in the order in which traffic passes them.
pub const NODES: [&str; 4] = ["alice", "ingress", "core", "edge"];

/// Names of places in the files; an address follows each in [`Place::addresses`].
const LISTENERS: [&str; 6] = [
    "ALICE_WEB",
    "ALICE_DB",
    "ALICE_ECHO",
    "INGRESS",
    "CORE",
    "EDGE",
];

/// Ports that systems do not hand out on their own (Linux: from 32768, others: from 49152).
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Folder and addresses. Dropping it removes the folder.
pub struct Place {
    folder: TempDir,
    /// Addresses by the names that the files use.
    addresses: Vec<(&'static str, SocketAddr)>,
}

impl Place {
    /// Makes a folder for this user only, and chooses free ports.
    pub fn choose(origins: &[(&'static str, SocketAddr)]) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("hermes-demo-")
            .tempdir()
            .says("a folder for the demo")?;
        let mut addresses = origins.to_vec();
        let mut free = free_addresses();

        for name in LISTENERS {
            addresses.push((name, free.next().ok_or("no free port on loopback")?));
        }
        Ok(Self { folder, addresses })
    }

    /// A file in the demo's folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The configuration of a node.
    pub fn configuration(&self, node: &str) -> PathBuf {
        self.file(&format!("{node}.yaml"))
    }

    /// The admin socket of a node.
    pub fn admin(&self, node: &str) -> PathBuf {
        self.file(&format!("{node}.sock"))
    }

    /// Every address with its name.
    pub fn addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.addresses
    }

    /// The address of that name, which is one of the demo's own.
    pub fn address(&self, name: &str) -> SocketAddr {
        let found = self.addresses.iter().find(|(known, _)| *known == name);
        found.map_or(
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            |(_, address)| *address,
        )
    }
}

/// Loopback addresses with a port that is free for TCP and UDP, from a start that differs between two demos.
pub fn free_addresses() -> impl Iterator<Item = SocketAddr> {
    // A process number spreads well enough, and needs no source of randomness.
    let first = std::process::id().wrapping_mul(7) % u32::from(PORTS.end - PORTS.start);
    let order = PORTS.cycle().skip(first as usize).take(PORTS.len());
    order
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .filter(|address| is_free(*address))
}

fn is_free(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_not_chosen() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(!is_free(taken.local_addr().unwrap()));
    }

    #[test]
    fn chosen_addresses_differ() {
        let chosen: Vec<_> = free_addresses().take(LISTENERS.len()).collect();
        let distinct: std::collections::HashSet<_> = chosen.iter().collect();
        assert_eq!(distinct.len(), LISTENERS.len());
    }
}
