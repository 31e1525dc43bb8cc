//! What a node agrees on with others: its proposals on their way to the controller, and the answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hermes_api::{AgentMessage, Agreed, Proposed, agent_message};
use hermes_plug::{Agreeing, Agreement, Proposal};
use parking_lot::Mutex;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Proposals on their way. Those beyond are answered at once: no one can be asked.
#[doc(alias = "bound")]
const AT_ONCE: usize = 1024;

/// How long the answer to a proposal may take.
const ANSWER: Duration = Duration::from_secs(1);

/// How long no one is asked after an answer has failed to come: the controller may be one that knows of no agreements.
const SILENCE: Duration = Duration::from_secs(10);

/// Where the plugs of a node propose.
#[derive(Clone)]
pub struct Agreements {
    out: mpsc::Sender<Asked>,
    shared: Arc<AgreementState>,
}

/// What the plugs and the agent know both.
#[derive(Default)]
struct AgreementState {
    /// Whether the node attends a controller.
    attends: AtomicBool,
    /// Until then no one is asked.
    silent_until: Mutex<Option<Instant>>,
}

/// A proposal, and where its answer goes.
struct Asked {
    proposal: Proposal,
    answer: oneshot::Sender<Arc<str>>,
}

/// The agent's end of [`Agreements`].
pub struct Proposals {
    waiting: mpsc::Receiver<Asked>,
    shared: Arc<AgreementState>,
    asked: HashMap<u64, oneshot::Sender<Arc<str>>>,
    /// Proposals so far: the number of the next one.
    number: u64,
}

/// The two ends, for the plugs of a node and for its agent.
pub fn agreements() -> (Agreements, Proposals) {
    let (out, waiting) = mpsc::channel(AT_ONCE);
    let shared = Arc::<AgreementState>::default();
    let proposals = Proposals {
        waiting,
        shared: shared.clone(),
        asked: HashMap::new(),
        number: 0,
    };
    (Agreements { out, shared }, proposals)
}

impl Agreements {
    fn is_silent(&self) -> bool {
        let until = *self.shared.silent_until.lock();
        until.is_some_and(|until| Instant::now() < until)
    }

    async fn ask(&self, proposal: Proposal) -> Option<Arc<str>> {
        if !self.shared.attends.load(Ordering::Relaxed) || self.is_silent() {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        self.out.try_send(Asked { proposal, answer }).ok()?;
        match timeout(ANSWER, answered).await {
            Ok(value) => value.ok(),
            Err(_) => {
                *self.shared.silent_until.lock() = Some(Instant::now() + SILENCE);
                tracing::info!("the controller does not say what was agreed, the node decides");
                None
            }
        }
    }
}

impl Agreement for Agreements {
    fn agree(&self, proposal: Proposal) -> Agreeing<'_> {
        Box::pin(self.ask(proposal))
    }
}

impl Proposals {
    /// A controller is attended.
    pub(crate) fn begin(&mut self) {
        // Those of before were given up, or have been answered by the node itself.
        while self.waiting.try_recv().is_ok() {}
        *self.shared.silent_until.lock() = None;
        self.shared.attends.store(true, Ordering::Relaxed);
    }

    /// The controller is away: who waits for an answer is told that there is none.
    pub(crate) fn end(&mut self) {
        self.shared.attends.store(false, Ordering::Relaxed);
        self.asked.clear();
        while self.waiting.try_recv().is_ok() {}
    }

    /// Sends the next proposal once there is room for it, so that no answer waits behind one that cannot be sent. Without a plug it waits for ever.
    ///
    /// # Errors
    /// The stream has ended.
    pub(crate) async fn send_next(
        &mut self,
        out: &mpsc::Sender<AgentMessage>,
    ) -> Result<(), SendError<()>> {
        let room = out.reserve().await?;
        let Some(asked) = self.waiting.recv().await else {
            return std::future::pending().await;
        };
        room.send(self.message(asked));
        Ok(())
    }

    /// A proposal as the controller is told it.
    fn message(&mut self, asked: Asked) -> AgentMessage {
        let Asked { proposal, answer } = asked;
        if self.asked.len() >= AT_ONCE {
            self.asked.retain(|_, answer| !answer.is_closed());
        }
        self.number += 1;
        self.asked.insert(self.number, answer);
        let proposed = Proposed {
            number: self.number,
            key: proposal.key,
            value: proposal.value.to_string(),
            instead_of: proposal
                .instead_of
                .as_deref()
                .unwrap_or_default()
                .to_owned(),
        };
        AgentMessage {
            content: Some(agent_message::Content::Proposed(proposed)),
        }
    }

    /// The controller has answered.
    pub(crate) fn agreed(&mut self, agreed: Agreed) {
        // One that was given up is not waited for.
        let answer = self.asked.remove(&agreed.number);
        if let Some(answer) = answer
            && !agreed.value.is_empty()
        {
            let _ = answer.send(agreed.value.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proposal(key: &str) -> Proposal {
        Proposal {
            key: key.to_owned(),
            value: "a".into(),
            instead_of: None,
        }
    }

    /// The number of the next proposal that is sent.
    async fn next_of(agent: &mut Proposals) -> u64 {
        let (out, mut sent) = mpsc::channel(1);
        agent.send_next(&out).await.unwrap();
        match sent.recv().await.unwrap().content {
            Some(agent_message::Content::Proposed(proposed)) => proposed.number,
            other => panic!("{other:?}"),
        }
    }

    fn agreed(number: u64, value: &str) -> Agreed {
        Agreed {
            number,
            value: value.to_owned(),
        }
    }

    #[tokio::test]
    async fn answers_find_who_asked_and_none_is_waited_for_without_a_controller() {
        let (plugs, mut agent) = agreements();
        assert_eq!(plugs.ask(proposal("x")).await, None);
        agent.begin();
        let asking = async { tokio::join!(plugs.ask(proposal("x")), plugs.ask(proposal("y"))) };
        let answering = async {
            let first = next_of(&mut agent).await;
            let second = next_of(&mut agent).await;
            // One that no one has asked for, and the later one first.
            agent.agreed(agreed(77, "c"));
            agent.agreed(agreed(second, "b"));
            agent.agreed(agreed(first, ""));
        };
        let (said, ()) = tokio::join!(asking, answering);
        assert_eq!(said, (None, Some("b".into())));

        // Who waits when the controller goes hears at once.
        let asking = plugs.ask(proposal("z"));
        let leaving = async {
            next_of(&mut agent).await;
            agent.end();
        };
        let (said, ()) = tokio::join!(asking, leaving);
        assert_eq!(said, None);
        assert!(agent.asked.is_empty());
        assert_eq!(plugs.ask(proposal("x")).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_says_nothing_is_not_asked_for_a_while() {
        let (plugs, mut agent) = agreements();
        agent.begin();
        assert_eq!(plugs.ask(proposal("x")).await, None);
        next_of(&mut agent).await;
        let more = (0..10_000).map(|_| plugs.ask(proposal("y")));
        for asked in more {
            assert_eq!(asked.await, None);
        }
        assert_eq!(agent.asked.len(), 1);
        assert!(agent.waiting.is_empty());
        // The next controller may say more.
        agent.begin();
        let asking = plugs.ask(proposal("z"));
        let answering = async {
            let number = next_of(&mut agent).await;
            agent.agreed(agreed(number, "b"));
        };
        assert_eq!(tokio::join!(asking, answering).0, Some("b".into()));
    }
}
