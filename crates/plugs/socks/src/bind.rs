//! BIND: a client that waits for a connection of its target, and is answered twice (RFC 1928, 4 and 6).
//!
//! It is a CONNECT with `Hermes-Listen`. The first reply names the address that the answer to that names, the second one the peer that the
//! first bytes of the tunnel name, which are a header of the PROXY protocol.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hermes_config::model::HostPort;
use hermes_http::{
    HeldClient, Incoming, Offered, Outgoing, RefusalReason, Replying, ResponseHead, StreamError, h1,
};
use hermes_net::Stream;
use hermes_plug::opening_head::connect;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_protocol::{self, Header, MAX_REST};
use hermes_proto::socks::{SocksReply, SocksTarget, SocksVersion};
use hermes_proto::tcp_bind;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::held::{SocksClient, dismiss, unknown};

/// The port of a target whose client names none: the exchange needs one, and the peer may connect from any.
const ANY_PORT: u16 = 1;

/// Bytes of the longest header: its fixed part and the rest.
const MOST_HEADER: usize = 16 + MAX_REST;

/// The exchange of a client that waits for a connection.
pub(crate) fn waiting(target: SocksTarget, stream: Stream, version: SocksVersion) -> Box<Offered> {
    let SocksTarget { host, port } = target;
    let port = if port == 0 { ANY_PORT } else { port };
    let mut head = connect(&HostPort { host, port });
    head.fields
        .insert(tcp_bind::HERMES_LISTEN, tcp_bind::asked());
    let source = stream.info().clone();
    // 8.1.5: the option of a BIND is about connections that come, which open as ever.
    let client = SocksClient {
        stream,
        version,
        fast_open: None,
        multipath: None,
    };
    Offered::held(head, source, Incoming::Empty, Box::new(BindClient(client)))
}

/// A client that waits for a connection, and has not been answered.
#[derive(Debug)]
struct BindClient(SocksClient);

impl HeldClient for BindClient {
    fn accept(self: Box<Self>, fields: Fields) -> Replying<(Incoming, Outgoing)> {
        let SocksClient {
            mut stream,
            version,
            ..
        } = self.0;
        Box::pin(async move {
            let Some(bound) = tcp_bind::answered(&fields) else {
                // The far end has connected to the target, for all it knows of this.
                let reply = SocksReply::CommandNotSupported.encode(version, unknown());
                dismiss(stream, &reply).await;
                return Err(StreamError::from(io::Error::from(
                    io::ErrorKind::Unsupported,
                )));
            };
            let reply = SocksReply::Succeeded.encode(version, bound);
            stream.write_all(&reply).await.map_err(StreamError::from)?;

            let info = (**stream.info()).clone();
            let told = TwiceAnswered {
                stream,
                version,
                second: Second::Header(Vec::new()),
            };
            let (read, write) = Stream::other(Box::new(told), info).split();
            let incoming = Incoming::H1(h1::BodyReceiver::bytes(read));
            let outgoing = Outgoing::H1(h1::BodySender::bytes(write));
            Ok((incoming, outgoing))
        })
    }

    fn respond(self: Box<Self>, head: ResponseHead, length: Option<u64>) -> Replying<Outgoing> {
        Box::new(self.0).respond(head, length)
    }

