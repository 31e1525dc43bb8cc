//! Sockets that send errors of ICMP from this machine, as a router does, about traffic that it took from others.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

use crate::descriptors::noted;
use crate::own_mark::marked;

/// A raw socket of each family; the kernel writes the header of IP, and the checksum of ICMPv6.
#[derive(Debug, Default)]
pub struct ErrorSockets {
    v4: Option<Socket>,
    v6: Option<Socket>,
}

impl ErrorSockets {
    /// Opens both; a machine without IPv6 has the one alone.
    ///
    /// # Errors
    /// `PermissionDenied`: it takes `CAP_NET_RAW`. Others: no descriptor is left.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            v4: Some(open(Domain::IPV4, Protocol::ICMPV4)?),
            v6: open(Domain::IPV6, Protocol::ICMPV6).ok(),
        })
    }

    /// Sends a message of ICMP of the family of `to`. It is lost like any packet where the kernel has no room for it.
    pub fn send(&self, message: &[u8], to: SocketAddr) {
        let socket = match to {
            SocketAddr::V4(_) => &self.v4,
            SocketAddr::V6(_) => &self.v6,
        };
        if let Some(socket) = socket {
            let mut to = to;
            // A raw socket of IPv6 takes no port.
            to.set_port(0);
            if let Err(error) = socket.send_to(message, &to.into()) {
                tracing::debug!(%to, %error, "an error of ICMP was not sent");
            }
        }
    }
}

fn open(family: Domain, protocol: Protocol) -> io::Result<Socket> {
    let socket = Socket::new(family, Type::RAW, Some(protocol)).map_err(noted)?;
    socket.set_nonblocking(true)?;
    // It reads nothing: the messages that come to this machine are not kept for it.
    drop(socket.set_recv_buffer_size(0));
    marked(socket)
}
