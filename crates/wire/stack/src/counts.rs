//! Lost packets, by reason.

/// Packets that went no further, since the stack was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackCounts {
    /// Malformed packets, or with addresses and ports that no host can have.
    pub malformed: u64,
    /// Checksums of TCP, UDP or ICMP were wrong.
    pub damaged: u64,
    /// Fragments, and IPv6 packets with extension headers.
    pub unsupported: u64,
    /// A table or a queue was full.
    pub full: u64,
    /// Of connections that are not known.
    pub unknown: u64,
}
