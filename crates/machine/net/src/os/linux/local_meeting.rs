//! How processes of one machine meet that have a socket in common: abstract Unix sockets (unix(7)), which leave nothing behind.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::sockopt::{socket_cookie, socket_peercred};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    socket_with,
};
use rustix::process::geteuid;

use crate::os::LocalProcess;

/// Connections that wait to be accepted.
#[doc(alias = "bound")]
const BACKLOG: i32 = 16;

/// Lines of the table of Unix sockets that are looked at: anyone may open as many as he has descriptors for.
#[doc(alias = "bound")]
const LINES: usize = 1 << 20;

/// In the table, the first letter of an abstract name.
const ABSTRACT: char = '@';

/// The number of a socket, which is the same in every process that has it and no other's while this machine runs (`SO_COOKIE`).
///
/// # Errors
/// When the system does not know the option.
pub fn socket_number(socket: &UdpSocket) -> io::Result<u64> {
    Ok(socket_cookie(socket)?)
}

/// Accepts connections, of messages that arrive whole and in order, under an abstract name. Nothing of it blocks.
///
/// # Errors
/// Someone has the name, or no descriptor is left.
pub fn listen_local(name: &str) -> io::Result<OwnedFd> {
    let socket = local_socket()?;
    bind(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to who listens under an abstract name.
///
/// # Errors
/// No process listens there; `WouldBlock` when too many connections wait already.
pub fn connect_local(name: &str) -> io::Result<OwnedFd> {
    let socket = local_socket()?;
    connect(
        &socket,
        &SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    )?;
    Ok(socket)
}

/// The next connection.
///
/// # Errors
/// `WouldBlock`: no connection waits.
pub fn accept_local(listener: &impl AsFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(accept_with(listener, flags)?)
}

/// The process at the other end (`SO_PEERCRED`): who connected, or who listens.
///
/// # Errors
/// When the system does not say.
pub fn local_process(connection: &impl AsFd) -> io::Result<LocalProcess> {
    let credentials = socket_peercred(connection)?;
    Ok(LocalProcess {
        pid: credentials.pid.as_raw_nonzero().get(),
        uid: credentials.uid.as_raw(),
        is_of_our_user: credentials.uid == geteuid(),
    })
}

/// The abstract names in use that begin with `prefix`, at most `most`: without it, each once.
///
/// # Errors
/// When the table cannot be read.
pub fn local_names(prefix: &str, most: usize) -> io::Result<Vec<String>> {
    let table = BufReader::new(File::open("/proc/self/net/unix")?);
    let mut names = BTreeSet::new();

    for line in table.split(b'\n').take(LINES) {
        // A name may have any bytes; ours are ASCII.
        let line = String::from_utf8_lossy(&line?).into_owned();
        let name = line
            .split_once(ABSTRACT)
            .and_then(|(_, name)| name.strip_prefix(prefix))
            .map(str::to_owned);
        names.extend(name);
        if names.len() >= most {
            break;
        }
    }

    Ok(names.into_iter().collect())
}

fn local_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_while_someone_listens_there_and_is_had_once() {
        let prefix = format!("hermes-meeting-test-{}/", std::process::id());
        let name = format!("{prefix}one");
        assert!(local_names(&prefix, 8).unwrap().is_empty());

        let listener = listen_local(&name).unwrap();
        assert_eq!(local_names(&prefix, 8).unwrap(), ["one"]);
        assert!(listen_local(&name).is_err());

        let connection = connect_local(&name).unwrap();
        let accepted = accept_local(&listener).unwrap();
        assert_eq!(local_names(&prefix, 8).unwrap(), ["one"]);
        for end in [&connection, &accepted] {
            let process = local_process(end).unwrap();
            assert!(process.is_of_our_user);
            assert_eq!(process.pid, std::process::id().cast_signed());
        }

        drop((listener, connection, accepted));
        assert!(local_names(&prefix, 8).unwrap().is_empty());
        assert!(connect_local(&name).is_err());
    }

    #[test]
    fn a_socket_has_the_same_number_wherever_it_is_used() {
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let number = |socket: &UdpSocket| socket_number(socket).unwrap();
        assert_eq!(number(&one), number(&one.try_clone().unwrap()));
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_ne!(number(&one), number(&other));
    }
}
