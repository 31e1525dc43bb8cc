//! Where relays and clients of a node meet: one table for all its routes, and what it agrees on with other rendezvous.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hermes_plug::{Agreement, Background, Proposal};
use hermes_proto::relay::fields::Heartbeat;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::table::{FoundRelay, Question, Table};
use crate::moves::GrantKey;

/// The purpose of the MACs by which controllers know channels.
const PURPOSE: &str = "hermes relay channel";

/// Channels on whose relays is being agreed. For those beyond, the node decides for itself.
#[doc(alias = "bound")]
const AT_ONCE: usize = 1024;

/// Of one user, or one source without a user.
#[doc(alias = "bound")]
const OF_ONE: usize = 64;

/// Proposals for one question: others may have agreed on a relay that is not there for this node.
const PROPOSALS: usize = 2;

/// The table of a node.
#[derive(Default)]
pub(crate) struct Meeting {
    state: Mutex<MeetingState>,
    background: OnceLock<Background>,
}

#[derive(Default)]
struct MeetingState {
    table: Table,
    /// The longest silence that a route allows.
    lost_after: Duration,
    sent: u64,
    /// Channels on whose relays is being agreed, each with the owner of the first question.
    agreeing: HashMap<Arc<str>, UnderWay>,
}

/// A question that the controller is asked.
struct UnderWay {
    owner: Arc<str>,
    answer: watch::Receiver<Option<Arc<str>>>,
}

impl MeetingState {
    /// Whether the controller may be asked for one more channel of this owner.
    fn has_room(&self, owner: &str) -> bool {
        let of_owner = self.agreeing.values().filter(|one| *one.owner == *owner);
        self.agreeing.len() < AT_ONCE && of_owner.count() < OF_ONE
    }
}

/// How a question is answered.
enum NextStep {
    /// By this relay.
    Sent(Arc<str>),
    /// By the one that all agree on.
    Waits(watch::Receiver<Option<Arc<str>>>),
}

/// A question without what it borrows.
struct OwnQuestion {
    channel: Arc<str>,
    owner: Arc<str>,
    lost_after: Duration,
}

impl From<&Question<'_>> for OwnQuestion {
    fn from(question: &Question<'_>) -> Self {
        Self {
            channel: question.channel.into(),
            owner: question.owner.clone(),
            lost_after: question.lost_after,
        }
    }
}

impl OwnQuestion {
    fn borrowed(&self) -> Question<'_> {
        Question {
            channel: &self.channel,
            wish: None,
            near: &[],
            owner: &self.owner,
            is_stateless: false,
            lost_after: self.lost_after,
        }
    }
}

impl Meeting {
    /// The node runs.
    pub(crate) fn start(&self, background: &Background) {
        let _ = self.background.set(background.clone());
    }

    /// Looks at the clock.
    pub(crate) fn tick(&self, now: Instant) {
        self.state.lock().table.tick(now);
    }

    /// Its part of the status; `None` where no one has met.
    pub(crate) fn status(&self, now: Instant) -> Option<Value> {
        let state = self.state.lock();
        if state.lost_after.is_zero() {
            return None;
        }
        let (relays, channels) = state.table.sizes(state.lost_after, now);
        Some(json!({ "relays": relays, "channels": channels, "sent": state.sent }))
    }

    /// A relay has said that it is there; whether that was news.
    pub(super) fn hear(
        &self,
        heartbeat: &Heartbeat,
        valid: Duration,
        lost_after: Duration,
    ) -> bool {
        let mut state = self.state.lock();
        state.lost_after = state.lost_after.max(lost_after);
        let Heartbeat { relay, time, .. } = heartbeat;
        state.table.beat(relay, *time, valid, Instant::now())
    }

    /// The relay of a channel; `None` if no relay is there. Where the node has a controller, all rendezvous agree on it.
    pub(super) async fn relay(
        self: &Arc<Self>,
        question: &Question<'_>,
        key: &GrantKey,
    ) -> Option<Arc<str>> {
        match self.step(question, key, Instant::now())? {
            NextStep::Sent(relay) => Some(relay),
            NextStep::Waits(mut answer) => {
                let answered = answer.wait_for(Option::is_some).await;
                let relay = answered.ok().and_then(|relay| relay.clone());
                let mut state = self.state.lock();
                state.sent += 1;
                // Without an answer the node stops.
                relay.or_else(|| Some(state.table.look(question, Instant::now())?.relay))
            }
        }
    }

