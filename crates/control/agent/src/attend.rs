//! The loop of an agent: attend a controller, follow what it says, come back when it is gone.

use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use hermes_api::{
    AgentMessage, ControllerMessage, Hash, Hello, Notice, Progress, Statement, agent_message,
    controller_message, methods,
};
use hermes_net::clock::unix_seconds;
use hermes_node::Vitals;
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic_prost::ProstCodec;

use crate::agreements::Proposals;
use crate::backoff::Backoff;
use crate::blocking::blocking;
use crate::connection::MemberTls;
use crate::enrol::{self, NotJoined};
use crate::health::HealthLog;
use crate::machine::{Effect, Machine, Refused};
use crate::operator::Operator;
use crate::{Membership, NotConnected, State, renewal};

/// Messages to a controller that wait to be sent.
#[doc(alias = "bound")]
const WAITING: usize = 16;

/// A stream that lasted so long was a good one: after its loss pauses begin anew.
const LASTING: Duration = Duration::from_secs(10);

/// The longest pause of a node that knows one controller.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The longest pause of a node that knows several controllers.
#[doc(alias = "bound")]
const SHORT_PAUSE: Duration = Duration::from_secs(3);

/// How often the node is asked whether it has returned from an unconfirmed document.
const LOOK: Duration = Duration::from_secs(1);

/// How often the time of the certificate is looked at.
const RENEW: Duration = Duration::from_secs(60);

/// The node that an agent changes.
pub trait Subject: Send {
    /// Puts a statement in force whose parts are on the disk, for this time only unless it is confirmed. Returns a report for the operator.
    ///
    /// # Errors
    /// The mistakes of the document; then nothing has changed.
    fn apply(
        &mut self,
        statement: &Statement,
        confirm: Option<Duration>,
    ) -> impl Future<Output = Result<String, Vec<Refused>>> + Send;

    /// Sums over the exchanges of the node; `None` if it does not count them.
    fn vitals(&self) -> Option<Vitals> {
        None
    }

    /// Keeps the document in force.
    fn confirm(&mut self) -> impl Future<Output = ()> + Send;

    /// The node's certificate is another one now.
    fn renewed(&mut self);

    /// Whether the node has returned from a document that was to be confirmed.
    fn has_returned(&mut self) -> bool;
}

/// Why an agent has ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The node is no member any more.
    #[error("this node is no member of the overlay any more: {0}")]
    Left(String),
    /// The node's folder cannot be read or written.
    #[error(transparent)]
    State(#[from] io::Error),
}

/// An agent, its node and its state.
pub struct Agent<S> {
    /// The node's folder.
    pub state: State,
    /// Who the node is.
    pub membership: Membership,
    /// SHA-256 of the program.
    pub binary: Hash,
    /// The program's version.
    pub version: String,
    /// The node.
    pub subject: S,
    /// What its plugs propose to other nodes.
    pub proposals: Proposals,
}

/// Attends the node's controller until the node is no member any more. While the controller is away, nothing changes.
///
/// # Errors
/// The node was revoked, or its folder cannot be read.
pub async fn attend<S: Subject>(agent: Agent<S>) -> Result<(), Ended> {
    let mut machine = machine_of(&agent)?;
    let mut attending = Attending {
        agent,
        health: HealthLog::default(),
        started: Instant::now(),
    };

    let mut backoff = Backoff::default();
    let mut tls = MemberTls::default();
    loop {
        // An expired certificate opens no stream, and can still be renewed.
        attending.renew_if_due().await?;
        let mut is_crowded = false;
        let lost = match Session::open(&attending.agent, &machine, &mut tls).await {
            Ok(session) => {
                let began = Instant::now();
                attending.agent.proposals.begin();
                let lost = attending.follow(&mut machine, session).await;
                attending.agent.proposals.end();
                let lost = lost?;
                // A controller that ends each stream at once is not asked more and more often.
                if began.elapsed() >= LASTING {
                    backoff.reset();
                }
                lost
            }
            Err(NotJoined::Refused(reason)) => return Err(Ended::Left(reason)),
            Err(NotJoined::Unreachable(error @ NotConnected::Crowded(_))) => {
                is_crowded = true;
                error.to_string()
            }
            Err(error) => {
                // Another controller may be there.
                attending.agent.membership.turn_to_next();
                error.to_string()
            }
        };
        // Messages on their way are lost with the stream.
        machine.disconnected();
        tracing::info!("the controller is away, the node goes on: {lost}");
        // Where there are others, one that is lost is soon followed by another.
        let longest = match attending.agent.membership.controllers.is_empty() {
            true => LONGEST_PAUSE,
            false => SHORT_PAUSE,
        };
        let pause = match is_crowded {
            true => backoff.later(fastrand::f64()),
            false => backoff.pause(fastrand::f64(), longest),
        };
        attending.wait(&mut machine, pause).await?;
    }
}

