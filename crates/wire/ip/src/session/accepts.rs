//! Which addresses and routes of its peer this end accepts.

use hermes_proto::connect_ip::{MAX_RANGES, RouteAdvertisement};
use hermes_proto::ip::{ANY_PROTOCOL, IpPrefix, IpRange};

/// Addresses that the peer may assign or route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Accepts {
    /// Any.
    All,
    /// Prefixes within those of [`Accepts::within`] only.
    Within(Vec<IpRange>),
    /// Nothing is accepted.
    #[default]
    Nothing,
}

impl Accepts {
    /// Accepts prefixes within these. If there are more than [`MAX_RANGES`] that do not touch,
    /// nothing is accepted.
    pub fn within(prefixes: impl IntoIterator<Item = IpPrefix>) -> Self {
        let ranges = prefixes
            .into_iter()
            .map(|prefix| IpRange::of(prefix, ANY_PROTOCOL));
        let joined = RouteAdvertisement::of(ranges.collect());
        joined.map_or(Self::Nothing, |joined| {
            Self::Within(joined.ranges().to_vec())
        })
    }

    /// Whether all addresses of a prefix are accepted.
    pub(super) fn takes(&self, prefix: IpPrefix) -> bool {
        match self {
            Self::All => true,
            Self::Within(ranges) => ranges
                .iter()
                .any(|range| range.contains(prefix.address()) && range.contains(prefix.last())),
            Self::Nothing => false,
        }
    }

    /// The accepted parts of these ranges, and the ranges that are not accepted, or not whole.
    pub(super) fn split(&self, ranges: &[IpRange]) -> (Vec<IpRange>, Vec<IpRange>) {
        let accepted = match self {
            Self::All => return (ranges.to_vec(), Vec::new()),
            Self::Within(accepted) => &accepted[..],
            Self::Nothing => &[],
        };

        let mut taken = Vec::new();
        let mut ignored = Vec::new();
        for range in ranges {
            let before = taken.len();
            taken.extend(accepted.iter().filter_map(|other| range.shared(other)));
            // Whatever was cut off is told: an operator who misses a route finds out which end refused it.
            if taken[before..] != [*range] {
                ignored.push(*range);
            }
        }

        // Pieces can be more than the ranges that came; the bound of a peer's ranges holds for them, too.
        taken.truncate(MAX_RANGES);
        (taken, ignored)
    }
}
