//! Counting frames that cost their sender nothing: resets (rapid reset, CVE-2023-44487), errors that make us reset
//! (MadeYouReset, CVE-2025-8671), SETTINGS and PING floods (CVE-2019-9512, CVE-2019-9515), empty DATA frames (CVE-2019-9518),
//! and WINDOW_UPDATE frames that nothing we sent has called for.

use std::time::Instant;

use super::reason::Reason;

/// How many frames of a kind may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// At once.
    pub burst: u32,
    /// Each second, on average.
    pub per_second: u32,
}

/// A budget and the part of it that is used.
#[derive(Debug)]
pub struct Bucket {
    budget: Budget,
    level: f64,
    seen: Instant,
}

impl Bucket {
    /// A budget of which nothing is taken yet.
    pub fn new(budget: Budget, now: Instant) -> Self {
        Self {
            budget,
            level: 0.0,
            seen: now,
        }
    }

    /// Takes one.
    pub fn take(&mut self, now: Instant) -> Verdict {
        if self.fill(now) <= f64::from(self.budget.burst) {
            Verdict::Fine
        } else {
            Verdict::Calm
        }
    }

    /// Takes one: how much is taken now.
    fn fill(&mut self, now: Instant) -> f64 {
        // A leaky bucket: no timer, time is settled when a frame comes.
        let since = now.saturating_duration_since(self.seen);
        let regained = since.as_secs_f64() * f64::from(self.budget.per_second);
        self.level = (self.level - regained).max(0.0) + 1.0;
        self.seen = now;
        self.level
    }
}

/// The fate of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The connection goes on.
    Fine,
    /// The connection takes no new streams, and ends after its last one: a budget of its whole life
    /// is nearly used up.
    Retire,
    /// The connection ends now, with ENHANCE_YOUR_CALM (RFC 9113, 7).
    Calm,
}

/// Budgets for the costs that a peer causes.
#[derive(Debug, Clone, Copy)]
pub struct Budgets {
    /// RST_STREAM and other frames for streams that are over. The resets that the peer's errors make
    /// us send have a second budget of this size.
    pub resets: Budget,
    /// SETTINGS, PING, PRIORITY, frames of unknown types, answers to nothing of ours, and GOAWAY after the first one.
    pub control: Budget,
    /// WINDOW_UPDATE that nothing we sent has called for.
    pub updates: Budget,
    /// Resets that the peer's errors may cause in the connection's life; at half of them it is retired.
    pub caused: u32,
    /// Empty DATA frames that end nothing: after so many it is retired, after twice as many it ends.
    pub empty: Budget,
    /// The peer's stream at which it is told to open another connection.
    pub last_stream: u32,
}

/// WINDOW_UPDATE frames that one frame of ours, or a stream, may cause: one for the stream, one for
/// the connection, and some to spare.
#[doc(alias = "bound")]
const UPDATES_PER_FRAME: u32 = 4;

/// WINDOW_UPDATE frames that we caused and that may still arrive: those for a full window of
/// one-byte frames on some streams.
#[doc(alias = "bound")]
const UPDATES_PAID: u32 = 64 * 1024 * 1024;

/// The budgets of a connection and the used part of each.
#[derive(Debug)]
pub(super) struct Meter {
    budgets: Budgets,
    resets: Bucket,
    caused: Bucket,
    control: Bucket,
    updates: Bucket,
    /// WINDOW_UPDATE frames that our own content has called for.
    called_for: u32,
    empty: Bucket,
    /// Resets that the peer has caused so far.
    caused_in_all: u32,
    verdict: Verdict,
    now: Instant,
}

impl Meter {
    pub(super) fn new(budgets: Budgets, now: Instant) -> Self {
        Self {
            budgets,
            resets: Bucket::new(budgets.resets, now),
            caused: Bucket::new(budgets.resets, now),
            control: Bucket::new(budgets.control, now),
            updates: Bucket::new(budgets.updates, now),
            called_for: 0,
            empty: Bucket::new(budgets.empty, now),
            caused_in_all: 0,
            verdict: Verdict::Fine,
            now,
        }
    }

    /// Sets the time.
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The worst that was found.
    pub(super) fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// A SETTINGS, PING, PRIORITY, GOAWAY or unknown frame that answers nothing of ours.
    pub(super) fn control(&mut self) {
        let verdict = self.control.take(self.now);
        self.note(verdict);
    }

    /// A RST_STREAM frame, or one for a stream that is over or comes too late, which passes no window.
    pub(super) fn reset(&mut self) {
        let verdict = self.resets.take(self.now);
        self.note(verdict);
    }

    /// A WINDOW_UPDATE frame.
    pub(super) fn update(&mut self) {
        match self.called_for.checked_sub(1) {
            Some(left) => self.called_for = left,
            None => {
                let verdict = self.updates.take(self.now);
                self.note(verdict);
            }
        }
    }

    /// A DATA frame that is empty and ends nothing.
    pub(super) fn empty(&mut self) {
        let taken = self.empty.fill(self.now);
        let most = f64::from(self.budgets.empty.burst);
        if taken >= most {
            self.note(Verdict::Retire);
        }
        if taken >= 2.0 * most {
            self.note(Verdict::Calm);
        }
    }

