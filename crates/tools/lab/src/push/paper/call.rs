//! A call: small messages at an even pace, and the gaps between them where they arrive (Fig. 7b).

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::counts::BULK;
use crate::push::lane::{LaneEnds, LaneKind};
use crate::push::side::{Side, apart};
use crate::report::{Figure, Sheet, quantile};

/// The share of gaps that a listener hears.
pub(crate) const OUTSIDE: &str = "gaps outside 10 to 30 ms";

/// Bytes of a message.
const SPOKEN: usize = 160;

/// The time from one to the next.
const PACE: Duration = Duration::from_millis(20);

/// The gaps that no one hears, in seconds.
const UNHEARD: RangeInclusive<f64> = 0.010..=0.030;

/// A call.
pub(super) struct Call<'a> {
    pub lane: LaneKind,
    pub sides: [Side<'a>; 2],
    pub messages: u32,
    /// Whether large messages without a pause are beside it.
    pub has_bulk: bool,
}

impl Call<'_> {
    /// Adds its figures to a case.
    ///
    /// # Errors
    /// A connection fails.
    pub(super) fn measure(&self, case: &str, sheet: &mut Sheet) -> Result<()> {
        let gaps = apart(|| self.gaps())?;
        let outside = gaps.iter().filter(|gap| !UNHEARD.contains(gap)).count();
        let share = 100.0 * outside as f64 / gaps.len() as f64;
        let system = self.lane.to_string();
        sheet.add(case, &system, Figure::less(OUTSIDE, "%"), share);
        let longest = quantile(&gaps, 0.999) * 1e3;
        sheet.add(case, &system, Figure::less("gap, 99.9 %", "ms"), longest);
        Ok(())
    }

    /// Seconds from each message to the next at the receiver.
    fn gaps(&self) -> Result<Vec<f64>> {
        let LaneEnds {
            mut sender,
            mut receiver,
        } = self.lane.open(0, self.sides, SPOKEN)?;
        std::thread::scope(|scope| {
            let bulk = scope.spawn(|| match self.has_bulk {
                true => self
                    .lane
                    .flow(self.sides, BULK, PACE * self.messages)
                    .map(drop),
                false => Ok(()),
            });
            let speaker = scope.spawn(move || {
                sender.begin_stream()?;
                let begin = Instant::now();
                for message in 0..self.messages {
                    // Its time does not depend on how long the one before took.
                    let due = begin + PACE * message;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    sender.send_in_stream()?;
                }
                sender.end_stream()
            });
            let mut arrivals = Vec::new();
            for _ in 0..self.messages {
                receiver.receive()?;
                arrivals.push(Instant::now());
            }
            speaker
                .join()
                .map_err(|_| anyhow!("the speaker panicked"))??;
            bulk.join().map_err(|_| anyhow!("the bulk panicked"))??;
            let pairs = arrivals.windows(2);
            Ok(pairs
                .map(|pair| (pair[1] - pair[0]).as_secs_f64())
                .collect())
        })
    }
}
