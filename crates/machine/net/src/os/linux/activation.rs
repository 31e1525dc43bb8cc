//! Descriptors that a service manager passed on: sd_listen_fds(3).

use std::env;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, Protocol, Socket, Type};

use super::tun::tun_device;
use crate::os::PassedKind;

/// Owns an open descriptor that was passed to this process, and keeps it from children. To be called once for each number.
///
/// # Errors
/// The descriptor is not open.
#[expect(
    unsafe_code,
    reason = "its number is all that the service manager says of a descriptor"
)]
pub fn adopt(descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: the number is not -1, and the descriptor, if there is one, stays open during the call: nothing else knows of it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: the descriptor is open, as the call before has shown. It is ours alone: `LISTEN_PID`
    // names this process, and each number comes here once.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Takes these variables out of the environment. Where other threads run, which may read variables at this moment, they stay; they name this process, and no child.
#[expect(
    unsafe_code,
    reason = "the environment is shared by all threads without a lock"
)]
pub fn forget_variables(names: &[&str]) {
    let alone = fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if !alone {
        return;
    }

    for name in names {
        // SAFETY: there is no other thread.
        unsafe { env::remove_var(name) };
    }
}

/// The kind of a descriptor that another process opened: of a socket (`SO_TYPE`, `SO_PROTOCOL`, `SO_ACCEPTCONN`), and where it is bound; or of
/// part of a TUN device.
///
/// # Errors
/// The descriptor is neither.
pub fn passed_kind(socket: &Socket) -> io::Result<PassedKind> {
    if FileType::from_raw_mode(fstat(socket)?.st_mode) == FileType::Fifo {
        return Ok(PassedKind::Pipe);
    }
    let Ok(kind) = socket.r#type() else {
        return tun_device(socket).map(PassedKind::TunQueue);
    };
    let domain = socket.domain()?;
    let protocol = socket.protocol()?;
    let listens = socket.is_listener()?;
    let bound = socket.local_addr()?;

    let streams = kind == Type::STREAM && listens;
    if domain == Domain::UNIX {
        return Ok(match bound.as_pathname() {
            Some(path) if streams => PassedKind::Unix(path.to_owned()),
            Some(_) => PassedKind::Unusable("a Unix socket that accepts no streams"),
            None => PassedKind::Unusable("a Unix socket without a file"),
        });
    }

    let Some(address) = bound.as_socket() else {
        return Ok(PassedKind::Unusable(
            "a socket that is neither of IP nor a Unix socket",
        ));
    };

    Ok(match protocol {
        Some(Protocol::TCP | Protocol::MPTCP) if streams => PassedKind::Tcp(address),
        Some(Protocol::TCP | Protocol::MPTCP) => {
            PassedKind::Unusable("a TCP connection; the socket unit wants `Accept=no`")
        }
        // A connected socket hears its one peer only.
        Some(Protocol::UDP) if socket.peer_addr().is_err() => PassedKind::Udp(address),
        Some(Protocol::UDP) => PassedKind::Unusable("a UDP socket that is connected to one peer"),
        _ => PassedKind::Unusable("a socket of a protocol other than TCP and UDP"),
    })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;
    use crate::activation::PassedSocket;

    fn kind(socket: impl Into<OwnedFd>) -> PassedKind {
        PassedSocket::new(3, None, socket.into()).kind
    }

    #[test]
    fn a_socket_says_what_it_is() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap();
        let connected = TcpStream::connect(address).unwrap();
        assert_eq!(kind(tcp), PassedKind::Tcp(address));
        assert!(matches!(kind(connected), PassedKind::Unusable(why) if why.contains("Accept=no")));

        let udp = UdpSocket::bind("[::1]:0").unwrap();
        let address = udp.local_addr().unwrap();
        let connected = UdpSocket::bind("[::1]:0").unwrap();
        connected.connect(address).unwrap();
        assert_eq!(kind(udp), PassedKind::Udp(address));
        assert!(matches!(kind(connected), PassedKind::Unusable(_)));

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.sock");
        assert_eq!(
            kind(UnixListener::bind(&path).unwrap()),
            PassedKind::Unix(path)
        );
        let datagrams = UnixDatagram::bind(folder.path().join("datagrams.sock")).unwrap();
        assert!(matches!(kind(datagrams), PassedKind::Unusable(_)));
        assert_eq!(
            kind(fs::File::open(folder.path()).unwrap()),
            PassedKind::Unusable("not a socket")
        );
    }
}
