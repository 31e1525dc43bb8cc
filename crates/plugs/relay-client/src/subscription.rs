//! A subscription that comes again when its stream breaks off.

use std::collections::VecDeque;
use std::time::Duration;

use hermes_certified::{Approval, Statement};
use hermes_proto::capsule::CapsuleDecoder;
use hermes_proto::relay::fields::{SUBSCRIBE, Subscribe, Subscribed};
use hermes_proto::relay::{Adu, End, MAX_BESIDE, MEDIA_TYPE, Position, RelayFrame, Stripe};
use http::{HeaderValue, Request, Uri, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{sleep, timeout};

use crate::channel::{Channel, channel_path, path};
use crate::connection::{Connection, Trouble, empty, fields};
use crate::error::ClientError;
use crate::event::{Event, Loss};
use crate::receiving::Receiving;
use crate::signing;
use crate::ways::Ways;

/// Bytes of one capsule: the longest message and all that stands beside it.
#[doc(alias = "bound")]
const MAX_CAPSULE: u64 = (16 << 20) + MAX_BESIDE as u64;

/// The first wait before another attempt; each is twice the one before, up to [`MAX_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait before another attempt.
#[doc(alias = "bound")]
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Relays that a subscriber is sent to, one after the other, before it takes them for a circle.
#[doc(alias = "bound")]
const MAX_REDIRECTS: usize = 4;

/// Milliseconds in which subscribers come to another relay.
const SPREAD: u64 = 200;

/// The wishes of a subscriber.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Seconds that the subscription is to last; as the relay likes if absent.
    pub timeout: Option<u64>,
    /// The subscriber's position: messages missed since are told as a loss.
    pub from: Option<Position>,
    /// The only senders, where the subscriber is the receiver that the channel names.
    pub approve: Option<Approval>,
}

/// A subscription.
#[derive(Debug)]
pub struct Subscription {
    ways: Ways,
    wish: Wish,
    receiving: Receiving,
    /// The channel: another one than at first, once it has moved.
    url: Uri,
    /// The relay to ask where that one cannot be reached.
    other: Option<Uri>,
    /// The path of the channel, or of the subscription once there is one.
    path: String,
    at: Option<Position>,
    /// The silence after which the relay is doubted, once it has answered.
    silence: Option<Duration>,
    stream: Option<Stream>,
    waits: Waits,
    events: VecDeque<Event>,
    is_over: bool,
}

/// The time until the next attempt.
#[derive(Debug)]
struct Waits {
    next: Duration,
    pause: Option<Duration>,
    /// Redirects since a relay answered.
    redirects: usize,
}

/// One stream.
#[derive(Debug)]
struct Stream {
    content: Incoming,
    decoder: CapsuleDecoder,
    /// Carries it.
    _connection: Connection,
}

impl Subscription {
    /// Subscribes to this channel: begins with the first event that is asked for.
    #[must_use]
    pub fn new(channel: Channel, wish: Wish) -> Self {
        Self::by(Ways::one(channel), wish)
    }

    fn by(ways: Ways, wish: Wish) -> Self {
        let channel = &ways.channel;
        Self {
            receiving: Receiving::new(channel.clone()),
            url: channel.url.clone(),
            path: path(&channel.url),
            other: None,
            at: wish.from,
            silence: None,
            stream: None,
            waits: Waits {
                next: FIRST_WAIT,
                pause: None,
                redirects: 0,
            },
            events: VecDeque::new(),
            is_over: false,
            ways,
            wish,
        }
    }

    /// Subscribes to a share of this channel by the first of these ways, of which there is one at least; where it breaks off, by the next.
    pub(crate) fn of_share(channels: Vec<Channel>, wish: Wish, share: Stripe) -> Self {
        Self::by(Ways::of_share(channels, share), wish)
    }

