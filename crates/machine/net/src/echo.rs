//! Echoes of ICMP without privileges (`SOCK_DGRAM`, `IPPROTO_ICMP`): the kernel writes the
//! identifier, and delivers only answers and errors with that identifier.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, SockRef};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::local_end::{LocalEnd, Port};
use crate::os::{self, EchoError};
use crate::own_mark::marked;

/// Bytes before the content of an echo (RFC 792; RFC 4443, section 4.1).
const HEADER: usize = 8;

/// The longest answer that is read, in bytes: as long as a packet can be.
const LONGEST: usize = 65_535;

/// Types of messages.
const REQUEST_V4: u8 = 8;
const REPLY_V4: u8 = 0;
const REQUEST_V6: u8 = 128;
const REPLY_V6: u8 = 129;

/// A socket that asks hosts of one family for echoes.
#[derive(Debug)]
pub struct EchoSocket {
    socket: UdpSocket,
    is_ipv4: bool,
    room: Vec<u8>,
}

/// A host's answer.
#[derive(Debug, PartialEq, Eq)]
pub struct EchoReply<'a> {
    /// The host.
    pub from: IpAddr,
    /// The sequence number of the request.
    pub number: u16,
    /// The content that it sent back.
    pub content: &'a [u8],
}

/// The result of an echo.
#[derive(Debug, PartialEq, Eq)]
pub enum EchoAnswer<'a> {
    /// The host has answered.
    Reply(EchoReply<'a>),
    /// The echo was lost, as reported by a router or the host.
    Lost(EchoError),
}

impl EchoSocket {
    /// A socket for IPv4, or for IPv6; its echoes leave from `from`.
    ///
    /// # Errors
    /// `InvalidInput`: they cannot leave from there. `PermissionDenied`: the group of the process is not within `net.ipv4.ping_group_range`, which counts for both families; or the
    /// system has no such sockets.
    pub fn open(is_ipv4: bool, from: &LocalEnd) -> io::Result<Self> {
        let domain = if is_ipv4 { Domain::IPV4 } else { Domain::IPV6 };
        let socket = marked(os::echo_socket(domain)?)?;
        let towards: SocketAddr = match is_ipv4 {
            true => (Ipv4Addr::UNSPECIFIED, 0).into(),
            false => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        from.bind(SockRef::from(&socket), towards, Port::Now)?;
        Ok(Self {
            socket: UdpSocket::from_std(socket.into())?,
            is_ipv4,
            room: vec![0; LONGEST],
        })
    }

    /// Asks a host for an echo of `content`.
    ///
    /// # Errors
    /// There is no route, the host or a router has refused an echo of before, or the socket is full.
    pub fn ask(&self, host: IpAddr, number: u16, content: &[u8]) -> io::Result<()> {
        let kind = if self.is_ipv4 { REQUEST_V4 } else { REQUEST_V6 };
        let mut message = Vec::with_capacity(HEADER + content.len());
        // The kernel writes the checksum and the identifier.
        message.extend_from_slice(&[kind, 0, 0, 0, 0, 0]);
        message.extend_from_slice(&number.to_be_bytes());
        message.extend_from_slice(content);
        let to = SocketAddr::new(host, 0);
        // Sent at once: without room in the buffer the echo is lost, as on any link.
        SockRef::from(&self.socket)
            .send_to(&message, &to.into())
            .map(drop)
    }

    /// Waits for an answer, or an error. Other packets are ignored.
    ///
    /// # Errors
    /// The socket failed.
    pub async fn answer(&mut self) -> io::Result<EchoAnswer<'_>> {
        loop {
            let ready = self.socket.ready(Interest::READABLE | Interest::ERROR);
            let ready = ready.await?;
            if ready.is_error()
                && let Some(lost) = self.take_lost()?
            {
                return Ok(EchoAnswer::Lost(lost));
            }
            let Some((length, from)) = self.take()? else {
                continue;
            };
            return Ok(EchoAnswer::Reply(EchoReply {
                from,
                number: u16::from_be_bytes([self.room[6], self.room[7]]),
                content: &self.room[HEADER..length],
            }));
        }
    }

    /// An answer that came: its length, and who sent it.
    fn take(&mut self) -> io::Result<Option<(usize, IpAddr)>> {
        let kind = if self.is_ipv4 { REPLY_V4 } else { REPLY_V6 };
        match self.socket.try_recv_from(&mut self.room) {
            Ok((length, from)) => {
                let is_reply = length >= HEADER && self.room[0] == kind;
                Ok(is_reply.then(|| (length, from.ip())))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// An error that came.
    fn take_lost(&self) -> io::Result<Option<EchoError>> {
        let taken = self
            .socket
            .try_io(Interest::ERROR, || os::take_echo_error(&self.socket));
        match taken {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            taken => taken,
        }
    }
}
