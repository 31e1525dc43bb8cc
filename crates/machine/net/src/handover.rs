//! Sockets that one process gives another over a Unix socket (`SCM_RIGHTS`, unix(7)), each with a name.
//!
//! The sockets are not inherited: the successor need not be a child (a service manager may start
//! it), other children of a process with threads would inherit them too, and over a Unix socket the
//! kernel identifies the receiver.
//!
//! | message | then |
//! |---|---|
//! | 0, a socket | its name, and one descriptor beside it |
//! | 1, the end | how many sockets there were (4 bytes) |
//!
//! The Unix socket must keep messages apart (`SOCK_SEQPACKET`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::activation::PassedSocket;
use crate::os;

/// Bytes of a socket's name, which is that of a listener.
#[doc(alias = "bound")]
const NAME: usize = 255;

/// Sockets that are taken at most, for the other process says how many there are. Socket activation has the same bound.
#[doc(alias = "bound")]
const MOST: usize = 1024;

/// How long the other process may take for all messages: its user is ours, and it may stand still all the same, or take one now and then.
#[doc(alias = "bound")]
const PATIENCE: Duration = Duration::from_secs(30);

const SOCKET: u8 = 0;
const END: u8 = 1;

/// Bytes of the end.
const END_LENGTH: usize = 5;

/// A socket that another process is to have.
#[derive(Debug)]
pub struct GivenSocket {
    /// Its name, such as that of its listener. Several sockets may have the same.
    pub name: String,
    /// A descriptor of it.
    pub descriptor: OwnedFd,
}

/// One message.
enum HandoverMessage {
    Socket(PassedSocket),
    End(usize),
}

/// Gives sockets to the process at the other end, which must be of this process's user. They stay open here as well.
///
/// # Errors
/// When the other process is another user's, is gone or has not taken all in 30 seconds, or a name is too
/// long. It may have received some of the sockets then.
pub fn send(to: &impl AsFd, sockets: &[GivenSocket]) -> io::Result<()> {
    check_user(to)?;
    send_all(to, sockets, Instant::now() + PATIENCE)
}

fn send_all(to: &impl AsFd, sockets: &[GivenSocket], until: Instant) -> io::Result<()> {
    for GivenSocket { name, descriptor } in sockets {
        if name.len() > NAME {
            let reason = format!("the name {name:?} of a socket is longer than {NAME} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }

        let descriptors = [descriptor.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&descriptors));
        let message = [IoSlice::new(&[SOCKET]), IoSlice::new(name.as_bytes())];
        wait_until(until, to, Timeout::Send)?;
        send_one(to, &message, &mut beside)?;
    }

    let count = u32::try_from(sockets.len())
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let message = [IoSlice::new(&[END]), IoSlice::new(&count)];
    let mut nothing = SendAncillaryBuffer::default();
    wait_until(until, to, Timeout::Send)?;
    send_one(to, &message, &mut nothing)
}

fn send_one(
    to: &impl AsFd,
    message: &[IoSlice<'_>],
    beside: &mut SendAncillaryBuffer<'_, '_, '_>,
) -> io::Result<()> {
    let sent = retry_on_intr(|| sendmsg(to, message, beside, SendFlags::NOSIGNAL));
    sent.map_err(in_time)?;
    Ok(())
}

/// Takes the sockets that the process at the other end gives, which must be of this process's user, and waits for it.
///
/// # Errors
/// When the other process is another user's, ends before it has given all, has not given all in 30 seconds, or
/// gives something else.
pub fn receive(from: &impl AsFd) -> io::Result<Vec<PassedSocket>> {
    check_user(from)?;
    receive_all(from, Instant::now() + PATIENCE)
}

fn receive_all(from: &impl AsFd, until: Instant) -> io::Result<Vec<PassedSocket>> {
    let mut sockets = Vec::new();
    loop {
        wait_until(until, from, Timeout::Recv)?;
        match receive_one(from)? {
            HandoverMessage::Socket(_) if sockets.len() >= MOST => {
                return Err(malformed("it gives too many sockets"));
            }
            HandoverMessage::Socket(socket) => sockets.push(socket),
            HandoverMessage::End(count) if count == sockets.len() => return Ok(sockets),
            HandoverMessage::End(_) => return Err(malformed("sockets were lost on their way")),
        }
    }
}

fn receive_one(from: &impl AsFd) -> io::Result<HandoverMessage> {
    let mut message = [0; 1 + NAME];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut message)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = retry_on_intr(|| recvmsg(from, &mut parts, &mut beside, flags));
    let received = received.map_err(in_time)?;

    // Descriptors that did not fit were closed by the kernel: more than one came.
    let cut = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    if received.flags.intersects(cut) {
        return Err(malformed("a message is too long"));
    }
    let descriptors = beside.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    let mut descriptors = descriptors.flatten();
    let descriptor = descriptors.next();
    // The kernel's padding has room for a second one.
    if descriptors.next().is_some() {
        return Err(malformed("a message has several descriptors"));
    }

    match (&message[..received.bytes], descriptor) {
        ([], _) => Err(io::ErrorKind::UnexpectedEof.into()),
        ([SOCKET, name @ ..], Some(descriptor)) => {
            let name = std::str::from_utf8(name);
            let name = name.map_err(|_| malformed("a name is not text"))?;
            let name = (!name.is_empty()).then(|| name.to_owned());
            let number = descriptor.as_raw_fd();
            Ok(HandoverMessage::Socket(PassedSocket::new(
                number, name, descriptor,
            )))
        }
        ([END, count @ ..], None) if received.bytes == END_LENGTH => {
            let count = count
                .iter()
                .fold(0, |all, byte| all << 8 | usize::from(*byte));
            Ok(HandoverMessage::End(count))
        }
        _ => Err(malformed("a message is of no kind that is known")),
    }
}

/// A process of another user could have any traffic answered in its own way.
fn check_user(other: &impl AsFd) -> io::Result<()> {
    let process = os::local_process(other)?;
    if process.is_of_our_user {
        return Ok(());
    }
    let reason = format!("process {} is of another user", process.pid);
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Has the next message wait no longer than until then: the bound is on all of them, so that no one is kept by a message now and then.
fn wait_until(until: Instant, socket: &impl AsFd, which: Timeout) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    // To the kernel, no time means without end.
    if left.is_zero() {
        return Err(stands_still());
    }
    Ok(set_socket_timeout(socket, which, Some(left))?)
}

/// The error of a message that did not pass.
fn in_time(error: Errno) -> io::Error {
    match error {
        Errno::AGAIN => stands_still(),
        error => error.into(),
    }
}

fn stands_still() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the other process stands still")
}

