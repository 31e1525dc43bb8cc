//! Addresses that are free now, and still will be when they are bound again after a restart.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Loopback addresses that clients do not use: no client's port can take one of these while nothing listens there.
const APART: Ipv4Addr = Ipv4Addr::new(127, 9, 8, 7);
/// Below the range of ephemeral ports, so that a socket on every address does not take one either.
const PORTS: Range<u16> = 10_000..32_000;
/// More than enough for a range of which little is used.
const TRIES: usize = 1000;

/// Ports that this process has chosen: a released port could be chosen again before it is bound.
static CHOSEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);

/// A TCP address.
///
/// # Panics
/// When the system has no free port.
pub fn tcp() -> SocketAddr {
    chosen(|address| TcpListener::bind(address).is_ok())
}

/// A UDP address.
///
/// # Panics
/// When the system has no free port.
pub fn udp() -> SocketAddr {
    chosen(|address| UdpSocket::bind(address).is_ok())
}

fn chosen(is_free: impl Fn(SocketAddr) -> bool) -> SocketAddr {
    for _ in 0..TRIES {
        let port = fastrand::u16(PORTS);
        let address = SocketAddr::from((APART, port));

        if is_free(address) && is_new(port) {
            return address;
        }
    }
    panic!("no free port between {} and {}", PORTS.start, PORTS.end)
}

fn is_new(port: u16) -> bool {
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    chosen.get_or_insert_default().insert(port)
}
