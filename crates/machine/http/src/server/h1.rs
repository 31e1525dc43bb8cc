//! The server side of an HTTP/1.1 connection: one exchange after the other.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use hermes_net::clock;
use hermes_net::memory::{ConnectionCharges, FieldsCharge};
use hermes_net::{Stream, StreamInfo, Watch};
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{CONNECTION, EXPECT, HOST, SEC_WEBSOCKET_KEY};
use hermes_proto::greeting::Greeting;
use hermes_proto::h1::{self as codec, DecodeError, Framing, RequestTarget};
use hermes_proto::upgrade::Protocol;
use hermes_proto::websocket::{BadKey, Key};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Method, StatusCode};
use tokio::io::AsyncWriteExt;

use super::options::{Handler, Options, SILENCE, farewell};
use crate::h1::{BodyReceiver, Connection, Rejoin};
use crate::pace::Pace;
use crate::responders::ConnectionResponder;
use crate::reusable_timer::ReusableTimer;
use crate::{Incoming, Offered, RequestHead, Responder};

/// How long the rest of an unwanted request is read, so that the client sees the response (RFC
/// 9112, 9.6).
#[doc(alias = "bound")]
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Bytes of an unwanted request that are read for the same reason.
#[doc(alias = "bound")]
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// Offers the exchanges of a connection until it ends; the stream, once its client has been silent for [`SILENCE`].
pub(crate) async fn serve<H: Handler>(
    mut connection: Connection,
    source: Arc<StreamInfo>,
    options: &Options,
    handler: H,
    watch: &Watch,
) -> Option<Stream> {
    // All are kept from one exchange to the next: to begin them anew costs more than to wait.
    let mut farewell = pin!(farewell(watch));
    let mut timer = ReusableTimer::default();
    let mut rejoin = None;
    let mut charges = None;

    loop {
        let next = tokio::select! {
            biased;
            next = next_head(&mut connection, options, &mut timer) => next,
            () = &mut farewell => return None,
        };

        let head = match next {
            Ok(Next::Head(head)) => head,
            Ok(Next::Silent) => return connection.into_stream(),
            Ok(Next::Ended) => return None,
            Err(error) => {
                Box::pin(refuse_malformed(connection, &error, &source, &handler)).await;
                return None;
            }
        };

        // A client that has not sent a request yet needs none of these.
        let rejoin = rejoin.get_or_insert_with(Rejoin::of_server);
        let charges = charges.get_or_insert_with(|| ConnectionCharges::of(&source.peer));
        let mut offered = offer(
            connection,
            head,
            source.clone(),
            options,
            rejoin,
            watch.clone(),
        );

        // HTTP/1.1 has one exchange at a time, and the previous one was sent: its user has room for
        // it, or not.
        offered.charge(charges.arrive_anyway(offered.head.footprint()));
        handler.handle(offered).await;
        // Both halves: a request whose content is not read yet, or an answer that is not sent, holds the connection.
        let back = rejoin.returned().await?;
        // RFC 9112, 9.6: closing at once could reset the connection before the client has read all.
        if !back.reusable {
            Box::pin(linger(back)).await;
            return None;
        }

        connection = back;
    }
}

/// The client's next step.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart where it is made"
)]
enum Next {
    /// A request.
    Head(codec::RequestHead),
    /// Silence for now.
    Silent,
    /// The end, or too long a pause between exchanges.
    Ended,
}

/// The next request head.
async fn next_head(
    connection: &mut Connection,
    options: &Options,
    timer: &mut ReusableTimer,
) -> Result<Next, Bad> {
    if connection.read.buffer.is_empty() {
        // Plain sockets are handed back to wait without buffers and state; TLS has records of its own and stays.
        let patience = if connection.can_wait() {
            SILENCE.min(options.idle_time)
        } else {
            options.idle_time
        };

        match timer
            .bound(clock::now() + patience, connection.read.fill())
            .await
        {
            Some(Ok(length)) if length > 0 => {}
            None if patience < options.idle_time => return Ok(Next::Silent),
            _ => return Ok(Next::Ended),
        }
    }

    let mut deadline = None;
    let mut unfinished = FieldsCharge::default();
    loop {
        if let Some(head) = codec::decode_request(&mut connection.read.buffer, &options.head)? {
            if upgrade(&head) == Some(&Protocol::WebSocket) {
                refuse_bad_key(&head.fields)?;
            }
            return Ok(Next::Head(head));
        }

        // Bytes that come at once are read whole, and charged to their user.
        let read = poll_fn(|cx| Poll::Ready(connection.read.poll_fill(cx))).await;
        if let Poll::Ready(Ok(1..)) = read {
            continue;
        }

        // The room, not the bytes: a client that sends a head byte by byte occupies all of it.
        let unread = connection.read.buffer.capacity();
        let peer = &connection.source().peer;
        if unfinished.hold(peer, unread).is_err() {
            // Nor is there any while its client may still read the answer.
            connection.read.buffer = BytesMut::new();
            return Err(Bad::NoRoom);
        }

        // One deadline for the whole head: bytes that trickle in do not extend it.
        let deadline = *deadline.get_or_insert_with(|| clock::now() + options.head_time);
        match timer.bound(deadline, connection.read.fill()).await {
            Some(Ok(length)) if length > 0 => {}
            Some(_) => return Ok(Next::Ended),
            None => return Err(Bad::Slow),
        }
    }
}

