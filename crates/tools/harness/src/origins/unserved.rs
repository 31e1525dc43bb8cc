//! An address that refuses connections.

use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

use super::V4;

/// A TCP port of this machine that no one serves, and that is no one else's for as long as this is there.
#[derive(Debug)]
pub struct Unserved(Socket);

impl Unserved {
    /// Takes a port, and does not listen there.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it takes something")]
    pub fn new() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(V4, 0).into()).unwrap();
        Self(socket)
    }

    /// Where it is.
    ///
    /// # Panics
    /// Never: it is bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap().as_socket().unwrap()
    }
}
