//! QUIC (RFC 9000, 9001, 9002, 9221), over the quinn crate.
//!
//! An [`Endpoint`] is one UDP socket that accepts and opens [`Connection`]s; a connection carries
//! streams and unreliable datagrams. TLS is that of TCP ([`crate::tls`]): the same files,
//! verification and names of the peer, with ALPN `h3`. Sockets of several workers can share a port:
//! see [`steering`].
//!
//! This module knows no HTTP. quinn's types are not used outside of this folder.

mod bbr;
mod cid;
mod coalescing_socket;
mod config;
mod congestion;
mod connection;
mod datagrams;
mod endpoint;
mod error;
mod flows;
mod handshakes;
mod incoming;
mod keys;
mod merged_packets;
mod nested_path;
mod path_stats;
mod qlog_units;
mod readers;
mod record;
mod recv;
mod refusals;
mod room;
mod send;
mod shared;
#[cfg(test)]
mod simulation;
pub mod steering;
mod transport;

pub use config::{ClientConfig, ServerOptions};
pub use congestion::Congestion;
pub use connection::{Connection, WeakConnection};
pub use datagrams::{DatagramCounts, SentDatagrams};
pub use endpoint::Endpoint;
pub use error::{ConnectionError, ReadError, Stopped, WriteError};
pub use handshakes::{HANDSHAKES, HANDSHAKES_OF_SOURCE, RETRY_ABOVE};
pub use incoming::Incoming;
pub use keys::Keys;
pub use nested_path::{Carrier, Socket};
pub use path_stats::PathStats;
pub use record::Record;
pub use recv::RecvStream;
pub use send::SendStream;
pub use transport::{DATAGRAMS_OUT, INITIAL_MTU, SMALLEST_MTU, Sizes};

/// The application protocol of HTTP/3 (RFC 9114 section 3.1).
pub const ALPN: &[u8] = b"h3";
