//! The stream of one node: offers what it should have, sends the parts that it lacks, hears how it goes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hermes_api::{
    AgentMessage, Agreed, ControllerMessage, Hash, Hello, Name, Proposed, PublicSealingKey,
    Revision, agent_message, controller_message,
};
use hermes_net::clock::unix_seconds;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::agreeing::may_propose;
use super::controller::Controller;
use super::fleet::{Arrival, Session};
use super::offering::{Offering, pieces, words};
use crate::authority::Member;

/// How long a node may take to say hello.
#[doc(alias = "bound")]
const HELLO: Duration = Duration::from_secs(10);

/// Messages that wait for one node. A blob has many pieces, and none is made before there is room for it.
#[doc(alias = "bound")]
const WAITING: usize = 2;

/// The longest time until a certificate is looked at again.
const LOOK: Duration = Duration::from_secs(3600);

/// A message to a node, or the end of its stream. Boxed: a channel has room for 32 of them at once, and most nodes are silent.
type Outgoing = Box<Result<ControllerMessage, Status>>;

/// Messages to a node.
pub(super) struct Messages(mpsc::Receiver<Outgoing>);

impl Stream for Messages {
    type Item = Result<ControllerMessage, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let message = self.0.poll_recv(context);
        message.map(|message| message.map(|message| *message))
    }
}

/// Begins a stream with a member.
pub(super) fn begin(
    controller: Arc<Controller>,
    member: Member,
    messages: Streaming<AgentMessage>,
) -> Messages {
    let (out, stream) = mpsc::channel(WAITING);
    // It is moved from future to future, and each would have room for it.
    let mut messages = Box::new(messages);
    tokio::spawn(async move {
        if let Err(status) = carry(&controller, member, &mut messages, &out).await {
            // A node that reads no more is not told.
            let _ = out.send(Box::new(Err(status))).await;
        }
    });
    Messages(stream)
}

async fn carry(
    controller: &Arc<Controller>,
    member: Member,
    messages: &mut Streaming<AgentMessage>,
    out: &mpsc::Sender<Outgoing>,
) -> Result<(), Status> {
    // Boxed, as all that does not last: what lasts is the wait for the next message, thousands of times.
    let Some(mut stream) = Box::pin(introduced(controller, member, messages, out)).await? else {
        return Ok(());
    };
    let ended = stream.run(messages).await;
    // Also after an error, or the node would be waited for in changes.
    controller.left(&stream.node, stream.session.id);
    ended
}

/// The stream of a member that has said hello; `None` if it has to attend another controller.
async fn introduced<'a>(
    controller: &'a Arc<Controller>,
    member: Member,
    messages: &mut Streaming<AgentMessage>,
    out: &'a mpsc::Sender<Outgoing>,
) -> Result<Option<NodeStream<'a>>, Status> {
    let hello = timeout(HELLO, messages.message()).await;
    let hello = hello.map_err(|_| Status::deadline_exceeded("no hello came"))??;
    let Some(agent_message::Content::Hello(hello)) = hello.and_then(|message| message.content)
    else {
        return Err(Status::invalid_argument(
            "the first message has to be a hello",
        ));
    };

    if let Some(elsewhere) = controller.led_elsewhere().await? {
        let message = ControllerMessage {
            content: Some(elsewhere),
        };
        // A node that is gone is told by the next one that it attends.
        let _ = out.send(Box::new(Ok(message))).await;
        return Ok(None);
    }
    let node = member.node.clone();
    let expires = member.expires;
    let user = member.user.clone();
    keep_sealing_key(controller, &node, &hello).await?;
    let session = controller.came(arrival(member, &hello)?);
    Ok(Some(NodeStream {
        controller,
        node: node.clone(),
        session: session.clone(),
        out,
        offering: Offering::new(
            controller.about().overlay.clone(),
            node.clone(),
            user,
            Hash::try_from(&*hello.content).ok(),
        ),
        expires,
        proposes: None,
    }))
}

/// Remembers the key that secrets of the node are sealed to, also for the time when it is away.
async fn keep_sealing_key(
    controller: &Arc<Controller>,
    node: &Name,
    hello: &Hello,
) -> Result<(), Status> {
    if hello.sealing_key.is_empty() {
        return Ok(());
    }
    let bad = |error: &dyn std::fmt::Display| Status::invalid_argument(error.to_string());
    let key = PublicSealingKey::try_from(&*hello.sealing_key).map_err(|error| bad(&error))?;
    let controller = controller.clone();
    let node = node.clone();
    // The store may stand still, and must not stop the run time.
    let kept = tokio::task::spawn_blocking(move || controller.keep_sealing_key(&node, key));
    let kept = kept
        .await
        .map_err(|error| Status::internal(error.to_string()))?;
    kept.map_err(Status::unavailable)
}

