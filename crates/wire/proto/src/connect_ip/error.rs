//! Why a stream of CONNECT-IP must be aborted.

use crate::ip::{IpRange, PrefixError, RangeError};

use super::{MAX_ADDRESSES, MAX_RANGES};

/// A capsule is malformed (RFC 9484, section 4.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConnectIpError {
    /// The value ends within an entry.
    #[error("a capsule ends within an entry")]
    Truncated,
    /// An entry is neither of IPv4 nor of IPv6.
    #[error("an entry is of IP version {0}, which is neither 4 nor 6")]
    Version(u8),
    /// An entry names no prefix.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// An entry names no range.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// A request has ID 0, which stands for no request.
    #[error("an address is requested with ID 0, which stands for no request")]
    IdZero,
    /// A request ID is used again.
    #[error("request ID {0} is used twice")]
    IdTwice(u64),
    /// A request for nothing.
    #[error("a request names no address")]
    Empty,
    /// Ranges are not in the order that rules out overlaps.
    #[error("{second} is advertised after {first}, which is out of order or overlaps it")]
    Order {
        /// The range that came first.
        first: IpRange,
        /// The one that had to come before it, or overlaps it.
        second: IpRange,
    },
    /// A range for all protocols overlaps one for a single protocol.
    #[error("{first} is for all protocols and overlaps {second}")]
    Overlap {
        /// The range for all protocols.
        first: IpRange,
        /// The range for one.
        second: IpRange,
    },
    /// More addresses than this side takes.
    #[error("a capsule has more than {MAX_ADDRESSES} addresses")]
    TooManyAddresses,
    /// More ranges than this side takes.
    #[error("a capsule has more than {MAX_RANGES} ranges")]
    TooManyRanges,
}
