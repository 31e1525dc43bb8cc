//! An exchange whose answer is kept in memory as a whole, within bounds: a question to a server, or one copy of a request.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_http::h1::client::Receiver;
use hermes_http::{
    Event, Frame, Incoming, Outgoing, Processed, RequestHead, ResponseHead, StreamError,
};
use hermes_net::memory::{Charge, Overdrawn, OwnerAccount, Purpose};
use hermes_plug::{StoreError, StoredContent};
use hermes_proto::fields::Fields;
use hermes_upstream::{Checkout, Opened};

/// Why there is no whole response.
#[derive(Debug)]
pub enum Failure {
    /// The stream failed.
    Stream(StreamError),
    /// The content is larger than this many bytes.
    TooLarge(usize),
    /// Its user or source may have no more memory.
    Overdrawn(Overdrawn),
    /// The server opened a tunnel that no one asked for.
    Tunnel,
    /// The request's content could not be read again.
    Store(StoreError),
}

impl Failure {
    /// Whether the request may be sent again: the server certainly did not act on it, or it may be sent twice and its
    /// connection, which had served others, died without an answer (`stale`).
    pub fn may_repeat(&self, stale: bool) -> bool {
        matches!(self, Self::Stream(error) if stale || error.processed == Processed::No)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::TooLarge(limit) => write!(f, "the answer has more than {limit} bytes"),
            Self::Overdrawn(overdrawn) => overdrawn.fmt(f),
            Self::Tunnel => f.write_str("the answer opens a tunnel"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

impl From<Overdrawn> for Failure {
    fn from(overdrawn: Overdrawn) -> Self {
        Self::Overdrawn(overdrawn)
    }
}

/// The content of a message.
#[derive(Debug, Default)]
pub struct Content {
    /// The bytes.
    pub data: Bytes,
    /// The trailers, if there were any.
    pub trailers: Option<Fields>,
    /// Its charge, where an owner is charged.
    pub charge: Option<Charge>,
}

impl Content {
    /// Without trailers.
    pub fn of(data: Bytes) -> Self {
        Self {
            data,
            ..Self::default()
        }
    }

    /// Sends all of it.
    async fn send(self, outgoing: &mut Outgoing) -> Result<(), StreamError> {
        if self.trailers.is_none() && !self.data.is_empty() {
            return outgoing.data(self.data, true).await;
        }
        if !self.data.is_empty() {
            outgoing.data(self.data, false).await?;
        }
        outgoing.finish(self.trailers).await
    }
}

/// The content of a request.
#[derive(Clone)]
pub enum RequestBody {
    /// In memory.
    Whole(Bytes),
    /// In a store.
    Stored(Stored),
}

/// A content in a store, with its trailers.
#[derive(Clone)]
pub struct Stored {
    /// Where it is kept.
    pub content: Arc<dyn StoredContent>,
    /// The trailers, if there were any.
    pub trailers: Option<Fields>,
}

/// Why content was not sent.
enum Unsent {
    /// The stream takes no more.
    Stream,
    Store(StoreError),
}

impl From<StreamError> for Unsent {
    fn from(_: StreamError) -> Self {
        Self::Stream
    }
}

impl RequestBody {
    /// Its length, to be announced; `None` with trailers.
    fn length(&self) -> Option<u64> {
        match self {
            Self::Whole(data) => Some(data.len() as u64),
            Self::Stored(Stored { content, trailers }) => {
                trailers.is_none().then(|| content.length())
            }
        }
    }

    async fn send(self, outgoing: &mut Outgoing) -> Result<(), Unsent> {
        match self {
            Self::Whole(data) => Ok(Content::of(data).send(outgoing).await?),
            Self::Stored(stored) => stored.send(outgoing).await,
        }
    }
}

impl Stored {
    /// Sends all of it, as fast as it is taken.
    async fn send(self, outgoing: &mut Outgoing) -> Result<(), Unsent> {
        let Self { content, trailers } = self;
        let length = content.length();
        let mut sent = 0;
        while sent < length {
            let piece = content.read(sent).await.map_err(Unsent::Store)?;
            // A store that has fewer bytes than it said would else be asked for ever.
            if piece.is_empty() {
                let reason = format!("{sent} of {length} bytes are there");
                return Err(Unsent::Store(StoreError::Failed(reason)));
            }

            sent += piece.len() as u64;
            // The end goes with the last piece: on its own it would cost one more frame.
            let end = sent >= length && trailers.is_none();
            outgoing.data(piece, end).await?;
            if end {
                return Ok(());
            }
        }

        Ok(outgoing.finish(trailers).await?)
    }
}

/// The bound of a response.
#[derive(Clone)]
pub struct Limit {
    /// Bytes of its content.
    pub bytes: usize,
    /// Who is charged for its head and content; `None` where few responses are bounded by themselves.
    pub account: Option<OwnerAccount>,
}

impl Limit {
    /// Charges the head of a response.
    fn head(&self, head: &ResponseHead) -> Result<Option<Charge>, Overdrawn> {
        let account = self.account.as_ref();
        let charge = |of: &OwnerAccount| of.charge(Purpose::Collected, head.fields.size());
        account.map(charge).transpose()
    }
}

/// Sends a message and reads its response within the limit. Interim responses are not kept.
///
/// # Errors
/// The exchange failed, or its response is too large. Dropping the future cancels the exchange.
pub async fn message(
    checkout: Checkout,
    head: &RequestHead,
    content: RequestBody,
    receiver: Receiver,
    limit: &Limit,
) -> Result<(ResponseHead, Content), Failure> {
    let opened = checkout.open(head, content.length(), receiver).await?;
    let Opened {
        mut outgoing,
        mut pending,
        active: _active,
        ..
    } = opened;
    let send = async {
        match content.send(&mut outgoing).await {
            Ok(()) => Ok(()),
            Err(Unsent::Store(error)) => Err(Failure::Store(error)),
            // A server that answers early need not read on; if no answer comes, the other direction says why.
            Err(Unsent::Stream) => std::future::pending().await,
        }
    };
    tokio::pin!(send);
    let mut sent = false;
    let (head, mut incoming) = loop {
        // The response is looked at first: a server may answer before it has read the whole
        // content.
        tokio::select! {
            biased;
            event = pending.event(None) => match event? {
                Event::Interim(_) => {}
                Event::Final(head, incoming) => break (head, incoming),
                Event::Tunnel(..) => return Err(Failure::Tunnel),
            },
            done = &mut send, if !sent => {
                done?;
                sent = true;
            }
        }
    };
    let charge = limit.head(&head)?;
    let read = read(&mut incoming, limit.bytes, charge);
    tokio::pin!(read);
    loop {
        tokio::select! {
            biased;
            content = &mut read => {
                return content.map(|content| (head, content));
            }
            done = &mut send, if !sent => {
                done?;
                sent = true;
            }
        }
    }
}

/// Reads content to its end, at most `limit` bytes, and adds them to the charge.
///
/// # Errors
/// The stream failed, there is more, or its owner may have no more memory.
async fn read(
    incoming: &mut Incoming,
    limit: usize,
    mut charge: Option<Charge>,
) -> Result<Content, Failure> {
    if incoming
        .length()
        .is_some_and(|length| length > limit as u64)
    {
        return Err(Failure::TooLarge(limit));
    }
    let mut content = BytesMut::new();
    let mut trailers = None;
    while let Some(frame) = incoming.frame().await {
        let data = match frame? {
            Frame::Data(data) => data,
            Frame::Trailers(fields) => {
                trailers = Some(fields);
                continue;
            }
        };
        // The announced length, if any, was only the client's word.
        if content.len() + data.len() > limit {
            return Err(Failure::TooLarge(limit));
        }
        make_room(&mut content, data.len(), charge.as_mut())?;
        content.extend_from_slice(&data);
    }

    Ok(Content {
        data: content.freeze(),
        trailers,
        charge,
    })
}

/// Grows the buffer where it has no room for so many bytes more, and charges its new capacity.
fn make_room(
    content: &mut BytesMut,
    bytes: usize,
    charge: Option<&mut Charge>,
) -> Result<(), Overdrawn> {
    let length = content.len();
    let before = content.capacity();
    if before - length >= bytes {
        return Ok(());
    }

    let wanted = (length + bytes).max(2 * before);
    if let Some(charge) = charge {
        charge.grow(wanted - before)?;
    }
    content.reserve(wanted - length);
    Ok(())
}
