//! The class of a UDP session, by its traffic in both directions, and its idle time-out.
//!
//! UDP has no closing handshake, so silence has to end a session. How much depends on its traffic:
//! a question with its answer is over at once, as in DNS; a conversation may pause, as WireGuard
//! does for 25 s and a QUIC connection or a call for longer.

use std::time::Duration;

/// Datagrams of one side that make a UDP session a stream although the other side said nothing, or
/// spoke once only: video sent one way, or asked for by one datagram. A question that is repeated
/// stays below that.
#[doc(alias = "bound")]
pub const STREAM: u64 = 16;

/// A client that sends this soon after an answer continues its conversation. The time includes the
/// way from the client to this node.
pub const REACTION: Duration = Duration::from_secs(1);

/// The traffic in both directions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams of the client.
    pub asked: u64,
    /// Datagrams of the target.
    pub answered: u64,
    /// Who sent, in order.
    pub turn: Turn,
}

/// Who sent, in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// The client at most.
    #[default]
    Asked,
    /// The target, and not the client since.
    Answered,
    /// The client again, long after the target: another question.
    AskedAnew,
    /// The client again, soon after the target.
    AskedAgain,
}

/// The class of a session. Later ones are worth more: the first are evicted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The target has sent nothing.
    Unanswered,
    /// One turn of questions and answers.
    Answered,
    /// Both sides go on speaking, or one of them speaks all the time.
    Conversation,
}

/// Longest silence of a session of each class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// Of one that is unanswered.
    pub unanswered: Duration,
    /// Of one that was answered.
    pub answered: Duration,
    /// Of a conversation.
    pub conversation: Duration,
}

/// The side that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaker {
    /// The client, so long after the target did, if that has.
    Client(Duration),
    /// The target.
    Target,
}

impl Turn {
    /// The turn after a datagram. A client that continues a conversation sends at once: WireGuard and DTLS confirm their handshake, SIP
    /// sends its credentials. A later datagram is a new question, as of a resolver that was given the same port again.
    #[must_use]
    pub fn spoken(self, speaker: Speaker) -> Self {
        match (self, speaker) {
            (Self::Asked, Speaker::Client(_)) => Self::Asked,
            (Self::Asked | Self::Answered | Self::AskedAnew, Speaker::Target) => Self::Answered,
            (Self::Answered, Speaker::Client(after)) if after > REACTION => Self::AskedAnew,
            (Self::AskedAnew, Speaker::Client(_)) => Self::AskedAnew,
            (Self::Answered | Self::AskedAgain, Speaker::Client(_))
            | (Self::AskedAgain, Speaker::Target) => Self::AskedAgain,
        }
    }
}

impl Traffic {
    /// The class of the session so far.
    #[must_use]
    pub fn class(self) -> Class {
        let streams = self.asked > STREAM || self.answered > STREAM;
        // Checked first: traffic in one direction never reaches a later turn.
        match self.turn {
            _ if streams => Class::Conversation,
            Turn::Asked => Class::Unanswered,
            Turn::Answered | Turn::AskedAnew => Class::Answered,
            Turn::AskedAgain => Class::Conversation,
        }
    }

    /// The class of the session for eviction. A client that was answered and asks again counts as unanswered, so that it is not evicted
    /// with the finished sessions.
    #[must_use]
    pub fn worth(self) -> Class {
        if self.asks_anew() {
            Class::Unanswered
        } else {
            self.class()
        }
    }

    /// Whether an answered session that is no conversation awaits another answer.
    #[must_use]
    pub fn asks_anew(self) -> bool {
        self.class() == Class::Answered && self.waits()
    }

    /// Whether the client awaits another answer. A proxy in between does not count the datagrams in capsules, but knows which side sent.
    fn waits(self) -> bool {
        self.turn == Turn::AskedAnew || self.asked > self.answered
    }
}

impl Silence {
    /// One time-out for all classes.
    #[must_use]
    pub fn of_any(silence: Duration) -> Self {
        Self {
            unanswered: silence,
            answered: silence,
            conversation: silence,
        }
    }

    /// How long a session of any class may be silent.
    #[must_use]
    pub fn longest(&self) -> Duration {
        self.conversation.max(self.answered).max(self.unanswered)
    }

    /// How long a session may be silent after this. A conversation never has less time than a
    /// session that could become one, and a client that waits for one more answer no less than one
    /// that waits for its first: a resolver asks for IPv4 and IPv6 at once, and one may take
    /// longer.
    #[must_use]
    pub fn after(&self, traffic: Traffic) -> Duration {
        match traffic.class() {
            Class::Unanswered => self.unanswered.min(self.conversation),
            Class::Answered if traffic.waits() => {
                self.answered.max(self.unanswered).min(self.conversation)
            }
            Class::Answered => self.answered.min(self.conversation),
            Class::Conversation => self.conversation,
        }
    }
}

