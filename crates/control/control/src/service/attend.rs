//! The stream of one node: offers what it should have, sends the parts that it lacks, hears how it goes.

use std::sync::Arc;
use std::time::Duration;

use hermes_api::{
    Acknowledgement, AgentMessage, BlobPart, ControllerMessage, Hash, Hello, MAX_PART, Name,
    Notice, Offer, Progress, Revision, Statement, agent_message, controller_message,
};
use hermes_net::clock::unix_seconds;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::controller::Controller;
use super::fleet::{Arrival, Mark, Session, Target, Word};
use super::published::Published;
use crate::authority::Member;
use crate::compile::Recipient;

/// How long a node may take to say hello.
#[doc(alias = "bound")]
const HELLO: Duration = Duration::from_secs(10);

/// Messages that wait for one node. A blob has many pieces, and none is made before there is room for it.
#[doc(alias = "bound")]
const WAITING: usize = 2;

/// The longest time until a certificate is looked at again.
const LOOK: Duration = Duration::from_secs(3600);

/// Messages to a node.
pub(super) type Messages = ReceiverStream<Result<ControllerMessage, Status>>;

/// Begins a stream with a member.
pub(super) fn begin(
    controller: Arc<Controller>,
    member: Member,
    messages: Streaming<AgentMessage>,
) -> Messages {
    let (out, stream) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        if let Err(status) = carry(&controller, member, messages, &out).await {
            // A node that reads no more is not told.
            let _ = out.send(Err(status)).await;
        }
    });
    ReceiverStream::new(stream)
}

async fn carry(
    controller: &Arc<Controller>,
    member: Member,
    mut messages: Streaming<AgentMessage>,
    out: &mpsc::Sender<Result<ControllerMessage, Status>>,
) -> Result<(), Status> {
    let hello = timeout(HELLO, messages.message()).await;
    let hello = hello.map_err(|_| Status::deadline_exceeded("no hello came"))??;
    let Some(agent_message::Content::Hello(hello)) = hello.and_then(|message| message.content)
    else {
        return Err(Status::invalid_argument(
            "the first message has to be a hello",
        ));
    };

    let node = member.node.clone();
    let expires = member.expires;
    let user = member.user.clone();
    let session = controller.came(arrival(member, &hello)?);
    let mut stream = NodeStream {
        controller,
        node: node.clone(),
        user,
        session: session.clone(),
        out,
        content: Hash::try_from(&*hello.content).ok(),
        offered: None,
        refused: None,
        expires,
    };
    let ended = stream.run(&mut messages).await;
    controller.left(&node, session.id);
    ended
}

fn arrival(member: Member, hello: &Hello) -> Result<Arrival, Status> {
    /// Bytes of a version that is kept.
    const VERSION: usize = 64;
    if hello.version.len() > VERSION {
        return Err(Status::invalid_argument("the version is too long"));
    }
    Ok(Arrival {
        member,
        version: hello.version.clone(),
        binary: Hash::try_from(&*hello.binary).ok(),
    })
}

/// A node's stream.
struct NodeStream<'a> {
    controller: &'a Arc<Controller>,
    node: Name,
    user: Option<Name>,
    session: Session,
    out: &'a mpsc::Sender<Result<ControllerMessage, Status>>,
    /// The parts that the node has in force.
    content: Option<Hash>,
    offered: Option<Offered>,
    /// Parts that the node refused: they are not offered again.
    refused: Option<Hash>,
    /// Unix seconds at which the node's certificate ends, and the stream with it.
    expires: u64,
}

/// The last offer.
struct Offered {
    statement: Hash,
    content: Hash,
    revision: Revision,
    mark: Mark,
    /// The state whose parts the node may ask for.
    published: Arc<Published>,
}