/// A machine that goes on from the node's disk.
fn machine_of<S>(agent: &Agent<S>) -> Result<Machine, Ended> {
    let key = agent.membership.verifying_key().map_err(io::Error::other)?;
    // The controller sends lost parts again.
    let current = agent
        .state
        .current(&agent.membership)
        .unwrap_or_else(|error| {
            tracing::error!("the document on the disk is not followed: {error}");
            None
        });
    let seen = agent.state.seen()?.and_then(|text| text.parse().ok());
    let machine = Machine::new(
        agent.membership.overlay.clone(),
        agent.membership.node.clone(),
        key,
        current,
        seen,
    );
    let operator = agent.membership.operator_key().map_err(io::Error::other)?;
    Ok(match operator {
        Some(key) => {
            let is_device = agent.membership.user.is_some();
            machine.endorsed_by(Operator::new(key, is_device, agent.state.endorsed()?))
        }
        None => machine,
    })
}

/// An agent and what it has seen of its node.
struct Attending<S> {
    agent: Agent<S>,
    health: HealthLog,
    started: Instant,
}

/// An open stream to a controller.
struct Session {
    out: mpsc::Sender<AgentMessage>,
    messages: Streaming<ControllerMessage>,
}

impl Session {
    async fn open<S>(
        agent: &Agent<S>,
        machine: &Machine,
        tls: &mut MemberTls,
    ) -> Result<Self, NotJoined> {
        let connection = enrol::as_member(&agent.state, &agent.membership, tls).await?;
        let (out, waiting) = mpsc::channel(WAITING);
        let hello = AgentMessage {
            content: Some(agent_message::Content::Hello(Hello {
                content: machine
                    .content()
                    .map(|hash| hash.as_bytes().to_vec())
                    .unwrap_or_default(),
                binary: agent.binary.as_bytes().to_vec(),
                version: agent.version.clone(),
                sealing_key: sealing_key(&agent.state),
            })),
        };
        // The channel is empty, and so takes it at once.
        let _ = out.try_send(hello);

        // The request begins before the answer's head: the hello is read first.
        let mut grpc = connection.grpc();
        let lost = |error: &dyn std::fmt::Display| NotJoined::Lost(error.to_string());
        grpc.ready().await.map_err(|error| lost(&error))?;
        let codec = ProstCodec::<AgentMessage, ControllerMessage>::default();
        let request = tonic::Request::new(ReceiverStream::new(waiting));
        let answer = grpc
            .streaming(request, PathAndQuery::from_static(methods::ATTEND), codec)
            .await;
        let messages = answer.map_err(|status| match status.code() {
            tonic::Code::PermissionDenied => NotJoined::Refused(status.message().to_owned()),
            tonic::Code::FailedPrecondition => {
                // It may change any time: the node goes on and asks again.
                tracing::error!(
                    "the controller gives this node nothing: {}",
                    status.message()
                );
                lost(&status.message())
            }
            _ => lost(&status.message()),
        })?;
        Ok(Self {
            out,
            messages: messages.into_inner(),
        })
    }
}

/// The key that the node's secrets are sealed to. A node without one attends all the same, and is sent no secrets.
fn sealing_key(state: &State) -> Vec<u8> {
    match state.sealing_key() {
        Ok(key) => key.public().as_bytes().to_vec(),
        Err(error) => {
            tracing::error!("the node has no key for secrets: {error}");
            Vec::new()
        }
    }
}

