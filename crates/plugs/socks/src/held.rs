//! Clients whose connection waits for its target, and the end of those that are refused.

use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use hermes_http::{
    HeldClient, Incoming, Outgoing, RefusalReason, Replying, ResponseHead, StreamError, h1,
};
use hermes_net::{Stream, Transport};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::socks::{SocksReply, SocksVersion};
use hermes_proto::socks6::{self, Socks6OperationReply, Socks6ReplyOption};
use hermes_proto::{multipath, tcp_bind};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, Interest, ReadBuf};

/// How long a client that was refused may take to read why.
#[doc(alias = "bound")]
const FAREWELL_TIME: Duration = Duration::from_secs(2);

/// Bytes that are read of a client that was refused: those that it sent before it knew.
#[doc(alias = "bound")]
const FAREWELL_BYTES: u64 = 64 * 1024;

/// Bytes that are read of a client before its target has answered; the others stay in its socket.
#[doc(alias = "bound")]
const EARLY_BYTES: usize = 16 * 1024;

/// A client that has not been answered.
#[derive(Debug)]
pub(crate) struct SocksClient {
    pub stream: Stream,
    pub version: SocksVersion,
    /// Bytes that may open the connection to the target, at most, where the client asks for that; 0 says any number.
    pub fast_open: Option<u16>,
    /// Whether the connection to the target is to use several paths, where a client of SOCKS6 says so.
    pub multipath: Option<bool>,
}

impl SocksClient {
    fn reply(self, reply: SocksReply) -> Replying<Outgoing> {
        let bytes = reply.encode(self.version, unknown());
        Box::pin(async move {
            dismiss(self.stream, &bytes).await;
            Ok(Outgoing::Ended)
        })
    }
}

impl HeldClient for SocksClient {
    fn accept(self: Box<Self>, fields: Fields) -> Replying<(Incoming, Outgoing)> {
        let Self {
            mut stream,
            version,
            multipath,
            ..
        } = *self;
        // A client that says nothing of paths is told nothing.
        let is_multipath = multipath.map(|_| multipath::is_used(&fields).unwrap_or(false));
        // The address that the target sees is that of another node as a rule. Programs need to know one where they have the target connect to it.
        let bound = tcp_bind::local(&fields).unwrap_or(unknown());
        Box::pin(async move {
            let reply = match is_multipath {
                Some(is_multipath) => opened_6(bound, is_multipath),
                None => SocksReply::Succeeded.encode(version, bound),
            };
            stream.write_all(&reply).await.map_err(StreamError::from)?;
            // Bytes that the client sent before the reply are still there, unread.
            let (read, write) = stream.split();
            let incoming = Incoming::H1(h1::BodyReceiver::bytes(read));
            let outgoing = Outgoing::H1(h1::BodySender::bytes(write));
            Ok((incoming, outgoing))
        })
    }

    fn respond(self: Box<Self>, head: ResponseHead, _: Option<u64>) -> Replying<Outgoing> {
        self.reply(of_status(head.status))
    }

    fn refuse(
        self: Box<Self>,
        reason: RefusalReason,
        _: ResponseHead,
        _: Option<u64>,
    ) -> Replying<Outgoing> {
        self.reply(reply_to(&reason))
    }

    fn first_bytes(&mut self) -> Option<Bytes> {
        let most = match self.fast_open? {
            0 => EARLY_BYTES,
            most => usize::from(most).min(EARLY_BYTES),
        };
        let mut room = [0; EARLY_BYTES];
        let mut read = ReadBuf::new(&mut room[..most]);
        // Those that are there: the connection is not opened without any, as a target that speaks first would wait for them.
        let polled =
            pin!(&mut self.stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut read);
        let is_some = matches!(polled, Poll::Ready(Ok(()))) && !read.filled().is_empty();
        is_some.then(|| Bytes::copy_from_slice(read.filled()))
    }

    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(left(&mut self.stream))
    }
}

/// The reply of SOCKS6 to a client that has spoken of paths.
fn opened_6(bound: SocketAddr, is_multipath: bool) -> Vec<u8> {
    socks6::encode_operation_reply(&Socks6OperationReply {
        reply: SocksReply::Succeeded,
        bound: Some(bound),
        options: vec![Socks6ReplyOption::Multipath(is_multipath)],
    })
}

