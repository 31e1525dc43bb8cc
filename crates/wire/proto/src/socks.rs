//! SOCKS: the messages of clients and the replies to them, in the versions 4, 4a and 5.
//!
//! A client of version 5 names the ways in which it can authenticate, perhaps shows a user and a password, and then asks for a connection or for an
//! association of UDP. A client of version 4 asks at once. A decoder is given all bytes that have come and says how many of them the message
//! took, or `None` while bytes are missing; every message is at most [`MAX_MESSAGE`] bytes long. The messages of the other side, that of a client, are in
//! [`client`].
//!
//! Not here: the methods but none and password, and fragments of datagrams.
//!
//! Specifications: RFC 1928 (SOCKS5), RFC 1929 (its passwords), and the memos of SOCKS4 and SOCKS4a.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::host;
use crate::socks6::{self, Socks6OperationReply};

pub mod client;

/// Bytes of the longest message: user and password with their lengths, or a request of version 4a.
#[doc(alias = "bound")]
pub const MAX_MESSAGE: usize = 521;

/// Bytes of the user ID of version 4, and of the name of version 4a: as long as those of version 5.
#[doc(alias = "bound")]
const MAX_TEXT: usize = 255;

const V4: u8 = 4;
const V5: u8 = 5;

/// The version of the negotiation of passwords (RFC 1929, 2).
const PASSWORD_VERSION: u8 = 1;

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Bytes before the address of a datagram: two that are reserved, and the number of a fragment (RFC 1928, 7).
const DATAGRAM_START: usize = 3;

/// A message, and the bytes that it took; `None` while bytes of it are missing.
pub type Decoded<T> = Result<Option<(T, usize)>, SocksError>;

/// Why bytes are no message that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    /// The version of the protocol, or of the negotiation of passwords, is another one.
    #[error("the version {0} is not of SOCKS")]
    UnknownVersion(u8),
    /// A command that no version has.
    #[error("the command {0} is not served")]
    UnknownCommand(u8),
    /// An address of another kind.
    #[error("the type of address {0} is not known")]
    UnknownAddressType(u8),
    /// A name that no host can have.
    #[error("the name of the target: {0}")]
    BadName(#[from] host::HostError),
    /// The bytes of a name are no text.
    #[error("the name of the target is not text")]
    NotText,
    /// A user ID or a name of version 4 that does not end.
    #[error("a text of more than {MAX_TEXT} bytes")]
    TooLong,
    /// A datagram that is one of several fragments (RFC 1928, 7: those who do not put them together must drop them).
    #[error("fragments are not put together")]
    Fragment,
    /// A datagram that is shorter than its header.
    #[error("the datagram is cut off")]
    CutOff,
    /// A method that was not offered.
    #[error("the method {0} was not offered")]
    UnknownMethod(u8),
}

impl SocksError {
    /// The reply that says as much as SOCKS can say.
    #[must_use]
    pub fn reply(self) -> SocksReply {
        match self {
            Self::UnknownCommand(_) => SocksReply::CommandNotSupported,
            Self::UnknownAddressType(_) => SocksReply::AddressTypeNotSupported,
            Self::BadName(_) | Self::NotText => SocksReply::HostUnreachable,
            Self::UnknownVersion(_)
            | Self::TooLong
            | Self::Fragment
            | Self::CutOff
            | Self::UnknownMethod(_) => SocksReply::GeneralFailure,
        }
    }
}

/// The first message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocksHello {
    /// Version 4: the request at once.
    Request(SocksRequest),
    /// Version 5: the ways to authenticate.
    Methods(SocksMethods),
}

/// The ways to authenticate that a client knows (RFC 1928, 3).
///
/// ```text
/// +----+----------+----------+
/// |VER | NMETHODS | METHODS  |
/// | 1  |    1     | 1 to 255 |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocksMethods {
    /// To show nothing.
    pub none: bool,
    /// To show a user and a password.
    pub password: bool,
}

/// The way to authenticate that is chosen (RFC 1928, 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocksMethod {
    /// To show nothing.
    None = 0,
    /// To show a user and a password.
    Password = 2,
    /// None that the client offers.
    Unacceptable = 0xff,
}

impl SocksMethod {
    /// The message that tells the client.
    #[must_use]
    pub fn encode(self) -> [u8; 2] {
        [V5, self as u8]
    }
}

/// A user and a password (RFC 1929, 2), whose bytes need not be text.
///
/// ```text
/// +----+------+----------+------+----------+
/// |VER | ULEN |  UNAME   | PLEN |  PASSWD  |
/// | 1  |  1   | 1 to 255 |  1   | 1 to 255 |
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocksPassword<'a> {
    /// The user.
    pub user: &'a [u8],
    /// The password.
    pub password: &'a [u8],
}

