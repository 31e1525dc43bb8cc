//! What becomes of a packet, and why.

use bytes::Bytes;
use hermes_proto::ip::PacketError;

/// What becomes of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a packet that was rejected must not be forwarded"]
pub enum Verdict {
    /// It goes on.
    Pass,
    /// It goes no further.
    Reject {
        /// Why.
        reason: Rejection,
        /// An error for its sender, to be sent back to where the packet came from; none where there must be none, or too many were
        /// sent.
        error: Option<Bytes>,
    },
    /// It was for this end of the tunnel, which answers; the answer goes to where the packet came from.
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
    /// It is no packet, or one that may not be forwarded.
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
    /// It goes to another client, which was not allowed.
    #[error("it goes from one client to another")]
    ClientToClient,
    /// It is an error about a packet that cannot have gone the other way.
    #[error("it is an error about a packet that was not sent this way")]
    Quotation,
    /// A rule forbids it.
    #[error("a rule forbids it")]
    Policy,
    /// It is longer than what the tunnel carries.
    #[error("it has {length} bytes, above the {mtu} that the tunnel carries")]
    TooBig {
        /// Its length, in bytes.
        length: usize,
        /// The longest, in bytes.
        mtu: usize,
    },
    /// It has been on its way for too many hops.
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
