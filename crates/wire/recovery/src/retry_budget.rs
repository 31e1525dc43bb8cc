//! How much may be sent again: a peer that asks for everything must not make us send a multiple.

/// Bytes that may be sent again before anything else was sent.
const BURST: usize = 64 * 1024;

/// Of so many bytes that are sent, one may be sent again.
const SHARE: usize = 2;

/// Bytes that may be sent again now.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    bytes: usize,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { bytes: BURST }
    }
}

impl RetryBudget {
    /// So many bytes were sent for the first time.
    pub(crate) fn earn(&mut self, bytes: usize) {
        self.bytes = (self.bytes + bytes / SHARE).min(BURST);
    }

    /// Whether so many may be sent again; then they are counted.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_sent_may_be_sent_again() {
        let mut budget = RetryBudget::default();
        assert!(budget.spend(BURST) && !budget.spend(1));
        budget.earn(1000);
        assert!(budget.spend(500) && !budget.spend(1));
        budget.earn(10 * BURST);
        assert!(!budget.spend(BURST + 1) && budget.spend(BURST));
    }
}
