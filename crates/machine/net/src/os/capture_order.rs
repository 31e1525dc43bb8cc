//! Traffic of others that is to be led to sockets of this process, in the kernel's terms.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use ipnet::IpNet;

/// The common part of the marks of captured packets, by which a routing rule leads them to this machine, and its bits.
pub(crate) const CAPTURE_MARK: (u32, u32) = (0x4a00_0000, 0xff00_0000);

/// The bits of the mark of one listener's packets: the common part, and its number. The others say what becomes of a packet.
pub(crate) const LISTENER_BITS: u32 = 0xffff_ff00;

/// Numbers of protocols above IP.
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Traffic that is captured, and the ports of the sockets that take it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureOrder {
    /// The name of the listener.
    pub name: String,
    /// Its number, by which packets of several listeners are told apart.
    pub number: u16,
    /// Interfaces by which the traffic of other machines comes.
    pub interfaces: Vec<String>,
    /// Users of this machine, from one number to another.
    pub users: Vec<(u32, u32)>,
    /// The mark of sockets of control groups of this machine, where there are any.
    pub group_mark: Option<u32>,
    /// Destinations that are not captured.
    pub except: Vec<IpNet>,
    /// The ports of the sockets for connections: one, or one for each worker where beginnings are held.
    pub tcp: Vec<u16>,
    /// The port of the socket for datagrams.
    pub udp: Option<u16>,
    /// Ports that are refused.
    pub refused: RefusedPorts,
    /// The address of a listener of this machine, whose connections alone are taken: before they begin.
    pub own: Option<SocketAddr>,
    /// Whether the traffic stays captured, and is dropped, when this process dies.
    pub stays: bool,
    /// Where the beginnings of connections are held.
    pub held: Option<SynQueues>,
}

/// Ports whose traffic is refused, so that programs use another protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedPorts {
    /// Those of UDP: datagrams are answered by ICMP.
    pub udp: Vec<u16>,
    /// Those of TCP: connections are reset.
    pub tcp: Vec<u16>,
}

/// Queues of netfilter that hold beginnings of connections, one for each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SynQueues {
    /// The number of the first; the others follow.
    pub first: u16,
    /// How many there are.
    pub count: u16,
}

/// The fate of a connection whose beginning was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynFate {
    /// This worker's socket takes it.
    Taken(u8),
    /// It is reset.
    Refused,
    /// ICMP says that the host does not answer.
    NoHost,
    /// ICMP says that no way leads to the network.
    NoRoute,
    /// ICMP says that it is forbidden.
    Prohibited,
    /// Nothing is said.
    Silence,
}

impl SynFate {
    /// Those that a rule of the kernel carries out.
    pub(crate) const ANSWERS: [Self; 4] =
        [Self::Refused, Self::NoHost, Self::NoRoute, Self::Prohibited];

    /// The first number of workers.
    const WORKERS: u8 = 0x10;

    /// The most workers that can be told apart.
    pub(crate) const MOST_WORKERS: usize = (u8::MAX - Self::WORKERS) as usize;

    /// The last byte of the mark of its packet, which says the fate; `None` of a packet that is dropped.
    pub(crate) fn code(self) -> Option<u32> {
        match self {
            Self::Taken(worker) => Some(u32::from(Self::WORKERS.saturating_add(worker))),
            Self::Refused => Some(1),
            Self::NoHost => Some(2),
            Self::NoRoute => Some(3),
            Self::Prohibited => Some(4),
            Self::Silence => None,
        }
    }
}

impl CaptureOrder {
    /// The mark of its packets.
    pub(crate) fn mark(&self) -> u32 {
        CAPTURE_MARK.0 | (u32::from(self.number) << 8)
    }

    /// Whether traffic goes its ordinary way when the process stands still: a held beginning would wait for it.
    pub(crate) fn is_watched(&self) -> bool {
        self.held.is_some() && !self.stays
    }
}

/// Rules that lead traffic of others to sockets of this process, until this is dropped.
#[derive(Debug)]
pub struct CaptureRules {
    /// The socket owns the rules.
    pub(super) socket: OwnedFd,
    pub(super) table: String,
    pub(super) is_watched: bool,
}

/// Leads packets of connections that were captured to their sockets, until this is dropped, also when no new ones are captured.
#[derive(Debug)]
pub struct CapturedFlowRules {
    /// The socket owns the rules.
    pub(super) _socket: OwnedFd,
}

/// A datagram that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DestinedDatagram {
    /// Its length.
    pub length: usize,
    /// The sender.
    pub source: SocketAddr,
    /// The address that it was sent to.
    pub destination: SocketAddr,
}
