//! CONNECT-UDP Bind (draft-ietf-masque-connect-udp-listen): one request, many peers, as the proxy sees it.
//!
//! A client registers contexts by capsules: compressed ones, each for one peer, and one
//! uncompressed, whose datagrams name their peer. [`Contexts`] interprets capsules and datagrams;
//! it holds no socket and takes no decision about addresses.

mod capsules;

use std::collections::HashMap;
use std::net::SocketAddr;

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderName;

pub use capsules::{ACK, ASSIGN, Assign, BindError, CLOSE, decode_peer, encode_peer};

use crate::datagram::{MAX_UDP_PAYLOAD, UDP_CONTEXT, UdpDatagram};
use crate::fields::Fields;
use crate::varint;

/// `Connect-UDP-Bind`, in requests and in their answers.
pub const CONNECT_UDP_BIND: HeaderName = HeaderName::from_static("connect-udp-bind");

/// `Proxy-Public-Address`, in answers.
pub const PROXY_PUBLIC_ADDRESS: HeaderName = HeaderName::from_static("proxy-public-address");

/// Contexts open at once in a session: a call with some hundred peers has as many.
#[doc(alias = "bound")]
pub const MAX_CONTEXTS: usize = 256;

/// The longest value of a capsule of this extension, in bytes: a context ID, a version, an address and a port.
#[doc(alias = "bound")]
pub const MAX_CAPSULE: usize = varint::MAX_SIZE + 1 + 16 + 2;

/// Whether the fields ask for, or agree to, a bound socket: one line, a true Boolean (RFC 8941,
/// section 3.3.6); its parameters are ignored.
pub fn is_asked_for(fields: &Fields) -> bool {
    let mut lines = fields.values(CONNECT_UDP_BIND);
    let (Some(only), None) = (lines.next(), lines.next()) else {
        return false;
    };

    let value = only.as_bytes().trim_ascii();
    value
        .strip_prefix(b"?1")
        .is_some_and(|rest| rest.is_empty() || (rest[0] == b';' && !rest.contains(&b',')))
}

/// The meaning of a client's datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outbound {
    /// A payload for this peer.
    To(SocketAddr, Bytes),
    /// The context is not open, or the payload does not fit it: dropped.
    Dropped,
}

/// The contexts of one session.
#[derive(Debug, Default)]
pub struct Contexts {
    /// The peer of each; `None` is the uncompressed one.
    open: HashMap<u64, Option<SocketAddr>>,
    by_peer: HashMap<SocketAddr, u64>,
    uncompressed: Option<u64>,
}

impl Contexts {
    /// Takes a capsule of any type, and returns the capsule that answers it. `allows` decides
    /// whether the client may send to a peer.
    ///
    /// # Errors
    /// The capsule is malformed: abort the stream.
    pub fn handle_capsule(
        &mut self,
        kind: u64,
        value: &[u8],
        allows: impl FnOnce(SocketAddr) -> bool,
    ) -> Result<Option<Bytes>, BindError> {
        match kind {
            ASSIGN => self.assign(Assign::decode(value)?, allows).map(Some),
            CLOSE => {
                self.close(capsules::decode_id(value)?);
                Ok(None)
            }
            // We register no contexts of our own, so there is nothing to agree to.
            ACK => Err(BindError::Unasked),
            _ => Ok(None),
        }
    }

