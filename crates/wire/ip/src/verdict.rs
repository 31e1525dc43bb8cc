//! The fate of a packet, and its reason.

use bytes::Bytes;
use hermes_proto::ip::PacketError;

/// The fate of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a packet that was rejected must not be forwarded"]
pub enum Verdict {
    /// The packet goes on.
    Pass,
    /// The packet is dropped.
    Reject {
        /// Why.
        reason: Rejection,
        /// An error to send back to where the packet came from; `None` where it is not allowed, or
        /// too many were sent.
        error: Option<Bytes>,
    },
    /// The packet was for this end of the tunnel; this answer goes back to where it came from.
    Answer(Bytes),
}

impl Verdict {
    /// Whether the packet goes on.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Pass)
    }
}

/// Why a packet goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Not a packet, or one that may not be forwarded.
    #[error(transparent)]
    Malformed(#[from] PacketError),
    /// Its addresses mean something on one link only, or to many hosts.
    #[error("its addresses are of one link, of one host, or of many hosts")]
    NotForwarded,
    /// The side it comes from may not send from its source.
    #[error("its source was not assigned to the side that it comes from")]
    Source,
    /// The side it goes to has no such destination.
    #[error("its destination is not routed to the side that it goes to")]
    Destination,
    /// The tunnel is for other targets or another protocol.
    #[error("the tunnel was asked for with another target or protocol")]
    Scope,
    /// The packet would go to another client, which is not allowed.
    #[error("it goes from one client to another")]
    ClientToClient,
    /// The packet is an error about one that cannot have gone the other way.
    #[error("it is an error about a packet that was not sent this way")]
    Quotation,
    /// A rule forbids it.
    #[error("a rule forbids it")]
    Policy,
    /// The packet is longer than the MTU of the tunnel.
    #[error("it has {length} bytes, above the tunnel's {mtu}")]
    TooBig {
        /// Its length, in bytes.
        length: usize,
        /// The longest, in bytes.
        mtu: usize,
    },
    /// The packet has passed too many hops.
    #[error("its hop limit is exceeded")]
    HopLimit,
}

impl Rejection {
    /// A name for counters, in lower case.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::NotForwarded => "not_forwarded",
            Self::Source => "source",
            Self::Destination => "destination",
            Self::Scope => "scope",
            Self::ClientToClient => "client_to_client",
            Self::Quotation => "quotation",
            Self::Policy => "policy",
            Self::TooBig { .. } => "too_big",
            Self::HopLimit => "hop_limit",
        }
    }
}
