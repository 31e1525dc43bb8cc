//! SOCKS6: requests and replies, as draft-olteanu-intarea-socks-6-11 lays them out. The draft has expired.
//!
//! A client says everything at once: its wish, who it is, and the first bytes for its target. A proxy answers twice, first whether it knows the
//! client, then how the wish ended. A decoder is given all bytes that have come and says how many of them the message took, or `None` while bytes
//! are missing. Nothing is decoded before all of a message is there, and no message is longer than [`MAX_MESSAGE`].
//!
//! Not here: authentication in more than one round trip, and the options of the stack but those of TCP Fast Open and of errors about datagrams.
//! Options that are not known are passed over (section 8).
//!
//! Where -11 says two things, one is written and both are read: the ID of a new session is in the first reply, as 8.4 has it (8.4.1 names the second), and the length of an Idempotence Expenditure is 8, as its text has it, not 4, as its picture has it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::host;
use crate::socks::{SocksReply, SocksTarget};

mod association;
mod options;

pub use association::{
    MAX_ASSOCIATION_MESSAGE, Socks6AssociationContent, Socks6AssociationMessage, Socks6Datagram,
    Socks6DatagramError, Socks6ErrorCode, association_message_length, decode_association_message,
    encode_association_confirmation, encode_association_initialization, encode_datagram_error,
    encode_datagram_header, push_datagram,
};
pub use options::{
    Socks6Credentials, Socks6ReplyOption, Socks6RequestOptions, Socks6SessionId, Socks6Window,
};
use options::{decode_reply_options, decode_request_options, encode_options};

/// Bytes of the options of a message (section 4).
#[doc(alias = "bound")]
pub const MAX_OPTIONS: usize = 16 * 1024;

/// Bytes of the longest message: a name and options.
#[doc(alias = "bound")]
pub const MAX_MESSAGE: usize = HEAD + 256 + MAX_OPTIONS;

/// Bytes of initial data (section 8.2).
#[doc(alias = "bound")]
pub const MAX_INITIAL_DATA: u16 = 1 << 14;

/// The version, as it is written.
pub const VERSION: u8 = 6;

/// Bytes before the address.
const HEAD: usize = 8;

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A message, and the bytes that it took; `None` while bytes of it are missing.
pub type Decoded6<T> = Result<Option<(T, usize)>, Socks6Error>;

/// Why bytes are no message that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Socks6Error {
    /// The version is another one.
    #[error("the version {0} is not 6")]
    UnknownVersion(u8),
    /// An address of another kind.
    #[error("the type of address {0} is not known")]
    UnknownAddressType(u8),
    /// A name that no host can have.
    #[error("the name of the target: {0}")]
    BadName(#[from] host::HostError),
    /// The bytes of a name are no text.
    #[error("the name of the target is not text")]
    NotText,
    /// More options than a message may have.
    #[error("{0} bytes of options, more than {MAX_OPTIONS}")]
    TooLong(usize),
    /// The length of an option is none that it can have, or its content does not fit.
    #[error("the option {0} is not as the draft has it")]
    BadOption(u16),
    /// An option that may be there once is there again, with another content.
    #[error("the option {0} is there twice")]
    Repeated(u16),
    /// A message of an association of UDP that is none.
    #[error("the message {0} of an association is not as the draft has it")]
    BadMessage(u8),
}

impl Socks6Error {
    /// The reply that says as much as SOCKS can say.
    #[must_use]
    pub fn reply(self) -> SocksReply {
        match self {
            Self::UnknownAddressType(_) => SocksReply::AddressTypeNotSupported,
            Self::BadName(_) | Self::NotText => SocksReply::HostUnreachable,
            Self::UnknownVersion(_)
            | Self::TooLong(_)
            | Self::BadOption(_)
            | Self::Repeated(_)
            | Self::BadMessage(_) => SocksReply::GeneralFailure,
        }
    }
}

/// The wish of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Socks6Command {
    /// Nothing: to begin or end a session.
    Noop,
    /// A connection to this target.
    Connect(SocksTarget),
    /// A connection from this target.
    Bind(SocksTarget),
    /// A socket for datagrams. The address that the client would like it to have is passed over.
    Associate,
    /// One that the draft has not.
    Other(u8),
}

/// A request (section 4).
///
/// ```text
/// +---------+---------+----------------+
/// | VER = 6 | Command | Options Length |
/// +---------+---------+-------+--------+
/// |       Port        | 0     | ATYP   |
/// +-------------------+-------+--------+
/// | Address, to a multiple of 4 bytes  |
/// | Options                            |
/// +------------------------------------+
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socks6Request {
    /// The wish.
    pub command: Socks6Command,
    /// The rest.
    pub options: Socks6RequestOptions,
}

