//! What flows are called, and what is said about them.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use hermes_proto::ip::{IcmpError, IpFlow};

use crate::EchoId;

/// A connection or a pair of UDP ports. It is never another's.
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
    /// Those of a packet that came.
    pub(crate) fn of(flow: IpFlow) -> Self {
        Self {
            protocol: flow.protocol,
            here: SocketAddr::new(flow.destination, flow.destination_port),
            there: SocketAddr::new(flow.source, flow.source_port),
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StackEvent {
    /// A client wants a connection. It waits for an answer.
    TcpAsked {
        /// Its name from now on.
        flow: FlowId,
        /// Who asks.
        client: SocketAddr,
        /// For what.
        target: SocketAddr,
    },
    /// The first datagram from a client's port to a target; the datagram itself follows.
    UdpAsked {
        /// Its name from now on.
        flow: FlowId,
        /// Who asks.
        client: SocketAddr,
        /// For what.
        target: SocketAddr,
    },
    /// A datagram of UDP came.
    Datagram {
        /// On which flow.
        flow: FlowId,
        /// What it carries.
        payload: Bytes,
    },
    /// A connection can be read or written further, is open, or is at an end. It is said again only after something has changed.
    Progress {
        /// Which.
        flow: FlowId,
    },
    /// A flow is gone: no one accepted it in time, or it was silent for too long.
    Gone {
        /// Which.
        flow: FlowId,
    },
    /// An error came about a flow: it leads nowhere, and is gone. What is said of a connection that is open is not believed.
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
        /// What is to come back.
        content: Bytes,
    },
    /// A packet that is neither TCP nor UDP, nor answered here: it may go on as a packet.
    Other(Bytes),
}

/// What a connection has to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing any more: the other side has said all.
    End,
    /// Nothing any more: the connection broke, or is not known.
    Broken,
}
