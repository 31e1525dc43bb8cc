//! Counting frames that cost their sender nothing: resets (rapid reset, CVE-2023-44487), errors that make us reset
//! (MadeYouReset, CVE-2025-8671), SETTINGS and PING floods (CVE-2019-9512, CVE-2019-9515), empty DATA frames (CVE-2019-9518),
//! and WINDOW_UPDATE frames that nothing we sent has called for.
//!
//! The `h2` crate bounds what such frames make it keep, not how many come. Here only the heads of frames are looked at; what
//! they mean is left to the crate.

use h2::Reason;
use tokio::time::Instant;

use super::heads::{
    CONTINUATION, DATA, GOAWAY, HEADERS, Head, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use super::profile::{EMPTY_DATA, LAST_STREAM, Profile, UPDATES_PAID, UPDATES_PER_FRAME};

/// The flag ACK of SETTINGS and PING, END_STREAM of DATA.
const ACK_OR_END: u8 = 0x1;

/// How many frames of a kind may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// At once.
    pub(crate) burst: u32,
    /// Each second, on average.
    pub(crate) per_second: u32,
}

/// A budget and what was taken of it.
#[derive(Debug)]
pub(crate) struct Bucket {
    budget: Budget,
    level: f64,
    seen: Instant,
}

impl Bucket {
    pub(crate) fn new(budget: Budget, now: Instant) -> Self {
        Self {
            budget,
            level: 0.0,
            seen: now,
        }
    }

    /// Takes one.
    pub(crate) fn take(&mut self, now: Instant) -> Verdict {
        let regained =
            now.duration_since(self.seen).as_secs_f64() * f64::from(self.budget.per_second);
        self.level = (self.level - regained).max(0.0) + 1.0;
        self.seen = now;
        if self.level <= f64::from(self.budget.burst) {
            Verdict::Fine
        } else {
            Verdict::Calm
        }
    }
}

/// What is to become of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// It goes on.
    Fine,
    /// It takes nothing new, and ends when its streams have: a budget of its whole life is nearly used up.
    Retire,
    /// It ends now, with ENHANCE_YOUR_CALM (RFC 9113, 7).
    Calm,
}

/// The machine: heads of frames in, verdict out.
#[derive(Debug)]
pub(super) struct Meter {
    resets: Bucket,
    caused: Bucket,
    control: Bucket,
    updates: Bucket,
    /// WINDOW_UPDATE frames that what we sent has called for.
    called_for: u32,
    empty: u32,
    /// Resets that the peer has caused so far, and after which the connection is retired.
    caused_in_all: (u32, u32),
}

impl Meter {
    pub(super) fn new(profile: Profile, now: Instant) -> Self {
        Self {
            resets: Bucket::new(profile.resets, now),
            caused: Bucket::new(profile.resets, now),
            control: Bucket::new(profile.control, now),
            updates: Bucket::new(profile.updates, now),
            called_for: 0,
            empty: 0,
            caused_in_all: (0, profile.caused / 2),
        }
    }

    /// A frame came.
    pub(super) fn received(&mut self, head: Head, now: Instant) -> Verdict {
        let acknowledges = matches!(head.kind, SETTINGS | PING) && head.flags & ACK_OR_END != 0;
        match head.kind {
            DATA if head.length == 0 && head.flags & ACK_OR_END == 0 => {
                self.empty = self.empty.saturating_add(1);
                if self.empty >= EMPTY_DATA {
                    Verdict::Retire
                } else {
                    Verdict::Fine
                }
            }
            HEADERS if head.stream >= LAST_STREAM => Verdict::Retire,
            HEADERS => {
                self.calls_for_updates();
                Verdict::Fine
            }
            // Part of the exchanges' own traffic, or bounded by the crate.
            DATA | GOAWAY | CONTINUATION => Verdict::Fine,
            WINDOW_UPDATE if self.called_for > 0 => {
                self.called_for -= 1;
                Verdict::Fine
            }
            WINDOW_UPDATE => self.updates.take(now),
            RST_STREAM => self.resets.take(now),
            _ if acknowledges => Verdict::Fine,
            _ => self.control.take(now),
        }
    }

    /// A frame was sent.
    pub(super) fn sent(&mut self, head: Head, now: Instant) -> Verdict {
        match head.kind {
            DATA | HEADERS => {
                self.calls_for_updates();
                Verdict::Fine
            }
            RST_STREAM if is_fault_of_peer(head.code) => {
                let (count, last) = &mut self.caused_in_all;
                *count = count.saturating_add(1);
                let retire = if *count >= *last {
                    Verdict::Retire
                } else {
                    Verdict::Fine
                };
                self.caused.take(now).max(retire)
            }
            _ => Verdict::Fine,
        }
    }

    fn calls_for_updates(&mut self) {
        self.called_for = (self.called_for + UPDATES_PER_FRAME).min(UPDATES_PAID);
    }
}