/// Waits until a client has left: it has ended its side without a byte for its target, or reset the connection. One that ends its side after
/// such bytes may read on.
async fn left(stream: &mut Stream) {
    if !matches!(early(stream).await, Ok(true)) {
        return;
    }
    match stream.transport() {
        // A runtime that is shutting down has no more to say either.
        Transport::Tcp(tcp) => drop(tcp.ready(Interest::ERROR).await),
        Transport::Unix(unix) => drop(unix.ready(Interest::ERROR).await),
        _ => pending().await,
    }
}

/// Waits for the client's next bytes and puts them back; whether there are any.
async fn early(stream: &mut Stream) -> io::Result<bool> {
    std::future::poll_fn(|cx| {
        let mut room = [0; EARLY_BYTES];
        let mut read = ReadBuf::new(&mut room);
        // In one step, so that nothing is lost where no one waits for it any longer.
        ready!(pin!(&mut *stream).poll_read(cx, &mut read))?;
        let bytes = Bytes::copy_from_slice(read.filled());
        let is_any = !bytes.is_empty();
        stream.unread(bytes);
        Poll::Ready(Ok(is_any))
    })
    .await
}

/// The reply that says as much as SOCKS can say (RFC 1928, 6).
fn reply_to(reason: &RefusalReason) -> SocksReply {
    match reason.error {
        ProxyError::HttpRequestDenied | ProxyError::DestinationIpProhibited => {
            SocksReply::NotAllowed
        }
        ProxyError::DestinationIpUnroutable => SocksReply::NetworkUnreachable,
        ProxyError::DestinationNotFound
        | ProxyError::DestinationUnavailable
        | ProxyError::DnsError
        | ProxyError::DnsTimeout => SocksReply::HostUnreachable,
        ProxyError::ConnectionTimeout => SocksReply::TimedOut,
        ProxyError::ConnectionRefused => SocksReply::ConnectionRefused,
        _ => of_status(reason.status),
    }
}

fn of_status(status: StatusCode) -> SocksReply {
    match status {
        StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::PROXY_AUTHENTICATION_REQUIRED => SocksReply::NotAllowed,
        StatusCode::NOT_FOUND => SocksReply::HostUnreachable,
        _ => SocksReply::GeneralFailure,
    }
}

/// The address of replies that are about none: the far end of a connection may be a node away.
pub(crate) fn unknown() -> SocketAddr {
    SocketAddr::from(([0; 4], 0))
}

/// Tells a client something and closes its connection.
pub(crate) async fn dismiss(mut stream: Stream, last: &[u8]) {
    let farewell = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        // A connection that is closed with bytes unread is reset, and the client may never see the reply.
        let mut unwanted = (&mut stream).take(FAREWELL_BYTES);
        tokio::io::copy(&mut unwanted, &mut tokio::io::sink()).await
    };
    // Whether the client has read it is not known, and it is gone either way.
    let _ = tokio::time::timeout(FAREWELL_TIME, farewell).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(error: ProxyError, status: StatusCode) -> SocksReply {
        reply_to(&RefusalReason {
            status,
            error,
            details: String::new(),
        })
    }

    #[test]
    fn a_refusal_has_the_reply_of_its_reason() {
        for (error, reply) in [
            (ProxyError::HttpRequestDenied, SocksReply::NotAllowed),
            (ProxyError::DestinationIpProhibited, SocksReply::NotAllowed),
            (
                ProxyError::DestinationIpUnroutable,
                SocksReply::NetworkUnreachable,
            ),
            (ProxyError::DestinationNotFound, SocksReply::HostUnreachable),
            (ProxyError::DnsError, SocksReply::HostUnreachable),
            (ProxyError::ConnectionTimeout, SocksReply::TimedOut),
            (ProxyError::ConnectionRefused, SocksReply::ConnectionRefused),
            (ProxyError::TlsAlertReceived, SocksReply::GeneralFailure),
        ] {
            assert_eq!(refused(error, error.status()), reply, "{error:?}");
        }
    }

    #[test]
    fn a_reason_that_socks_does_not_know_has_the_reply_of_its_status() {
        let error = ProxyError::HttpRequestError;
        for (status, reply) in [
            (StatusCode::FORBIDDEN, SocksReply::NotAllowed),
            (StatusCode::NOT_FOUND, SocksReply::HostUnreachable),
            (StatusCode::BAD_REQUEST, SocksReply::GeneralFailure),
        ] {
            assert_eq!(refused(error, status), reply);
        }
    }
}
