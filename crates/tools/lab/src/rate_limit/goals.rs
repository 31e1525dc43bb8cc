//! What was promised.

use super::{CASES, DONE, REFUSED};
use crate::report::{PageHead, Sheet, SheetGoal};

pub(super) const HEAD: PageHead = PageHead {
    title: "Rate limits",
    command: "rate-limit",
    words: "Clients with four requests each (in a short run one), one after the other, all at once, and an origin that serves 40 in a window: a minute, which passes in six \
            seconds, and in one and a half in a short run. It tells its bounds by `RateLimit` fields or by `Retry-After`, in windows that begin with a request; or it has a \
            bucket that fills evenly, and says 429 alone. `alone`: clients ask again on their own, at random times of up to half a minute that double; `window`: \
            they send no more than 40 a minute each, besides. `hermes`, `hermes-atb` and `hermes-aatb`: `pace` in its three modes, of one node that knew \
            nothing of the origin; `envoy`: its retries that obey `Retry-After`. *Of the best schedule*: the time until all are done, and \
            that in which the origin could have served all. Fields and `Retry-After` have whole seconds, which are long beside a window here.",
    notes: "\n![Refusals, and the time until all are done](rate-limit.svg)\n\nThe paper on rate limits (arXiv 2510.04516) found 97.3 % fewer refusals with its assisted bucket than with clients alone, and up to 100 clients.\n",
};

/// The share of the refusals of clients alone that may be left.
const LEFT: f64 = 0.03;

/// The time until all are done, of the best schedule.
const TIME: f64 = 1.1;

/// The goals for which there are figures.
pub(super) fn of(sheet: &Sheet) -> Vec<SheetGoal> {
    let mut goals = Vec::new();
    for (.., case) in CASES {
        let median = |system, figure: &str| {
            let found = sheet.of(case, system, figure);
            found.map(|summary| summary.median)
        };
        let refused = median("hermes", REFUSED).zip(median("alone", REFUSED));
        if let Some((paced, alone)) = refused.filter(|(_, alone)| *alone > 0.0) {
            let value = paced / alone;
            goals.push(SheetGoal {
                words: format!("{case}: refusals, of those of clients alone, at most {LEFT}"),
                value,
                is_reached: value <= LEFT,
            });
        }
        if let Some(value) = median("hermes", DONE) {
            goals.push(SheetGoal {
                words: format!("{case}: time, of the best schedule, at most {TIME}"),
                value,
                is_reached: value <= TIME,
            });
        }
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Figure;

    #[test]
    fn refusals_are_compared_with_those_of_clients_alone_and_times_with_the_best() {
        let mut sheet = Sheet::default();
        let (.., case) = CASES[0];
        for (system, refused) in [("alone", 1000.0), ("hermes", 20.0)] {
            sheet.add(case, system, Figure::less(REFUSED, ""), refused);
            sheet.add(case, system, Figure::less(DONE, "times"), 1.2);
        }
        let goals = of(&sheet);
        let found: Vec<_> = goals
            .iter()
            .map(|goal| (goal.value, goal.is_reached))
            .collect();
        assert_eq!(found, [(0.02, true), (1.2, false)]);
    }
}
