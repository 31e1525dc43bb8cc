//! Netlink (netlink(7), rtnetlink(7)): sockets, dumps, and the framing of messages and attributes.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto,
    socket_with,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Bytes of one read; the kernel sends at most 32 KiB of a dump at once.
pub(super) const ROOM: usize = 32 * 1024;

/// Types and flags of messages (`linux/netlink.h`).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_ACK: u16 = 4;
const NLM_F_REPLACE: u16 = 0x100;
pub(super) const NLM_F_CREATE: u16 = 0x400;
pub(super) const NLM_F_APPEND: u16 = 0x800;
pub(super) const NLM_F_DUMP: u16 = 0x300;

/// Lengths of the head of a message and of the head of an attribute.
const MESSAGE: usize = 16;
const ATTRIBUTE: usize = 4;

/// A request for a dump: its type, and the bytes of the structure that it begins with, zero for
/// everything of every family.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dump {
    pub(super) kind: u16,
    pub(super) structure: usize,
}

/// A change, or a creation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change<'a> {
    pub(super) kind: u16,
    /// Whether it creates the object, in place of an existing one.
    pub(super) creates: bool,
    pub(super) structure: &'a [u8],
    pub(super) attributes: &'a [(u16, &'a [u8])],
}

/// A message of any kind.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) kind: u16,
    pub(super) flags: u16,
    /// A structure, and attributes.
    pub(super) content: Vec<u8>,
}

impl Message {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = MESSAGE + self.content.len();
        let mut bytes = vec![0; MESSAGE];
        bytes[..4].copy_from_slice(&u32::try_from(length).unwrap_or_default().to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.flags.to_ne_bytes());
        bytes.extend_from_slice(&self.content);
        bytes.resize(aligned(length), 0);
        bytes
    }
}

impl Change<'_> {
    /// Has the kernel do it, and waits for its answer, which it gives at once.
    ///
    /// # Errors
    /// The kernel's error; or netlink is not allowed.
    pub(super) fn run(self) -> io::Result<()> {
        let socket = route_socket(SocketFlags::empty(), 0)?;
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&socket, &self.request(), SendFlags::empty(), &kernel)?;

        let mut room = vec![0; ROOM];
        let (length, _) = recv(&socket, &mut room[..], RecvFlags::empty())?;
        answered(&room[..length])
    }

    fn request(self) -> Vec<u8> {
        let makes = match self.creates {
            true => NLM_F_CREATE | NLM_F_REPLACE,
            false => 0,
        };
        let flags = NLM_F_REQUEST | NLM_F_ACK | makes;

        let mut content = self.structure.to_vec();
        for (kind, value) in self.attributes {
            append_attribute(&mut content, *kind, value);
        }
        let message = Message {
            kind: self.kind,
            flags,
            content,
        };
        message.bytes()
    }
}

/// The kernel's answer to a change: an error number, negative, or zero.
pub(super) fn answered(answer: &[u8]) -> io::Result<()> {
    let (kind, content, _) = message(answer).ok_or(io::ErrorKind::InvalidData)?;
    let error = content
        .first_chunk()
        .filter(|_| kind == NLMSG_ERROR)
        .ok_or(io::ErrorKind::InvalidData)?;

    match i32::from_ne_bytes(*error) {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.wrapping_neg())),
    }
}

/// Appends an attribute, and padding for the next one.
pub(super) fn append_attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(ATTRIBUTE + value.len()).unwrap_or_default();
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(aligned(bytes.len()), 0);
}

/// Opens a socket that hears the announcements to these groups.
pub(super) fn route_socket(flags: SocketFlags, groups: u32) -> io::Result<OwnedFd> {
    // `NETLINK_ROUTE` is protocol 0.
    netlink_socket(None, flags, groups)
}

/// A socket of another netlink protocol.
pub(super) fn netlink_socket(
    protocol: Option<Protocol>,
    flags: SocketFlags,
    groups: u32,
) -> io::Result<OwnedFd> {
    let flags = flags | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// The kernel's announcements to some groups.
#[derive(Debug)]
pub(super) struct Announcements(AsyncFd<OwnedFd>);

impl Announcements {
    /// Hears the announcements to these groups from now on.
    ///
    /// # Errors
    /// When the system, or a confinement of the process, forbids netlink.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn hear(groups: u32) -> io::Result<Self> {
        let socket = route_socket(SocketFlags::NONBLOCK, groups)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe for types that could close what is registered; an OwnedFd does not"
        )]
        let heard = AsyncFd::with_interest(socket, Interest::READABLE)?;
        Ok(Self(heard))
    }

    /// Resolves when messages have come that are of `interest`, or some were lost. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the socket fails.
    pub(super) async fn next(&mut self, interest: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        loop {
            let mut ready = self.0.readable().await?;
            let mut room = vec![0; ROOM];
            let read =
                ready.try_io(
                    |socket| match recv(socket, &mut room[..], RecvFlags::empty()) {
                        Ok((length, _)) => Ok(interest(&room[..length])),
                        // The queue overflowed, and announcements were lost: the listener has to look for itself.
                        Err(rustix::io::Errno::NOBUFS) => Ok(true),
                        Err(error) => Err(error.into()),
                    },
                );

            match read {
                Ok(Ok(true)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(false)) | Err(_) => {}
            }
        }
    }
}