    /// A stream that the peer opens.
    pub(super) fn opened(&mut self, stream: u32) {
        self.calls_for_updates();
        if stream >= self.budgets.last_stream {
            self.note(Verdict::Retire);
        }
    }

    /// A DATA or HEADERS frame of ours, or more streams of ours.
    pub(super) fn calls_for_updates(&mut self) {
        self.called_for = (self.called_for + UPDATES_PER_FRAME).min(UPDATES_PAID);
    }

    /// A RST_STREAM frame of ours.
    pub(super) fn resets(&mut self, reason: Reason) {
        if !is_fault_of_peer(reason) {
            return;
        }
        self.caused_in_all = self.caused_in_all.saturating_add(1);
        // A peer slow enough for the bucket could provoke resets for months: the connection retires, and it has to open another.
        if self.caused_in_all >= self.budgets.caused / 2 {
            self.note(Verdict::Retire);
        }

        let verdict = self.caused.take(self.now);
        self.note(verdict);
    }

    fn note(&mut self, verdict: Verdict) {
        self.verdict = self.verdict.max(verdict);
    }
}

/// Errors that a peer makes us find, and streams above those that it may open, as opposed to reasons of our own to end a stream.
fn is_fault_of_peer(reason: Reason) -> bool {
    let faults = [
        Reason::PROTOCOL_ERROR,
        Reason::FLOW_CONTROL_ERROR,
        Reason::STREAM_CLOSED,
        Reason::FRAME_SIZE_ERROR,
        Reason::REFUSED_STREAM,
    ];
    faults.contains(&reason)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BUDGETS: Budgets = Budgets {
        resets: Budget {
            burst: 200,
            per_second: 100,
        },
        control: Budget {
            burst: 200,
            per_second: 20,
        },
        updates: Budget {
            burst: 1_000,
            per_second: 100,
        },
        caused: 1_000,
        empty: Budget {
            burst: 64,
            per_second: 1,
        },
        last_stream: 1 << 30,
    };

    /// How many times it may be done.
    fn fine(meter: &mut Meter, once: impl Fn(&mut Meter)) -> usize {
        let mut count = 0;
        while count < 100_000 {
            once(meter);
            if meter.verdict() != Verdict::Fine {
                break;
            }
            count += 1;
        }
        count
    }

    #[test]
    fn resets_above_the_budget_ask_for_calm_and_are_regained_with_time() {
        let now = Instant::now();
        let mut bucket = Bucket::new(BUDGETS.resets, now);
        let taken = |bucket: &mut Bucket, now| {
            (0..1_000)
                .take_while(|_| bucket.take(now) == Verdict::Fine)
                .count()
        };
        assert_eq!(taken(&mut bucket, now), 200);
        assert_eq!(taken(&mut bucket, now + Duration::from_millis(110)), 10);
    }

    #[test]
    fn updates_are_free_where_something_was_sent() {
        let now = Instant::now();
        let mut meter = Meter::new(BUDGETS, now);
        for _ in 0..1_000 {
            meter.calls_for_updates();
        }
        assert_eq!(
            fine(&mut meter, Meter::update),
            1_000 + 1_000 * UPDATES_PER_FRAME as usize
        );
        assert_eq!(meter.verdict(), Verdict::Calm);
    }

    #[test]
    fn resets_that_the_peer_has_caused_are_counted_as_if_it_had_sent_them() {
        let now = Instant::now();
        let sent = |reason| fine(&mut Meter::new(BUDGETS, now), |meter| meter.resets(reason));
        for fault in [Reason::PROTOCOL_ERROR, Reason::REFUSED_STREAM] {
            assert_eq!(sent(fault), 200, "{fault}");
        }
        for ours in [Reason::CANCEL, Reason::NO_ERROR, Reason::CONNECT_ERROR] {
            assert_eq!(sent(ours), 100_000, "{ours}");
        }
    }

    #[test]
    fn empty_frames_retire_a_connection_at_once_and_not_in_a_month() {
        let mut now = Instant::now();
        let mut meter = Meter::new(BUDGETS, now);
        assert_eq!(fine(&mut meter, Meter::empty), 63);
        assert_eq!(meter.verdict(), Verdict::Retire);
        for _ in 0..64 {
            meter.empty();
        }
        assert_eq!(meter.verdict(), Verdict::Calm);

        let mut meter = Meter::new(BUDGETS, now);
        for _ in 0..30 * 24 * 60 {
            now += Duration::from_secs(60);
            meter.set_now(now);
            for _ in 0..50 {
                meter.empty();
            }
        }
        assert_eq!(meter.verdict(), Verdict::Fine);
    }

    #[test]
    fn budgets_of_a_whole_life_retire_a_connection() {
        let mut now = Instant::now();
        let mut meter = Meter::new(BUDGETS, now);
        for _ in 1..BUDGETS.caused / 2 {
            now += Duration::from_secs(1);
            meter.set_now(now);
            meter.resets(Reason::PROTOCOL_ERROR);
        }
        assert_eq!(meter.verdict(), Verdict::Fine);
        meter.resets(Reason::PROTOCOL_ERROR);
        assert_eq!(meter.verdict(), Verdict::Retire);
        let mut meter = Meter::new(BUDGETS, now);
        meter.opened(BUDGETS.last_stream);
        assert_eq!(meter.verdict(), Verdict::Retire);
    }
}