impl NodeStream<'_> {
    async fn run(&mut self, messages: &mut Streaming<AgentMessage>) -> Result<(), Status> {
        self.follow().await?;
        loop {
            let left = Duration::from_secs(self.expires.saturating_sub(unix_seconds()));
            tokio::select! {
                () = self.session.wake.notified() => self.follow().await?,
                message = messages.message() => match message? {
                    Some(message) => self.heard(message).await?,
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
        let recipient = self.recipient(&target.published);
        let statement = self
            .controller
            .statement(&target.published, &self.node, &recipient);
        let Some(statement) = statement else {
            // Nothing describes the node yet: it waits.
            return Ok(());
        };

        let content = statement.content();
        let is_offered = self
            .offered
            .as_ref()
            .is_some_and(|offered| offered.content == content);
        if is_offered || self.refused == Some(content) {
            return self.confirm_or_wait(&target).await;
        }
        if self.offered.is_none() && self.content == Some(content) {
            self.controller.in_step(&self.node, &target);
            return self.notice(Notice::InStep).await;
        }
        self.offer(&statement, content, target).await
    }

    /// The node was offered this already; by now it may be confirmed.
    async fn confirm_or_wait(&mut self, target: &Target) -> Result<(), Status> {
        let Some(offered) = &mut self.offered else {
            return Ok(());
        };
        // Its answer counts for the change that is under way now.
        offered.mark = target.mark;
        let was_for_a_time = offered.published.confirm.is_some();
        if was_for_a_time && target.published.confirm.is_none() {
            offered.published = target.published.clone();
            return self.notice(Notice::Confirm).await;
        }
        if self.content == Some(offered.content) {
            self.controller.in_step(&self.node, target);
        }
        Ok(())
    }

    async fn offer(
        &mut self,
        statement: &Statement,
        content: Hash,
        target: Target,
    ) -> Result<(), Status> {
        let signed = self.controller.sign(statement);
        self.offered = Some(Offered {
            statement: Hash::of(&signed.bytes),
            content,
            revision: target.published.revision,
            mark: target.mark,
            published: target.published,
        });
        self.say(controller_message::Content::Offer(Offer {
            statement: signed.bytes,
            signature: signed.signature,
        }))
        .await
    }

    fn recipient(&self, published: &Published) -> Recipient {
        published.recipient(&self.node, self.user.as_ref())
    }

    async fn heard(&mut self, message: AgentMessage) -> Result<(), Status> {
        match message.content {
            Some(agent_message::Content::Hello(_)) => {
                Err(Status::invalid_argument("there is one hello"))
            }
            Some(agent_message::Content::Wanted(wanted)) => self.send(&wanted.hashes).await,
            Some(agent_message::Content::Acknowledgement(word)) => {
                self.acknowledged(word);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Sends parts of the last offer. A node that asks for other ones is told nothing of them.
    async fn send(&mut self, hashes: &[Vec<u8>]) -> Result<(), Status> {
        let Some(published) = self
            .offered
            .as_ref()
            .map(|offered| offered.published.clone())
        else {
            return Ok(());
        };
        let recipient = self.recipient(&published);
        for hash in hashes
            .iter()
            .filter_map(|hash| Hash::try_from(&**hash).ok())
        {
            let Some(part) = published.part(&recipient, &hash) else {
                continue;
            };
            let mut pieces = part.bytes.chunks(MAX_PART).peekable();
            while let Some(piece) = pieces.next() {
                let piece = BlobPart {
                    hash: hash.as_bytes().to_vec(),
                    bytes: piece.to_vec(),
                    last: pieces.peek().is_none(),
                };
                self.say(controller_message::Content::BlobPart(piece))
                    .await?;
            }
        }
        Ok(())
    }

    fn acknowledged(&mut self, word: Acknowledgement) {
        let Some(offered) = &self.offered else {
            return;
        };
        if Hash::try_from(&*word.statement) != Ok(offered.statement) {
            return;
        }
        let progress = word.progress();
        match progress {
            Progress::Refused => self.refused = Some(offered.content),
            Progress::InForce | Progress::Confirmed => self.content = Some(offered.content),
            Progress::Returned => self.content = None,
            Progress::Stored => {}
        }
        let word = Word {
            revision: offered.revision,
            progress,
            mistakes: word.mistakes,
            report: word.report,
        };
        self.controller.heard(&self.node, offered.mark, word);
    }

    async fn notice(&self, notice: Notice) -> Result<(), Status> {
        self.say(controller_message::Content::Notice(notice.into()))
            .await
    }

    async fn say(&self, content: controller_message::Content) -> Result<(), Status> {
        let message = ControllerMessage {
            content: Some(content),
        };
        let sent = self.out.send(Ok(message)).await;
        sent.map_err(|_| Status::cancelled("the node is gone"))
    }
}
