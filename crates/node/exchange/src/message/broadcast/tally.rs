//! When enough replies have come; pure.

use std::fmt;

use hermes_config::model::Reply as Rule;

/// Why no further reply is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The rule is fulfilled.
    Enough,
    /// It cannot be fulfilled any more.
    Exhausted,
    /// Its time is over.
    Time,
}

/// Counts replies against a rule.
#[derive(Debug)]
pub(super) struct Tally {
    rule: Rule,
    copies: usize,
    out: usize,
    successes: usize,
}

impl Tally {
    /// Of so many copies, none has been replied to.
    pub fn new(rule: Rule, copies: usize) -> Self {
        Self {
            rule,
            copies,
            out: copies,
            successes: 0,
        }
    }

    /// Takes a reply; the end, if it was the last that matters.
    pub(super) fn take(&mut self, success: bool) -> Option<StopReason> {
        self.out = self.out.saturating_sub(1);
        self.successes += usize::from(success);
        let wanted = match self.rule {
            Rule::First => 1,
            Rule::Quorum(wanted) => wanted.get(),
            Rule::All => return (self.out == 0).then_some(StopReason::Enough),
        };
        if self.successes >= wanted {
            Some(StopReason::Enough)
        } else if self.successes + self.out < wanted {
            Some(StopReason::Exhausted)
        } else {
            None
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} copies succeeded", self.successes, self.copies)?;
        match self.rule {
            Rule::Quorum(wanted) if self.successes < wanted.get() => {
                write!(f, ", {wanted} were wanted")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    /// The verdict on each reply, until the end.
    fn ends(rule: Rule, copies: usize, replies: &[bool]) -> (usize, Option<StopReason>) {
        let mut tally = Tally::new(rule, copies);
        for (count, success) in replies.iter().enumerate() {
            if let Some(end) = tally.take(*success) {
                return (count + 1, Some(end));
            }
        }
        (replies.len(), None)
    }

    fn quorum(wanted: usize) -> Rule {
        Rule::Quorum(NonZeroUsize::new(wanted).unwrap())
    }

    #[test]
    fn the_first_success_is_enough() {
        assert_eq!(
            ends(Rule::First, 3, &[false, true]),
            (2, Some(StopReason::Enough))
        );
        assert_eq!(ends(Rule::First, 3, &[false, false]), (2, None));
        assert_eq!(
            ends(Rule::First, 3, &[false, false, false]),
            (3, Some(StopReason::Exhausted))
        );
    }

    #[test]
    fn a_quorum_ends_when_it_is_reached_or_out_of_reach() {
        assert_eq!(
            ends(quorum(2), 3, &[true, false, true]),
            (3, Some(StopReason::Enough))
        );
        assert_eq!(
            ends(quorum(2), 3, &[true, true]),
            (2, Some(StopReason::Enough))
        );
        assert_eq!(
            ends(quorum(2), 3, &[false, false]),
            (2, Some(StopReason::Exhausted))
        );
        assert_eq!(
            ends(quorum(4), 3, &[true]),
            (1, Some(StopReason::Exhausted))
        );
        assert_eq!(ends(quorum(2), 3, &[true, false]), (2, None));
    }

    #[test]
    fn all_waits_for_all() {
        assert_eq!(ends(Rule::All, 2, &[true]), (1, None));
        assert_eq!(
            ends(Rule::All, 2, &[false, false]),
            (2, Some(StopReason::Enough))
        );
    }

    #[test]
    fn it_says_how_it_stands() {
        let mut tally = Tally::new(quorum(2), 3);
        tally.take(true);
        assert_eq!(tally.to_string(), "1 of 3 copies succeeded, 2 were wanted");
    }
}