impl std::fmt::Debug for SocksPassword<'_> {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SocksPassword")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The answer to a password (RFC 1929, 2): after a wrong one the connection must end.
#[must_use]
pub fn password_status(is_right: bool) -> [u8; 2] {
    [PASSWORD_VERSION, u8::from(!is_right)]
}

/// The version of a request, which its replies have too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocksVersion {
    /// SOCKS4 or SOCKS4a.
    V4,
    /// SOCKS5.
    V5,
    /// SOCKS6, whose requests are in [`socks6`].
    V6,
}

/// The wish of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocksCommand {
    /// A connection to this target.
    Connect(SocksTarget),
    /// A connection from this target, which its client has told by other means where to connect to.
    Bind(SocksTarget),
    /// A socket for datagrams. The address that the client means to send from is passed over: clients know it badly, and some write a text that no
    /// host can have (PySocks).
    Associate,
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SocksTarget {
    /// In the one spelling of [`host::parse`].
    pub host: String,
    /// Zero where a client does not know it, as of the datagrams that it is about to send.
    pub port: u16,
}

/// A request (RFC 1928, 4).
///
/// ```text
/// +----+-----+-------+------+----------+----------+     +----+-----+---------+-------+--------+------+
/// |VER | CMD |  RSV  | ATYP | DST.ADDR | DST.PORT |     |VER | CMD | DSTPORT | DSTIP | USERID | NULL |
/// | 5  |  1  |   1   |  1   | Variable |    2     |     | 4  |  1  |    2    |   4   |  any   |  1   |
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocksRequest {
    /// How it was written.
    pub version: SocksVersion,
    /// The wish.
    pub command: SocksCommand,
}

/// How a request ended (RFC 1928, 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocksReply {
    /// It is served.
    Succeeded = 0,
    /// Something else failed.
    GeneralFailure = 1,
    /// The rules do not allow it.
    NotAllowed = 2,
    /// There is no way to the network.
    NetworkUnreachable = 3,
    /// The host does not answer, or is not known.
    HostUnreachable = 4,
    /// The host refuses connections at the port.
    ConnectionRefused = 5,
    /// The time of a datagram on its way was over.
    TtlExpired = 6,
    /// The command is not served.
    CommandNotSupported = 7,
    /// The type of address is not served.
    AddressTypeNotSupported = 8,
    /// There was no connection in time: SOCKS6 can say so, version 5 says [`Self::HostUnreachable`].
    TimedOut = 9,
}

impl SocksReply {
    /// The reply to a request of a version, with the address of ours that it is about.
    #[must_use]
    pub fn encode(self, version: SocksVersion, bound: SocketAddr) -> Vec<u8> {
        match version {
            SocksVersion::V4 => self.encode_v4(bound),
            SocksVersion::V6 => socks6::encode_operation_reply(&Socks6OperationReply {
                reply: self,
                bound: Some(bound),
                options: Vec::new(),
            }),
            SocksVersion::V5 => {
                let code = match self {
                    Self::TimedOut => Self::HostUnreachable,
                    known => known,
                };
                let mut reply = vec![V5, code as u8, 0];
                encode_address(bound, &mut reply);
                reply
            }
        }
    }

    /// Version 4 knows granted and rejected, and addresses of IPv4.
    fn encode_v4(self, bound: SocketAddr) -> Vec<u8> {
        let code = match self {
            Self::Succeeded => 0x5a,
            _ => 0x5b,
        };
        let mut reply = vec![0, code];
        reply.extend(bound.port().to_be_bytes());
        match bound.ip().to_canonical() {
            IpAddr::V4(v4) => reply.extend(v4.octets()),
            IpAddr::V6(_) => reply.extend([0; 4]),
        }
        reply
    }

    /// Its code in SOCKS6.
    pub(crate) fn code_6(self) -> u8 {
        self as u8
    }

    /// The reply of a code of SOCKS6.
    pub(crate) fn of_code_6(code: u8) -> Self {
        match code {
            9 => Self::TimedOut,
            code => Self::of_code(code),
        }
    }

    /// The reply of a code of version 5; one that is not assigned says that it failed, and no more.
    fn of_code(code: u8) -> Self {
        match code {
            0 => Self::Succeeded,
            2 => Self::NotAllowed,
            3 => Self::NetworkUnreachable,
            4 => Self::HostUnreachable,
            5 => Self::ConnectionRefused,
            6 => Self::TtlExpired,
            7 => Self::CommandNotSupported,
            8 => Self::AddressTypeNotSupported,
            _ => Self::GeneralFailure,
        }
    }
}

