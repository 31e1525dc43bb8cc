//! The subscription at a relay: reads its stream, tells how many receivers there are, comes again when it breaks off.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_http::{Frame, Incoming, RequestHead, ResponseHead};
use hermes_plug::{Onward, Opener, Response};
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::relay::fields::{SUBSCRIBE, Subscribe, Subscribed};
use hermes_proto::relay::{AduPiece, End, MAX_BESIDE, Position, RelayFrame};
use http::uri::PathAndQuery;
use http::{Method, header};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::joins::{Command, Join, Slot};
use crate::channel::Channel;
use crate::publish::PIECE;
use crate::settings::Rules;
use crate::share::Ending;

/// How often it looks whether it has other receivers than it told the relay.
const REPORT: Duration = Duration::from_millis(100);

/// How long a subscription stays whose last receiver has left: another may come.
const LINGER: Duration = Duration::from_secs(2);

/// The first wait before another attempt; each is twice the one before.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait before another attempt.
#[doc(alias = "bound")]
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Wishes of subscribers that wait.
#[doc(alias = "bound")]
const COMMANDS: usize = 16;

/// Bytes of a refusal's content that are kept for the one who asked.
#[doc(alias = "bound")]
const MAX_REFUSAL: usize = 16 * 1024;

/// The way to the relay, in the name of the first who asked.
pub(super) struct Upstream {
    pub(super) onward: Onward,
    /// The request that began it.
    pub(super) head: RequestHead,
    /// The subscription's own path.
    pub(super) location: Option<PathAndQuery>,
    pub(super) heartbeat: Duration,
    pub(super) opener: Opener,
    pub(super) rules: Arc<Rules>,
}

/// The relay's answer to a wish that it does not fulfil.
pub(super) struct UpstreamRefusal {
    head: ResponseHead,
    content: Bytes,
}

impl UpstreamRefusal {
    /// As the answer to the one who had the wish.
    pub(super) fn response(self) -> Response {
        Response::Whole(self.head, self.content)
    }
}

/// The beginning of a subscription.
pub(super) struct Begin<'a> {
    pub(super) at: Position,
    pub(super) content: Incoming,
    pub(super) expires: Instant,
    /// Bytes of messages that wait in this node.
    pub(super) held: &'a Arc<AtomicUsize>,
}

/// The end of a stream.
enum StreamEnd {
    /// It may be had again.
    Broken,
    /// No one has it any more.
    Idle,
    /// The relay ended it, for this reason.
    Over(Ending),
}

/// The path by which the relay's subscription can be reached.
pub(super) fn location(answer: &ResponseHead) -> Option<PathAndQuery> {
    let value = answer.fields.get(header::CONTENT_LOCATION)?;
    PathAndQuery::try_from(value.as_bytes()).ok()
}

impl Upstream {
    /// Reads the stream from now on, beside the exchanges of its receivers.
    pub(super) fn begin(self, begin: Begin<'_>, slot: &Arc<Slot>) -> Arc<Join> {
        let Begin {
            at,
            content,
            expires,
            held,
        } = begin;
        let channel = Arc::new(Channel::mirror(at, held.clone()));
        let (commands, wishes) = mpsc::channel(COMMANDS);
        let join = Arc::new(Join::new(channel, commands, expires));
        let opener = self.opener.clone();
        let reader = Reader {
            upstream: self,
            slot: slot.clone(),
            channel: join.channel.clone(),
            join: Arc::downgrade(&join),
            wishes,
            told: 1,
            idle_since: None,
            long: None,
        };
        opener.spawn(reader.run(content));
        join
    }

    /// A request about the subscription.
    fn about(&self, method: Method, wish: &Subscribe) -> Option<RequestHead> {
        let mut head = self.head.clone();
        head.method = method;
        head.path = Some(self.location.clone()?);
        head.fields.remove(SUBSCRIBE);
        if let Some(value) = wish.value() {
            head.fields.insert(SUBSCRIBE, value);
        }
        Some(head)
    }

    /// Sends a wish, and passes the answer on; nothing waits for it here.
    fn wish(&self, wish: Subscribe, command: Option<Command>) {
        let Some(head) = self.about(Method::POST, &wish) else {
            return;
        };
        let onward = self.onward.clone();
        self.opener.spawn(async move {
            let answered = onward.send(head, Incoming::Empty).await;
            let (Some(command), Ok((head, content))) = (command, answered) else {
                return;
            };
            let answer = if head.status.is_success() {
                Ok(command.lasts)
            } else {
                let content = whole(content).await;
                Err(UpstreamRefusal { head, content })
            };
            // Who asked may be gone.
            let _ = command.answer.send(answer);
        });
    }

