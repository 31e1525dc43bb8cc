//! A UDP client.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use crate::eventually::PATIENCE;

/// Errors of a receive call without a datagram.
const NOTHING: [ErrorKind; 3] = [
    ErrorKind::WouldBlock,
    ErrorKind::TimedOut,
    ErrorKind::ConnectionRefused,
];

/// A socket that is connected to one address.
#[derive(Debug)]
pub struct Client(UdpSocket);

impl Client {
    /// A new socket, of the address's family.
    ///
    /// # Panics
    /// When the system has none.
    pub fn connect(address: SocketAddr) -> Self {
        let local = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        };

        let socket = UdpSocket::bind(local).unwrap();
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();

        Self(socket)
    }

    /// Sends a datagram.
    ///
    /// # Panics
    /// When the system refuses it.
    pub fn send(&self, datagram: impl AsRef<[u8]>) {
        self.0.send(datagram.as_ref()).unwrap();
    }

    /// Sends a datagram, if anybody is there to take it.
    pub fn send_if_open(&self, datagram: impl AsRef<[u8]>) {
        drop(self.0.send(datagram.as_ref()));
    }

    /// Waits for a datagram.
    ///
    /// # Panics
    /// When none comes.
    pub fn receive(&self) -> Vec<u8> {
        let mut buffer = vec![0; 65_536];
        let length = self.0.recv(&mut buffer).unwrap();
        buffer.truncate(length);
        buffer
    }

    /// A datagram that is there already, or comes within `time`; none where nothing listens.
    pub fn receive_within(&self, time: Duration) -> Option<Vec<u8>> {
        self.0.set_read_timeout(Some(time)).unwrap();
        let mut buffer = vec![0; 65_536];
        let received = self.0.recv(&mut buffer);
        self.0.set_read_timeout(Some(PATIENCE)).unwrap();

        match received {
            Ok(length) => Some(buffer[..length].to_vec()),
            Err(error) if NOTHING.contains(&error.kind()) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends `datagram` and waits for the answer; again, as UDP clients do, while the path may not be open yet.
    ///
    /// # Panics
    /// When no answer comes.
    pub fn ask(&self, datagram: impl AsRef<[u8]>) -> Vec<u8> {
        crate::eventually("an answer over UDP", || {
            self.send(datagram.as_ref());
            self.receive_within(Duration::from_millis(500))
        })
    }

    /// This end's address.
    pub fn local(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }
}
