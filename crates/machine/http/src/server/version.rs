//! The exchanges of a connection: which HTTP version its first bytes speak, and the loop of that version.

use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use hermes_net::{Stream, Watch};
use hermes_proto::greeting::Greeting;
use tokio::io::{AsyncRead, ReadBuf};

use super::options::{Handler, Options, farewell};
use super::{h1, h2};

/// The first bytes of every HTTP/2 client (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of the first read: most heads are whole with it.
const FIRST_READ: usize = 4096;

/// Serves a connection from the client's first bytes on; returns the stream, once it has been
/// silent for long. `begun` says that HTTP/1.1 was spoken on it.
pub(crate) async fn exchanges<H: Handler>(
    mut stream: Stream,
    begun: bool,
    options: &Options,
    handler: H,
    watch: &Watch,
) -> Option<Stream> {
    let info = stream.info().clone();
    let mut first = BytesMut::new();
    let alpn_h2 = info
        .tls
        .as_ref()
        .is_some_and(|tls| tls.alpn.as_deref() == Some(b"h2"));

    // Where ALPN did not choose it, HTTP/2 is known by its preface (RFC 9113, 3.4).
    let is_h2 = if begun {
        false
    } else if alpn_h2 {
        true
    } else {
        Box::pin(sniff(&mut stream, &mut first, options, watch)).await?
    };

    let greeting = if info.tls.is_none() && !is_h2 {
        Greeting::of(&first)
    } else {
        None
    };

    if let Some(greeting) = greeting {
        handler.greeted(greeting, &info);
        let connection = crate::h1::Connection::new(stream, first);
        Box::pin(h1::refuse_greeting(connection, greeting, &info, &handler)).await;
        None
    } else if is_h2 {
        // HTTP/2 reads its preface itself.
        stream.unread(first.freeze());
        Box::pin(h2::serve(stream, info, options, handler, watch)).await;
        None
    } else {
        let connection = crate::h1::Connection::new(stream, first);
        h1::serve(connection, info, options, handler, watch).await
    }
}

/// Whether the client begins with the preface of HTTP/2; `None` if it says nothing, or the connection is to end.
async fn sniff(
    stream: &mut Stream,
    first: &mut BytesMut,
    options: &Options,
    watch: &Watch,
) -> Option<bool> {
    let begins = tokio::time::timeout(options.idle_time, begins_with_preface(stream, first));
    let begins = tokio::select! {
        begins = begins => begins.unwrap_or(false),
        () = farewell(watch) => return None,
    };
    (!first.is_empty()).then_some(begins)
}

/// Reads until it is certain whether the client begins with the HTTP/2 preface.
async fn begins_with_preface(stream: &mut Stream, first: &mut BytesMut) -> bool {
    // Ends with the first byte that differs: an HTTP/1.1 request is not held up for 24 bytes.
    while first.len() < PREFACE.len() && PREFACE.starts_with(first) {
        let read = poll_fn(|cx| poll_first(stream, first, cx)).await;
        if read.is_err() || matches!(read, Ok(0)) {
            return false;
        }
    }
    first.starts_with(PREFACE)
}

/// Reads once, and keeps no more room than the bytes need: an exchange may keep its head for as long as it lasts.
fn poll_first(
    stream: &mut Stream,
    first: &mut BytesMut,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    let mut room = [MaybeUninit::uninit(); FIRST_READ];
    let mut read = ReadBuf::uninit(&mut room);
    ready!(Pin::new(stream).poll_read(cx, &mut read))?;
    first.extend_from_slice(read.filled());
    Poll::Ready(Ok(read.filled().len()))
}