    /// The next event; `None` once the subscription is over. May be dropped and called anew without a loss.
    ///
    /// # Errors
    /// The relay refuses, or is not there at the first attempt: a mistake rather than a network that comes and goes.
    pub async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.is_over {
                return Ok(None);
            }
            if let Some(pause) = self.waits.pause {
                sleep(pause).await;
                self.waits.pause = None;
            }
            match self.stream.is_some() {
                true => self.read().await,
                false => self.open().await?,
            }
        }
    }

    /// The position of the last message.
    #[must_use]
    pub fn at(&self) -> Option<Position> {
        self.at
    }

    /// The relay at which the channel is now.
    #[must_use]
    pub fn url(&self) -> &Uri {
        &self.url
    }

    /// Subscribes, at first or again.
    async fn open(&mut self) -> Result<(), ClientError> {
        let was_open = self.silence.is_some();
        match self.attempt().await {
            Ok(()) => {}
            Err(Trouble::Moved(there)) if self.waits.redirects < MAX_REDIRECTS => {
                self.waits.redirects += 1;
                self.go_to(there);
            }
            Err(Trouble::Moved(there)) => {
                self.waits.redirects = 0;
                let reason = format!("{there}: the relay sends from one to another without an end");
                if !was_open {
                    self.is_over = true;
                    return Err(ClientError::Away(reason));
                }
                // Where it began may know better, after a while.
                self.url = self.ways.channel.url.clone();
                self.start_over();
                self.broken(reason);
            }
            Err(Trouble::Failed(ClientError::Away(_))) if !was_open && self.ways.has_untried() => {
                self.change_way();
            }
            Err(Trouble::Failed(error)) if !was_open => {
                self.is_over = true;
                return Err(error);
            }
            Err(Trouble::Failed(error)) => {
                match error {
                    ClientError::Away(_) => self.change_relay(),
                    ClientError::Refused(_) | ClientError::Invalid(_) => self.start_over(),
                }
                self.broken(error.to_string());
            }
        }
        Ok(())
    }

    async fn attempt(&mut self) -> Result<(), Trouble> {
        // One connection for each stream: on HTTP/1.1, another request would wait for its end.
        let mut connection = Connection::to(&self.ways.channel, &self.url).await?;
        let wish = Subscribe {
            timeout: self.wish.timeout,
            from: self.at,
            receivers: None,
            share: self.ways.share,
        };
        let mut request = Request::new(empty());
        let target = self.path.parse();
        *request.uri_mut() =
            target.map_err(|error| ClientError::Invalid(format!("{}: {error}", self.path)))?;
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(value) = wish.value() {
            headers.insert(SUBSCRIBE, value);
        }
        if let (Some(key), Some(_)) = (&self.ways.channel.signing, self.ways.channel.keys.receiver)
        {
            let approve = self.wish.approve.as_ref().map(Approval::value);
            let statement = Statement {
                method: "GET",
                target: &self.path,
                approve: approve.as_deref(),
                ..Statement::default()
            };
            signing::sign(key, &statement, headers)?;
        }
        let answer = connection.send(request).await?;
        let subscribed = Subscribed::read(&fields(answer.headers()));
        let Some(subscribed) = subscribed.ok().flatten() else {
            let url = &self.url;
            let reason =
                format!("{url} is no channel of a relay: its answer has no Hermes-Subscribe");
            return Err(ClientError::Refused(reason).into());
        };
        self.opened(&subscribed);
        if let Some(location) = answer.headers().get(header::CONTENT_LOCATION)
            && let Ok(location) = location.to_str()
        {
            location.clone_into(&mut self.path);
        }
        self.stream = Some(Stream {
            content: answer.into_body(),
            decoder: CapsuleDecoder::new(MAX_CAPSULE),
            _connection: connection,
        });
        Ok(())
    }

    fn opened(&mut self, subscribed: &Subscribed) {
        self.waits.redirects = 0;
        // Two signs of life may be missed.
        self.silence = Some(Duration::from_secs(2 * subscribed.heartbeat + 5));
        // Numbers of another life of the channel begin anew; the gap between the two is told by the relay.
        let is_same = |at: &Position| at.epoch == subscribed.at.epoch;
        self.at = self.at.filter(is_same).or(Some(subscribed.at));
        self.events.push_back(Event::Opened {
            at: subscribed.at,
            is_recovered: subscribed.is_recovered,
        });
    }

    /// Takes the next piece of the stream.
    async fn read(&mut self) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        let data = match timeout(self.silence.unwrap_or(MAX_WAIT), stream.content.frame()).await {
            Err(_) => return self.broken("the relay is silent".to_owned()),
            Ok(None) => return self.broken("the stream ended".to_owned()),
            Ok(Some(Err(error))) => return self.broken(error.to_string()),
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
        stream.decoder.push(data);
        while let Some(stream) = &mut self.stream {
            let frame = match stream.decoder.next() {
                Ok(None) => return,
                Ok(Some(capsule)) => RelayFrame::decode(&capsule),
                Err(error) => return self.broken(error.to_string()),
            };
            match frame {
                Ok(frame) => self.take(frame),
                Err(error) => self.broken(error.to_string()),
            }
        }
    }

    fn take_message(&mut self, adu: &Adu) {
        let Some(at) = &mut self.at else {
            return;
        };
        // One that came by another stream already.
        if adu.sequence <= at.sequence {
            return;
        }

        at.sequence = adu.sequence;
        self.waits.next = FIRST_WAIT;
        let event = self.receiving.message(adu, *at, signing::seconds());
        self.events.push_back(event);
    }

    /// Ends a message that comes in pieces; the next one follows it.
    fn end_long(&mut self, sequence: u64) {
        self.receiving.coming = None;
        if let Some(at) = &mut self.at {
            at.sequence = sequence;
        }
    }

    fn take(&mut self, frame: RelayFrame) {
        match frame {
            RelayFrame::Adu(adu) => self.take_message(&adu),
            RelayFrame::Begin(adu) => self.begin_long(&adu),
            RelayFrame::More(piece) if self.receiving.coming == Some(piece.sequence) => {
                self.waits.next = FIRST_WAIT;
                if piece.is_last {
                    self.end_long(piece.sequence);
                }
                self.events.push_back(Event::Piece {
                    data: piece.data,
                    is_last: piece.is_last,
                });
            }
            RelayFrame::Abort(sequence) if self.receiving.coming == Some(sequence) => {
                self.events.push_back(Loss::of_one("aborted", None));
                self.end_long(sequence);
            }
            // Of a message whose beginning did not come here.
            RelayFrame::More(_) | RelayFrame::Abort(_) => {}
            RelayFrame::Gap(gap) => self.events.push_back(Event::Lost(Loss {
                count: gap.count,
                reason: gap.reason.word(),
                details: None,
            })),
            RelayFrame::End(End::Stopping, _) => {
                // The subscription ends with its relay: there is another one, or the same again.
                self.start_over();
                self.broken("the relay stops".to_owned());
            }
            RelayFrame::End(reason, text) => {
                // Messages that were read before are still told.
                self.stream = None;
                self.is_over = true;
                let text = String::from_utf8_lossy(&text).into_owned();
                self.events.push_back(Event::Ended { reason, text });
            }
            RelayFrame::Moved(uri) => match Uri::try_from(uri.as_ref()) {
                Ok(there) if there.host().is_some() => self.go_to(there),
                _ => self.broken("the relay names no URL where the channel goes on".to_owned()),
            },
            RelayFrame::Heartbeat(_) | RelayFrame::Unknown => {}
        }
    }

    /// Its content is not checked by a key, nor sealed: those have to be whole.
    fn begin_long(&mut self, adu: &Adu) {
        let Some(at) = self.at else {
            return;
        };
        if adu.sequence <= at.sequence {
            return;
        }
        let at = Position {
            sequence: adu.sequence,
            ..at
        };
        match self.receiving.long(adu, at) {
            Some(received) => {
                self.receiving.coming = Some(adu.sequence);
                self.events.push_back(Event::Begun(received));
            }
            None => {
                self.at = Some(at);
                let reason = "its pieces cannot be checked, nor opened, before all have come";
                let loss = Loss::of_one("unreadable", Some(reason.to_owned()));
                self.events.push_back(loss);
            }
        }
    }

    /// Goes on at another relay.
    fn go_to(&mut self, there: Uri) {
        self.receiving.coming = None;
        self.stream = None;
        self.path = path(&there);
        self.url = there;
        self.other = Some(self.ways.channel.url.clone()).filter(|first| *first != self.url);
        // A subscription waits there: others come at other times.
        self.waits.pause = Some(Duration::from_millis(fastrand::u64(..SPREAD)));
    }

    /// The relay cannot be reached: the first one may know where the channel is now, or the one that it went to may be there again.
    fn change_relay(&mut self) {
        if let Some(other) = self.other.take() {
            self.other = Some(std::mem::replace(&mut self.url, other));
            self.start_over();
        }
    }

    /// The subscription is over; the next one tells the messages missed since.
    fn start_over(&mut self) {
        self.path = channel_path(&self.url);
    }

    /// Goes by the next way, where there are several. The subscription is the same.
    fn change_way(&mut self) {
        if let Some(before) = self.ways.change()
            && self.url == before.url
        {
            self.url = self.ways.channel.url.clone();
        }
    }

    fn broken(&mut self, reason: String) {
        self.receiving.coming = None;
        self.stream = None;
        self.events.push_back(Event::Away(reason));
        self.change_way();
        let wait = self.waits.next;
        // Not all come again at the same time.
        self.waits.pause = Some(wait.mul_f32(0.5 + fastrand::f32()));
        self.waits.next = (wait * 2).min(MAX_WAIT);
    }
}