/// A proxy's first reply (section 6): whether it knows the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socks6AuthReply {
    /// The client may go on.
    pub is_success: bool,
    /// The rest.
    pub options: Vec<Socks6ReplyOption>,
}

/// A proxy's second reply (section 7): how the wish ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socks6OperationReply {
    /// How.
    pub reply: SocksReply,
    /// The address of the proxy that it is about; `None` where it wrote a name.
    pub bound: Option<SocketAddr>,
    /// The rest.
    pub options: Vec<Socks6ReplyOption>,
}

/// Decodes a request.
///
/// # Errors
/// It cannot be served.
pub fn decode_request(bytes: &[u8]) -> Decoded6<Socks6Request> {
    let Some(parts) = parts(bytes)? else {
        return Ok(None);
    };
    let options = decode_request_options(parts.options)?;
    let command = match parts.code {
        // Section 4: its address and port have no meaning.
        0 => Socks6Command::Noop,
        1 => Socks6Command::Connect(target(parts.address, parts.port)?),
        2 => Socks6Command::Bind(target(parts.address, parts.port)?),
        3 => Socks6Command::Associate,
        other => Socks6Command::Other(other),
    };
    Ok(Some((Socks6Request { command, options }, parts.length)))
}

/// Encodes a request.
#[must_use]
pub fn encode_request(request: &Socks6Request) -> Vec<u8> {
    let options = request.options.encode();
    match &request.command {
        Socks6Command::Noop => encode_message(0, &Host::Address(UNKNOWN), 0, &options),
        // Section 4: all zeros where the client wants no address of its own.
        Socks6Command::Associate => encode_message(3, &Host::Address(UNKNOWN), 0, &options),
        Socks6Command::Other(code) => encode_message(*code, &Host::Address(UNKNOWN), 0, &options),
        Socks6Command::Connect(target) => encode_target(1, target, &options),
        Socks6Command::Bind(target) => encode_target(2, target, &options),
    }
}

fn encode_target(code: u8, target: &SocksTarget, options: &[u8]) -> Vec<u8> {
    let SocksTarget { host, port } = target;
    let host = match host.parse() {
        Ok(ip) => Host::Address(ip),
        Err(_) => Host::Name(host.as_bytes()),
    };
    encode_message(code, &host, *port, options)
}

const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Decodes a proxy's first reply.
///
/// # Errors
/// It is of another version, or not as the draft has it.
pub fn decode_auth_reply(bytes: &[u8]) -> Decoded6<Socks6AuthReply> {
    of_version(bytes)?;
    let Some((&[_, kind, high, low], rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let length = options_length([high, low])?;
    let Some(options) = rest.get(..length) else {
        return Ok(None);
    };
    let reply = Socks6AuthReply {
        is_success: kind == 0,
        options: decode_reply_options(options)?,
    };
    Ok(Some((reply, 4 + length)))
}

/// Encodes a proxy's first reply.
#[must_use]
pub fn encode_auth_reply(reply: &Socks6AuthReply) -> Vec<u8> {
    let options = encode_options(&reply.options);
    let mut message = vec![VERSION, u8::from(!reply.is_success)];
    message.extend(two(options.len()));
    message.extend(options);
    message
}

/// Decodes a proxy's second reply.
///
/// # Errors
/// It is of another version, or not as the draft has it.
pub fn decode_operation_reply(bytes: &[u8]) -> Decoded6<Socks6OperationReply> {
    let Some(parts) = parts(bytes)? else {
        return Ok(None);
    };
    let reply = Socks6OperationReply {
        reply: SocksReply::of_code_6(parts.code),
        bound: match parts.address {
            Host::Address(ip) => Some(SocketAddr::new(ip, parts.port)),
            Host::Name(_) => None,
        },
        options: decode_reply_options(parts.options)?,
    };
    Ok(Some((reply, parts.length)))
}

/// Encodes a proxy's second reply.
#[must_use]
pub fn encode_operation_reply(reply: &Socks6OperationReply) -> Vec<u8> {
    let options = encode_options(&reply.options);
    let (host, port) = match reply.bound {
        Some(bound) => (Host::Address(bound.ip()), bound.port()),
        None => (Host::Name(b""), 0),
    };
    encode_message(reply.reply.code_6(), &host, port, &options)
}

/// A message with an address, taken apart.
struct Parts<'a> {
    code: u8,
    port: u16,
    address: Host<'a>,
    options: &'a [u8],
    length: usize,
}

enum Host<'a> {
    Address(IpAddr),
    Name(&'a [u8]),
}

fn parts(bytes: &[u8]) -> Result<Option<Parts<'_>>, Socks6Error> {
    of_version(bytes)?;
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let [_, code, high, low, port_high, port_low, _, kind] = *head;
    let options = options_length([high, low])?;

    let found = match kind {
        IPV4 => rest.first_chunk().map(|address: &[u8; 4]| {
            let address = Ipv4Addr::from(*address);
            (Host::Address(address.into()), 4)
        }),
        IPV6 => rest.first_chunk().map(|address: &[u8; 16]| {
            let address = Ipv6Addr::from(*address);
            (Host::Address(address.into()), 16)
        }),
        NAME => rest.split_first().and_then(|(length, rest)| {
            let name = rest.get(..usize::from(*length))?;
            Some((Host::Name(name), (1 + name.len()).next_multiple_of(4)))
        }),
        other => return Err(Socks6Error::UnknownAddressType(other)),
    };
    let Some((address, length)) = found else {
        return Ok(None);
    };
    let Some(options) = rest.get(length..length + options) else {
        return Ok(None);
    };
    Ok(Some(Parts {
        code,
        port: u16::from_be_bytes([port_high, port_low]),
        address,
        options,
        length: HEAD + length + options.len(),
    }))
}

