//! Content that leaves on an HTTP/1.1 connection, or the plain bytes of a tunnel.

use std::future::{Future, pending, poll_fn, ready};
use std::io;

use bytes::{Buf, Bytes};
use hermes_net::memory::FieldsCharge;
use hermes_net::{WriteHalf, leave_tls_to_kernel};
use hermes_proto::fields::Fields;
use hermes_proto::h1::{BodyEncoder, Framing, is_forbidden_trailer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::either::Either;

use super::{ReadSide, WayBack, WriteSide};
use crate::error::{Cause, NO_ROOM, Reset, StreamError};
use crate::pace::Pace;

/// The sending half. A head is held back until content or a flush follows, so that both leave in one packet.
#[derive(Debug)]
pub struct BodySender {
    write: Option<WriteSide>,
    encoder: Option<BodyEncoder>,
    way_back: Option<WayBack<WriteSide>>,
    pace: Pace,
    finished: bool,
    /// Whether a client that has ended its side still reads.
    half_close: bool,
}

impl BodySender {
    /// Content framed as `framing` says, after the head that is in `write`; the connection goes home afterwards.
    pub(crate) fn content(
        write: WriteSide,
        framing: Framing,
        way_back: WayBack<WriteSide>,
    ) -> Self {
        let encoder = Some(BodyEncoder::new(framing));
        Self {
            write: Some(write),
            encoder,
            way_back: Some(way_back),
            pace: Pace::default(),
            finished: false,
            half_close: true,
        }
    }

    /// The plain bytes of a connection's writing half.
    pub fn bytes(half: WriteHalf) -> Self {
        Self::tunnel(WriteSide::new(half))
    }

    pub(crate) fn tunnel(write: WriteSide) -> Self {
        Self {
            write: Some(write),
            encoder: None,
            way_back: None,
            pace: Pace::default(),
            finished: false,
            half_close: true,
        }
    }

    /// The client of this answer may end its side and read on, or has given up when it ends it.
    pub(crate) fn half_close(&mut self, half_close: bool) {
        self.half_close = half_close;
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// The tunnel was accepted: from now on, plain bytes leave.
    pub(crate) fn become_tunnel(&mut self) {
        self.encoder = None;
        self.way_back = None;
        self.finished = false;
    }

    /// Leaves the TLS of a tunnel to the kernel, if possible and no output waits; `read` is its
    /// other half.
    pub(crate) fn leave_tls_to_kernel(&mut self, read: &mut ReadSide) -> Result<(), StreamError> {
        let write = self.write.as_mut();
        if let Some(write) = write.filter(|write| !write.pieces.has_remaining()) {
            leave_tls_to_kernel(&mut read.half, &mut write.half)?;
        }
        Ok(())
    }

    /// Takes the bytes at once, so that the future has no room for them, and sends them when it is polled.
    pub(crate) fn data(
        &mut self,
        data: Bytes,
        end: bool,
    ) -> impl Future<Output = Result<(), StreamError>> {
        match self.push(data, end) {
            Ok(()) => Either::Left(async move {
                self.flush().await?;
                if end { self.close().await } else { Ok(()) }
            }),
            Err(error) => Either::Right(ready(Err(error))),
        }
    }

    /// Sends them in one vectored write.
    pub(crate) async fn pieces(&mut self, pieces: Vec<Bytes>) -> Result<(), StreamError> {
        for piece in pieces {
            self.push(piece, false)?;
        }
        self.flush().await
    }

    /// Keeps no room for a further head: none may come for long.
    pub(crate) fn rest(&mut self) {
        let write = self.write.as_mut();
        if let Some(write) = write.filter(|write| !write.pieces.has_remaining()) {
            write.pieces.clear(false);
        }
    }

    fn push(&mut self, data: Bytes, end: bool) -> Result<(), StreamError> {
        let Some(write) = self.write.as_mut().filter(|_| !self.finished) else {
            return Err(has_ended());
        };
        match &mut self.encoder {
            None => write.pieces.push_alone(data),
            Some(encoder) => {
                encoder.data(data, &mut write.pieces.list)?;
                if end {
                    encoder.finish(None, &mut write.pieces.list)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) async fn finish(&mut self, trailers: Option<Fields>) -> Result<(), StreamError> {
        // Other versions allow trailers that here would change how the message is read (RFC 9110, 6.5.1).
        let trailers = trailers.map(|mut trailers| {
            trailers.retain(|name| !is_forbidden_trailer(&name));
            trailers
        });

        if self.finished {
            return Ok(());
        }
        if let Some((encoder, write)) = self.encoder.as_mut().zip(self.write.as_mut()) {
            encoder.finish(trailers.as_ref(), &mut write.pieces.list)?;
        }

        self.flush().await?;
        self.close().await
    }

    /// Sends held-back output.
    pub(crate) async fn flush(&mut self) -> Result<(), StreamError> {
        let Some(write) = self.write.as_mut() else {
            return Ok(());
        };
        if !write.pieces.has_remaining() {
            return Ok(());
        }

        if self.finished {
            return Err(has_ended());
        }
        // A head that waits for a client is a copy of one that its origin is charged for.
        let mut waiting = FieldsCharge::default();
        if self.way_back.as_ref().is_some_and(WayBack::is_server) {
            let held = waiting.hold(&write.half.info().peer, write.pieces.head.len());
            held.map_err(|_| StreamError::new(Cause::Memory(NO_ROOM)))?;
        }

        while write.pieces.has_remaining() {
            let written = self
                .pace
                .bound(write.half.write_buf(&mut *write.pieces))
                .await??;
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }

            // Any progress restarts the time: a slow reader is no stalled one.
            self.pace.moved(written);
        }

        write.pieces.clear(self.encoder.is_some());
        self.pace.bound(write.half.flush()).await??;
        Ok(())
    }

    /// The connection itself, and the number of bytes that may leave on it without framing, if none
    /// are buffered here.
    pub(crate) fn plain(&self) -> Option<(&TcpStream, u64)> {
        let write = self
            .write
            .as_ref()
            .filter(|write| !write.pieces.has_remaining() && !self.finished)?;
        let most = match &self.encoder {
            None => u64::MAX,
            // Bytes that pass in the kernel are not seen here, and could not be paced.
            Some(_) if self.pace.is_held() => return None,
            Some(encoder) => encoder.unframed(),
        };

        let most = most.min(write.half.room());
        Some((write.half.tcp().filter(|_| most > 0)?, most))
    }

    /// Counts bytes that were written to the connection itself.
    pub(crate) fn passed(&mut self, bytes: u64) {
        if let Some(encoder) = &mut self.encoder {
            encoder.passed(bytes);
        }
        if let Some(write) = &mut self.write {
            write.half.passed(bytes);
        }
    }

    pub(crate) fn reset(&mut self) {
        if let Some(write) = self.write.take() {
            // A reset, not a FIN: content that ends with its connection would look complete (RFC 9112, 8).
            write.half.set_abort();
        }
    }

    /// Waits until the reader is known to be gone, which may be never.
    pub(crate) async fn gone(&mut self) -> Reset {
        let broken = async {
            match &mut self.write {
                Some(write) => write.half.broken().await,
                None => pending().await,
            }
        };
        let ended = async {
            match &self.way_back {
                Some(way_back) if !self.half_close => poll_fn(|cx| way_back.poll_ended(cx)).await,
                _ => pending().await,
            }
        };
        tokio::select! {
            () = broken => {}
            () = ended => {}
        }
        Reset::Connect
    }

    /// The socket, where it is plain TCP or under TLS of the kernel.
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        self.write.as_ref()?.half.tcp()
    }

    /// Framed content ends with its last byte; a tunnel ends with the end of the connection's output.
    async fn close(&mut self) -> Result<(), StreamError> {
        self.finished = true;
        if self.encoder.is_none()
            && let Some(write) = &mut self.write
        {
            // The peer may have reset the connection already; its own direction reports that.
            let _ = write.half.shutdown().await;
        }

        Ok(())
    }
}

impl Drop for BodySender {
    fn drop(&mut self) {
        let Some(write) = self.write.take() else {
            return;
        };
        if !self.finished {
            write.half.set_abort();
        } else if let Some(way_back) = self.way_back.take() {
            way_back.give(write);
        }
    }
}

fn has_ended() -> StreamError {
    StreamError::new(Cause::Invalid("the stream has ended".to_owned()))
}
