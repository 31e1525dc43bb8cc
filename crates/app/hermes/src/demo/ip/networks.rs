//! The networks of the demo: each node has one of its own, and cables lead to its neighbours alone.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;

use hermes_net::network::{Network, Plug, cable};
use ipnet::{IpNet, Ipv4Net};

/// The users, in the order of their numbers.
pub const USERS: [&str; 2] = ["alice", "bob"];

/// Where they can enter.
pub const INGRESSES: [&str; 2] = ["north", "south"];

/// Where tunnels end.
pub const SERVERS: [&str; 3] = ["one", "two", "three"];

/// The address that all servers have for someone, and those of some.
pub const VIDEO: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub const WEB: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
pub const LAB: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);

/// The length of the prefix of a cable.
const CABLE: u8 = 24;

/// All networks, by the node that is in each.
pub struct Networks(BTreeMap<&'static str, Network>);

impl Networks {
    /// Makes them, and lays all cables: from each user to each ingress, and from each of these to each server.
    pub fn lay() -> io::Result<Self> {
        let mut networks = BTreeMap::new();
        for name in USERS.iter().chain(&INGRESSES).chain(&SERVERS) {
            networks.insert(*name, Network::new()?);
        }

        let networks = Self(networks);
        for ingress in INGRESSES {
            for user in USERS {
                networks.connect(user, ingress, to_ingress(user, ingress))?;
            }
            for server in SERVERS {
                networks.connect(ingress, server, to_server(ingress, server))?;
            }
        }
        for (server, addresses) in [
            ("one", &[VIDEO, WEB][..]),
            ("two", &[VIDEO]),
            ("three", &[VIDEO, LAB]),
        ] {
            for address in addresses {
                let host = IpNet::from(std::net::IpAddr::V4(*address));
                networks.of(server)?.add_address("lo", host)?;
            }
        }
        Ok(networks)
    }

    /// The network of a node.
    pub fn of(&self, node: &str) -> io::Result<&Network> {
        self.0
            .get(node)
            .ok_or_else(|| io::Error::other(format!("there is no network of {node}")))
    }

    /// A cable: its far end has this address, its near end the one before.
    fn connect(&self, near: &str, far: &str, address: Ipv4Addr) -> io::Result<()> {
        let net = |address: Ipv4Addr| {
            let net = Ipv4Net::new(address, CABLE).map_err(io::Error::other)?;
            Ok::<_, io::Error>(IpNet::V4(net))
        };
        let before = Ipv4Addr::from_bits(address.to_bits() - 1);
        let near_end = Plug {
            network: self.of(near)?,
            interface: far,
            address: net(before)?,
        };
        let far_end = Plug {
            network: self.of(far)?,
            interface: near,
            address: net(address)?,
        };
        cable(near_end, far_end)
    }
}

/// The address of an ingress for a user.
pub fn to_ingress(user: &str, ingress: &str) -> Ipv4Addr {
    Ipv4Addr::new(10, 2, two_digits(&USERS, user, &INGRESSES, ingress), 2)
}

/// The address of a server for an ingress.
pub fn to_server(ingress: &str, server: &str) -> Ipv4Addr {
    Ipv4Addr::new(10, 1, two_digits(&INGRESSES, ingress, &SERVERS, server), 2)
}

/// The number of a cable: 12 leads from the first of some to the second of others.
fn two_digits(some: &[&str], one: &str, others: &[&str], other: &str) -> u8 {
    number(some, one) * 10 + number(others, other)
}

/// The number of one of a few, from 1.
pub fn number(all: &[&str], one: &str) -> u8 {
    let place = all.iter().position(|name| *name == one);
    place.map_or(0, |place| place as u8 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cable_is_a_network_of_its_own() {
        let first = USERS.map(|user| INGRESSES.map(|ingress| to_ingress(user, ingress)));
        let second = INGRESSES.map(|ingress| SERVERS.map(|server| to_server(ingress, server)));
        let all: std::collections::BTreeSet<_> = first
            .iter()
            .flatten()
            .chain(second.iter().flatten())
            .collect();
        assert_eq!(all.len(), 10);
        assert_eq!(to_ingress("bob", "north"), Ipv4Addr::new(10, 2, 21, 2));
        assert_eq!(to_server("south", "three"), Ipv4Addr::new(10, 1, 23, 2));
    }
}
