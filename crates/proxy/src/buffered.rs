//! An exchange whose answer is kept in memory as a whole, within bounds: a question to a server, or one copy of a request.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_http::h1::client::Receiver;
use hermes_http::{
    Event, Frame, Incoming, Outgoing, Processed, RequestHead, ResponseHead, StreamError,
};
use hermes_proto::fields::Fields;
use hermes_upstream::{Checkout, Opened};

use crate::plug::{StoreError, StoredContent};

/// Why there is no whole response.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The stream failed.
    Stream(StreamError),
    /// The content is larger than this many bytes.
    TooLarge(usize),
    /// The server opened a tunnel that no one asked for.
    Tunnel,
    /// The request's content could not be read again.
    Store(StoreError),
}

impl Failure {
    /// Whether the request may be sent again: the server certainly did not act on it, or it may be sent twice and its
    /// connection, which had served others, died without an answer (`stale`).
    pub(crate) fn may_repeat(&self, stale: bool) -> bool {
        matches!(self, Self::Stream(error) if stale || error.processed == Processed::No)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::TooLarge(limit) => write!(f, "the answer has more than {limit} bytes"),
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

/// The content of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    pub(crate) data: Bytes,
    pub(crate) trailers: Option<Fields>,
}

impl Content {
    /// Without trailers.
    pub(crate) fn of(data: Bytes) -> Self {
        Self {
            data,
            trailers: None,
        }
    }

    /// Its length, to be announced; `None` with trailers, which HTTP/1.1 has behind chunks only.
    pub(crate) fn length(&self) -> Option<u64> {
        self.trailers.is_none().then_some(self.data.len() as u64)
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// As for [`Outgoing::data`].
    pub(crate) async fn send(self, outgoing: &mut Outgoing) -> Result<(), StreamError> {
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
pub(crate) enum RequestBody {
    /// In memory.
    Whole(Bytes),
    /// In a store.
    Stored(Stored),
}

/// A content in a store, with its trailers.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) content: Arc<dyn StoredContent>,
    pub(crate) trailers: Option<Fields>,
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
            if piece.is_empty() {
                let reason = format!("{sent} of {length} bytes are there");
                return Err(Unsent::Store(StoreError::Failed(reason)));
            }

            sent += piece.len() as u64;
            let end = sent >= length && trailers.is_none();
            outgoing.data(piece, end).await?;
            if end {
                return Ok(());
            }
        }

        Ok(outgoing.finish(trailers).await?)
    }
}

/// Sends a message and reads its response, whose content has at most `limit` bytes. Interim responses are not kept.
///
/// # Errors
/// The exchange failed, or its response is too large. Dropping the future cancels the exchange.
pub(crate) async fn message(
    checkout: Checkout,
    head: &RequestHead,
    content: RequestBody,
    receiver: Receiver,
    limit: usize,
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
    let read = read(&mut incoming, limit);
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

/// Reads content to its end, at most `limit` bytes.
///
/// # Errors
/// The stream failed, or there is more.
pub(crate) async fn read(incoming: &mut Incoming, limit: usize) -> Result<Content, Failure> {
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
        if content.len() + data.len() > limit {
            return Err(Failure::TooLarge(limit));
        }
        content.extend_from_slice(&data);
    }
    Ok(Content {
        data: content.freeze(),
        trailers,
    })
}
