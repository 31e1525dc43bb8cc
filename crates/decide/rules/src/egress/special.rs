//! Addresses that are not for the public, and addresses that hold another address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermes_proto::host::embedded;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// A prefix that is denied by default, and its name.
pub(super) struct Special {
    pub(super) net: IpNet,
    pub(super) what: &'static str,
}

const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8, what: &'static str) -> Special {
    Special {
        net: IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length)),
        what,
    }
}

const fn v6(head: [u16; 3], last: u16, length: u8, what: &'static str) -> Special {
    let address = Ipv6Addr::new(head[0], head[1], head[2], 0, 0, 0, 0, last);
    Special {
        net: IpNet::V6(Ipv6Net::new_assert(address, length)),
        what,
    }
}

/// Addresses that a request may not choose unless the operator allows it (RFC 6890 and its
/// registries), the most specific reasons first.
pub(super) const SPECIAL: [Special; 30] = [
    v4(127, 0, 0, 0, 8, "loopback"),
    v4(0, 0, 0, 0, 8, "unspecified"),
    v4(169, 254, 169, 254, 32, "cloud metadata"),
    v4(169, 254, 0, 0, 16, "link-local"),
    v4(10, 0, 0, 0, 8, "private"),
    v4(172, 16, 0, 0, 12, "private"),
    v4(192, 168, 0, 0, 16, "private"),
    v4(100, 64, 0, 0, 10, "shared (carrier-grade NAT)"),
    v4(198, 18, 0, 0, 15, "benchmarking"),
    v4(192, 0, 2, 0, 24, "documentation"),
    v4(198, 51, 100, 0, 24, "documentation"),
    v4(203, 0, 113, 0, 24, "documentation"),
    v4(192, 0, 0, 0, 24, "protocol assignments"),
    v4(224, 0, 0, 0, 4, "multicast"),
    v4(255, 255, 255, 255, 32, "broadcast"),
    v4(240, 0, 0, 0, 4, "reserved"),
    v6([0, 0, 0], 1, 128, "loopback"),
    v6([0, 0, 0], 0, 128, "unspecified"),
    v6([0xfd00, 0xec2, 0], 0x254, 128, "cloud metadata"),
    v6([0xfe80, 0, 0], 0, 10, "link-local"),
    v6([0xfec0, 0, 0], 0, 10, "site-local"),
    v6([0xfc00, 0, 0], 0, 7, "private"),
    v6([0x2001, 0xdb8, 0], 0, 32, "documentation"),
    v6([0x3fff, 0, 0], 0, 20, "documentation"),
    v6([0x2001, 2, 0], 0, 48, "benchmarking"),
    v6([0x100, 0, 0], 0, 64, "discard-only"),
    v6([0x64, 0xff9b, 1], 0, 48, "local translation"),
    v6([0x5f00, 0, 0], 0, 16, "segment routing"),
    v6([0x2001, 0x10, 0], 0, 27, "identifier (ORCHID)"),
    v6([0xff00, 0, 0], 0, 8, "multicast"),
];

/// The addresses by which an address is judged: those that it [holds](embedded), or itself.
pub(super) fn judged(address: IpAddr) -> [Option<IpAddr>; 2] {
    match embedded(address) {
        [None, None] => [Some(address), None],
        inner => inner.map(|inner| inner.map(IpAddr::V4)),
    }
}
