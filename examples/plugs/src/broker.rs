//! A tiny broker: everyone who asks for a channel gets what one exchange with its origin brings, from then on.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hermes_http::{Frame, Incoming, Outgoing, RequestHead, ResponseHead, pipe};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Handler, HandlerRequest, Handling, Opener, Response};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Version};
use parking_lot::Mutex;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// Channels at once: each is an exchange with the origin.
#[doc(alias = "bound")]
const CHANNELS: usize = 256;

/// Pieces that a subscriber may fall behind before it is cut off, so that it delays no one.
#[doc(alias = "bound")]
const BEHIND: usize = 64;

/// What the subscribers of a channel are sent.
#[derive(Debug, Clone)]
enum Piece {
    Data(Bytes),
    /// The origin has ended its answer. Without it the channel broke.
    End,
}

type Channels = Arc<Mutex<HashMap<PathAndQuery, Sender<Piece>>>>;

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
    fn join(&self, path: &PathAndQuery, opener: &Opener) -> Result<Receiver<Piece>, Refusal> {
        let mut channels = self.channels.lock();
        if let Some(sender) = channels.get(path) {
            return Ok(sender.subscribe());
        }
        if channels.len() >= CHANNELS {
            let refusal = Refusal::new(ProxyError::ConnectionLimitReached, "too many channels");
            return Err(refusal);
        }
        let (sender, receiver) = broadcast::channel(BEHIND);
        channels.insert(path.clone(), sender.clone());
        opener.spawn(feed(Feed {
            channels: self.channels.clone(),
            path: path.clone(),
            sender,
            opener: opener.clone(),
            question: question(&self.origin, path),
        }));
        Ok(receiver)
    }
}

impl Handler for Broker {
    fn handle(&self, request: HandlerRequest) -> Handling<'_> {
        let path = request.head.path.clone();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        let answered = self.join(&path, &request.opener).map(|receiver| {
            let (outgoing, incoming) = pipe(None);
            request.opener.spawn(subscription(receiver, outgoing));
            Response::Stream(ResponseHead::new(StatusCode::OK), incoming)
        });
        Box::pin(std::future::ready(answered))
    }
}

/// One channel's exchange with the origin.
struct Feed {
    channels: Channels,
    path: PathAndQuery,
    sender: Sender<Piece>,
    opener: Opener,
    question: RequestHead,
}

/// Sends what comes to everyone who listens, until the origin ends or no one listens any more.
async fn feed(feed: Feed) {
    let Feed {
        channels,
        path,
        sender,
        opener,
        question,
    } = feed;
    if let Ok((head, mut content)) = opener.open(question, Incoming::Empty).await {
        while head.status.is_success() {
            tokio::select! {
                frame = content.frame() => match frame {
                    Some(Ok(Frame::Data(data))) => {
                        let _ = sender.send(Piece::Data(data));
                    }
                    Some(Ok(Frame::Trailers(_))) | None => {
                        let _ = sender.send(Piece::End);
                        break;
                    }
                    Some(Err(_)) => break,
                },
                () = sender.closed() => {
                    // Someone may have joined meanwhile; no one can while this is held.
                    let mut channels = channels.lock();
                    if sender.receiver_count() == 0 {
                        channels.remove(&path);
                        return;
                    }
                }
            }
        }
    }
    channels.lock().remove(&path);
}

/// Passes a channel on to one client.
async fn subscription(mut receiver: Receiver<Piece>, mut outgoing: Outgoing) {
    loop {
        let piece = tokio::select! {
            piece = receiver.recv() => piece,
            _ = outgoing.broken() => return,
        };
        let sent = match piece {
            Ok(Piece::Data(data)) => outgoing.data(data, false).await,
            Ok(Piece::End) => {
                let _ = outgoing.finish(None).await;
                return;
            }
            // Too far behind, or the channel broke: dropping the stream resets it.
            Err(_) => return,
        };
        if sent.is_err() {
            return;
        }
    }
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