fn malformed(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use rustix::net::{AddressFamily, SocketFlags, SocketType, send as write, socketpair};

    use super::*;
    use crate::PassedKind;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    #[test]
    fn sockets_arrive_with_their_names_and_stay_open_here() {
        let (one, other) = pair();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let given = [
            GivenSocket {
                name: "web".to_owned(),
                descriptor: tcp.try_clone().unwrap().into(),
            },
            GivenSocket {
                name: String::new(),
                descriptor: udp.try_clone().unwrap().into(),
            },
        ];
        send(&one, &given).unwrap();
        let taken = receive(&other).unwrap();

        let seen: Vec<_> = taken
            .iter()
            .map(|socket| (socket.name.as_deref(), &socket.kind))
            .collect();
        let expected = [
            (Some("web"), &PassedKind::Tcp(tcp.local_addr().unwrap())),
            (None, &PassedKind::Udp(udp.local_addr().unwrap())),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_giver_that_ends_before_the_end_has_given_nothing() {
        let (one, other) = pair();
        drop(one);
        let error = receive(&other).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn one_that_gives_or_takes_nothing_is_not_waited_for_without_end() {
        let soon = || Instant::now() + Duration::from_millis(10);
        let (one, other) = pair();
        let error = receive_all(&other, soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);

        let given = (0..MOST).map(|_| GivenSocket {
            name: "x".repeat(NAME),
            descriptor: one.try_clone().unwrap(),
        });
        let given: Vec<_> = given.collect();
        let error = send_all(&one, &given, soon()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn one_that_takes_a_message_now_and_then_is_not_waited_for_without_end() {
        let (one, other) = pair();
        // Not of the pair itself: those on their way would keep it open.
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let given = (0..MOST).map(|_| GivenSocket {
            name: "x".repeat(NAME),
            descriptor: socket.try_clone().unwrap().into(),
        });
        let given: Vec<_> = given.collect();
        let taker = std::thread::spawn(move || {
            let mut taken = 0;
            while receive_one(&other).is_ok() {
                taken += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
            taken
        });

        let until = Instant::now() + Duration::from_millis(20);
        let error = send_all(&one, &given, until).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop((one, given));
        assert!(taker.join().unwrap() < MOST);
    }

    #[test]
    fn a_message_has_one_descriptor() {
        let (one, other) = pair();
        let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let descriptors = sockets.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        beside.push(SendAncillaryMessage::ScmRights(&descriptors));
        send_one(&one, &[IoSlice::new(&[SOCKET])], &mut beside).unwrap();
        let error = receive(&other).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn messages_that_no_one_writes_are_refused() {
        let too_long = [SOCKET; 2 + NAME];
        for message in [
            &[SOCKET][..],
            &[7],
            &[END, 0],
            &[END, 0, 0, 0, 1],
            &too_long,
        ] {
            let (one, other) = pair();
            write(&one, message, SendFlags::empty()).unwrap();
            let error = receive(&other).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{message:?}");
        }

        let (one, _other) = pair();
        let socket = GivenSocket {
            name: "x".repeat(NAME + 1),
            descriptor: UdpSocket::bind("127.0.0.1:0").unwrap().into(),
        };
        assert!(send(&one, &[socket]).is_err());
    }
}
