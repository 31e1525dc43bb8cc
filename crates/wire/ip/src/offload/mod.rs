//! Super-packets: many segments of one flow with one set of headers, as devices with offloads give and take them.
//!
//! A TUN device with `IFF_VNET_HDR` passes packets longer than its MTU, with a header that says how they are to be cut and which
//! checksum is missing. Between two nodes that [agreed](agreement), they travel whole, in a capsule and a context of their own:
//!
//! ```text
//! Capsule {
//!   Type (varint) = 0x2d7c51b0, Length (varint),
//!   [Context ID (i),
//!    [Flags (8), Kind (8), Header Length (16), Segment Size (16), Checksum Start (16), Checksum Offset (16),
//!     IP Packet (..)]],
//! }
//! ```
//!
//! The fields are those of `virtio_net_hdr` (OASIS VIRTIO 1.2, section 5.1.6), in network byte
//! order. A capsule with a context alone says that its sender takes super-packets there, and an
//! empty one that it takes no more. Super-packets are not sent in DATAGRAM capsules, because
//! proxies may make QUIC datagrams of those (RFC 9297, section 3.5), which are too small; they pass
//! on capsules of unknown types unchanged.
//!
//! A peer's super-packet is [checked](OffloadHeader::check) before a device sees it. All others get
//! plain packets: [`segment`] makes them, with complete checksums, and [`Coalescer`] makes
//! super-packets of received ones.

pub mod agreement;

mod capsule;
mod check;
mod coalesce;
#[cfg(test)]
mod fuzz;
mod header;
mod headers;
mod open;
mod segment;

pub use capsule::{SuperCapsule, cut_super};
pub use check::{MAX_TCP_SEGMENTS, MAX_UDP_SEGMENTS, OffloadError, Offloaded};
pub use coalesce::{Coalescer, MAX_OPEN};
#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use header::{HEADER_BYTES, MAX_OFFLOADED, OffloadHeader, OffloadKind};
pub use segment::{complete_checksum, segment};
