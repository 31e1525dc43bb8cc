//! Where the programs of an experiment are: on this machine, or in a namespace.

use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use anyhow::{Result, anyhow};

use crate::topology::Namespace;

/// Where one program of an experiment is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Side<'a> {
    /// `None`: among those of the machine.
    pub namespace: Option<&'a Namespace>,
    /// As others reach it.
    pub address: IpAddr,
}

impl Side<'_> {
    /// On this machine, outside of namespaces.
    pub(super) const HERE: Self = Self {
        namespace: None,
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
    };

    /// Moves the calling thread there, for good: its next sockets are there.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn enter(&self) -> Result<()> {
        match self.namespace {
            Some(namespace) => namespace.enter(),
            None => Ok(()),
        }
    }
}

/// Does this in a thread of its own, which may go into namespaces: those that start programs may not.
///
/// # Errors
/// Those of the work, or that it panicked.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let working = scope.spawn(work).join();
        working.map_err(|_| anyhow!("a thread of the lab panicked"))?
    })
}
