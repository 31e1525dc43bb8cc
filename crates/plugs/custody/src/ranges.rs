//! Sets of bytes of an object.

use std::collections::BTreeMap;

use hermes_proto::custody::CustodyRange;

/// Ranges that do not touch, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Ends by beginnings.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// The first one.
    pub fn first(&self) -> Option<CustodyRange> {
        let (start, end) = self.ranges.first_key_value()?;
        Some(range(*start, *end))
    }

    /// Adds a range, and joins it with what it touches.
    pub fn insert(&mut self, added: CustodyRange) {
        let mut start = added.offset;
        let mut end = added.end();
        if start == end {
            return;
        }

        while let Some((from, to)) = self.touching(start, end) {
            self.ranges.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.ranges.insert(start, end);
    }

    /// Takes a range out.
    pub fn remove(&mut self, removed: CustodyRange) {
        let start = removed.offset;
        let end = removed.end();
        if start == end {
            return;
        }

        while let Some((from, to)) = self.overlapping(start, end) {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, start);
            }
            if to > end {
                self.ranges.insert(end, to);
            }
        }
    }

    fn touching(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (from, to) = self.ranges.range(..=end).next_back()?;
        (*to >= start).then_some((*from, *to))
    }

    fn overlapping(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (from, to) = self.ranges.range(..end).next_back()?;
        (*to > start).then_some((*from, *to))
    }
}

/// The bytes between two offsets.
pub fn range(start: u64, end: u64) -> CustodyRange {
    CustodyRange {
        offset: start,
        length: end - start,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_the_bytes_that_were_added_and_not_removed(
            steps in proptest::collection::vec((any::<bool>(), 0..60_u64, 0..20_u64), 0..30),
        ) {
            let mut set = RangeSet::default();
            let mut bytes = BTreeSet::new();
            for (add, start, length) in steps {
                let changed = range(start, start + length);
                if add {
                    set.insert(changed);
                    bytes.extend(start..start + length);
                } else {
                    set.remove(changed);
                    bytes.retain(|byte| !(start..start + length).contains(byte));
                }
                let ranges: Vec<_> = set.ranges.iter().collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
                let held: BTreeSet<u64> = ranges.iter().flat_map(|(from, to)| **from..**to).collect();
                prop_assert_eq!(&held, &bytes);
            }
        }
    }
}
