//! The messages of an association of UDP (section 7.3), which client and proxy exchange once the request is answered.
//!
//! ```text
//! +---------+---------+----------------+
//! | VER = 6 | Kind    | Message Length |
//! +---------+---------+----------------+
//! | Association ID, 8 bytes            |
//! +---------+---------+----------------+
//! | ATYP    | 0       |      Port      |  a datagram, an error
//! | Address                            |
//! +---------+---------+----------------+
//! | ATYP    | Code    |       0        |  an error
//! | Address of the reporter            |
//! +------------------------------------+
//! | Payload                            |  a datagram
//! +------------------------------------+
//! ```

use std::net::{IpAddr, SocketAddr};

use super::{Decoded6, Host, IPV4, IPV6, NAME, Socks6Error, VERSION, of_version, target};
use crate::socks::SocksTarget;

const INITIALIZATION: u8 = 1;
const CONFIRMATION: u8 = 2;
const DATAGRAM: u8 = 3;
const ERROR: u8 = 4;

/// Bytes before the address.
const HEAD: usize = 12;

/// Bytes of the type of an address, one of padding, and the port.
const ADDRESS_HEAD: usize = 4;

/// Where the length stands in a message.
const LENGTH: std::ops::Range<usize> = 2..4;

/// Bytes of the longest message, as its length says it.
#[doc(alias = "bound")]
pub const MAX_ASSOCIATION_MESSAGE: usize = 65_535;

/// A message of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socks6AssociationMessage<'a> {
    /// The association, by the number that the proxy has chosen.
    pub association: u64,
    /// The rest.
    pub content: Socks6AssociationContent<'a>,
}

/// The content of a message of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Socks6AssociationContent<'a> {
    /// The proxy has begun the association.
    Initialization,
    /// The proxy has heard a datagram of the client, and knows its path from now on.
    Confirmation,
    /// A datagram to or from a target.
    Datagram(Socks6Datagram<'a>),
    /// A datagram was not delivered.
    Error(Socks6DatagramError),
}

/// A datagram of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Socks6Datagram<'a> {
    /// Its target, or its source.
    pub peer: SocksTarget,
    /// The bytes before the payload.
    pub header: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

impl Socks6Datagram<'_> {
    /// Whether it is for no one, and has come for the proxy to know the client's path.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        let is_nowhere = |ip: IpAddr| ip.is_unspecified();
        self.peer.port == 0
            && self.payload.is_empty()
            && self.peer.host.parse().is_ok_and(is_nowhere)
    }
}

/// The reason why a datagram was not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Socks6ErrorCode {
    /// There is no way to the network.
    NetworkUnreachable = 1,
    /// The host does not answer.
    HostUnreachable = 2,
    /// The time of the datagram on its way was over.
    TtlExpired = 3,
    /// The datagram does not fit into the packets of a network on its way (IPv6).
    TooBig = 4,
}

/// An error about a datagram, as an ICMP message or the proxy itself has reported it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socks6DatagramError {
    /// The target of the datagram.
    pub target: SocketAddr,
    /// The reason.
    pub code: Socks6ErrorCode,
    /// The host that says so.
    pub reporter: IpAddr,
}

/// Decodes a message of an association. Bytes behind it belong to the next one on a stream, and are padding in a datagram of UDP.
///
/// # Errors
/// It is not as the draft has it, or its target has a name that no host can have.
pub fn decode_association_message(bytes: &[u8]) -> Decoded6<Socks6AssociationMessage<'_>> {
    of_version(bytes)?;
    let Some(length) = association_message_length(bytes) else {
        return Ok(None);
    };
    let kind = bytes[1];
    if length < HEAD {
        return Err(Socks6Error::BadMessage(kind));
    }
    let Some(message) = bytes.get(..length) else {
        return Ok(None);
    };

    let wrong = Socks6Error::BadMessage(kind);
    let (id, rest) = message[4..].split_first_chunk::<8>().ok_or(wrong)?;
    let content = match kind {
        INITIALIZATION if rest.is_empty() => Socks6AssociationContent::Initialization,
        CONFIRMATION if rest.is_empty() => Socks6AssociationContent::Confirmation,
        DATAGRAM => {
            let peer = peer_address(rest).ok_or(wrong)?;
            let (header, payload) = message.split_at(HEAD + peer.length);
            Socks6AssociationContent::Datagram(Socks6Datagram {
                peer: target(peer.host, peer.port)?,
                header,
                payload,
            })
        }
        ERROR => Socks6AssociationContent::Error(decode_error(rest).ok_or(wrong)?),
        _ => return Err(wrong),
    };
    let message = Socks6AssociationMessage {
        association: u64::from_be_bytes(*id),
        content,
    };
    Ok(Some((message, length)))
}