    /// Subscribes again, at the place of the subscription or, if it is over, anew.
    async fn again(&mut self, from: Position, receivers: u64) -> Result<Incoming, Option<Ending>> {
        let wish = Subscribe {
            timeout: None,
            from: Some(from),
            receivers: Some(receivers),
            share: None,
        };
        for is_anew in [false, true] {
            let mut head = match is_anew {
                false => match self.about(Method::GET, &wish) {
                    Some(head) => head,
                    None => continue,
                },
                true => self.head.clone(),
            };
            if let Some(value) = wish.value() {
                head.fields.insert(SUBSCRIBE, value);
            }
            let sent = self.onward.send(head, Incoming::Empty).await;
            let (answer, content) = sent.map_err(|_| None)?;
            if answer.status.is_server_error() {
                return Err(None);
            }
            let subscribed = Subscribed::read(&answer.fields).ok().flatten();
            match subscribed.filter(|_| answer.status.is_success()) {
                Some(subscribed) if subscribed.at.epoch == from.epoch => {
                    self.location = location(&answer).or(self.location.take());
                    return Ok(content);
                }
                Some(_) => return Err(Some(stopping("the channel of the relay began anew"))),
                None if is_anew => return Err(Some(stopping("the relay refuses"))),
                None => {}
            }
        }
        Err(Some(stopping("the relay refuses")))
    }
}

/// A subscriber that comes again after this gets the relay's own answer.
fn stopping(text: &str) -> Ending {
    Ending {
        reason: End::Stopping,
        text: text.to_owned(),
        moved: None,
    }
}

/// The task of one subscription.
struct Reader {
    upstream: Upstream,
    slot: Arc<Slot>,
    channel: Arc<Channel>,
    join: std::sync::Weak<Join>,
    wishes: mpsc::Receiver<Command>,
    /// The receivers that the relay knows of.
    told: u64,
    idle_since: Option<Instant>,
    /// The long message whose pieces are passed on.
    long: Option<u64>,
}

impl Reader {
    async fn run(mut self, mut content: Incoming) {
        loop {
            let ended = self.stream(content).await;
            if let Some(sequence) = self.long.take() {
                self.channel.abort_long(sequence);
            }
            let ending = match ended {
                StreamEnd::Idle => {
                    self.wishes.close();
                    let leave = Subscribe::default();
                    if let Some(head) = self.upstream.about(Method::DELETE, &leave) {
                        // It has no one to tell of a failure: the relay's grace ends it as well.
                        drop(self.upstream.onward.send(head, Incoming::Empty).await);
                    }
                    return;
                }
                StreamEnd::Over(ending) => ending,
                StreamEnd::Broken => match self.come_again().await {
                    Ok(again) => {
                        content = again;
                        continue;
                    }
                    Err(ending) => ending,
                },
            };
            // In this order: who comes from now on does not join what is over.
            self.wishes.close();
            self.channel.end(&ending);
            return;
        }
    }