fn encode_message(code: u8, host: &Host<'_>, port: u16, options: &[u8]) -> Vec<u8> {
    let mut message = vec![VERSION, code];
    message.extend(two(options.len()));
    message.extend(port.to_be_bytes());
    message.push(0);
    match host {
        Host::Address(IpAddr::V4(v4)) => {
            message.push(IPV4);
            message.extend(v4.octets());
        }
        Host::Address(IpAddr::V6(v6)) => {
            message.push(IPV6);
            message.extend(v6.octets());
        }
        // No host of ours has a longer name (RFC 1035, 2.3.4).
        Host::Name(name) => {
            let name = &name[..name.len().min(255)];
            message.push(NAME);
            message.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            message.extend(name);
            pad(&mut message);
        }
    }
    message.extend(options);
    message
}

fn target(host: Host<'_>, port: u16) -> Result<SocksTarget, Socks6Error> {
    let host = match host {
        Host::Address(address) => address.to_canonical().to_string(),
        Host::Name(name) => {
            let name = std::str::from_utf8(name).map_err(|_| Socks6Error::NotText)?;
            host::parse(name)?
        }
    };
    Ok(SocksTarget { host, port })
}

fn of_version(bytes: &[u8]) -> Result<(), Socks6Error> {
    match bytes.first() {
        Some(other) if *other != VERSION => Err(Socks6Error::UnknownVersion(*other)),
        _ => Ok(()),
    }
}

fn options_length(bytes: [u8; 2]) -> Result<usize, Socks6Error> {
    match usize::from(u16::from_be_bytes(bytes)) {
        length if length > MAX_OPTIONS => Err(Socks6Error::TooLong(length)),
        length => Ok(length),
    }
}

/// A length in two bytes. Messages of ours are far below the bound.
fn two(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes()
}

/// Zeros to a multiple of 4 bytes.
fn pad(message: &mut Vec<u8>) {
    message.resize(message.len().next_multiple_of(4), 0);
}

/// Decodes arbitrary bytes as each message. An accepted one lies within the input and the bound and needs all of its bytes; written again and
/// decoded, it is the same.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    fn check<T: PartialEq + std::fmt::Debug>(
        data: &[u8],
        decode: impl Fn(&[u8]) -> Decoded6<T>,
        encode: impl Fn(&T) -> Vec<u8>,
    ) -> Option<T> {
        let Ok(Some((message, length))) = decode(data) else {
            return None;
        };
        assert!(length <= data.len() && length <= MAX_MESSAGE);
        assert_eq!(decode(&data[..length - 1]), Ok(None));
        let (again, _) = decode(&data[..length]).ok().flatten()?;
        assert_eq!(again, message);

        let written = encode(&message);
        let read = decode(&written);
        assert_eq!(read, Ok(Some((again, written.len()))));
        Some(message)
    }

    check(data, decode_auth_reply, encode_auth_reply);
    check(data, decode_operation_reply, encode_operation_reply);
    if let Some(request) = check(data, decode_request, encode_request)
        && let Socks6Command::Connect(target) | Socks6Command::Bind(target) = &request.command
    {
        assert_eq!(host::parse(&target.host), Ok(target.host.clone()));
    }
    association::fuzz_one(data);
    if data.len() >= MAX_MESSAGE {
        assert_ne!(decode_request(data), Ok(None));
        assert_ne!(decode_operation_reply(data), Ok(None));
    }
}

#[cfg(test)]
#[path = "socks6/tests.rs"]
mod tests;