/// The length that a message says it has; `None` while bytes of that are missing.
#[must_use]
pub fn association_message_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(LENGTH)?.first_chunk()?;
    Some(usize::from(u16::from_be_bytes(*length)))
}

fn decode_error(bytes: &[u8]) -> Option<Socks6DatagramError> {
    let about = peer_address(bytes)?;
    // The place of the port has the code and a byte of padding, in another order.
    let (&[kind, code, _, _], address) = bytes.get(about.length..)?.split_first_chunk()?;
    let (reporter, length) = written_host(kind, address)?;
    if length != address.len() {
        return None;
    }
    let (Host::Address(ip), Host::Address(reporter)) = (about.host, reporter) else {
        return None;
    };
    Some(Socks6DatagramError {
        target: SocketAddr::new(ip, about.port),
        code: match code {
            1 => Socks6ErrorCode::NetworkUnreachable,
            2 => Socks6ErrorCode::HostUnreachable,
            3 => Socks6ErrorCode::TtlExpired,
            4 => Socks6ErrorCode::TooBig,
            _ => return None,
        },
        reporter,
    })
}

/// An address with its port, and the bytes of both.
struct PeerAddress6<'a> {
    host: Host<'a>,
    port: u16,
    length: usize,
}

fn peer_address(bytes: &[u8]) -> Option<PeerAddress6<'_>> {
    let (&[kind, _, high, low], rest) = bytes.split_first_chunk::<ADDRESS_HEAD>()?;
    let (host, length) = written_host(kind, rest)?;
    Some(PeerAddress6 {
        host,
        port: u16::from_be_bytes([high, low]),
        length: ADDRESS_HEAD + length,
    })
}

/// An address without padding: that of a name ends with the name, unlike that of a request.
fn written_host(kind: u8, bytes: &[u8]) -> Option<(Host<'_>, usize)> {
    match kind {
        IPV4 => {
            let address = *bytes.first_chunk::<4>()?;
            Some((Host::Address(address.into()), address.len()))
        }
        IPV6 => {
            let address = *bytes.first_chunk::<16>()?;
            Some((Host::Address(address.into()), address.len()))
        }
        NAME => {
            let (length, rest) = bytes.split_first()?;
            let name = rest.get(..usize::from(*length))?;
            Some((Host::Name(name), 1 + name.len()))
        }
        _ => None,
    }
}

/// The message by which a proxy begins an association.
#[must_use]
pub fn encode_association_initialization(association: u64) -> Vec<u8> {
    finished(begin(INITIALIZATION, association))
}

/// The message by which a proxy confirms the client's path.
#[must_use]
pub fn encode_association_confirmation(association: u64) -> Vec<u8> {
    finished(begin(CONFIRMATION, association))
}

/// The message that says that a datagram was not delivered.
#[must_use]
pub fn encode_datagram_error(association: u64, error: &Socks6DatagramError) -> Vec<u8> {
    let mut message = begin(ERROR, association);
    let port = error.target.port().to_be_bytes();
    push_address(&mut message, error.target.ip(), [0, port[0], port[1]]);
    push_address(&mut message, error.reporter, [error.code as u8, 0, 0]);
    finished(message)
}

/// The header of a datagram to or from a target; [`push_datagram`] puts payloads behind it.
#[must_use]
pub fn encode_datagram_header(association: u64, peer: &SocksTarget) -> Vec<u8> {
    let mut message = begin(DATAGRAM, association);
    let [high, low] = peer.port.to_be_bytes();
    match peer.host.parse() {
        Ok(ip) => push_address(&mut message, ip, [0, high, low]),
        Err(_) => {
            // No host of ours has a longer name (RFC 1035, 2.3.4).
            let name = &peer.host.as_bytes()[..peer.host.len().min(255)];
            message.extend([NAME, 0, high, low]);
            message.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
            message.extend(name);
        }
    }
    message
}

