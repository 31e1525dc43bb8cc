//! Ranges of addresses, as routes are advertised.

use std::fmt;
use std::net::IpAddr;

use super::prefix::{IpPrefix, bits};

/// IP protocol numbers of ICMP, which are allowed in every range (RFC 9484, section 4.7.3).
pub const ICMP: u8 = 1;
/// ICMP for IPv6.
pub const ICMPV6: u8 = 58;

/// Stands for all protocols (RFC 9484, section 4.7.3).
pub const ANY_PROTOCOL: u8 = 0;

/// Addresses from one to another, both included, and the IP protocol that may go there; 0 for all.
///
/// In the order of RFC 9484, section 4.7.3: by version, protocol and address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpRange {
    start: IpAddr,
    end: IpAddr,
    protocol: u8,
}

/// Why something is no range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a range from {start} to {end} is not valid")]
pub struct RangeError {
    /// Where it is said to start.
    pub start: IpAddr,
    /// Where it is said to end.
    pub end: IpAddr,
}

impl IpRange {
    /// The addresses from `start` to `end`, both included.
    ///
    /// # Errors
    /// [`RangeError`]: one is of IPv4 and the other of IPv6, or the end comes first.
    pub fn new(start: IpAddr, end: IpAddr, protocol: u8) -> Result<Self, RangeError> {
        if start.is_ipv4() != end.is_ipv4() || start > end {
            return Err(RangeError { start, end });
        }

        Ok(Self {
            start,
            end,
            protocol,
        })
    }

    /// The addresses of a prefix.
    pub fn of(prefix: IpPrefix, protocol: u8) -> Self {
        Self {
            start: prefix.address(),
            end: prefix.last(),
            protocol,
        }
    }

    /// Its first address.
    pub fn start(&self) -> IpAddr {
        self.start
    }

    /// Its last address.
    pub fn end(&self) -> IpAddr {
        self.end
    }

    /// The IP protocol; 0 for all.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Whether it is of IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.start.is_ipv4()
    }

    /// Whether the address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        // Addresses of IPv4 come before those of IPv6, so that this compares families, too.
        self.start <= address && address <= self.end
    }

    /// Whether packets of this protocol may go there.
    pub fn takes(&self, protocol: u8) -> bool {
        self.protocol == ANY_PROTOCOL
            || self.protocol == protocol
            || protocol == ICMP
            || protocol == ICMPV6
    }

    /// Whether an address is in both, regardless of their protocols.
    pub fn meets(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// The part of it that lies in another, for its own protocol.
    pub fn shared(&self, other: &Self) -> Option<Self> {
        let start = self.start.max(other.start);
        let end = self.end.min(other.end);
        // Of ranges that are apart, or of two families, it would end before it starts.
        Self::new(start, end, self.protocol).ok()
    }

    /// The union of this and a later range, if they touch or overlap and are for the same protocol.
    pub fn joined(&self, later: &Self) -> Option<Self> {
        let same = self.is_ipv4() == later.is_ipv4() && self.protocol == later.protocol;
        let touches = next(self.end).is_none_or(|next| later.start <= next);
        (same && touches).then(|| Self {
            start: self.start.min(later.start),
            end: self.end.max(later.end),
            protocol: self.protocol,
        })
    }

    /// The part of it that comes before an address.
    pub fn before(&self, address: IpAddr) -> Option<Self> {
        let end = previous(address)?.min(self.end);
        Self::new(self.start, end, self.protocol).ok()
    }

    /// The part of it that comes after an address.
    pub fn after(&self, address: IpAddr) -> Option<Self> {
        let start = next(address)?.max(self.start);
        Self::new(start, self.end, self.protocol).ok()
    }

    /// The fewest prefixes that together are the range, in order: at most two for each bit of an address.
    pub fn prefixes(&self) -> impl Iterator<Item = IpPrefix> {
        let end = number(self.end);
        let size = u32::from(bits(self.start));
        let is_ipv4 = self.is_ipv4();
        let mut next = Some(number(self.start));

        std::iter::from_fn(move || {
            let start = next?;
            // As wide as the alignment of the start, and no wider than the rest.
            let aligned = start.trailing_zeros().min(size);
            let left = (end - start).checked_add(1).map_or(size, u128::ilog2);
            let wide = aligned.min(left);

            let last = start + (1_u128.checked_shl(wide).unwrap_or(0).wrapping_sub(1));
            next = last.checked_add(1).filter(|_| last < end);
            IpPrefix::new(address(start, is_ipv4), (size - wide) as u8).ok()
        })
    }

    /// The key of the order in RFC 9484.
    fn order(&self) -> (bool, u8, IpAddr, IpAddr) {
        (!self.is_ipv4(), self.protocol, self.start, self.end)
    }
}

