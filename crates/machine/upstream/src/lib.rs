//! From "this exchange goes to that upstream, or to that target" to an open HTTP connection, stream or UDP address.
//!
//! An [`Upstream`] is a configured group of endpoints and their history; it is shared by all
//! workers. A [`Client`] belongs to one worker and keeps its connections: HTTP/1.1 connections that
//! wait for the next exchange, and HTTP/2 links that many exchanges share. [`Client::checkout`] and
//! [`Client::checkout_origin`] give a [`Checkout`], on which one exchange is opened;
//! [`Client::dial_tcp`] and [`Client::dial_udp`] serve tunnels that end here.
//!
//! [`Attached`] is the table of the nodes that opened the connections themselves, for exchanges that go the other way;
//! [`Client::attach`] is their side of it.
//!
//! The crate decides neither where an exchange goes nor whether a target is allowed (the caller's
//! `allow` does, on every address before it is dialled), and it sends no part of an exchange, so
//! after a failure nothing was processed.
//!
//! Specifications: RFC 9110 section 9.3.6 and RFC 9113 section 8.5 (CONNECT through another proxy), RFC 1928 (SOCKS5), RFC 7301 (ALPN),
//! RFC 8305 (racing of addresses), RFC 9209 (names of failures), draft-kazuho-ptth-ptth (attachments).
//!
//! Begin reading in `client.rs`, then `pool`: how an exchange gets a connection.

mod addresses;
mod answers;
mod attached;
mod balance;
mod budget;
mod check;
mod checkout;
mod choice;
mod client;
mod condition;
mod connect;
mod deaths;
mod dial;
mod directory;
mod ejector;
mod endpoint;
mod endpoint_attempts;
mod failure;
mod first_bytes;
mod hop;
mod limits;
mod link_policy;
mod link_use;
mod liveness;
mod nested;
mod nested_mtu;
mod news;
mod opened;
mod origin;
mod path_probe;
mod per_endpoint;
mod pinned;
mod pool;
mod prewarming;
mod quic;
mod reached;
mod recent;
mod redial;
mod request_fields;
mod ring;
mod security;
mod shares;
mod socks;
mod socks_hop;
mod status;
mod timeouts;
mod tls_files;
mod trial;
mod tunnel;
mod tunnel_io;
mod tunnel_sizes;
mod upstream;
mod via;
mod worker;
mod zones;

pub use answers::AnswerLimits;
pub use attached::{
    ATTACHMENT_KEEPALIVE, Attached, AttachmentView, Carried, Count, Detached, Full, Joined,
    NotJoined, Place, Rest,
};
pub use budget::{Allowance, Budget};
pub use check::Checks;
pub use checkout::Checkout;
pub use client::Client;
pub use dial::{Connecting, Dial, Dialled, UdpDialled, UdpPath};
pub use directory::Directory;
pub use endpoint::Active;
pub use failure::{ConnectFailure, FailureKind};
pub use first_bytes::FirstBytes;
pub use hop::HopStatus;
pub use link_policy::local_end;
pub use opened::Opened;
pub use origin::{Allow, Asking, Origin};
pub use path_probe::{PathReport, QuicAnswer, measure_path};
pub use pinned::{Own, Pinned};
pub use ring::Affinity;
pub use shares::Shares;
pub use status::{EndpointStatus, UpstreamStatus};
pub use timeouts::{Hop, OPENING, Timeouts};
pub use tls_files::{client_tls, server_problem, tls_source};
pub use trial::{Found, Question, Trial};
pub use tunnel_sizes::{BULK, TunnelSizes};
pub use upstream::Upstream;