/// Decodes the first message of a client, of either version.
///
/// # Errors
/// It is of no version, or a request of version 4 that cannot be served.
pub fn decode_hello(bytes: &[u8]) -> Decoded<SocksHello> {
    let Some(version) = bytes.first() else {
        return Ok(None);
    };
    match *version {
        V4 => Ok(decode_v4(bytes)?.map(|(request, length)| (SocksHello::Request(request), length))),
        V5 => Ok(decode_methods(bytes)),
        other => Err(SocksError::UnknownVersion(other)),
    }
}

fn decode_methods(bytes: &[u8]) -> Option<(SocksHello, usize)> {
    let methods = counted(bytes.get(1..)?)?;
    let offers = |method: SocksMethod| methods.contains(&(method as u8));
    let found = SocksMethods {
        none: offers(SocksMethod::None),
        password: offers(SocksMethod::Password),
    };
    Some((SocksHello::Methods(found), 2 + methods.len()))
}

fn decode_v4(bytes: &[u8]) -> Decoded<SocksRequest> {
    let Some((fixed, rest)) = bytes.split_first_chunk::<8>() else {
        return Ok(None);
    };
    let [_, command, high, low, address @ ..] = *fixed;
    let wish = match command {
        1 => SocksCommand::Connect,
        2 => SocksCommand::Bind,
        other => return Err(SocksError::UnknownCommand(other)),
    };
    // The user ID proves nothing: any client may write any.
    let Some(user) = terminated(rest)? else {
        return Ok(None);
    };

    let mut length = fixed.len() + user.len() + 1;
    let host = match address {
        // 4a: an address that no host has says that a name follows.
        [0, 0, 0, last] if last != 0 => {
            let Some(name) = terminated(&bytes[length..])? else {
                return Ok(None);
            };
            length += name.len() + 1;
            named(name)?
        }
        address => Ipv4Addr::from(address).to_string(),
    };

    let port = u16::from_be_bytes([high, low]);
    let request = SocksRequest {
        version: SocksVersion::V4,
        command: wish(SocksTarget { host, port }),
    };
    Ok(Some((request, length)))
}

/// Decodes the negotiation of a password.
///
/// # Errors
/// It is of another version.
pub fn decode_password(bytes: &[u8]) -> Decoded<SocksPassword<'_>> {
    match bytes.first() {
        Some(&PASSWORD_VERSION) => Ok(password_in(bytes)),
        Some(other) => Err(SocksError::UnknownVersion(*other)),
        None => Ok(None),
    }
}

fn password_in(bytes: &[u8]) -> Option<(SocksPassword<'_>, usize)> {
    let user = counted(bytes.get(1..)?)?;
    let password = counted(bytes.get(2 + user.len()..)?)?;
    let length = 3 + user.len() + password.len();
    Some((SocksPassword { user, password }, length))
}

/// Decodes a request of version 5.
///
/// # Errors
/// It cannot be served: [`SocksError::reply`] says so to the client.
pub fn decode_request(bytes: &[u8]) -> Decoded<SocksRequest> {
    if let Some(other) = bytes.first().filter(|version| **version != V5) {
        return Err(SocksError::UnknownVersion(*other));
    }
    let Some((fixed, rest)) = bytes.split_first_chunk::<3>() else {
        return Ok(None);
    };
    let Some((address, length)) = decode_address(rest)? else {
        return Ok(None);
    };

    let command = match fixed[1] {
        1 => SocksCommand::Connect(address.host_port()?),
        2 => SocksCommand::Bind(address.host_port()?),
        3 => SocksCommand::Associate,
        other => return Err(SocksError::UnknownCommand(other)),
    };
    let request = SocksRequest {
        version: SocksVersion::V5,
        command,
    };
    Ok(Some((request, fixed.len() + length)))
}

/// Decodes the header of a datagram (RFC 1928, 7): its target, and the bytes of the header.
///
/// # Errors
/// It cannot be served, and is to be dropped.
pub fn decode_datagram(bytes: &[u8]) -> Result<(SocksTarget, usize), SocksError> {
    let Some((start, rest)) = bytes.split_first_chunk::<DATAGRAM_START>() else {
        return Err(SocksError::CutOff);
    };
    if start[2] != 0 {
        return Err(SocksError::Fragment);
    }
    let (address, length) = decode_address(rest)?.ok_or(SocksError::CutOff)?;
    Ok((address.host_port()?, start.len() + length))
}

/// The header of a datagram from an address.
#[must_use]
pub fn encode_datagram(source: SocketAddr) -> Vec<u8> {
    let mut header = vec![0; DATAGRAM_START];
    encode_address(source, &mut header);
    header
}

/// An address as it stands in a message (RFC 1928, 5).
struct WrittenAddress<'a> {
    host: WrittenHost<'a>,
    port: u16,
}