/// The address that follows in its family.
fn next(after: IpAddr) -> Option<IpAddr> {
    match after {
        IpAddr::V4(after) => after
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(after) => after
            .to_bits()
            .checked_add(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}

/// The address that comes before in its family.
fn previous(before: IpAddr) -> Option<IpAddr> {
    match before {
        IpAddr::V4(before) => before
            .to_bits()
            .checked_sub(1)
            .map(|bits| IpAddr::V4(bits.into())),
        IpAddr::V6(before) => before
            .to_bits()
            .checked_sub(1)
            .map(|bits| IpAddr::V6(bits.into())),
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn address(number: u128, is_ipv4: bool) -> IpAddr {
    match is_ipv4 {
        true => IpAddr::V4((number as u32).into()),
        false => IpAddr::V6(number.into()),
    }
}

impl Ord for IpRange {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for IpRange {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.start, self.end)?;
        match self.protocol {
            ANY_PROTOCOL => Ok(()),
            protocol => write!(f, " of protocol {protocol}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: &str, end: &str) -> IpRange {
        IpRange::new(start.parse().unwrap(), end.parse().unwrap(), 0).unwrap()
    }

    fn written(range: IpRange) -> Vec<String> {
        range.prefixes().map(|prefix| prefix.to_string()).collect()
    }

    #[test]
    fn a_range_is_the_fewest_prefixes() {
        assert_eq!(written(range("0.0.0.0", "255.255.255.255")), ["0.0.0.0/0"]);
        assert_eq!(written(IpRange::of(IpPrefix::ALL_V6, 0)), ["::/0"]);
        assert_eq!(
            written(range("10.0.0.1", "10.0.0.6")),
            ["10.0.0.1/32", "10.0.0.2/31", "10.0.0.4/31", "10.0.0.6/32"]
        );
        assert_eq!(
            written(range("255.255.255.255", "255.255.255.255")).len(),
            1
        );
        assert_eq!(
            written(range("::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe")).len(),
            254
        );
    }

    #[test]
    fn icmp_goes_into_every_range() {
        let udp = IpRange::of("192.0.2.0/24".parse().unwrap(), 17);
        assert!(udp.takes(17) && udp.takes(ICMP) && udp.takes(ICMPV6) && !udp.takes(6));
    }

    #[test]
    fn a_range_that_is_none_is_refused() {
        let [low, high] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        assert!(IpRange::new(high, low, 0).is_err());
        assert!(IpRange::new(low, "::1".parse().unwrap(), 0).is_err());
    }

    proptest! {
        #[test]
        fn its_prefixes_are_the_range(one: u32, other: u32, probe: u32) {
            let [start, end] = [one.min(other), one.max(other)].map(|bits| IpAddr::V4(bits.into()));
            let range = IpRange::new(start, end, 0).unwrap();
            let prefixes: Vec<_> = range.prefixes().collect();
            prop_assert_eq!(prefixes[0].address(), start);
            prop_assert_eq!(prefixes[prefixes.len() - 1].last(), end);
            prop_assert!(prefixes.is_sorted());
            for probe in [probe, one, other].map(|bits| IpAddr::V4(bits.into())) {
                let holders = prefixes.iter().filter(|prefix| prefix.contains(probe)).count();
                prop_assert_eq!(holders, usize::from(range.contains(probe)));
            }
        }
    }
}
