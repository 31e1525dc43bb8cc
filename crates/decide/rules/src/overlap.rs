//! Whether two listening sockets take the same address.

use std::net::{IpAddr, SocketAddr};

/// Whether two sockets cannot both listen. `[::]` takes IPv4 too; port 0 is a different port each time.
pub(crate) fn overlap(one: SocketAddr, two: SocketAddr) -> bool {
    let includes =
        |one: IpAddr, two: IpAddr| one.is_unspecified() && (one.is_ipv6() || two.is_ipv4());
    let first = one.ip().to_canonical();
    let second = two.ip().to_canonical();
    one.port() == two.port()
        && one.port() != 0
        && (first == second || includes(first, second) || includes(second, first))
}
