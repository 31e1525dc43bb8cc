//! Ports for programs that cannot say which one the system gave them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

/// Below the range of ephemeral ports, so that no client takes a port between its choice and its use.
const RANGE: std::ops::Range<u16> = 20_000..30_000;
/// More than enough for a range of which little is used.
const TRIES: usize = 1000;

/// The next port to try, in order, so that no port is given twice before its user listens there.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));

/// An address on loopback whose port is free for TCP and UDP.
pub fn free() -> Result<SocketAddr> {
    for _ in 0..TRIES {
        let port = RANGE.start + NEXT.fetch_add(1, Ordering::Relaxed) % (RANGE.end - RANGE.start);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no free port between {} and {}", RANGE.start, RANGE.end)
}