    /// Answers a question by what is known, or has all agree.
    fn step(
        self: &Arc<Self>,
        question: &Question<'_>,
        key: &GrantKey,
        now: Instant,
    ) -> Option<NextStep> {
        let mut state = self.state.lock();
        state.lost_after = state.lost_after.max(question.lost_after);
        let found = state.table.look(question, now)?;
        if let Some((background, agreement)) = self.asked(question, &found, now) {
            if let Some(under_way) = state.agreeing.get(question.channel) {
                return Some(NextStep::Waits(under_way.answer.clone()));
            }
            if state.has_room(question.owner) {
                let proposal = Proposal {
                    key: key.mac_of(PURPOSE, question.channel),
                    value: found.relay,
                    instead_of: found.gone,
                };
                let (out, answer) = watch::channel(None);
                let asked = OwnQuestion::from(question);
                state.agreeing.insert(
                    asked.channel.clone(),
                    UnderWay {
                        owner: asked.owner.clone(),
                        answer: answer.clone(),
                    },
                );
                let meeting = self.clone();
                // Beside the exchange: its client may leave, and others wait for the same answer.
                background.spawn(async move {
                    let relay = meeting.agree(&asked, proposal, &*agreement).await;
                    out.send_replace(Some(relay));
                });
                return Some(NextStep::Waits(answer));
            }
        }
        state.sent += 1;
        Some(NextStep::Sent(state.table.remember(question, found, now)))
    }

    /// Where all agree, unless they have done so a short time ago.
    fn asked(
        &self,
        question: &Question<'_>,
        found: &FoundRelay,
        now: Instant,
    ) -> Option<(Background, Arc<dyn Agreement>)> {
        let is_fresh =
            |agreed: Instant| now.saturating_duration_since(agreed) < question.lost_after;
        if question.is_stateless || found.agreed.is_some_and(is_fresh) {
            return None;
        }
        let background = self.background.get()?;
        let agreement = background.agreement()?;
        Some((background.clone(), agreement.clone()))
    }

    /// Has all agree on the relay of a channel, and remembers it.
    async fn agree(
        &self,
        asked: &OwnQuestion,
        mut proposal: Proposal,
        agreement: &dyn Agreement,
    ) -> Arc<str> {
        let mut agreed = None;
        for _ in 0..PROPOSALS {
            let Some(said) = agreement.agree(proposal.clone()).await else {
                break;
            };
            if self.is_there(&said, asked.lost_after) {
                agreed = Some(said);
                break;
            }
            proposal.instead_of = Some(said);
        }
        let now = Instant::now();
        let found = FoundRelay {
            gone: None,
            agreed: agreed.as_ref().map(|_| now),
            // Without a controller it is the one that this node would take.
            relay: agreed.unwrap_or(proposal.value),
        };
        let mut state = self.state.lock();
        state.agreeing.remove(&asked.channel);
        state.table.remember(&asked.borrowed(), found, now)
    }