impl Dump {
    /// Asks the kernel, and hands each message of its answer over: its type and content.
    ///
    /// # Errors
    /// When the system, or a confinement of the process, forbids netlink, or the kernel refuses the
    /// request.
    pub(super) fn run(self, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        let socket = route_socket(SocketFlags::empty(), 0)?;
        sendto(
            &socket,
            &self.request(),
            SendFlags::empty(),
            &SocketAddrNetlink::new(0, 0),
        )?;

        let mut room = vec![0; ROOM];
        loop {
            let (length, _) = recv(&socket, &mut room[..], RecvFlags::empty())?;
            if length == 0 || read(&room[..length], &mut each)? {
                return Ok(());
            }
        }
    }

    fn request(self) -> Vec<u8> {
        let message = Message {
            kind: self.kind,
            flags: NLM_F_REQUEST | NLM_F_DUMP,
            content: vec![0; self.structure],
        };
        message.bytes()
    }
}

/// Hands some messages over; true with the last one.
///
/// # Errors
/// The kernel refused the request.
pub(super) fn read(mut messages: &[u8], mut each: impl FnMut(u16, &[u8])) -> io::Result<bool> {
    while let Some((kind, content, rest)) = message(messages) {
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                return Err(io::Error::other(
                    "the kernel refused a request over netlink",
                ));
            }
            _ => each(kind, content),
        }
        messages = rest;
    }
    Ok(false)
}

/// The first message: its type, its content, and the messages behind it.
fn message(messages: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(messages.get(..4)?.try_into().ok()?);
    let kind = u16::from_ne_bytes(messages.get(4..6)?.try_into().ok()?);
    let length = usize::try_from(length).ok()?;

    Some((
        kind,
        messages.get(MESSAGE..length)?,
        // The last message may come without its padding.
        messages.get(aligned(length)..).unwrap_or_default(),
    ))
}

/// Bytes of the first message, with its padding.
pub(super) fn message_size(messages: &[u8]) -> Option<usize> {
    let length = u32::from_ne_bytes(*messages.first_chunk()?);
    usize::try_from(length)
        .ok()
        .filter(|length| *length >= MESSAGE)
        .map(aligned)
}

/// The attributes of a message: type and value of each.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(ATTRIBUTE..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// An attribute that is a number of 32 bits.
pub(super) fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

/// Messages and attributes begin at multiples of four.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A message of this type: a structure and these attributes.
    pub(crate) fn message_of(kind: u16, structure: &[u8], attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut content = structure.to_vec();
        for (kind, value) in attributes {
            append_attribute(&mut content, *kind, value);
        }

        let length = u32::try_from(MESSAGE + content.len()).unwrap();
        [
            &length.to_ne_bytes()[..],
            &kind.to_ne_bytes(),
            &[0; 10],
            &content,
        ]
        .concat()
    }

    #[test]
    fn messages_are_handed_over_up_to_the_last_one() {
        let messages = [
            message_of(20, &[1, 2, 3, 4], &[]),
            message_of(24, &[5, 6, 7, 8], &[]),
            message_of(NLMSG_DONE, &[], &[]),
            message_of(20, &[9, 9, 9, 9], &[]),
        ]
        .concat();

        let mut heard = Vec::new();
        assert!(read(&messages, |kind, content| heard.push((kind, content[0]))).unwrap());
        assert_eq!(heard, [(20, 1), (24, 5)]);
        assert!(read(&message_of(NLMSG_ERROR, &[], &[]), |_, _| {}).is_err());
    }

    #[test]
    fn a_change_is_answered_by_an_error_or_by_none() {
        let answer = |number: i32| message_of(NLMSG_ERROR, &number.to_ne_bytes(), &[]);
        assert!(answered(&answer(0)).is_ok());
        let error = answered(&answer(-17)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);

        // Cut off, or of another type.
        assert!(answered(&answer(0)[..18]).is_err());
        assert!(answered(&message_of(20, &[0; 4], &[])).is_err());
    }

    #[test]
    fn attributes_that_are_cut_off_are_left_out() {
        let whole = message_of(20, &[], &[(1, &[1, 2, 3]), (2, &[7, 0, 0, 0])]);
        let found: Vec<_> = attributes(&whole[MESSAGE..]).collect();
        assert_eq!(found, [(1, &[1, 2, 3][..]), (2, &[7, 0, 0, 0])]);
        assert_eq!(attributes(&whole[MESSAGE..whole.len() - 1]).count(), 1);
    }
}
