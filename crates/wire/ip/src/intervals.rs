//! Sets of addresses, by protocol, for a look-up with each packet.

use std::net::IpAddr;

use hermes_proto::ip::{ANY_PROTOCOL, ICMP, ICMPV6, IpRange};

/// Addresses of both families as intervals that are in order and apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Intervals {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl Intervals {
    fn of<'a>(ranges: impl Iterator<Item = &'a IpRange>) -> Self {
        let mut set = Self::default();
        for range in ranges {
            match (range.start(), range.end()) {
                (IpAddr::V4(start), IpAddr::V4(end)) => {
                    set.v4.push((start.to_bits(), end.to_bits()));
                }
                (IpAddr::V6(start), IpAddr::V6(end)) => {
                    set.v6.push((start.to_bits(), end.to_bits()));
                }
                _ => {}
            }
        }

        merge(&mut set.v4);
        merge(&mut set.v6);
        set
    }

    fn contains(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => holds(&self.v4, address.to_bits()),
            IpAddr::V6(address) => holds(&self.v6, address.to_bits()),
        }
    }

    fn has_family(&self, is_ipv4: bool) -> bool {
        match is_ipv4 {
            true => !self.v4.is_empty(),
            false => !self.v6.is_empty(),
        }
    }
}

fn merge<T: Ord + Copy>(intervals: &mut Vec<(T, T)>) {
    // Sorted by start, so an interval can only overlap the one that was kept last.
    intervals.sort_unstable();
    intervals.dedup_by(|later, earlier| {
        let overlaps = later.0 <= earlier.1;
        if overlaps {
            earlier.1 = earlier.1.max(later.1);
        }
        overlaps
    });
}

fn holds<T: Ord + Copy>(intervals: &[(T, T)], value: T) -> bool {
    // The intervals do not overlap: only the first that ends at or behind the value can hold it.
    let at = intervals.partition_point(|(_, end)| *end < value);
    intervals.get(at).is_some_and(|(start, _)| *start <= value)
}

/// Where packets may come from or go, by their protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AddressSet {
    /// For all protocols.
    any: Intervals,
    /// For one, in the order of their numbers.
    by_protocol: Vec<(u8, Intervals)>,
    /// Ranges for any protocol; ICMP may go there as well (RFC 9484, section 4.7.3).
    all: Intervals,
}

impl AddressSet {
    pub(crate) fn of(mut ranges: Vec<IpRange>) -> Self {
        ranges.sort_unstable_by_key(IpRange::protocol);
        let groups = ranges.chunk_by(|one, other| one.protocol() == other.protocol());
        let by_protocol = groups
            .filter(|group| group[0].protocol() != ANY_PROTOCOL)
            .map(|group| (group[0].protocol(), Intervals::of(group.iter())));
        let for_any = ranges
            .iter()
            .filter(|range| range.protocol() == ANY_PROTOCOL);

        Self {
            any: Intervals::of(for_any),
            by_protocol: by_protocol.collect(),
            all: Intervals::of(ranges.iter()),
        }
    }

    pub(crate) fn allows(&self, address: IpAddr, protocol: u8) -> bool {
        if self.any.contains(address) {
            return true;
        }
        // RFC 9484, 4.7.3: ICMP is allowed wherever any protocol is, or errors about the others could not come.
        if protocol == ICMP || protocol == ICMPV6 {
            return self.all.contains(address);
        }

        let found = self
            .by_protocol
            .binary_search_by_key(&protocol, |(protocol, _)| *protocol);
        found.is_ok_and(|at| self.by_protocol[at].1.contains(address))
    }

    /// Whether any address of a family is in it.
    pub(crate) fn has_family(&self, is_ipv4: bool) -> bool {
        self.all.has_family(is_ipv4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_what_their_ranges_are() {
        let range = |text: &str, protocol| IpRange::of(text.parse().unwrap(), protocol);
        let set = AddressSet::of(vec![
            range("10.0.0.0/8", 6),
            range("192.0.2.0/25", 0),
            range("192.0.2.64/26", 0),
            range("2001:db8::/32", 17),
        ]);
        let allows = |address: &str, protocol| set.allows(address.parse().unwrap(), protocol);
        assert!(allows("10.1.2.3", 6) && !allows("10.1.2.3", 17) && allows("10.1.2.3", ICMP));
        assert!(allows("192.0.2.127", 17) && !allows("192.0.2.128", 17));
        assert!(allows("2001:db8::1", 17) && !allows("2001:db8::1", 6));
        assert!(!allows("2001:db9::1", ICMPV6));
        assert!(set.has_family(true) && set.has_family(false));
        assert!(!AddressSet::default().has_family(true));
    }
}
