//! Whether an authorisation server is away: a machine without clocks, tasks or locks.
//!
//! `fail: open` is for servers that are away, and no client may bring about that one looks so. A question without an answer proves
//! nothing: its client may have crowded the server, or asked what it does not survive. It only raises a doubt. The verdict rests on
//! questions that the node asks by itself, one at a time, with no client's question beside them; for as long as the server would need to
//! work off those that it never answered, even if each of them costs it far more than an exchange waits. Any answer to anyone, however
//! bad, ends the doubt, and a server that was silent and answers after all is given more time the next time.

use std::time::{Duration, Instant};

/// Own questions without an answer, one after the other, that a server is away after.
#[doc(alias = "bound")]
const SILENT: u32 = 3;

/// Own questions in a row for which there was no connection because nothing listens.
#[doc(alias = "bound")]
const REFUSED: u32 = 2;

/// Until the next own question where nothing listened.
#[doc(alias = "bound")]
const SOON: Duration = Duration::from_millis(20);

/// Until the next own question otherwise.
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(100);

/// Until the next own question to a server that is away: so soon it is asked again once it is back.
#[doc(alias = "bound")]
const AWAY_PAUSE: Duration = Duration::from_millis(250);

/// How many times `timeout` one question may keep a server busy that answers no other meanwhile, and not be away.
#[doc(alias = "bound")]
const COST: u32 = 10;

/// Longest time that one question is thought to keep a server busy, and longest silence that is learned of: an outage of the network
/// must not keep the next one from being seen.
#[doc(alias = "bound")]
const LONGEST_COST: Duration = Duration::from_secs(60);

/// The evidence of an own question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Some answer.
    Answered,
    /// Nothing listens there.
    Refused,
    /// No answer.
    Silent,
    /// Nothing: this node could not ask.
    Nothing,
}

/// The standing of a server for questions of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// They are asked.
    Asked,
    /// They wait until it is known whether the server is away.
    HeldBack,
    /// They are not asked: the server is away.
    Away,
}

/// The presence of one server.
#[derive(Debug, Default)]
pub(super) struct Presence {
    state: Whereabouts,
    /// Questions of clients that were sent and had no answer, since the last answer to anyone.
    unanswered: u32,
    /// When the first of them was given up.
    silent_since: Option<Instant>,
    /// The longest silence that an answer ended: some question costs the server as much.
    longest: Duration,
}

#[derive(Debug, Default)]
enum Whereabouts {
    #[default]
    Here,
    Doubted(Doubt),
    /// `was_refused`: nothing listened there at some time.
    Away {
        was_refused: bool,
    },
}

/// A doubt. Questions of clients are held back from the first own question that failed.
#[derive(Debug, Default)]
struct Doubt {
    held_since: Option<Instant>,
    refused: u32,
    silent: u32,
}

impl Presence {
    /// Whether nothing has to be told of an answer.
    pub(super) fn is_untroubled(&self) -> bool {
        self.unanswered == 0 && matches!(self.state, Whereabouts::Here)
    }

    pub(super) fn standing(&self) -> Standing {
        match &self.state {
            Whereabouts::Doubted(doubt) if doubt.held_since.is_some() => Standing::HeldBack,
            Whereabouts::Here | Whereabouts::Doubted(_) => Standing::Asked,
            Whereabouts::Away { .. } => Standing::Away,
        }
    }

    /// The server answered someone.
    pub fn answered(&mut self, now: Instant) {
        let silence = self
            .silent_since
            .map(|since| now.saturating_duration_since(since));
        // Where nothing listened meanwhile it was started anew, which says nothing of the cost of questions.
        let silence = silence.filter(|_| !self.was_refused());
        let longest = self.longest.max(silence.unwrap_or_default());
        *self = Self {
            longest: longest.min(LONGEST_COST),
            ..Self::default()
        };
    }

    fn was_refused(&self) -> bool {
        match &self.state {
            Whereabouts::Here => false,
            Whereabouts::Doubted(doubt) => doubt.refused > 0,
            Whereabouts::Away { was_refused } => *was_refused,
        }
    }

