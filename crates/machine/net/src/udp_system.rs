//! The system's features for UDP, asked for once.

use std::io;
use std::sync::{Arc, OnceLock};

use quinn_udp::{UdpSockRef, UdpSocketState};
use socket2::Socket;

use crate::os;

/// The features, and the segments of one send. Kept only if the probe succeeds: it also fails when
/// descriptors are short.
static FOUND: OnceLock<(Arc<UdpSocketState>, usize)> = OnceLock::new();

/// Prepares a socket that will be connected: its datagrams are not fragmented, and those that come may be merged.
///
/// [`UdpSocketState::new`] opens and binds two more sockets to ask the kernel what it can do, and
/// enables addresses and traffic classes that our connected sockets do not need. With many sockets
/// at once that is most of their cost.
pub(crate) fn prepare(socket: &Socket, ipv6: bool) -> io::Result<(Arc<UdpSocketState>, usize)> {
    if let Some((state, segments)) = FOUND.get() {
        os::prepare_datagrams(socket, ipv6)?;
        return Ok((state.clone(), *segments));
    }

    let state = Arc::new(UdpSocketState::new(UdpSockRef::from(socket))?);
    let segments = state.max_gso_segments();
    if os::PREPARES_DATAGRAMS && !state.may_fragment() && segments > 1 && state.gro_segments() > 1 {
        let _ = FOUND.set((state.clone(), segments));
    }

    Ok((state, segments))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use nix::sys::socket::{getsockopt, sockopt};
    use rustix::net::sockopt::{ip_mtu_discover, ipv6_mtu_discover};
    use socket2::{Domain, Type};

    use super::*;

    #[test]
    fn later_sockets_are_prepared_as_the_first() {
        for (domain, ipv6) in [(Domain::IPV4, false), (Domain::IPV6, true)] {
            let first = Socket::new(domain, Type::DGRAM, None).unwrap();
            UdpSocketState::new(UdpSockRef::from(&first)).unwrap();
            let later = Socket::new(domain, Type::DGRAM, None).unwrap();
            os::prepare_datagrams(&later, ipv6).unwrap();
            let merges = |socket| getsockopt(socket, sockopt::UdpGroSegment).unwrap();
            assert_eq!(merges(&later), merges(&first));
            assert_eq!(
                ip_mtu_discover(&later).unwrap(),
                ip_mtu_discover(&first).unwrap()
            );

            if ipv6 {
                assert_eq!(
                    ipv6_mtu_discover(&later).unwrap(),
                    ipv6_mtu_discover(&first).unwrap()
                );
                let whole = |socket| getsockopt(socket, sockopt::Ipv6DontFrag).unwrap();
                assert_eq!(whole(&later), whole(&first));
            }
        }
    }
}
