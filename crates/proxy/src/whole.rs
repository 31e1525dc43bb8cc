//! An exchange that is kept in memory as a whole, within bounds: a question to a server, or one copy of a request.

use std::fmt;

use bytes::{Bytes, BytesMut};
use hermes_http::h1::client::Receiver;
use hermes_http::{Event, Frame, Incoming, Processed, RequestHead, ResponseHead, StreamError};
use hermes_upstream::{Checkout, Opened};

/// Why there is no whole response.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The stream failed.
    Stream(StreamError),
    /// The response's content is larger than this many bytes.
    TooLarge(usize),
    /// The server opened a tunnel that nobody asked for.
    Tunnel,
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
        }
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

/// Sends a message and reads its response, whose content has at most `limit` bytes. Trailers and interim responses are not kept.
///
/// # Errors
/// The exchange failed, or its response is too large. Dropping the future cancels the exchange.
pub(crate) async fn message(
    checkout: Checkout,
    head: &RequestHead,
    content: Bytes,
    receiver: Receiver,
    limit: usize,
) -> Result<(ResponseHead, Bytes), Failure> {
    let opened = checkout.open(head, Some(content.len() as u64), receiver).await?;
    let Opened { mut outgoing, mut pending, active: _active, .. } = opened;
    let send = async {
        let sent = if content.is_empty() { outgoing.finish(None).await } else { outgoing.data(content, true).await };
        if sent.is_err() {
            // Whoever answers early need not read on; if no answer comes, the other direction says why.
            std::future::pending::<()>().await;
        }
    };
    tokio::pin!(send);
    let mut sent = false;
    let (head, mut incoming) = loop {
        tokio::select! {
            biased;
            event = pending.event(None) => match event? {
                Event::Interim(_) => {}
                Event::Final(head, incoming) => break (head, incoming),
                Event::Tunnel(..) => return Err(Failure::Tunnel),
            },
            () = &mut send, if !sent => sent = true,
        }
    };
    let read = read(&mut incoming, limit);
    tokio::pin!(read);
    loop {
        tokio::select! {
            biased;
            content = &mut read => return Ok((head, content?)),
            () = &mut send, if !sent => sent = true,
        }
    }
}

/// Reads content to its end, at most `limit` bytes.
///
/// # Errors
/// The stream failed, or there is more.
pub(crate) async fn read(incoming: &mut Incoming, limit: usize) -> Result<Bytes, Failure> {
    if incoming.length().is_some_and(|length| length > limit as u64) {
        return Err(Failure::TooLarge(limit));
    }
    let mut content = BytesMut::new();
    while let Some(frame) = incoming.frame().await {
        let Frame::Data(data) = frame? else { continue };
        if content.len() + data.len() > limit {
            return Err(Failure::TooLarge(limit));
        }
        content.extend_from_slice(&data);
    }
    Ok(content.freeze())
}
