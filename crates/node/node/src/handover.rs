//! A node gives its sockets to the node that takes its place.

use std::io;
use std::os::fd::AsFd;

use hermes_net::handover;

use crate::NodeHandle;

impl NodeHandle {
    /// Gives every descriptor of the node to the process at the other end of `to`, a Unix socket that keeps messages apart: those of its
    /// listeners, of administration and metrics, its ports of WireGuard and its TUN devices. A successor takes them with
    /// [`handover::receive`], and starts with them as passed ones. Both serve the sockets until this node drains, so that no client is
    /// turned away; a port of WireGuard or a device is the successor's when this node has let go of it. Returns how many there are.
    ///
    /// # Errors
    /// When this node was not started [`with_successor`](crate::PassedSockets::with_successor), or the other process does not take them.
    pub fn give_sockets(&self, to: &impl AsFd) -> io::Result<usize> {
        let given = self.0.descriptors.give()?;
        handover::send(to, &given)?;
        Ok(given.len())
    }
}