    fn refuse(
        self: Box<Self>,
        reason: RefusalReason,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Replying<Outgoing> {
        Box::new(self.0).refuse(reason, head, length)
    }

    fn gone(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.gone()
    }
}

/// The second reply of a client.
#[derive(Debug)]
enum Second {
    /// It waits for the header, of which this has come.
    Header(Vec<u8>),
    /// These bytes of it are still to be written, and so many of the last write were the header's.
    Reply(Vec<u8>, usize),
    /// It was given.
    Given,
}

/// A client's connection, on which the header of the tunnel becomes the second reply.
#[derive(Debug)]
struct TwiceAnswered {
    stream: Stream,
    version: SocksVersion,
    second: Second,
}

impl TwiceAnswered {
    /// Takes bytes of the header, and makes the reply of it once it is whole.
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Second::Header(header) = &mut self.second else {
            return Ok(0);
        };
        let before = header.len();
        header.extend(bytes.iter().take(MOST_HEADER - before));
        let decoded = proxy_protocol::decode(header);
        match decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
            None => Ok(header.len() - before),
            Some((header, length)) => {
                let peer = match header {
                    Header::Proxied { source, .. } => source,
                    Header::Local | Header::Unknown => unknown(),
                };
                let taken = length - before;
                self.answer(SocksReply::Succeeded, peer, taken);
                Ok(taken)
            }
        }
    }

    fn answer(&mut self, reply: SocksReply, peer: SocketAddr, taken: usize) {
        self.second = Second::Reply(reply.encode(self.version, peer), taken);
    }

    /// Writes the rest of the reply; says how many bytes of the header it is for.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Second::Reply(reply, taken) = &mut self.second {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, reply))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            reply.drain(..written);
            if reply.is_empty() {
                let taken = *taken;
                self.second = Second::Given;
                return Poll::Ready(Ok(taken));
            }
        }
        Poll::Ready(Ok(0))
    }
}

impl AsyncRead for TwiceAnswered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for TwiceAnswered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if let Second::Header(_) = self.second {
            let taken = self.take(bytes)?;
            if let Second::Header(_) = self.second {
                return Poll::Ready(Ok(taken));
            }
        }
        // The client may send nothing before it has the reply, and hear nothing more before that: it leaves now. A caller that has to wait comes
        // again with the same bytes.
        match ready!(self.poll_reply(cx))? {
            0 => Pin::new(&mut self.stream).poll_write(cx, bytes),
            taken => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The tunnel has ended without a connection.
        if let Second::Header(_) = self.second {
            self.answer(SocksReply::TimedOut, unknown(), 0);
        }
        ready!(self.poll_reply(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use hermes_net::{PeerAddress, StreamInfo};
    use hermes_proto::proxy_protocol::Version;
    use tokio::io::{AsyncReadExt, DuplexStream};

    use super::*;

    /// A connection that waits for its second reply, and the client's end with room for so many bytes.
    fn begin(room: usize) -> (TwiceAnswered, DuplexStream) {
        let (near, far) = tokio::io::duplex(room);
        let info = StreamInfo {
            peer: PeerAddress::Ip(unknown()),
            local: None,
            tls: None,
            origin: None,
        };
        let told = TwiceAnswered {
            stream: Stream::other(Box::new(near), info),
            version: SocksVersion::V5,
            second: Second::Header(Vec::new()),
        };
        (told, far)
    }

    fn header() -> Vec<u8> {
        let header = Header::Proxied {
            source: "192.0.2.7:20".parse().unwrap(),
            destination: "192.0.2.45:40007".parse().unwrap(),
        };
        proxy_protocol::encode(Version::V2, header)
    }

    const SECOND: [u8; 10] = [5, 0, 0, 1, 192, 0, 2, 7, 0, 20];

    #[tokio::test]
    async fn the_header_becomes_the_second_reply_in_pieces_of_any_size() {
        let sent = [&header()[..], b"220 ready"].concat();
        for piece in [1, 3, header().len(), header().len() + 1, sent.len()] {
            // So little room that the reply has to wait.
            let (mut told, mut client) = begin(4);
            let sending = async {
                for piece in sent.chunks(piece) {
                    told.write_all(piece).await.unwrap();
                }
                told.shutdown().await.unwrap();
                drop(told);
            };
            let mut heard = Vec::new();
            let (_, read) = tokio::join!(sending, client.read_to_end(&mut heard));
            read.unwrap();
            assert_eq!(heard, [&SECOND[..], b"220 ready"].concat(), "{piece}");
        }
    }

    #[tokio::test]
    async fn an_end_without_a_header_is_a_reply_that_no_one_came() {
        for part in [0, 5] {
            let (mut told, mut client) = begin(64);
            told.write_all(&header()[..part]).await.unwrap();
            told.shutdown().await.unwrap();
            drop(told);
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, [5, 4, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
    }

    #[tokio::test]
    async fn bytes_that_are_no_header_are_an_error_and_never_reach_the_client() {
        let (mut told, mut client) = begin(64);
        assert!(told.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_err());
        drop(told);
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"");
    }
}
