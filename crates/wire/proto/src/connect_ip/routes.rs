//! ROUTE_ADVERTISEMENT (RFC 9484, section 4.7.3).

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};

use super::{ConnectIpError, MAX_RANGES, wire};
use crate::ip::{ANY_PROTOCOL, IpRange};

/// All that is routed: in order, and without overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RouteAdvertisement {
    ranges: Vec<IpRange>,
}

impl RouteAdvertisement {
    /// Ranges in the order that the specification asks for.
    ///
    /// # Errors
    /// [`ConnectIpError`]: they are not, overlap, or are too many.
    pub fn new(ranges: Vec<IpRange>) -> Result<Self, ConnectIpError> {
        if ranges.len() > MAX_RANGES {
            return Err(ConnectIpError::TooManyRanges);
        }
        for pair in ranges.windows(2) {
            check_order(pair[0], pair[1])?;
        }

        let routes = Self { ranges };
        routes.check_overlap()?;
        Ok(routes)
    }

    /// Puts any ranges into order: those that touch or overlap become one, and a range for one
    /// protocol is dropped where one for all protocols covers it.
    ///
    /// # Errors
    /// [`ConnectIpError::TooManyRanges`].
    pub fn of(mut ranges: Vec<IpRange>) -> Result<Self, ConnectIpError> {
        ranges.sort_unstable();
        let merged = merged(ranges);

        let all: Vec<_> = for_all(&merged).copied().collect();
        let (mut kept, single): (Vec<_>, Vec<_>) = merged
            .into_iter()
            .partition(|range| range.protocol() == ANY_PROTOCOL);
        for range in single {
            kept.extend(without(range, &all));
        }

        kept.sort_unstable();
        Self::new(kept)
    }

    /// Reads the value of the capsule.
    ///
    /// # Errors
    /// [`ConnectIpError`].
    pub fn decode(mut rest: &[u8]) -> Result<Self, ConnectIpError> {
        let mut ranges = Vec::new();
        while !rest.is_empty() {
            if ranges.len() == MAX_RANGES {
                return Err(ConnectIpError::TooManyRanges);
            }
            let version = wire::take_byte(&mut rest)?;
            let start = wire::take_address(version, &mut rest)?;
            let end = wire::take_address(version, &mut rest)?;
            let protocol = wire::take_byte(&mut rest)?;
            ranges.push(IpRange::new(start, end, protocol)?);
        }

        Self::new(ranges)
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[IpRange] {
        &self.ranges
    }

    /// Whether packets of this protocol may be sent to the address. ICMP may go wherever anything may.
    pub fn allows(&self, destination: IpAddr, protocol: u8) -> bool {
        self.ranges
            .iter()
            .any(|range| range.contains(destination) && range.takes(protocol))
    }

    pub(super) fn encode_value(&self, output: &mut BytesMut) {
        for range in &self.ranges {
            output.put_u8(wire::version(range.start()));
            wire::put_address(range.start(), output);
            wire::put_address(range.end(), output);
            output.put_u8(range.protocol());
        }
    }

    /// A range for one protocol may not overlap one for all: who sends that must not, who sees it must abort.
    fn check_overlap(&self) -> Result<(), ConnectIpError> {
        let all: Vec<_> = for_all(&self.ranges).collect();
        let single = self
            .ranges
            .iter()
            .filter(|range| range.protocol() != ANY_PROTOCOL);

        for second in single {
            // These are in order and apart: the first that does not end before it is the only one that can begin in time.
            let at = all.partition_point(|first| first.end() < second.start());
            if let Some(&&first) = all.get(at)
                && first.meets(second)
            {
                let second = *second;
                return Err(ConnectIpError::Overlap { first, second });
            }
        }

        Ok(())
    }
}

fn check_order(first: IpRange, second: IpRange) -> Result<(), ConnectIpError> {
    let same = first.is_ipv4() == second.is_ipv4() && first.protocol() == second.protocol();
    let ordered = match same {
        true => first.end() < second.start(),
        false => first < second,
    };

    match ordered {
        true => Ok(()),
        false => Err(ConnectIpError::Order { first, second }),
    }
}

/// The ranges for all protocols.
fn for_all(ranges: &[IpRange]) -> impl Iterator<Item = &IpRange> {
    ranges
        .iter()
        .filter(|range| range.protocol() == ANY_PROTOCOL)
}

/// Joins neighbours that touch or overlap.
fn merged(sorted: Vec<IpRange>) -> Vec<IpRange> {
    let mut merged: Vec<IpRange> = Vec::with_capacity(sorted.len());
    for range in sorted {
        let joined = merged.last().and_then(|last| last.joined(&range));
        match (joined, merged.last_mut()) {
            (Some(joined), Some(last)) => *last = joined,
            _ => merged.push(range),
        }
    }

    merged
}

/// The parts of a range that `others`, which are in order, leave of it.
fn without(range: IpRange, others: &[IpRange]) -> Vec<IpRange> {
    let mut left = Vec::new();
    let mut rest = Some(range);
    for other in others {
        let Some(current) = rest.filter(|current| current.meets(other)) else {
            continue;
        };
        left.extend(current.before(other.start()));
        rest = current.after(other.end());
    }

    left.extend(rest);
    left
}