fn arrival(member: Member, hello: &Hello) -> Result<Arrival, Status> {
    /// Bytes of a version that is kept.
    const VERSION: usize = 64;
    if hello.version.len() > VERSION {
        return Err(Status::invalid_argument("the version is too long"));
    }
    Ok(Arrival {
        member,
        version: words(&hello.version),
        binary: Hash::try_from(&*hello.binary).ok(),
        content: Hash::try_from(&*hello.content).ok(),
    })
}

/// A node's stream.
struct NodeStream<'a> {
    controller: &'a Arc<Controller>,
    node: Name,
    session: Session,
    out: &'a mpsc::Sender<Outgoing>,
    offering: Offering,
    /// Unix seconds at which the node's certificate ends, and the stream with it.
    expires: u64,
    /// Whether it may propose, in this revision.
    proposes: Option<(Revision, bool)>,
}

impl NodeStream<'_> {
    async fn run(&mut self, messages: &mut Streaming<AgentMessage>) -> Result<(), Status> {
        let mut controllers = self.controller.election.leadership.controllers.clone();
        // A controller that is alone has nothing to tell.
        let mut is_alone = self.controller.election.leadership.is_alone();
        if !is_alone {
            Box::pin(self.say(self.controller.told_controllers())).await?;
        }
        Box::pin(self.follow()).await?;
        loop {
            // The stream lasts no longer than the certificate that opened it.
            let left = Duration::from_secs(self.expires.saturating_sub(unix_seconds()));
            tokio::select! {
                () = self.session.wake.notified() => Box::pin(self.follow()).await?,
                changed = controllers.changed(), if !is_alone => {
                    is_alone = changed.is_err();
                    Box::pin(self.say(self.controller.told_controllers())).await?;
                }
                message = messages.message() => match message? {
                    Some(message) => Box::pin(self.heard(message)).await?,
                    None => return Ok(()),
                },
                // The clock of timers stops with the machine: a long wait is cut in pieces.
                () = tokio::time::sleep(left.min(LOOK)) => self.check_time()?,
            }
        }
    }

    fn check_time(&self) -> Result<(), Status> {
        if unix_seconds() < self.expires {
            return Ok(());
        }
        Err(Status::unauthenticated(
            "the certificate has expired, and has to be renewed first",
        ))
    }

    /// Offers what the node should have, unless it has it.
    async fn follow(&mut self) -> Result<(), Status> {
        let Some(target) = self.controller.target(&self.node, self.session.id)? else {
            return Err(Status::aborted("the node attends by another stream"));
        };
        let followed = self.offering.follow(target.clone(), self.controller.key());
        if followed.is_in_step {
            self.controller.in_step(&self.node, &target);
        }
        match followed.say {
            Some(content) => self.say(content).await,
            None => Ok(()),
        }
    }

    async fn heard(&mut self, message: AgentMessage) -> Result<(), Status> {
        match message.content {
            Some(agent_message::Content::Hello(_)) => {
                Err(Status::invalid_argument("there is one hello"))
            }
            Some(agent_message::Content::Wanted(wanted)) => self.send(&wanted.hashes).await,
            Some(agent_message::Content::Acknowledgement(word)) => {
                if let Some(heard) = self.offering.acknowledged(word) {
                    self.controller.heard(&self.node, heard.mark, heard.word);
                }
                Ok(())
            }
            Some(agent_message::Content::Health(health)) => {
                if let Some(mark) = self.offering.reported(&health) {
                    self.controller.reported(&self.node, mark, &health);
                }
                Ok(())
            }
            Some(agent_message::Content::Proposed(proposed)) => self.answer(&proposed).await,
            None => Ok(()),
        }
    }

    /// Says what was agreed; nothing to a node that has no part in it.
    async fn answer(&mut self, proposed: &Proposed) -> Result<(), Status> {
        let Some(target) = self.controller.target(&self.node, self.session.id)? else {
            return Err(Status::aborted("the node attends by another stream"));
        };
        let revision = target.published.revision;
        if self.proposes.is_none_or(|(known, _)| known != revision) {
            let may_propose = may_propose(&target.published.tree, &self.node);
            self.proposes = Some((revision, may_propose));
        }
        let answer = match self.proposes {
            Some((_, true)) => {
                let answer = self.controller.propose(&self.node, proposed);
                answer.map_err(Status::invalid_argument)?
            }
            _ => Agreed {
                number: proposed.number,
                value: String::new(),
            },
        };
        self.say(controller_message::Content::Agreed(answer)).await
    }

    async fn send(&mut self, hashes: &[Vec<u8>]) -> Result<(), Status> {
        for part in self.offering.parts(hashes) {
            for piece in pieces(&part) {
                self.say(controller_message::Content::BlobPart(piece))
                    .await?;
            }
        }
        Ok(())
    }

    async fn say(&self, content: controller_message::Content) -> Result<(), Status> {
        let message = ControllerMessage {
            content: Some(content),
        };
        let sent = self.out.send(Box::new(Ok(message))).await;
        sent.map_err(|_| Status::cancelled("the node is gone"))
    }
}