    fn is_there(&self, relay: &str, lost_after: Duration) -> bool {
        let state = self.state.lock();
        state.table.is_there(relay, lost_after, Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::Drain;
    use hermes_plug::Agreeing;

    use super::*;
    use crate::moves::GrantKey;

    const LOST: Duration = Duration::from_mins(1);

    /// What is agreed elsewhere.
    #[derive(Default)]
    struct Elsewhere {
        said: Mutex<Vec<Proposal>>,
        /// The answers in turn; `None`: no one can be asked.
        answers: Mutex<Vec<Option<&'static str>>>,
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Elsewhere>);

    impl Agreement for Shared {
        fn agree(&self, proposal: Proposal) -> Agreeing<'_> {
            Box::pin(async move {
                tokio::task::yield_now().await;
                self.0.said.lock().push(proposal);
                self.0.answers.lock().remove(0).map(Arc::from)
            })
        }
    }

    /// A table that has heard of the relays `a` and `b`.
    fn met(shared: &Shared, drain: &Drain) -> Arc<Meeting> {
        let meeting = Arc::<Meeting>::default();
        let agreement: Arc<dyn Agreement> = Arc::new(shared.clone());
        meeting.start(&Background::new(drain.watch(), Some(agreement)));
        for relay in ["a", "b"] {
            let beat = Heartbeat {
                relay: relay.to_owned(),
                time: 1,
                mac: String::new(),
            };
            assert!(meeting.hear(&beat, LOST, LOST));
        }
        meeting
    }

    fn question<'a>(channel: &'a str, owner: &'a Arc<str>) -> Question<'a> {
        Question {
            channel,
            wish: Some("a"),
            near: &[],
            owner,
            is_stateless: false,
            lost_after: LOST,
        }
    }

    #[tokio::test]
    async fn what_others_have_agreed_on_is_taken_and_one_question_is_asked_for_all() {
        let shared = Shared::default();
        let drain = Drain::new();
        let meeting = met(&shared, &drain);
        let owner: Arc<str> = "o".into();
        let key = GrantKey::new("secret");
        let asked = question("/x", &owner);
        *shared.0.answers.lock() = vec![Some("b")];
        let (one, two) = tokio::join!(meeting.relay(&asked, &key), meeting.relay(&asked, &key));
        assert_eq!((one.as_deref(), two.as_deref()), (Some("b"), Some("b")));
        // It holds for a while.
        assert_eq!(meeting.relay(&asked, &key).await.as_deref(), Some("b"));
        let said = shared.0.said.lock();
        let [proposal] = &said[..] else {
            panic!("{said:?}");
        };
        assert_eq!((&*proposal.value, &proposal.instead_of), ("a", &None));
        // The name of the channel goes nowhere.
        assert_eq!(proposal.key.len(), 43);
        assert_ne!(proposal.key, GrantKey::new("other").mac_of(PURPOSE, "/x"));
    }

    #[tokio::test]
    async fn a_relay_that_is_not_there_is_replaced_and_without_an_answer_the_node_decides() {
        let shared = Shared::default();
        let drain = Drain::new();
        let meeting = met(&shared, &drain);
        let owner: Arc<str> = "o".into();
        let key = GrantKey::new("secret");
        *shared.0.answers.lock() = vec![Some("gone"), Some("a"), None, Some("gone"), Some("late")];
        let x = question("/x", &owner);
        assert_eq!(meeting.relay(&x, &key).await.as_deref(), Some("a"));
        assert_eq!(shared.0.said.lock()[1].instead_of.as_deref(), Some("gone"));
        let y = question("/y", &owner);
        assert_eq!(meeting.relay(&y, &key).await.as_deref(), Some("a"));
        let z = question("/z", &owner);
        assert_eq!(meeting.relay(&z, &key).await.as_deref(), Some("a"));
        assert_eq!(shared.0.said.lock().len(), 5);
        // What was not agreed on is asked again.
        *shared.0.answers.lock() = vec![Some("b")];
        assert_eq!(meeting.relay(&y, &key).await.as_deref(), Some("b"));
        assert!(meeting.state.lock().agreeing.is_empty());
    }

    #[tokio::test]
    async fn one_who_asks_for_very_many_channels_waits_for_few_and_others_for_none_of_his() {
        let shared = Shared::default();
        let drain = Drain::new();
        let meeting = met(&shared, &drain);
        let greedy: Arc<str> = "greedy".into();
        let key = GrantKey::new("secret");
        let now = Instant::now();
        let mut waiting = 0;
        for number in 0..1000 {
            let name = format!("/{number}");
            let step = meeting.step(&question(&name, &greedy), &key, now).unwrap();
            waiting += usize::from(matches!(step, NextStep::Waits(_)));
        }
        assert_eq!(waiting, OF_ONE);
        let modest: Arc<str> = "modest".into();
        let step = meeting.step(&question("/m", &modest), &key, now).unwrap();
        assert!(matches!(step, NextStep::Waits(_)));
    }
}
