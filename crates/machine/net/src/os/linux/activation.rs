//! Descriptors that a service manager passed on, and the variables that say so: sd_listen_fds(3).

use std::env;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{Domain, Protocol, Socket, Type};

use crate::activation::{ActivationError, FIRST, PassedKind, PassedSocket, VARIABLES, parse};

/// Whether the descriptors have an owner already.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The sockets that were passed to this process, the first time; then none. To be called before anything else opens descriptors or
/// starts threads: then the variables are taken away, so that no child believes that they are for it. The descriptors do not
/// reach children in any case.
///
/// # Errors
/// When what was passed is not what the variables say.
pub fn passed_sockets() -> Result<Vec<PassedSocket>, ActivationError> {
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    let variable = |name: &str| env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let names = parse(std::process::id(), &variable);
    forget_variables();

    let numbered = (FIRST..).zip(names?);
    let passed = numbered.map(|(descriptor, name)| {
        let owned = adopt(descriptor).map_err(|_| ActivationError::NotOpen(descriptor))?;
        Ok(PassedSocket::new(descriptor, name, owned))
    });

    passed.collect()
}

/// Owns an open descriptor, and keeps it from children.
#[expect(
    unsafe_code,
    reason = "its number is all that the service manager says of a descriptor"
)]
fn adopt(descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: the number is not -1, and the descriptor, if there is one, stays open during the call: nothing else knows of it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, as the call before has shown. It is ours alone: `LISTEN_PID` names this process, and `TAKEN` lets each
    // number come here once.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Where other threads run, which may read variables at this moment, they stay; they name this process, and no child.
#[expect(
    unsafe_code,
    reason = "the environment is shared by all threads without a lock"
)]
fn forget_variables() {
    let alone = fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if !alone {
        return;
    }

    for name in VARIABLES {
        // SAFETY: there is no other thread.
        unsafe { env::remove_var(name) };
    }
}

/// The kind of a socket that another process opened (`SO_TYPE`, `SO_PROTOCOL`, `SO_ACCEPTCONN`),
/// and where it is bound.
///
/// # Errors
/// It is no socket.
pub fn passed_kind(socket: &Socket) -> io::Result<PassedKind> {
    let kind = socket.r#type()?;
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

    fn kind(socket: impl Into<OwnedFd>) -> PassedKind {
        PassedSocket::new(FIRST, None, socket.into()).kind
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