/// Errors that a peer makes us find, and streams above those that it may open, as opposed to reasons of our own to end a stream.
fn is_fault_of_peer(code: u32) -> bool {
    let faults = [
        Reason::PROTOCOL_ERROR,
        Reason::FLOW_CONTROL_ERROR,
        Reason::STREAM_CLOSED,
        Reason::FRAME_SIZE_ERROR,
        Reason::REFUSED_STREAM,
    ];
    faults.contains(&Reason::from(code))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn head(kind: u8, flags: u8, length: usize) -> Head {
        Head {
            kind,
            flags,
            stream: 1,
            length,
            code: 0,
        }
    }

    fn meter(now: Instant) -> Meter {
        Meter::new(Profile::public(100), now)
    }

    /// How many such frames are fine.
    fn fine(meter: &mut Meter, one: Head, now: Instant) -> usize {
        (0..100_000)
            .take_while(|_| meter.received(one, now) == Verdict::Fine)
            .count()
    }

    #[test]
    fn resets_above_the_budget_ask_for_calm_and_are_regained_with_time() {
        let now = Instant::now();
        let mut meter = meter(now);
        assert_eq!(fine(&mut meter, head(RST_STREAM, 0, 4), now), 200);
        let now = now + Duration::from_millis(110);
        assert_eq!(fine(&mut meter, head(RST_STREAM, 0, 4), now), 10);
        assert_eq!(meter.received(head(RST_STREAM, 0, 4), now), Verdict::Calm);
    }

    #[test]
    fn answers_to_our_own_frames_cost_nothing() {
        let now = Instant::now();
        for (kind, length) in [(PING, 8), (SETTINGS, 0), (DATA, 0)] {
            assert_eq!(
                fine(&mut meter(now), head(kind, ACK_OR_END, length), now),
                100_000
            );
        }
    }

    #[test]
    fn updates_are_free_where_something_was_sent() {
        let now = Instant::now();
        let update = head(WINDOW_UPDATE, 0, 4);
        let alone = fine(&mut meter(now), update, now);
        assert_eq!(alone, 1_000);
        let mut meter = meter(now);
        for _ in 0..1_000 {
            assert_eq!(meter.sent(head(DATA, 0, 1), now), Verdict::Fine);
        }
        assert_eq!(
            fine(&mut meter, update, now),
            alone + 1_000 * UPDATES_PER_FRAME as usize
        );
    }

    #[test]
    fn resets_that_the_peer_has_caused_are_counted_as_if_he_had_sent_them() {
        let now = Instant::now();
        let reset = |reason: Reason| Head {
            code: reason.into(),
            ..head(RST_STREAM, 0, 4)
        };
        let sent = |reason: Reason, most: usize| {
            let mut meter = meter(now);
            (0..most)
                .take_while(|_| meter.sent(reset(reason), now) == Verdict::Fine)
                .count()
        };
        for fault in [
            Reason::PROTOCOL_ERROR,
            Reason::FLOW_CONTROL_ERROR,
            Reason::REFUSED_STREAM,
        ] {
            assert_eq!(sent(fault, 1_000), 200, "{fault}");
        }
        for ours in [
            Reason::CANCEL,
            Reason::NO_ERROR,
            Reason::INTERNAL_ERROR,
            Reason::CONNECT_ERROR,
        ] {
            assert_eq!(sent(ours, 10_000), 10_000, "{ours}");
        }
    }

    #[test]
    fn budgets_of_a_whole_life_retire_a_connection_before_the_crate_breaks_it_off() {
        let mut now = Instant::now();
        let mut meter = meter(now);
        for _ in 1..EMPTY_DATA {
            assert_eq!(meter.received(head(DATA, 0, 0), now), Verdict::Fine);
        }
        assert_eq!(meter.received(head(DATA, 0, 0), now), Verdict::Retire);
        let fault = Head {
            code: Reason::PROTOCOL_ERROR.into(),
            ..head(RST_STREAM, 0, 4)
        };
        for _ in 1..Profile::public(100).caused / 2 {
            now += Duration::from_secs(1);
            assert_eq!(meter.sent(fault, now), Verdict::Fine);
        }
        now += Duration::from_secs(1);
        assert_eq!(meter.sent(fault, now), Verdict::Retire);
        let last = Head {
            stream: LAST_STREAM,
            ..head(HEADERS, 0, 1)
        };
        assert_eq!(meter.received(last, now), Verdict::Retire);
    }

    #[test]
    fn budgets_of_a_link_scale_with_its_streams() {
        use crate::h2::profile::{link_frame_budget, link_reset_streams};
        let budgets = |streams| {
            let profile = Profile::link(streams);
            [
                profile.resets.burst as usize,
                link_frame_budget(streams),
                link_reset_streams(streams),
            ]
        };
        assert_eq!(
            budgets(100),
            budgets(1_000),
            "a small link has as much as a usual one"
        );
        for (usual, large) in budgets(1_024).into_iter().zip(budgets(10_240)) {
            assert_eq!(large, 10 * usual);
        }
    }

    #[test]
    fn a_link_may_reset_as_fast_as_its_users_do() {
        let mut now = Instant::now();
        let mut meter = Meter::new(Profile::link(1000), now);
        for _ in 0..10 {
            for _ in 0..10_000 {
                assert_eq!(meter.received(head(RST_STREAM, 0, 4), now), Verdict::Fine);
            }
            now += Duration::from_secs(1);
        }
    }
}