    /// How long the server may need for questions that it never answered.
    fn work(&self, timeout: Duration) -> Duration {
        let of_one = (timeout * COST).min(LONGEST_COST).max(timeout);
        let of_all = of_one.saturating_mul(self.unanswered);
        of_all.max((self.longest * 2).min(LONGEST_COST))
    }

    /// It left a question of a client without an answer. `is_doubtful`: although it had the time for it.
    pub(super) fn missed(&mut self, is_doubtful: bool, now: Instant) {
        self.unanswered = self.unanswered.saturating_add(1);
        self.silent_since.get_or_insert(now);
        if is_doubtful && matches!(self.state, Whereabouts::Here) {
            self.state = Whereabouts::Doubted(Doubt::default());
        }
    }

    /// An own question has ended, beside which `others` of clients were at the server, and which had `timeout`. Returns when the next
    /// follows, if one does.
    pub(super) fn probed(
        &mut self,
        evidence: Evidence,
        others: usize,
        timeout: Duration,
        now: Instant,
    ) -> Option<Duration> {
        let work = self.work(timeout);
        match (evidence, &mut self.state) {
            (_, Whereabouts::Here) => None,
            (Evidence::Answered, _) => {
                self.answered(now);
                None
            }
            (Evidence::Nothing, _) => Some(PAUSE),
            (evidence, Whereabouts::Away { was_refused }) => {
                *was_refused |= evidence == Evidence::Refused;
                Some(AWAY_PAUSE)
            }
            (evidence, Whereabouts::Doubted(doubt)) => {
                let (is_away, pause) = doubt.failed(evidence, others, work, now);
                if is_away {
                    let was_refused = evidence == Evidence::Refused;
                    self.state = Whereabouts::Away { was_refused };
                }
                Some(pause)
            }
        }
    }
}

