//! The way to answer an exchange over HTTP/1.1.

use std::future::poll_fn;
use std::io;

use bytes::{Buf, Bytes};
use hermes_net::Watch;
use hermes_proto::fields::Fields;
use hermes_proto::fields::names::{CONNECTION, CONTENT_LENGTH, UPGRADE};
use hermes_proto::h1::{self as codec, Framing};
use hermes_proto::upgrade::Protocol;
use hermes_proto::websocket::Key;
use http::{HeaderValue, Method, StatusCode, Version};
use tokio::io::AsyncWriteExt;

use crate::error::{Cause, StreamError};
use crate::h1::{BodySender, Ends, WayBack, WriteSide};
use crate::head::{Kind, ResponseHead};
use crate::pace::{Answered, Pace};
use crate::{Incoming, MinRate, Outgoing};

/// The way to answer one exchange.
#[derive(Debug)]
pub struct ConnectionResponder {
    pub(crate) write: WriteSide,
    pub(crate) way_back: WayBack<WriteSide>,
    pub(crate) keep_alive: bool,
    pub(crate) method: Method,
    pub(crate) upgrade: Option<Protocol>,
    /// The key that a WebSocket client waits to see answered.
    pub(crate) websocket: Option<Key>,
    pub(crate) version: Version,
    /// How fast the client must read the response.
    pub(crate) min_rate: Option<MinRate>,
    /// Told when the response begins.
    pub(crate) answered: Answered,
    /// Whether a client that has ended its side still reads.
    pub(crate) half_close: bool,
    pub(crate) watch: Watch,
}

impl ConnectionResponder {
    /// Dropping the future harms nothing.
    pub(crate) async fn interim(&mut self, head: &ResponseHead) -> Result<(), StreamError> {
        if self.version == Version::HTTP_10 {
            return Ok(());
        }
        let WriteSide { half, pieces } = &mut self.write;
        codec::encode_response(
            head.status,
            &head.fields,
            Framing::Empty,
            &self.method,
            &mut pieces.head,
        )?;

        // If this future is dropped, the rest leaves before the next head.
        while pieces.has_remaining() {
            if half.write_buf(&mut **pieces).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
        }

        pieces.clear(true);
        half.flush().await?;
        Ok(())
    }

    pub(crate) fn respond(
        mut self,
        head: ResponseHead,
        length: Option<u64>,
    ) -> Result<Outgoing, StreamError> {
        let ResponseHead {
            status, mut fields, ..
        } = head;
        let framing = self.framing(status, length);

        // RFC 9931: bytes that follow a refused CONNECT or Upgrade must not be taken for a request.
        let refused_tunnel = self.method == Method::CONNECT;
        let last = self.way_back.is_spoilt() || self.watch.is_draining();
        if refused_tunnel || framing == Framing::UntilClose || last {
            self.keep_alive = false;
        }

        if !self.keep_alive {
            self.way_back.spoil();
            fields.insert(CONNECTION, HeaderValue::from_static("close"));
        } else if self.version == Version::HTTP_10 {
            fields.insert(CONNECTION, HeaderValue::from_static("keep-alive"));
        }

        let method = self.wire_method();
        codec::encode_response(
            status,
            &fields,
            framing,
            &method,
            &mut self.write.pieces.head,
        )?;

        self.answered.set();
        let mut outgoing = BodySender::content(self.write, framing, self.way_back);
        outgoing.half_close(self.half_close);
        let outgoing = Outgoing::H1(outgoing);
        Ok(outgoing.paced(Pace::of_reader(self.min_rate)))
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method == Method::HEAD
    }

    /// HTTP/1.1 has no word for an exchange that is not wanted any more: a client that gives up closes the connection, and all that can be
    /// seen of that until something is sent to it is a FIN. One that ends its side only, and reads on, looks the same; few do, and
    /// nothing in RFC 9112 asks a server to wait for them, so that `half_close` has to say that they are there.
    pub(crate) async fn gone(&mut self) {
        let Self {
            write,
            way_back,
            half_close,
            ..
        } = self;
        tokio::select! {
            () = write.half.broken() => {}
            () = poll_fn(|cx| way_back.poll_ended(cx)), if !*half_close => {}
        }
    }

    /// The method that stood on the wire: an upgrade is a GET there.
    fn wire_method(&self) -> Method {
        if self.upgrade.is_some() {
            Method::GET
        } else {
            self.method.clone()
        }
    }

    /// RFC 9112, 6.3: the framing of the response's content.
    fn framing(&self, status: StatusCode, length: Option<u64>) -> Framing {
        let bodiless = self.method == Method::HEAD
            || status.is_informational()
            || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        match length {
            _ if bodiless => Framing::Empty,
            Some(length) => Framing::Length(length),
            None if self.version == Version::HTTP_10 => Framing::UntilClose,
            None => Framing::Chunked,
        }
    }

    pub(crate) async fn accept(
        mut self,
        mut fields: Fields,
        mut incoming: Incoming,
    ) -> Result<(Incoming, Outgoing), StreamError> {
        if self.method != Method::CONNECT {
            // A message with its two contents as the tunnel: both directions stay framed.
            let outgoing = self.respond(
                ResponseHead {
                    fields,
                    ..ResponseHead::new(StatusCode::OK)
                },
                None,
            )?;

            let mut outgoing = outgoing.paced(Pace::default());
            outgoing.flush().await?;
            incoming.pace(Pace::default());
            return Ok((incoming, outgoing));
        }

        let Incoming::H1(incoming) = incoming else {
            return Err(not_a_tunnel());
        };
        let method = self.wire_method();
        let ends = match &self.upgrade {
            Some(protocol) if Kind::of_protocol(protocol) == Kind::Upgrade => Ends::Closed,
            _ => Ends::Notified,
        };

        let status = match self.upgrade.take() {
            None => StatusCode::OK,
            Some(protocol) => {
                fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
                let token = HeaderValue::from_str(protocol.as_str()).map_err(|_| not_a_tunnel())?;
                fields.insert(UPGRADE, token);
                crate::websocket::answer(self.websocket.as_ref(), &mut fields);
                StatusCode::SWITCHING_PROTOCOLS
            }
        };

        // RFC 9110, 9.3.6 and 15.2.2: neither is followed by content.
        fields.remove(CONTENT_LENGTH);
        codec::encode_response(
            status,
            &fields,
            Framing::Empty,
            &method,
            &mut self.write.pieces.head,
        )?;

        let mut incoming = incoming.into_tunnel(ends).ok_or_else(not_a_tunnel)?;
        let mut outgoing = BodySender::tunnel(self.write);
        // The head leaves now: the client may wait for it before it sends its first byte.
        outgoing.data(Bytes::new(), false).await?;
        if status == StatusCode::OK {
            incoming.leave_tls_to_kernel(&mut outgoing)?;
        }

        Ok((Incoming::H1(incoming), Outgoing::H1(outgoing)))
    }
}

fn not_a_tunnel() -> StreamError {
    StreamError::new(Cause::Invalid("the exchange is not a tunnel".to_owned()))
}
