//! The network of the experiments: a client, four proxies in a row, and an origin that each of them reaches.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::topology::{Namespace, Plug, Topology};

/// Proxies in the row.
pub const HOPS: u8 = 4;
/// The namespace of the client.
const CLIENT: &str = "client";
/// The namespace of the origin.
const ORIGIN: &str = "origin";
/// The rate of the emulated links; their queue holds 20 ms of it.
const GIGABIT: [&str; 7] = ["tbf", "rate", "1gbit", "burst", "256kb", "latency", "20ms"];

/// The links between the namespaces.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Links {
    /// Virtual Ethernet, as fast as the machine.
    Fast,
    /// The same, held to 1 Gbit/s in each direction by the kernel (`tc` with `tbf`).
    Gigabit,
}

impl Links {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Fast, Self::Gigabit];

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Gigabit => "gigabit",
        }
    }
}

/// The namespaces and their cables.
#[derive(Debug)]
pub struct Network {
    topology: Topology,
}

impl Network {
    /// Lays it.
    ///
    /// # Errors
    /// When the system does not allow it, or its kernel has no `tbf`.
    pub fn lay(links: Links) -> Result<Self> {
        let mut topology = Topology::new();
        let names: Vec<String> = std::iter::once(CLIENT.to_owned())
            .chain((1..=HOPS).map(proxy))
            .collect();
        for name in names.iter().map(String::as_str).chain([ORIGIN]) {
            topology.add(name)?;
        }

        for (number, name) in (0..).zip(&names) {
            if let Some(next) = names.get(usize::from(number) + 1) {
                let near = format!("10.77.{}.1/24", number + 1);
                cable(
                    &topology,
                    (name, &near),
                    (next, &prefixed(proxy_address(number + 1))),
                    links,
                )?;
            }
            cable(
                &topology,
                (name, &format!("10.78.{number}.1/24")),
                (ORIGIN, &prefixed(origin_address(number))),
                links,
            )?;
        }

        Ok(Self { topology })
    }

    /// Where the client runs.
    ///
    /// # Errors
    /// Never: it is there.
    pub fn client(&self) -> Result<&Namespace> {
        self.topology.namespace(CLIENT)
    }

    /// Where a proxy runs, the first being 1.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn proxy(&self, number: u8) -> Result<&Namespace> {
        self.topology.namespace(&proxy(number))
    }

    /// Where the origin runs.
    ///
    /// # Errors
    /// Never: it is there.
    pub fn origin(&self) -> Result<&Namespace> {
        self.topology.namespace(ORIGIN)
    }
}

/// The address of a proxy, the first being 1.
pub fn proxy_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, number, 2)
}

/// The origin's address as a proxy sees it; 0 stands for the client.
pub fn origin_address(seen_by: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, seen_by, 2)
}

fn proxy(number: u8) -> String {
    format!("proxy{number}")
}

fn prefixed(address: Ipv4Addr) -> String {
    format!("{address}/24")
}

/// A cable, held to a rate if the links have one.
fn cable(topology: &Topology, one: (&str, &str), other: (&str, &str), links: Links) -> Result<()> {
    let plug = |(namespace, address)| Plug { namespace, address };
    topology.cable(plug(one), plug(other))?;
    if links == Links::Gigabit {
        for (namespace, device) in [(one.0, other.0), (other.0, one.0)] {
            let words: Vec<_> = ["tc", "qdisc", "add", "dev", device, "root"]
                .into_iter()
                .chain(GIGABIT)
                .collect();
            topology
                .namespace(namespace)?
                .run(&words)
                .context("a kernel with the scheduler `tbf` is needed")?;
        }
    }

    Ok(())
}