    fn assign(
        &mut self,
        assign: Assign,
        allows: impl FnOnce(SocketAddr) -> bool,
    ) -> Result<Bytes, BindError> {
        let Assign { context, peer } = assign;
        // RFC 9298, 4: clients allocate even context IDs, proxies odd ones; 0 is for UDP payloads.
        if context == UDP_CONTEXT || context % 2 == 1 {
            return Err(BindError::NotTheirs(context));
        }

        let again = match peer {
            Some(peer) => self.by_peer.contains_key(&peer),
            None => self.uncompressed.is_some(),
        };

        if again || self.open.contains_key(&context) {
            return Err(BindError::Again(context));
        }

        // An IPv4 address in disguise is one: written so, it would have two contexts.
        let plain = |peer: SocketAddr| peer.port() != 0 && peer.ip().to_canonical() == peer.ip();
        if self.open.len() >= MAX_CONTEXTS || peer.is_some_and(|peer| !plain(peer) || !allows(peer))
        {
            return Ok(capsules::encode_id(CLOSE, context));
        }

        self.open.insert(context, peer);
        match peer {
            Some(peer) => drop(self.by_peer.insert(peer, context)),
            None => self.uncompressed = Some(context),
        }

        Ok(capsules::encode_id(ACK, context))
    }

    /// Forgets a context; one that is not open any more is no error.
    fn close(&mut self, context: u64) {
        match self.open.remove(&context) {
            Some(Some(peer)) => drop(self.by_peer.remove(&peer)),
            Some(None) => self.uncompressed = None,
            None => {}
        }
    }

    /// Interprets a datagram of the client.
    ///
    /// # Errors
    /// The datagram has no context, or context 0, which means nothing without a target: abort the
    /// stream.
    pub fn outbound(&self, datagram: Bytes) -> Result<Outbound, BindError> {
        let UdpDatagram { context, payload } = UdpDatagram::decode(datagram)?;
        if context == UDP_CONTEXT {
            return Err(BindError::ContextZero);
        }

        let found = match self.open.get(&context) {
            Some(Some(peer)) => Some((*peer, payload)),
            Some(None) => decode_peer(&payload).map(|(peer, used)| (peer, payload.slice(used..))),
            None => None,
        };

        let found =
            found.filter(|(peer, payload)| peer.port() != 0 && payload.len() <= MAX_UDP_PAYLOAD);
        Ok(found.map_or(Outbound::Dropped, |(peer, payload)| {
            Outbound::To(peer, payload)
        }))
    }

    /// The datagram that carries a payload of `peer` to the client; `None` if it wants no payloads
    /// from there.
    pub fn inbound(&self, peer: SocketAddr, payload: &[u8]) -> Option<Bytes> {
        let compressed = self.by_peer.get(&peer).copied();
        let context = compressed.or(self.uncompressed)?;
        let mut datagram = BytesMut::with_capacity(MAX_CAPSULE + payload.len());
        varint::encode(context, &mut datagram);

        if compressed.is_none() {
            encode_peer(peer, &mut datagram);
        }
        datagram.put_slice(payload);
        Some(datagram.freeze())
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether no context is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Feeds arbitrary capsules and datagrams: contexts stay within their bound, there is one of each
/// kind for a peer, and a payload to a peer also comes back from it.
#[cfg(test)]
pub(crate) fn fuzz_one(data: &[u8]) {
    let mut contexts = Contexts::default();
    let mut rest = data;
    while let [kind, length, more @ ..] = rest {
        let (value, after) = more.split_at(usize::from(*length).min(more.len()));
        rest = after;
        if *kind == 0 {
            let Ok(Outbound::To(peer, payload)) = contexts.outbound(Bytes::copy_from_slice(value))
            else {
                continue;
            };

            let Some(back) = contexts.inbound(peer, &payload) else {
                panic!("who is written to may answer")
            };
            assert_eq!(contexts.outbound(back), Ok(Outbound::To(peer, payload)));
        } else if let Ok(Some(answer)) =
            contexts.handle_capsule(u64::from(*kind), value, |peer| peer.port() != 25)
        {
            assert!(answer.len() <= MAX_CAPSULE + 2);
        }
        assert!(contexts.len() <= MAX_CONTEXTS);
        assert_eq!(
            contexts.len(),
            contexts.by_peer.len() + usize::from(contexts.uncompressed.is_some())
        );
    }
}

#[cfg(test)]
mod tests;