impl<S: Subject> Attending<S> {
    /// Follows a controller until the stream ends; returns the reason.
    async fn follow(
        &mut self,
        machine: &mut Machine,
        mut session: Session,
    ) -> Result<String, Ended> {
        let mut renew = tokio::time::interval(RENEW);
        let mut look = tokio::time::interval(LOOK);
        loop {
            let effects = tokio::select! {
                message = session.messages.message() => match message {
                    Ok(Some(message)) => {
                        if self.has_moved(&message).await? {
                            return Ok("another controller leads".to_owned());
                        }
                        self.heard(machine, message)
                    }
                    Ok(None) => return Ok("it ended the stream".to_owned()),
                    Err(status) if status.code() == tonic::Code::PermissionDenied => {
                        return Err(Ended::Left(status.message().to_owned()));
                    }
                    Err(status) => {
                        if status.code() == tonic::Code::FailedPrecondition {
                            let reason = status.message();
                            tracing::error!("the controller gives this node nothing: {reason}");
                        }
                        return Ok(status.message().to_owned());
                    }
                },
                sent = self.agent.proposals.send_next(&session.out) => {
                    if sent.is_err() {
                        return Ok("it reads no more".to_owned());
                    }
                    Vec::new()
                }
                _ = look.tick() => self.look(machine).await?,
                _ = renew.tick() => {
                    self.renew_if_due().await?;
                    Vec::new()
                }
            };
            for message in self.carry_out(machine, effects).await? {
                if session.out.send(message).await.is_err() {
                    return Ok("it reads no more".to_owned());
                }
            }
        }
    }

    /// Renews the certificate if it is time. Where that fails it is tried again later: there is a third of its time for that.
    async fn renew_if_due(&mut self) -> Result<(), Ended> {
        let state = self.agent.state.clone();
        let certificates = blocking(move || state.certificates()).await?;
        let span = renewal::span(&certificates);
        let node = self.agent.membership.node.as_str();
        if span.is_some_and(|span| !span.is_due(node, unix_seconds())) {
            return Ok(());
        }
        match enrol::renew(&self.agent.state, &self.agent.membership).await {
            Ok(()) => {
                tracing::info!("the certificate is renewed");
                self.agent.subject.renewed();
            }
            Err(NotJoined::Refused(reason)) => return Err(Ended::Left(reason)),
            Err(error) => tracing::warn!("the certificate is not renewed yet: {error}"),
        }
        Ok(())
    }