/// Writes a datagram with this header and payload; false, and nothing, where a message cannot be so long.
pub fn push_datagram(header: &[u8], payload: &[u8], into: &mut Vec<u8>) -> bool {
    let Ok(length) = u16::try_from(header.len() + payload.len()) else {
        return false;
    };
    let start = into.len();
    into.extend(header);
    into[start..][LENGTH].copy_from_slice(&length.to_be_bytes());
    into.extend(payload);
    true
}

fn begin(kind: u8, association: u64) -> Vec<u8> {
    let mut message = vec![VERSION, kind, 0, 0];
    message.extend(association.to_be_bytes());
    message
}

fn push_address(message: &mut Vec<u8>, ip: IpAddr, between: [u8; 3]) {
    match ip {
        IpAddr::V4(v4) => {
            message.push(IPV4);
            message.extend(between);
            message.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            message.push(IPV6);
            message.extend(between);
            message.extend(v6.octets());
        }
    }
}

/// A message with its length in its place.
fn finished(mut message: Vec<u8>) -> Vec<u8> {
    let length = super::two(message.len());
    message[LENGTH].copy_from_slice(&length);
    message
}

/// Decodes arbitrary bytes. An accepted message lies within the input and needs all of its bytes; written again and decoded, it is the same.
#[cfg(test)]
pub(super) fn fuzz_one(data: &[u8]) {
    let Ok(Some((message, length))) = decode_association_message(data) else {
        return;
    };
    assert!(length <= data.len() && length <= MAX_ASSOCIATION_MESSAGE);
    assert_eq!(decode_association_message(&data[..length - 1]), Ok(None));

    let id = message.association;
    let written = match &message.content {
        Socks6AssociationContent::Initialization => encode_association_initialization(id),
        Socks6AssociationContent::Confirmation => encode_association_confirmation(id),
        Socks6AssociationContent::Error(error) => encode_datagram_error(id, error),
        Socks6AssociationContent::Datagram(datagram) => {
            assert_eq!(
                datagram.header.len() + datagram.payload.len(),
                length,
                "the parts are the whole"
            );
            let mut same = Vec::new();
            assert!(push_datagram(datagram.header, datagram.payload, &mut same));
            assert_eq!(same, &data[..length]);

            let header = encode_datagram_header(id, &datagram.peer);
            let mut written = Vec::new();
            assert!(push_datagram(&header, b"", &mut written));
            let (again, _) = decode_association_message(&written).unwrap().unwrap();
            let Socks6AssociationContent::Datagram(again) = again.content else {
                panic!("{again:?} is no datagram");
            };
            assert_eq!(again.peer, datagram.peer);
            return;
        }
    };
    let (again, _) = decode_association_message(&written).unwrap().unwrap();
    assert_eq!(again, message);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: u64 = 0x0102_0304_0506_0708;
    const ID_BYTES: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];

    fn read(bytes: &[u8]) -> Socks6AssociationContent<'_> {
        for length in 0..bytes.len() {
            assert_eq!(decode_association_message(&bytes[..length]), Ok(None));
        }
        let (message, length) = decode_association_message(bytes).unwrap().unwrap();
        assert_eq!(length, bytes.len());
        assert_eq!(message.association, ID);
        message.content
    }

    #[test]
    fn an_association_begins_and_is_confirmed_in_twelve_bytes() {
        let begun = [&[6, 1, 0, 12][..], ID_BYTES].concat();
        assert_eq!(read(&begun), Socks6AssociationContent::Initialization);
        assert_eq!(encode_association_initialization(ID), begun);
        let confirmed = [&[6, 2, 0, 12][..], ID_BYTES].concat();
        assert_eq!(read(&confirmed), Socks6AssociationContent::Confirmation);
        assert_eq!(encode_association_confirmation(ID), confirmed);
    }

    #[test]
    fn a_datagram_says_its_peer_and_has_no_padding() {
        for (host, port, address) in [
            ("192.0.2.1", 53, &b"\x01\0\0\x35\xc0\0\x02\x01"[..]),
            (
                "2001:db8::1",
                443,
                b"\x04\0\x01\xbb\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
            ),
            ("a.test", 7, b"\x03\0\0\x07\x06a.test"),
        ] {
            let length = u8::try_from(12 + address.len() + 4).unwrap();
            let whole = [&[6, 3, 0, length][..], ID_BYTES, address, b"ping"].concat();
            let Socks6AssociationContent::Datagram(datagram) = read(&whole) else {
                panic!("{whole:?} is no datagram");
            };
            let peer = SocksTarget {
                host: host.to_owned(),
                port,
            };
            assert_eq!((&datagram.peer, datagram.payload), (&peer, &b"ping"[..]));
            assert!(!datagram.is_probe());

            let mut written = Vec::new();
            let header = encode_datagram_header(ID, &peer);
            assert!(push_datagram(&header, b"ping", &mut written));
            assert_eq!(written, whole);
        }
    }

    #[test]
    fn bytes_behind_a_message_are_not_its_own() {
        let padded = [&[6, 2, 0, 12][..], ID_BYTES, b"padding"].concat();
        let decoded = decode_association_message(&padded).unwrap().unwrap();
        assert_eq!(decoded.1, 12);
    }

    #[test]
    fn an_empty_datagram_to_nowhere_is_a_probe() {
        let probe = [&[6, 3, 0, 20][..], ID_BYTES, &[1, 0, 0, 0, 0, 0, 0, 0]].concat();
        let Socks6AssociationContent::Datagram(datagram) = read(&probe) else {
            panic!("no datagram");
        };
        assert!(datagram.is_probe());
    }

    #[test]
    fn an_error_says_its_target_and_who_reports_it() {
        let error = Socks6DatagramError {
            target: "192.0.2.1:53".parse().unwrap(),
            code: Socks6ErrorCode::HostUnreachable,
            reporter: "192.0.2.254".parse().unwrap(),
        };
        let target = b"\x01\0\0\x35\xc0\0\x02\x01";
        let reporter = b"\x01\x02\0\0\xc0\0\x02\xfe";
        let whole = [&[6, 4, 0, 28][..], ID_BYTES, target, reporter].concat();
        assert_eq!(read(&whole), Socks6AssociationContent::Error(error));
        assert_eq!(encode_datagram_error(ID, &error), whole);
    }

    #[test]
    fn messages_that_do_not_fit_are_refused() {
        let address: &[u8] = b"\x01\0\0\x35\xc0\0\x02\x01";
        for broken in [
            [&[6, 1, 0, 11][..], ID_BYTES].concat(),
            [&[6, 1, 0, 13][..], ID_BYTES, &[0]].concat(),
            [&[6, 5, 0, 12][..], ID_BYTES].concat(),
            [&[6, 3, 0, 12][..], ID_BYTES].concat(),
            [&[6, 3, 0, 19][..], ID_BYTES, &address[..7]].concat(),
            [&[6, 3, 0, 20][..], ID_BYTES, &[2], &address[1..]].concat(),
            [&[6, 3, 0, 20][..], ID_BYTES, b"\x03\0\0\x35\x09abc"].concat(),
            [&[6, 4, 0, 20][..], ID_BYTES, address].concat(),
            [
                &[6, 4, 0, 29][..],
                ID_BYTES,
                address,
                b"\x01\x02\0\0\xc0\0\x02\xfe\0",
            ]
            .concat(),
            [
                &[6, 4, 0, 28][..],
                ID_BYTES,
                address,
                b"\x01\x05\0\0\xc0\0\x02\xfe",
            ]
            .concat(),
        ] {
            assert!(decode_association_message(&broken).is_err(), "{broken:?}");
        }
        let header = encode_datagram_header(
            ID,
            &SocksTarget {
                host: "192.0.2.1".to_owned(),
                port: 53,
            },
        );
        let mut none = Vec::new();
        assert!(!push_datagram(&header, &[0; 65_536 - 20], &mut none));
        assert!(none.is_empty());
        assert!(push_datagram(&header, &[0; 65_535 - 20], &mut none));
    }
}
