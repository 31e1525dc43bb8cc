//! Addresses that are free now, and still will be when they are bound again after a restart.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};

/// Loopback, but not where clients' own ports are: none of those can take one of these while nothing listens there.
const APART: Ipv4Addr = Ipv4Addr::new(127, 9, 8, 7);

/// A TCP address.
///
/// # Panics
/// When the system has none.
pub fn tcp() -> SocketAddr {
    TcpListener::bind((APART, 0)).unwrap().local_addr().unwrap()
}

/// A UDP address.
///
/// # Panics
/// When the system has none.
pub fn udp() -> SocketAddr {
    UdpSocket::bind((APART, 0)).unwrap().local_addr().unwrap()
}
