//! Networks of our own: network namespaces, cables between them, addresses and routes.
//!
//! What it is: a [`Topology`] has namespaces by name; [`Topology::cable`] lays a pair of virtual Ethernet devices between
//! two of them, [`Topology::route`] leads from one to the networks behind another. Programs are started in a namespace with
//! [`Namespace::command`]. Nothing of it touches the networks of the machine, and nothing is left behind: a namespace lives
//! as long as its holder, a process that ends when ours does, even by SIGKILL.
//!
//! What it is not: isolation. Files, users and processes are those of the machine. It needs root.

mod namespace;

use std::collections::BTreeMap;

use anyhow::{Context, Result};

pub use namespace::Namespace;

/// Longest name of a network device (`IFNAMSIZ`, less the final zero).
const LONGEST_NAME: usize = 15;

/// Namespaces by name. Dropping it ends them.
#[derive(Debug, Default)]
pub struct Topology {
    namespaces: BTreeMap<String, Namespace>,
}

/// One end of a cable.
#[derive(Debug, Clone, Copy)]
pub struct Plug<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// Its address there, and the prefix length of the network: `10.0.1.1/24`.
    pub address: &'a str,
}

impl Topology {
    /// Without namespaces.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a namespace, in which only loopback is up. It passes packets on between its cables.
    ///
    /// # Errors
    /// When the system allows no namespace, or there is one of this name.
    pub fn add(&mut self, name: &str) -> Result<&Namespace> {
        anyhow::ensure!(
            !self.namespaces.contains_key(name),
            "there is a namespace {name} already"
        );
        let namespace = Namespace::new().with_context(|| format!("namespace {name}"))?;
        namespace.ip("link set lo up\n")?;

        // These are the settings of the namespace, not of the machine.
        for key in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            namespace.run(&["sysctl", "-q", "-w", key])?;
        }
        Ok(self.namespaces.entry(name.to_owned()).or_insert(namespace))
    }

    /// The namespace of this name.
    ///
    /// # Errors
    /// When there is no such namespace.
    pub fn namespace(&self, name: &str) -> Result<&Namespace> {
        self.namespaces
            .get(name)
            .with_context(|| format!("there is no namespace {name}"))
    }

    /// Lays a cable. Each end is a device with the name of the namespace at the other end.
    ///
    /// # Errors
    /// When a namespace does not exist, has a name too long for a device, or an address is none.
    pub fn cable(&self, one: Plug<'_>, other: Plug<'_>) -> Result<()> {
        let from = self.namespace(one.namespace)?;
        let to = self.namespace(other.namespace)?;
        for name in [one.namespace, other.namespace] {
            anyhow::ensure!(
                name.len() <= LONGEST_NAME,
                "{name} is too long for the name of a device"
            );
        }

        let near = other.namespace;
        let far = one.namespace;
        from.ip(&format!(
            "link add name {near} type veth peer name {far} netns {}\n",
            to.holder()
        ))?;
        from.attach(near, one.address)?;

        to.attach(far, other.address)
    }

    /// Routes `prefix` from `namespace` over the neighbour with the address `by`.
    ///
    /// # Errors
    /// When there is no such neighbour.
    pub fn route(&self, namespace: &str, prefix: &str, by: &str) -> Result<()> {
        self.namespace(namespace)?
            .ip(&format!("route add {prefix} via {by}\n"))
    }
}
