//! A tiny broker: everyone who asks for a channel gets what one exchange with its origin brings, from then on.

use std::collections::HashMap;
use std::sync::Arc;

use hermes_http::{Frame, Incoming, RequestHead, ResponseHead};
use hermes_plug::refusal::Refusal;
use hermes_plug::topic::{Behind, Subscription, Topic, TopicBounds};
use hermes_plug::{Handler, HandlerRequest, Handling, Opener, Response};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Version};
use parking_lot::Mutex;

/// Channels at once: each is an exchange with the origin.
#[doc(alias = "bound")]
const CHANNELS: usize = 256;

/// Pieces that a subscriber may fall behind before it is cut off, so that it delays no one.
#[doc(alias = "bound")]
const BEHIND: usize = 64;

/// Bytes of them, on each worker: a channel holds no more, however many subscribers are slow.
#[doc(alias = "bound")]
const BEHIND_BYTES: usize = 1024 * 1024;

type Channels = Arc<Mutex<HashMap<PathAndQuery, Arc<Topic>>>>;

/// Answers many clients with one exchange.
pub struct Broker {
    /// Whom the routes know the origin of all channels by.
    origin: Authority,
    channels: Channels,
}

impl Broker {
    /// A broker of the channels of this origin.
    pub fn new(origin: Authority) -> Self {
        Self {
            origin,
            channels: Channels::default(),
        }
    }

    /// Joins a channel, and begins it if no one has.
    fn join(&self, path: &PathAndQuery, opener: &Opener) -> Result<Subscription, Refusal> {
        let mut channels = self.channels.lock();
        if let Some(topic) = channels.get(path) {
            return Ok(topic.subscribe());
        }
        if channels.len() >= CHANNELS {
            let refusal = Refusal::new(ProxyError::ConnectionLimitReached, "too many channels");
            return Err(refusal);
        }
        let topic = Arc::new(Topic::new(TopicBounds {
            messages: BEHIND,
            bytes: BEHIND_BYTES,
            behind: Behind::Ends,
        }));
        let subscription = topic.subscribe();
        channels.insert(path.clone(), topic.clone());
        opener.spawn(publish(Channel {
            channels: self.channels.clone(),
            path: path.clone(),
            topic,
            opener: opener.clone(),
            question: question(&self.origin, path),
        }));
        Ok(subscription)
    }
}

impl Handler for Broker {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        let path = request.head.path.clone();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let joined = self.join(&path, &request.opener);
        let answered = joined.map(|subscription| {
            Response::Feed(ResponseHead::new(StatusCode::OK), Box::new(subscription))
        });
        Box::pin(std::future::ready(answered))
    }
}

/// One channel's exchange with the origin.
struct Channel {
    channels: Channels,
    path: PathAndQuery,
    topic: Arc<Topic>,
    opener: Opener,
    question: RequestHead,
}

/// Sends what comes to everyone who listens, until the origin ends or no one listens any more.
async fn publish(channel: Channel) {
    let Channel {
        channels,
        path,
        topic,
        opener,
        question,
    } = channel;
    if let Ok((head, mut content)) = opener.open(question, Incoming::Empty).await {
        while head.status.is_success() {
            tokio::select! {
                frame = content.frame() => match frame {
                    Some(Ok(Frame::Data(data))) => topic.publish(&data),
                    Some(Ok(Frame::Trailers(_))) | None => {
                        topic.end();
                        break;
                    }
                    Some(Err(_)) => break,
                },
                () = topic.deserted() => {
                    // Someone may have joined meanwhile; no one can while this is held.
                    let mut channels = channels.lock();
                    if topic.is_deserted() {
                        channels.remove(&path);
                        return;
                    }
                }
            }
        }
    }
    channels.lock().remove(&path);
}

fn question(origin: &Authority, path: &PathAndQuery) -> RequestHead {
    RequestHead {
        method: Method::GET,
        scheme: Some(Scheme::HTTP),
        authority: Some(origin.clone()),
        path: Some(path.clone()),
        protocol: None,
        fields: Fields::new(),
        version: Version::HTTP_11,
        origin_form: false,
    }
}