    /// Takes one stream to its end.
    async fn stream(&mut self, mut content: Incoming) -> StreamEnd {
        let longest = self.upstream.rules.message.max(PIECE);
        let mut decoder = CapsuleDecoder::new((longest + MAX_BESIDE) as u64);
        let mut reports = interval(REPORT);
        reports.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let silence = 2 * self.upstream.heartbeat + Duration::from_secs(5);
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                frame = std::future::poll_fn(|cx| content.poll_frame(cx)) => {
                    let Some(Ok(Frame::Data(data))) = frame else {
                        return StreamEnd::Broken;
                    };
                    decoder.push(data);
                    if let Some(ended) = self.take(&mut decoder).await {
                        return ended;
                    }
                    // Only now: while receivers have no room, the relay is not listened to.
                    heard = Instant::now();
                }
                Some(command) = self.wishes.recv() => self.forward(command),
                _ = reports.tick() => {
                    if self.report().await {
                        return StreamEnd::Idle;
                    }
                    if heard.elapsed() > silence {
                        return StreamEnd::Broken;
                    }
                }
            }
        }
    }

    fn forward(&mut self, command: Command) {
        self.told = self.channel.receivers().max(1);
        let wish = Subscribe {
            timeout: Some(command.lasts.as_secs()),
            from: None,
            receivers: Some(self.told),
            share: None,
        };
        self.upstream.wish(wish, Some(command));
    }

    /// Takes the capsules that are there.
    async fn take(&mut self, decoder: &mut CapsuleDecoder) -> Option<StreamEnd> {
        loop {
            let capsule = match decoder.next() {
                Ok(Some(capsule)) => capsule,
                Ok(None) => return None,
                Err(_) => return Some(StreamEnd::Broken),
            };
            match RelayFrame::decode(&capsule) {
                Ok(RelayFrame::Adu(adu)) => {
                    self.channel.take_over(adu, self.lag()).await;
                }
                Ok(RelayFrame::Gap(gap)) => self.channel.lose(gap),
                // Its own stream has another one in its place: this one is over, the subscription is not.
                Ok(RelayFrame::End(End::Stopping | End::Timeout | End::Taken, _)) => {
                    return Some(StreamEnd::Broken);
                }
                Ok(RelayFrame::End(reason, text)) => {
                    let text = String::from_utf8_lossy(&text).into_owned();
                    return Some(StreamEnd::Over(Ending {
                        reason,
                        text,
                        moved: None,
                    }));
                }
                // Subscribers who come again are sent there by the relay itself.
                Ok(RelayFrame::Moved(_)) => {
                    return Some(StreamEnd::Over(stopping("the relay has moved")));
                }
                Ok(RelayFrame::Begin(adu)) => {
                    let sequence = adu.sequence;
                    let goes_on = self.channel.begin_long(adu, self.lag()).await;
                    self.long = goes_on.then_some(sequence);
                }
                Ok(RelayFrame::More(piece)) => self.take_piece(&piece).await,
                Ok(RelayFrame::Abort(sequence)) if self.long == Some(sequence) => {
                    self.long = None;
                    self.channel.abort_long(sequence);
                }
                Ok(RelayFrame::Abort(_) | RelayFrame::Heartbeat(_) | RelayFrame::Unknown) => {}
                Err(_) => return Some(StreamEnd::Broken),
            }
        }
    }

    /// Passes a piece on, if those before it came here.
    async fn take_piece(&mut self, piece: &AduPiece) {
        if self.long == Some(piece.sequence) && !self.channel.go_on_long(piece, self.lag()).await {
            self.long = None;
        }
    }

    /// Until then a message waits for receivers without room.
    fn lag(&self) -> Instant {
        Instant::now() + self.upstream.rules.lag
    }

    /// Tells the relay how many receivers there are; whether it is time to leave.
    async fn report(&mut self) -> bool {
        let receivers = self.channel.receivers();
        if receivers != self.told {
            self.told = receivers;
            let wish = Subscribe {
                receivers: Some(receivers),
                ..Subscribe::default()
            };
            self.upstream.wish(wish, None);
        }

        let is_idle = self.join.upgrade().is_none_or(|join| join.is_idle());
        if !is_idle {
            self.idle_since = None;
            return false;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        if since.elapsed() < LINGER {
            return false;
        }
        // Who comes does so with the slot locked.
        let mut slot = self.slot.join.lock().await;
        let is_idle = self.join.upgrade().is_none_or(|join| join.is_idle());
        if is_idle && slot.as_ref().is_some_and(|join| self.is_of(join)) {
            *slot = None;
        }
        is_idle
    }

    fn is_of(&self, join: &Arc<Join>) -> bool {
        std::ptr::eq(Arc::as_ptr(join), self.join.as_ptr())
    }

    /// Subscribes again after the stream broke off, for as long as a subscriber would wait.
    async fn come_again(&mut self) -> Result<Incoming, Ending> {
        let begin = Instant::now();
        let mut wait = FIRST_WAIT;
        while begin.elapsed() < self.upstream.rules.grace {
            let from = Position {
                epoch: self.channel.epoch,
                sequence: self.channel.sequence(),
            };
            let receivers = self.channel.receivers();
            let again = timeout(MAX_WAIT, self.upstream.again(from, receivers)).await;
            match again {
                Ok(Ok(content)) => {
                    self.told = receivers;
                    return Ok(content);
                }
                Ok(Err(Some(ending))) => return Err(ending),
                Ok(Err(None)) | Err(_) => {}
            }
            // Not all nodes come again at the same time.
            sleep(wait.mul_f32(jitter())).await;
            wait = (wait * 2).min(MAX_WAIT);
        }
        Err(stopping("the relay is away"))
    }
}

/// A factor from a half to one and a half.
fn jitter() -> f32 {
    let mut byte = [128];
    // Without random numbers all come at the same time, which they survive.
    let _ = getrandom::fill(&mut byte);
    0.5 + f32::from(byte[0]) / 256.0
}

/// The content of a refusal, as far as it is kept.
async fn whole(mut content: Incoming) -> Bytes {
    let mut read = Vec::new();
    while let Some(Ok(Frame::Data(data))) = std::future::poll_fn(|cx| content.poll_frame(cx)).await
    {
        let room = MAX_REFUSAL - read.len();
        read.extend_from_slice(&data[..data.len().min(room)]);
        if read.len() == MAX_REFUSAL {
            break;
        }
    }
    read.into()
}
