//! The search for the longest UDP payload that a path carries, many lengths at a time.

/// Lengths that are tried at a time: few enough for the buffers of any network, and enough to end after two to four round trips.
#[doc(alias = "bound")]
const AT_ONCE: usize = 16;

/// Knows which lengths arrived, and which did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LengthSearch {
    /// The longest that arrived.
    arrived: Option<usize>,
    shortest: usize,
    /// The longest that can still be hoped for.
    longest: usize,
}

impl LengthSearch {
    /// Between these lengths, both included.
    pub(super) fn new(shortest: usize, longest: usize) -> Self {
        Self {
            arrived: None,
            shortest,
            longest: longest.max(shortest),
        }
    }

    /// The lengths to try next, from short to long, at most [`AT_ONCE`]; empty when the search is
    /// over.
    pub(super) fn next(&self) -> Vec<usize> {
        let from = match self.arrived {
            None => self.shortest,
            Some(arrived) => arrived + 1,
        };
        if from > self.longest {
            return Vec::new();
        }

        // Both ends among them: the longest is the likeliest result, and if the shortest fails
        // there is none.
        let between = self.longest - from;
        let steps = between.clamp(1, AT_ONCE - 1);
        let mut lengths: Vec<usize> = (0..=steps)
            .map(|step| from + between * step / steps)
            .collect();
        lengths.dedup();
        lengths
    }

    /// The longest tried length that arrived, if any did: longer ones do not pass.
    pub(super) fn handle_round(&mut self, tried: &[usize], arrived: Option<usize>) {
        let lost = tried.iter().filter(|length| Some(**length) > arrived);
        if let Some(shortest_lost) = lost.min() {
            self.longest = self.longest.min(shortest_lost - 1);
        }
        self.arrived = self.arrived.max(arrived);
    }

    /// The longest that arrived.
    pub(super) fn found(&self) -> Option<usize> {
        self.arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lengths that a path of this limit lets through; and the rounds it took.
    fn searched(shortest: usize, longest: usize, limit: usize) -> (Option<usize>, usize) {
        let mut search = LengthSearch::new(shortest, longest);
        let mut rounds = 0;
        loop {
            let lengths = search.next();
            if lengths.is_empty() {
                return (search.found(), rounds);
            }
            assert!(lengths.len() <= AT_ONCE && lengths.is_sorted());
            let arrived = lengths.iter().copied().filter(|length| *length <= limit);
            search.handle_round(&lengths, arrived.max());
            rounds += 1;
        }
    }

    #[test]
    fn finds_every_limit_in_few_rounds() {
        for limit in 1200..=1472 {
            let (found, rounds) = searched(1200, 1472, limit);
            assert_eq!(found, Some(limit));
            assert!(rounds <= 3, "{limit}: {rounds}");
        }
        for limit in [1200, 1201, 3000, 8971, 8972] {
            let (found, rounds) = searched(1200, 8972, limit);
            assert_eq!(found, Some(limit));
            assert!(rounds <= 5, "{limit}: {rounds}");
        }
    }

    #[test]
    fn a_path_that_carries_nothing_ends_it() {
        assert_eq!(searched(1200, 1472, 1199), (None, 1));
        assert_eq!(searched(1200, 1000, 5000), (Some(1200), 1));
    }
}