enum WrittenHost<'a> {
    Address(IpAddr),
    Name(&'a [u8]),
}

impl WrittenAddress<'_> {
    fn host_port(&self) -> Result<SocksTarget, SocksError> {
        let host = match self.host {
            WrittenHost::Address(address) => address.to_canonical().to_string(),
            WrittenHost::Name(name) => named(name)?,
        };
        Ok(SocksTarget {
            host,
            port: self.port,
        })
    }
}

/// The type of an address, the address, and the port.
fn decode_address(bytes: &[u8]) -> Decoded<WrittenAddress<'_>> {
    let Some((kind, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let found = match *kind {
        IPV4 => rest.first_chunk().map(|address: &[u8; 4]| {
            let host = WrittenHost::Address(Ipv4Addr::from(*address).into());
            (host, address.len())
        }),
        IPV6 => rest.first_chunk().map(|address: &[u8; 16]| {
            let host = WrittenHost::Address(Ipv6Addr::from(*address).into());
            (host, address.len())
        }),
        NAME => counted(rest).map(|name| (WrittenHost::Name(name), 1 + name.len())),
        other => return Err(SocksError::UnknownAddressType(other)),
    };

    let Some((host, length)) = found else {
        return Ok(None);
    };
    let Some(port) = rest[length..].first_chunk() else {
        return Ok(None);
    };
    let port = u16::from_be_bytes(*port);
    Ok(Some((WrittenAddress { host, port }, 1 + length + 2)))
}

fn encode_address(address: SocketAddr, into: &mut Vec<u8>) {
    match address.ip() {
        IpAddr::V4(v4) => {
            into.push(IPV4);
            into.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            into.push(IPV6);
            into.extend(v6.octets());
        }
    }
    into.extend(address.port().to_be_bytes());
}

/// A name in the one spelling that it has everywhere: two of them would dodge rules about one.
fn named(name: &[u8]) -> Result<String, SocksError> {
    let name = std::str::from_utf8(name).map_err(|_| SocksError::NotText)?;
    Ok(host::parse(name)?)
}

/// The bytes behind their number, if all are there.
fn counted(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(..usize::from(*length))
}

/// The bytes before a zero, if it is there.
fn terminated(bytes: &[u8]) -> Result<Option<&[u8]>, SocksError> {
    let text = &bytes[..bytes.len().min(MAX_TEXT + 1)];
    match text.iter().position(|byte| *byte == 0) {
        Some(end) => Ok(Some(&text[..end])),
        None if text.len() > MAX_TEXT => Err(SocksError::TooLong),
        None => Ok(None),
    }
}

/// Decodes arbitrary bytes as each message. An accepted one lies within the input and the bound and needs all of its bytes; bytes behind it
/// change nothing, and its host is spelled as everywhere.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    fn check<'a, T: PartialEq + std::fmt::Debug>(
        data: &'a [u8],
        decode: impl Fn(&'a [u8]) -> Decoded<T>,
    ) -> Option<T> {
        let Ok(Some((message, length))) = decode(data) else {
            return None;
        };
        assert!(length <= data.len() && length <= MAX_MESSAGE);
        assert_eq!(decode(&data[..length]), Ok(Some((message, length))));
        assert_eq!(decode(&data[..length - 1]), Ok(None));
        decode(data).ok().flatten().map(|(message, _)| message)
    }
    let is_one_spelling = |target: &SocksTarget| {
        assert_eq!(host::parse(&target.host), Ok(target.host.clone()));
    };
    let has_one_spelling = |request: SocksRequest| match request.command {
        SocksCommand::Connect(target) | SocksCommand::Bind(target) => is_one_spelling(&target),
        SocksCommand::Associate => {}
    };

    check(data, decode_password);
    if let Some(SocksHello::Request(request)) = check(data, decode_hello) {
        has_one_spelling(request);
    }
    if let Some(request) = check(data, decode_request) {
        has_one_spelling(request);
    }
    if let Ok((target, length)) = decode_datagram(data) {
        assert!(length <= data.len());
        assert_eq!(
            decode_datagram(&data[..length]),
            Ok((target.clone(), length))
        );
        assert!(decode_datagram(&data[..length - 1]).is_err());
        is_one_spelling(&target);
    }
    client::fuzz_one(data);
    // Without an end in sight, no decoder waits for more than the bound.
    if data.len() >= MAX_MESSAGE {
        assert_ne!(decode_hello(data), Ok(None));
        assert_ne!(decode_password(data), Ok(None));
        assert_ne!(decode_request(data), Ok(None));
    }
}

#[cfg(test)]
#[path = "socks/tests.rs"]
mod tests;
