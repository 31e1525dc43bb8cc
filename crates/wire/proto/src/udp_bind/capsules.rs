//! The capsules of CONNECT-UDP Bind, and how an address is written in them and in uncompressed datagrams.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::{BufMut, Bytes, BytesMut};

use crate::datagram::DatagramError;
use crate::varint;

/// The type of COMPRESSION_ASSIGN: a context and its peer.
pub const ASSIGN: u64 = 0x11;

/// The type of COMPRESSION_ACK: the context is open.
pub const ACK: u64 = 0x12;

/// The type of COMPRESSION_CLOSE: the context was refused, or is open no more.
pub const CLOSE: u64 = 0x13;

/// Why a stream must be aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// A capsule is too short, too long, or names no address.
    #[error("a capsule about a context is malformed")]
    Malformed,
    /// A context that is 0 or ours to register.
    #[error("context {0} is not the client's to register")]
    NotTheirs(u64),
    /// A context, a peer or the uncompressed context that is open already.
    #[error("context {0}, or its peer, is registered already")]
    Again(u64),
    /// An agreement to a context that was never offered.
    #[error("an unregistered context was acknowledged")]
    Unasked,
    /// A datagram for the target, which such a request has not.
    #[error("a datagram has context 0, and the request has no target")]
    ContextZero,
    /// A malformed datagram.
    #[error(transparent)]
    Datagram(#[from] DatagramError),
}

/// COMPRESSION_ASSIGN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assign {
    /// The context.
    pub context: u64,
    /// Its peer; `None` for uncompressed datagrams.
    pub peer: Option<SocketAddr>,
}

impl Assign {
    /// Reads the value of the capsule.
    ///
    /// # Errors
    /// [`BindError::Malformed`].
    pub fn decode(value: &[u8]) -> Result<Self, BindError> {
        let mut rest = value;
        let context = varint::decode(&mut rest).ok_or(BindError::Malformed)?;
        if rest == [0] {
            return Ok(Self {
                context,
                peer: None,
            });
        }

        match decode_peer(rest) {
            Some((peer, used)) if used == rest.len() => Ok(Self {
                context,
                peer: Some(peer),
            }),
            _ => Err(BindError::Malformed),
        }
    }

    /// The whole capsule.
    pub fn encode(self) -> Bytes {
        let mut value = BytesMut::new();
        varint::encode(self.context, &mut value);
        match self.peer {
            Some(peer) => encode_peer(peer, &mut value),
            None => value.put_u8(0),
        }
        capsule(ASSIGN, &value)
    }
}

/// The context of COMPRESSION_ACK or COMPRESSION_CLOSE, which is never 0.
pub(super) fn decode_id(value: &[u8]) -> Result<u64, BindError> {
    let mut rest = value;
    let context = varint::decode(&mut rest).filter(|context| *context != 0 && rest.is_empty());
    context.ok_or(BindError::Malformed)
}

/// COMPRESSION_ACK or COMPRESSION_CLOSE.
pub(super) fn encode_id(kind: u64, context: u64) -> Bytes {
    let mut value = BytesMut::new();
    varint::encode(context, &mut value);
    capsule(kind, &value)
}

fn capsule(kind: u64, value: &[u8]) -> Bytes {
    let mut capsule = BytesMut::new();
    varint::encode(kind, &mut capsule);
    varint::encode(value.len() as u64, &mut capsule);
    capsule.put_slice(value);
    capsule.freeze()
}

/// Reads a version, an address and a port; also says how many bytes that were.
pub fn decode_peer(bytes: &[u8]) -> Option<(SocketAddr, usize)> {
    let (version, rest) = bytes.split_first()?;
    let (ip, rest): (IpAddr, _) = match version {
        4 => rest
            .split_first_chunk::<4>()
            .map(|(ip, rest)| (Ipv4Addr::from(*ip).into(), rest))?,
        6 => rest
            .split_first_chunk::<16>()
            .map(|(ip, rest)| (Ipv6Addr::from(*ip).into(), rest))?,
        _ => return None,
    };

    let (port, rest) = rest.split_first_chunk::<2>()?;
    Some((
        SocketAddr::new(ip, u16::from_be_bytes(*port)),
        bytes.len() - rest.len(),
    ))
}

/// Appends a version, an address and a port.
pub fn encode_peer(peer: SocketAddr, output: &mut BytesMut) {
    match peer.ip() {
        IpAddr::V4(ip) => {
            output.put_u8(4);
            output.put_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            output.put_u8(6);
            output.put_slice(&ip.octets());
        }
    }
    output.put_u16(peer.port());
}