impl Doubt {
    /// An own question failed. `work`: how long the server may take for a question that it never answered. Says whether it is away.
    fn failed(
        &mut self,
        evidence: Evidence,
        others: usize,
        work: Duration,
        now: Instant,
    ) -> (bool, Duration) {
        let Some(since) = self.held_since.filter(|_| others == 0) else {
            *self = Self {
                held_since: Some(now),
                ..Self::default()
            };
            return (false, SOON);
        };

        match evidence {
            Evidence::Refused => {
                self.refused += 1;
                (self.refused >= REFUSED, SOON)
            }
            _ => {
                self.refused = 0;
                self.silent += 1;
                let is_over = now.saturating_duration_since(since) >= work;
                (self.silent >= SILENT && is_over, PAUSE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(200);

    /// Own questions with this outcome and no one beside them, until the verdict; how many, and when.
    fn until_away(presence: &mut Presence, evidence: Evidence, mut now: Instant) -> (u32, Instant) {
        let mut asked = 0;
        while presence.standing() != Standing::Away {
            now += if evidence == Evidence::Silent {
                TIMEOUT
            } else {
                Duration::ZERO
            };
            now += presence.probed(evidence, 0, TIMEOUT, now).unwrap();
            asked += 1;
            assert!(asked < 10_000);
        }
        (asked, now)
    }

    #[test]
    fn what_clients_bring_about_is_a_doubt_at_the_most() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        for _ in 0..10_000 {
            presence.missed(true, now);
        }
        assert_eq!(presence.standing(), Standing::Asked);
        // Nor do own questions say anything beside theirs.
        for at in 0..10_000 {
            let now = now + PAUSE * at;
            assert!(presence.probed(Evidence::Silent, 1, TIMEOUT, now).is_some());
            assert!(
                presence
                    .probed(Evidence::Refused, 1, TIMEOUT, now)
                    .is_some()
            );
            assert!(
                presence
                    .probed(Evidence::Nothing, 0, TIMEOUT, now)
                    .is_some()
            );
        }
        assert_eq!(presence.standing(), Standing::HeldBack);
        assert_eq!(presence.probed(Evidence::Answered, 1, TIMEOUT, now), None);
        assert!(presence.is_untroubled());
    }

    #[test]
    fn a_server_that_is_gone_is_away_at_once_and_a_silent_one_soon() {
        let now = Instant::now();
        let mut gone = Presence::default();
        gone.missed(true, now);
        let (asked, _) = until_away(&mut gone, Evidence::Refused, now);
        assert_eq!(asked, 1 + REFUSED);

        let mut silent = Presence::default();
        silent.missed(true, now);
        let (_, at) = until_away(&mut silent, Evidence::Silent, now);
        assert!(at - now < TIMEOUT * (COST + 5), "{:?}", at - now);
    }

    #[test]
    fn a_server_that_was_asked_much_has_the_time_to_work_it_off() {
        let now = Instant::now();
        let mut silent = Presence::default();
        for _ in 0..100 {
            silent.missed(true, now);
        }
        let (_, at) = until_away(&mut silent, Evidence::Silent, now);
        assert!(at - now >= 100 * COST * TIMEOUT);
        // An answer before that, and nothing was.
        let mut slow = Presence::default();
        slow.missed(true, now);
        assert!(slow.probed(Evidence::Silent, 0, TIMEOUT, now).is_some());
        slow.answered(now);
        assert_eq!(slow.standing(), Standing::Asked);
        assert_eq!(slow.probed(Evidence::Silent, 0, TIMEOUT, now), None);
    }

    #[test]
    fn one_question_that_costs_far_more_than_its_time_opens_nothing() {
        let now = Instant::now();
        let mut presence = Presence::default();
        presence.missed(true, now);
        let mut at = now;
        while at - now < TIMEOUT * (COST - 1) {
            at += TIMEOUT + PAUSE;
            presence.probed(Evidence::Silent, 0, TIMEOUT, at);
            assert_ne!(presence.standing(), Standing::Away, "{:?}", at - now);
        }
    }

    #[test]
    fn a_silence_that_an_answer_ended_makes_the_next_one_count_later() {
        let now = Instant::now();
        let silence = Duration::from_secs(20);
        let mut busy = Presence::default();
        busy.missed(true, now);
        until_away(&mut busy, Evidence::Silent, now);
        busy.answered(now + silence);
        busy.missed(true, now);
        let (_, at) = until_away(&mut busy, Evidence::Silent, now);
        assert!(at - now >= silence * 2, "{:?}", at - now);

        // One that was started anew was not busy; and no outage is learned of for ever.
        let mut restarted = Presence::default();
        restarted.missed(true, now);
        until_away(&mut restarted, Evidence::Silent, now);
        restarted.probed(Evidence::Refused, 0, TIMEOUT, now);
        restarted.answered(now + silence);
        assert_eq!(restarted.longest, Duration::ZERO);
        busy.answered(now + Duration::from_secs(3600));
        busy.missed(true, now);
        let (_, at) = until_away(&mut busy, Evidence::Silent, now);
        assert!(at - now < LONGEST_COST * 2, "{:?}", at - now);
    }

    #[test]
    fn a_server_that_is_back_is_asked_again() {
        let now = Instant::now();
        let mut presence = Presence::default();
        presence.missed(true, now);
        until_away(&mut presence, Evidence::Refused, now);
        assert_eq!(
            presence.probed(Evidence::Silent, 0, TIMEOUT, now),
            Some(AWAY_PAUSE)
        );
        assert_eq!(presence.probed(Evidence::Answered, 0, TIMEOUT, now), None);
        assert_eq!(presence.standing(), Standing::Asked);
    }

    #[test]
    fn questions_without_the_time_for_an_answer_raise_no_doubt() {
        let (mut presence, now) = (Presence::default(), Instant::now());
        presence.missed(false, now);
        assert_eq!(presence.probed(Evidence::Silent, 0, TIMEOUT, now), None);
        assert_eq!(presence.standing(), Standing::Asked);
        assert!(!presence.is_untroubled());
    }
}