/// RFC 6455, 4.2.1. Without any key, the client speaks through a proxy that took WebSocket from HTTP/2 as it came.
fn refuse_bad_key(fields: &Fields) -> Result<(), BadKey> {
    if fields.contains_key(SEC_WEBSOCKET_KEY) {
        Key::of(fields).map(drop)
    } else {
        Ok(())
    }
}

fn offer(
    connection: Connection,
    head: codec::RequestHead,
    source: Arc<StreamInfo>,
    options: &Options,
    rejoin: &Arc<Rejoin>,
    watch: Watch,
) -> Box<Offered> {
    let framing = head.framing;
    let keep_alive = head.keep_alive;
    let request = request_head(head);

    let (of_reading, of_writing) = rejoin.part(None);
    if !keep_alive {
        of_writing.spoil();
    }

    let (pace, answered) = Pace::of_content(options.min_rate, request.fields.contains_key(EXPECT));
    let mut incoming = BodyReceiver::content(connection.read, framing, &options.head, of_reading);
    incoming.pace(pace);

    let responder = ConnectionResponder {
        write: connection.write,
        way_back: of_writing,
        keep_alive,
        method: request.method.clone(),
        websocket: crate::websocket::key_of(&request),
        upgrade: request.protocol.clone(),
        version: request.version,
        min_rate: options.min_rate,
        answered,
        half_close: options.half_close,
        watch,
    };

    Offered::new(
        request,
        source,
        Incoming::H1(incoming),
        Responder::H1(responder),
    )
}

/// The version-independent head. `Host` is folded into the authority.
fn request_head(head: codec::RequestHead) -> RequestHead {
    let protocol = upgrade(&head).cloned();
    let codec::RequestHead {
        method,
        target,
        version,
        mut fields,
        ..
    } = head;

    let host = fields
        .take(HOST)
        .and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let origin_form = matches!(target, RequestTarget::Origin(_) | RequestTarget::Asterisk);
    let (scheme, authority, path) = match target {
        RequestTarget::Origin(path) => (None, host, Some(path)),
        RequestTarget::Absolute {
            scheme,
            authority,
            path,
        } => (Some(scheme), Some(authority), Some(path)),
        RequestTarget::Authority(authority) => (None, Some(authority), None),
        RequestTarget::Asterisk => (None, host, Some(PathAndQuery::from_static("*"))),
    };

    let method = if protocol.is_some() {
        Method::CONNECT
    } else {
        method
    };

    RequestHead {
        method,
        scheme,
        authority,
        path,
        protocol,
        fields,
        version,
        origin_form,
    }
}

/// The protocol that a request switches to; other requests keep theirs, as RFC 9110, 7.8 allows.
fn upgrade(head: &codec::RequestHead) -> Option<&Protocol> {
    let possible = head.method == Method::GET && head.framing == Framing::Empty;
    head.upgrade.as_ref().filter(|_| possible)
}

/// A request that is answered by the connection itself.
enum Bad {
    /// A violation of HTTP/1.1.
    Malformed(DecodeError),
    /// A request for WebSocket with a bad key (RFC 6455, 4.2.1).
    Handshake(BadKey),
    /// Another protocol than HTTP.
    Greeting(Greeting),
    /// Its head took too long (RFC 9110, 15.5.9).
    Slow,
    /// Its source has no memory left for a head that is large and not whole.
    NoRoom,
}

impl Bad {
    fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(error) => error.status(),
            Self::Handshake(_) | Self::Greeting(_) => StatusCode::BAD_REQUEST,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Malformed(error) => error.to_string(),
            Self::Handshake(error) => error.to_string(),
            Self::Greeting(greeting) => greeting.reason().to_owned(),
            Self::Slow => "the request head took too long".to_owned(),
            Self::NoRoom => "the source has no memory left for heads of requests".to_owned(),
        }
    }
}

impl From<BadKey> for Bad {
    fn from(error: BadKey) -> Self {
        Self::Handshake(error)
    }
}

impl From<DecodeError> for Bad {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

/// Answers a client that does not speak HTTP.
pub(crate) async fn refuse_greeting<H: Handler>(
    mut connection: Connection,
    greeting: Greeting,
    source: &StreamInfo,
    handler: &H,
) {
    match greeting.refusal() {
        None => refuse_malformed(connection, &Bad::Greeting(greeting), source, handler).await,
        Some(refusal) => {
            // Counts it; the answer is not for this client.
            drop(handler.malformed(StatusCode::BAD_REQUEST, greeting.reason(), source));
            if connection.write.half.write_all(refusal).await.is_ok() {
                linger(connection).await;
            }
        }
    }
}

async fn refuse_malformed<H: Handler>(
    mut connection: Connection,
    error: &Bad,
    source: &StreamInfo,
    handler: &H,
) {
    let mut head = handler.malformed(error.status(), &error.reason(), source);
    head.fields
        .insert(CONNECTION, HeaderValue::from_static("close"));
    let mut out = BytesMut::new();

    if codec::encode_response(
        head.status,
        &head.fields,
        Framing::Length(0),
        &Method::GET,
        &mut out,
    )
    .is_ok()
        && connection.write.half.write_all(&out).await.is_ok()
    {
        linger(connection).await;
    }
}

/// Ends our direction and reads a bounded rest, so that a reset does not overtake the answer.
async fn linger(mut connection: Connection) {
    if connection.write.half.shutdown().await.is_err() {
        return;
    }
    let drained = async {
        let mut left = LINGER_BYTES;
        while let Ok(length) = connection.read.fill().await {
            connection.read.buffer.clear();
            if length == 0 || length >= left {
                return;
            }
            left -= length;
        }
    };

    let _ = tokio::time::timeout(LINGER_TIME, drained).await;
}
