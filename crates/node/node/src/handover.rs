//! A node gives its sockets to the node that takes its place.

use std::io;
use std::os::fd::AsFd;

use hermes_net::handover;

use crate::node::Proxy;

impl Proxy {
    /// Gives every socket of its listeners to the process at the other end of `to`, a Unix socket that keeps messages apart: a successor
    /// takes them with [`handover::receive`], and starts with them as passed ones. Both serve them until this node drains, so that no client
    /// is turned away. Returns how many there are.
    ///
    /// # Errors
    /// When this node was not started [`with_successor`](crate::PassedSockets::with_successor), or the other process does not take them.
    pub fn give_sockets(&self, to: &impl AsFd) -> io::Result<usize> {
        let given = self.node.changing.lock().table.give()?;
        handover::send(to, &given)?;
        Ok(given.len())
    }
}
