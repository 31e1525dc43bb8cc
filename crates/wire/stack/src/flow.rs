//! Names and events of flows.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hermes_proto::ip::{IcmpError, IpFlow};

use crate::EchoId;

/// A connection or a pair of UDP ports. IDs are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(crate) u64);

/// Both ends of a flow, as this side sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) protocol: u8,
    /// Where packets for us go: a target that is intercepted, or an address of our own.
    pub(crate) here: SocketAddr,
    /// Where they come from.
    pub(crate) there: SocketAddr,
}

impl Ends {
    /// The ends of a received packet.
    pub(crate) fn of(flow: IpFlow) -> Self {
        Self {
            protocol: flow.protocol,
            here: SocketAddr::new(flow.destination, flow.destination_port),
            there: SocketAddr::new(flow.source, flow.source_port),
        }
    }
}

/// The answer to a client whose target does not answer: as the client would see it without the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowRefusal {
    /// A reset, as from a port that nothing listens on.
    Reset,
    /// An error, as from a router on the way.
    Error(IcmpError),
    /// Nothing, as from a host that is not there.
    Silence,
}

/// An event of the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackEvent {
    /// A client wants a connection. It waits for an answer.
    TcpAsked {
        /// Its name from now on.
        flow: FlowId,
        /// The client.
        client: SocketAddr,
        /// The target.
        target: SocketAddr,
    },
    /// The first datagram from a client's port to a target; the datagram itself follows.
    UdpAsked {
        /// Its name from now on.
        flow: FlowId,
        /// The client.
        client: SocketAddr,
        /// The target.
        target: SocketAddr,
    },
    /// A datagram of UDP came.
    Datagram {
        /// On which flow.
        flow: FlowId,
        /// The payload.
        payload: Bytes,
    },
    /// A connection can be read or written further, is open, or is at an end. The event repeats
    /// only after a change.
    Progress {
        /// Which.
        flow: FlowId,
    },
    /// A flow is gone: no one accepted it in time, or it was silent for too long.
    Gone {
        /// Which.
        flow: FlowId,
    },
    /// An error ended a flow: its target cannot be reached. Errors about open connections are
    /// ignored.
    Unreachable {
        /// Which.
        flow: FlowId,
        /// Why.
        error: IcmpError,
    },
    /// A client asks a host for an echo.
    EchoAsked {
        /// Its name from now on.
        echo: EchoId,
        /// The host.
        target: IpAddr,
        /// The content that an answer is to return.
        content: Bytes,
    },
    /// A packet that is neither TCP nor UDP, nor answered here: it may go on as a packet.
    Other(Bytes),
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// This many bytes.
    Bytes(usize),
    /// Nothing at the moment.
    Nothing,
    /// The other side has sent everything.
    End,
    /// The connection broke, or is not known.
    Broken,
}
