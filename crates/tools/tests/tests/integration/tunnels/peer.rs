//! A TCP server that the test plays itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use hermes_tests::eventually::{PATIENCE, eventually};
use hermes_tests::raw::End;

/// A listening socket.
pub struct Target(TcpListener);

/// A connection to it.
pub struct Peer(pub TcpStream);

impl Target {
    /// A new one on loopback.
    pub fn bind() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// The next connection.
    pub fn accept(&self) -> Peer {
        let stream = eventually("a connection to the target", || self.0.accept().ok()).0;
        stream.set_nonblocking(false).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Peer(stream)
    }
}

impl Peer {
    /// Sends.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads this many bytes.
    pub fn exactly(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads to the end: what came, and how it ended.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => (bytes, End::Closed),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => (bytes, End::Reset),
            Err(error) => panic!("{error}"),
        }
    }

    /// Ends the direction to the client.
    pub fn finish(&mut self) {
        self.0.shutdown(Shutdown::Write).unwrap();
    }

    /// Breaks the connection off with a reset.
    pub fn reset(self) {
        socket2::SockRef::from(&self.0)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
}