/// A session that may have to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The class.
    pub class: Class,
    /// Whether the session has the same target as the one that needs room.
    pub own: bool,
    /// Whether the session has been silent for long.
    pub quiet: bool,
}

impl Candidate {
    /// Its place in the order of eviction when most sessions are of the class `fills`: the lowest
    /// first. `None` for sessions that stay.
    fn rank(self, fills: Class) -> Option<u8> {
        // Lowest first: own sessions of the most frequent class, other own ones, those of other targets, then quiet conversations.
        let elsewhere = if self.own { 0 } else { 2 };
        match self.class {
            Class::Conversation => self.quiet.then_some(4 + elsewhere),
            class => Some(elsewhere + u8::from(class != fills)),
        }
    }
}

/// Selects the sessions that make room for another, `most` at most, from candidates in order of age.
/// Sessions for the same target go before others, so that a flood towards one target displaces
/// itself. While most questions are answered, answered sessions go first. If most are
/// not, the unanswered ones do, as no one answers them. A conversation goes only when it is quiet.
#[must_use]
pub fn evicted(candidates: &[Candidate], most: usize) -> Vec<usize> {
    let count = |class| candidates.iter().filter(|one| one.class == class).count();
    let waiting = count(Class::Unanswered) >= count(Class::Answered);
    let fills = if waiting {
        Class::Unanswered
    } else {
        Class::Answered
    };

    let ranked = candidates.iter().enumerate();
    let mut ranked: Vec<_> = ranked
        .filter_map(|(index, one)| Some((one.rank(fills)?, index)))
        .collect();
    let most = most.min(ranked.len());

    // The order among the evicted does not matter, so a selection in linear time replaces a sort.
    if let Some(last) = most.checked_sub(1) {
        ranked.select_nth_unstable(last);
    }
    ranked.truncate(most);
    ranked.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The traffic after these have sent: `c` the client, `t` the target. A client that waits
    /// before it sends is `C`.
    fn traffic(spoken: &str) -> Traffic {
        let mut traffic = Traffic::default();
        for who in spoken.chars() {
            let speaker = match who {
                'c' => Speaker::Client(REACTION),
                'C' => Speaker::Client(REACTION * 2),
                _ => Speaker::Target,
            };
            speak(&mut traffic, speaker);
        }
        traffic
    }

    fn class(spoken: &str) -> Class {
        traffic(spoken).class()
    }

    fn speak(traffic: &mut Traffic, speaker: Speaker) {
        let count = if speaker == Speaker::Target {
            &mut traffic.answered
        } else {
            &mut traffic.asked
        };
        *count += 1;
        traffic.turn = traffic.turn.spoken(speaker);
    }

    #[test]
    fn a_question_and_its_answer_are_no_conversation() {
        assert_eq!(["", "c", "cccc"].map(class), [Class::Unanswered; 3]);
        // A resolver that asks for both families at once.
        assert_eq!(["ct", "cctt", "cttt", "t"].map(class), [Class::Answered; 4]);
    }

    #[test]
    fn a_client_that_speaks_after_the_answer_has_a_conversation() {
        // The handshake of WireGuard, which its initiator confirms; and of QUIC.
        assert_eq!(["ctc", "cttc", "ctct"].map(class), [Class::Conversation; 3]);
    }

    #[test]
    fn a_port_that_is_used_again_for_a_question_has_no_conversation_and_one_that_goes_on_has() {
        assert_eq!(
            ["ctC", "ctCt", "ctCtCt", "cCttCt"].map(class),
            [Class::Answered; 4]
        );
        assert_eq!(["ctCtc", "ctcCt"].map(class), [Class::Conversation; 2]);
        let uncounted = Traffic {
            asked: 0,
            ..traffic("ctC")
        };
        assert_eq!(
            (uncounted.class(), uncounted.worth()),
            (Class::Answered, Class::Unanswered)
        );
        assert_eq!(
            ["ctC", "ctCt"].map(|spoken| traffic(spoken).worth()),
            [Class::Unanswered, Class::Answered]
        );
        let many = "Ct".repeat(usize::try_from(STREAM).unwrap() + 1);
        assert_eq!(class(&many), Class::Conversation);
    }

    #[test]
    fn what_streams_one_way_is_a_conversation() {
        let times = |who: &str, count: u64| who.repeat(usize::try_from(count).unwrap());
        assert_eq!(class(&times("c", STREAM)), Class::Unanswered);
        assert_eq!(class(&times("c", STREAM + 1)), Class::Conversation);
        assert_eq!(
            class(&format!("c{}", times("t", STREAM + 1))),
            Class::Conversation
        );
    }

    #[test]
    fn a_short_time_for_conversations_holds_for_all() {
        let [second, minute] = [1, 60].map(Duration::from_secs);
        let silence = Silence {
            conversation: second,
            ..Silence::of_any(minute)
        };
        assert_eq!(
            ["c", "ct", "cct", "ctc"].map(|spoken| silence.after(traffic(spoken))),
            [second; 4]
        );
    }

    #[test]
    fn who_waits_for_a_second_answer_has_as_long_as_who_waits_for_the_first() {
        let [unanswered, answered, conversation] = [5, 3, 300].map(Duration::from_secs);
        let silence = Silence {
            unanswered,
            answered,
            conversation,
        };
        let after = |spoken| silence.after(traffic(spoken));
        assert_eq!(
            ["c", "cct", "cctt", "ctc"].map(after),
            [unanswered, unanswered, answered, conversation]
        );
    }

    #[test]
    fn the_same_target_makes_room_first_and_the_oldest_before_the_others() {
        let one = |class, own| Candidate {
            class,
            own,
            quiet: false,
        };
        let all = [
            one(Class::Conversation, true),
            one(Class::Unanswered, false),
            one(Class::Answered, true),
            one(Class::Answered, true),
            one(Class::Unanswered, true),
            Candidate {
                quiet: true,
                ..one(Class::Conversation, false)
            },
        ];
        let mut gone = evicted(&all, 2);
        gone.sort_unstable();
        assert_eq!(gone, [2, 4]);
        let mut gone = evicted(&all, 100);
        gone.sort_unstable();
        assert_eq!(
            gone,
            [1, 2, 3, 4, 5],
            "a conversation that is not quiet stays"
        );
        assert!(evicted(&all, 0).is_empty() && evicted(&all[..1], 1).is_empty());
    }

    #[test]
    fn of_questions_those_go_first_of_which_there_are_more() {
        let one = |class| Candidate {
            class,
            own: true,
            quiet: false,
        };
        let [waits, done] = [Class::Unanswered, Class::Answered].map(one);
        assert_eq!(evicted(&[waits, done, done], 1), [1]);
        assert_eq!(evicted(&[done, waits, waits], 1), [1]);
    }

    proptest! {
        /// As many sessions go as are wanted and allowed; no session goes before one that is worth
        /// less to the new session.
        #[test]
        fn those_that_go_are_worth_no_more_than_those_that_stay(
            all in prop::collection::vec((0_u8..3, any::<bool>(), any::<bool>()), 0..40), most in 0_usize..50
        ) {
            let classes = [Class::Unanswered, Class::Answered, Class::Conversation];
            let candidate = |(class, own, quiet): (u8, bool, bool)| Candidate { class: classes[usize::from(class)], own, quiet };
            let all: Vec<_> = all.into_iter().map(candidate).collect();
            let gone = evicted(&all, most);
            let count = |class| all.iter().filter(|one| one.class == class).count();
            let waiting = count(Class::Unanswered) >= count(Class::Answered);
            let rank = |one: &Candidate| one.rank(if waiting { Class::Unanswered } else { Class::Answered });
            let may = all.iter().filter(|one| rank(one).is_some()).count();
            prop_assert_eq!(gone.len(), most.min(may));
            let worst = gone.iter().map(|index| (rank(&all[*index]), *index)).max();
            for (index, one) in all.iter().enumerate().filter(|(index, _)| !gone.contains(index)) {
                prop_assert!(rank(one).is_none() || Some((rank(one), index)) > worst);
            }
        }

        /// Whichever side speaks, a session is never worth less than it was, and each answer counts.
        #[test]
        fn a_session_only_gains(spoken in prop::collection::vec(prop::option::of(0_u64..3), 0..60)) {
            let mut traffic = Traffic::default();
            for after in spoken {
                let before = traffic.class();
                speak(&mut traffic, after.map_or(Speaker::Target, |seconds| Speaker::Client(Duration::from_secs(seconds))));
                prop_assert!(traffic.class() >= before);
                prop_assert_eq!(traffic.class() == Class::Unanswered, traffic.answered == 0 && traffic.asked <= STREAM);
            }
        }
    }
}