    /// Waits, and notices meanwhile that the node has returned from an unconfirmed document.
    async fn wait(&mut self, machine: &mut Machine, pause: Duration) -> Result<(), Ended> {
        let mut look = tokio::time::interval(LOOK);
        let over = tokio::time::sleep(pause);
        let mut over = std::pin::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                _ = look.tick() => {
                    let effects = self.look(machine).await?;
                    // There is no one to tell: the next hello says what is in force.
                    drop(self.carry_out(machine, effects).await?);
                }
            }
        }
    }

    async fn look(&mut self, machine: &mut Machine) -> Result<Vec<Effect>, Ended> {
        let subject = &self.agent.subject;
        self.health
            .look(self.started.elapsed(), || subject.vitals());
        if !self.agent.subject.has_returned() {
            return Ok(Vec::new());
        }
        let state = self.agent.state.clone();
        let membership = self.agent.membership.clone();
        let current = blocking(move || state.current(&membership)).await?;
        Ok(machine.returned(current))
    }

    /// Keeps the controllers of a message that tells of them; returns whether another one is to be attended.
    async fn has_moved(&mut self, message: &ControllerMessage) -> io::Result<bool> {
        let Some(controller_message::Content::Controllers(told)) = &message.content else {
            return Ok(false);
        };
        let before = self.agent.membership.clone();
        self.agent.membership.follow(told);
        if self.agent.membership != before {
            let state = self.agent.state.clone();
            let membership = self.agent.membership.clone();
            blocking(move || state.keep_controllers(&membership)).await?;
        }
        Ok(self.agent.membership.controller != before.controller)
    }

    fn heard(&mut self, machine: &mut Machine, message: ControllerMessage) -> Vec<Effect> {
        let has = |hash: &Hash| self.agent.state.has_part(hash);
        match message.content {
            Some(controller_message::Content::Offer(offer)) => machine.offered(offer, &has),
            Some(controller_message::Content::BlobPart(piece)) => machine.part(piece),
            Some(controller_message::Content::Notice(notice)) => match Notice::try_from(notice) {
                Ok(notice) => machine.noticed(notice),
                Err(_) => Vec::new(),
            },
            Some(controller_message::Content::Agreed(agreed)) => {
                self.agent.proposals.agreed(agreed);
                Vec::new()
            }
            // They were looked at before.
            Some(controller_message::Content::Controllers(_)) | None => Vec::new(),
        }
    }

    /// Carries out effects and those that follow from them; returns the messages to send.
    async fn carry_out(
        &mut self,
        machine: &mut Machine,
        effects: Vec<Effect>,
    ) -> Result<Vec<AgentMessage>, Ended> {
        let mut messages = Vec::new();
        // Effects make further ones, which come after those that are waiting.
        let mut effects = std::collections::VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Say(message) => messages.push(self.with_health(message)),
                Effect::Report(statement) => messages.extend(self.report(statement)),
                Effect::Keep {
                    parts,
                    seen,
                    endorsed,
                } => {
                    let state = self.agent.state.clone();
                    let kept = blocking(move || {
                        if let Some(endorsed) = endorsed {
                            state.keep_endorsed(endorsed)?;
                        }
                        keep(&state, &parts, &seen.to_string())
                    })
                    .await;
                    effects.extend(machine.kept(kept.map_err(|error| error.to_string())));
                }
                Effect::Apply { statement, confirm } => {
                    self.health.changes(self.agent.subject.vitals());
                    let outcome = self.agent.subject.apply(&statement, confirm).await;
                    let has = |hash: &Hash| self.agent.state.has_part(hash);
                    effects.extend(machine.applied(outcome, &has));
                }
                Effect::Follow { signed, statement } => {
                    let state = self.agent.state.clone();
                    blocking(move || state.follow(&signed, &statement)).await?;
                    self.follow_authorities().await?;
                }
                Effect::Confirm => self.agent.subject.confirm().await,
                Effect::Leave => return Err(Ended::Left("it was revoked".to_owned())),
            }
        }
        Ok(messages)
    }

    /// An acknowledgement of a statement that is in force says how the node's exchanges go.
    fn with_health(&self, mut message: AgentMessage) -> AgentMessage {
        if let Some(agent_message::Content::Acknowledgement(word)) = &mut message.content
            && matches!(word.progress(), Progress::InForce | Progress::Confirmed)
            && let Ok(statement) = Hash::try_from(&*word.statement)
        {
            let vitals = self.agent.subject.vitals();
            word.health = self.health.report(statement, vitals);
        }
        message
    }

    fn report(&self, statement: Hash) -> Option<AgentMessage> {
        let vitals = self.agent.subject.vitals();
        let health = self.health.report(statement, vitals)?;
        Some(AgentMessage {
            content: Some(agent_message::Content::Health(health)),
        })
    }

    /// Controllers are believed by the authorities of the statement in force from now on.
    async fn follow_authorities(&self) -> Result<(), Ended> {
        let state = self.agent.state.clone();
        let membership = self.agent.membership.clone();
        let followed = blocking(move || {
            if let Some(current) = state.current(&membership)?
                && let Some(authorities) = state.authorities_of(&current.statement)?
            {
                state.keep_authorities(&authorities)?;
            }
            Ok(())
        });
        Ok(followed.await?)
    }
}

fn keep(
    state: &State,
    parts: &std::collections::BTreeMap<Hash, Vec<u8>>,
    seen: &str,
) -> io::Result<()> {
    // First, so that a crash between two parts forgets no revision.
    state.keep_seen(seen)?;
    for (hash, bytes) in parts {
        state.keep_part(hash, bytes)?;
    }
    Ok(())
}
