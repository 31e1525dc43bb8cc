//! IP packets: their headers, and a router's changes to them.
//!
//! [`Packet`] reads a packet once and within bounds; rules and tables look at nothing else. The
//! rest is for forwarding: [hop limits](decrement_hop_limit), [checksums](checksum),
//! [errors](IcmpError) for the sender, and the [segment size](clamp_mss) of TCP where the path is
//! narrower than its ends assume.
//!
//! Fragments are not reassembled: a later fragment has no known port.

pub mod checksum;

mod extensions;
#[cfg(test)]
mod fuzz;
mod hop_limit;
mod icmp;
mod icmp_limiter;
mod icmp_report;
mod mss;
mod packet;
mod prefix;
mod range;
mod rewrite;
#[cfg(test)]
mod sample;

#[cfg(test)]
pub(crate) use fuzz::fuzz_one;
pub use hop_limit::{HopLimitExceeded, decrement_hop_limit};
pub use icmp::{DUMMY_ROUTER_V4, IcmpError};
pub use icmp_limiter::{ICMP_BURST, ICMP_PER_SECOND, IcmpLimiter};
pub use icmp_report::{IcmpReport, quoted_flow};
pub use mss::clamp_mss;
pub use packet::{Fragment, IpFlow, Packet, PacketError};
pub use prefix::{IpPrefix, PrefixError};
pub use range::{ANY_PROTOCOL, ICMP, ICMPV6, IpRange, RangeError};
pub use rewrite::{AddressField, rewrite_address, rewrite_quoted};

/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// The least MTU of a link that carries IPv6, in bytes (RFC 8200, section 5).
pub const MIN_MTU_V6: usize = 1280;
/// The least MTU of a link that carries IPv4, in bytes (RFC 791, section 3.2).
pub const MIN_MTU_V4: usize = 68;
