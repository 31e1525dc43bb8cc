//! The network of one system: a client and a server in a namespace each, and a cable between them.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use ipnet::{IpNet, Ipv4Net};

use crate::topology::{Namespace, Plug, Topology};

/// Where the client and the server are, on the cable.
const NEAR: &str = "near";
const FAR: &str = "far";

/// Their addresses there.
pub const NEAR_OUTER: Ipv4Addr = Ipv4Addr::new(10, 40, 0, 1);
pub const FAR_OUTER: Ipv4Addr = Ipv4Addr::new(10, 40, 0, 2);

/// Their addresses inside the tunnel: those that connect-ip-go's server gives.
pub const NEAR_INNER: Ipv4Addr = Ipv4Addr::new(10, 41, 0, 2);
pub const FAR_INNER: Ipv4Addr = Ipv4Addr::new(10, 41, 0, 1);

/// Bits of the network of both.
const PREFIX: u8 = 24;

/// The namespaces of one system.
#[derive(Debug)]
pub struct IpNetwork {
    topology: Topology,
}

impl IpNetwork {
    /// Lays it.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn lay() -> Result<Self> {
        let mut topology = Topology::new();
        topology.add(NEAR)?;
        topology.add(FAR)?;
        let near = format!("{NEAR_OUTER}/{PREFIX}");
        let far = format!("{FAR_OUTER}/{PREFIX}");
        topology.cable(
            Plug {
                namespace: NEAR,
                address: &near,
            },
            Plug {
                namespace: FAR,
                address: &far,
            },
        )?;
        Ok(Self { topology })
    }

    /// Lets both directions of the cable carry so many Mbit/s (`tc-tbf(8)`), with a queue of 10 ms.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn shape(&self, rate: u32) -> Result<()> {
        let rate = format!("{rate}mbit");
        // The device of each end is named after the other.
        for (namespace, device) in [(self.near()?, FAR), (self.far()?, NEAR)] {
            let shaped = namespace.run(&[
                "tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", &rate, "burst",
                "256kb", "latency", "10ms",
            ]);
            shaped.context("a kernel with the scheduler `tbf` is needed")?;
        }
        Ok(())
    }

    /// Where the client runs.
    ///
    /// # Errors
    /// Never: it is there.
    pub fn near(&self) -> Result<&Namespace> {
        self.topology.namespace(NEAR)
    }

    /// Where the server runs.
    ///
    /// # Errors
    /// Never: it is there.
    pub fn far(&self) -> Result<&Namespace> {
        self.topology.namespace(FAR)
    }
}

/// An address inside the tunnel, with its network.
pub fn inner(address: Ipv4Addr) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(address, PREFIX))
}
