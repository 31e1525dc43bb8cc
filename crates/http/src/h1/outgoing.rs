//! Content that leaves on an HTTP/1.1 connection, or the plain bytes of a tunnel.

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use hermes_net::WriteHalf;
use hermes_proto::h1::{BodyEncoder, Framing, is_forbidden_trailer};
use http::HeaderMap;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{Rejoin, WriteSide};
use crate::error::{Cause, Reset, StreamError};
use crate::pace::Pace;

/// The sending half. A head is held back until content or a flush follows, so that both leave in one packet.
#[derive(Debug)]
pub struct Outgoing {
    write: Option<WriteSide>,
    encoder: Option<BodyEncoder>,
    held: BytesMut,
    rejoin: Option<Arc<Rejoin>>,
    pace: Pace,
    finished: bool,
}

impl Outgoing {
    /// Content framed as `framing` says, after the encoded `head`; the connection goes home afterwards.
    pub(crate) fn content(write: WriteSide, head: BytesMut, framing: Framing, rejoin: Arc<Rejoin>) -> Self {
        let encoder = Some(BodyEncoder::new(framing));
        Self { write: Some(write), encoder, held: head, rejoin: Some(rejoin), pace: Pace::default(), finished: false }
    }

    /// The plain bytes of a connection whose writing half this is.
    pub fn bytes(half: WriteHalf) -> Self {
        Self::tunnel(WriteSide { half }, BytesMut::new())
    }

    pub(crate) fn tunnel(write: WriteSide, head: BytesMut) -> Self {
        Self { write: Some(write), encoder: None, held: head, rejoin: None, pace: Pace::default(), finished: false }
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    /// The tunnel was accepted: from now on, plain bytes leave.
    pub(crate) fn become_tunnel(&mut self) {
        self.encoder = None;
        self.rejoin = None;
        self.finished = false;
    }

    pub(crate) async fn data(&mut self, data: Bytes, end: bool) -> Result<(), StreamError> {
        let held = self.take_held();
        if let Some(encoder) = &mut self.encoder {
            let mut pieces = Pieces::new(held);
            encoder.data(data, &mut pieces.list)?;
            if end {
                encoder.finish(None, &mut pieces.list)?;
            }
            self.write(pieces).await?;
        } else {
            self.write(held.chain(data)).await?;
        }
        if end { self.close().await } else { Ok(()) }
    }

    pub(crate) async fn finish(&mut self, trailers: Option<HeaderMap>) -> Result<(), StreamError> {
        // Other versions allow trailers that here would change how the message is read (RFC 9110, 6.5.1).
        let trailers = trailers.map(|trailers| {
            let kept = trailers.iter().filter(|(name, _)| !is_forbidden_trailer(name));
            kept.map(|(name, value)| (name.clone(), value.clone())).collect::<HeaderMap>()
        });
        if self.finished {
            return Ok(());
        }
        if let Some(encoder) = &mut self.encoder {
            let mut list = Vec::new();
            encoder.finish(trailers.as_ref(), &mut list)?;
            if list.is_empty() {
                self.flush().await?;
            } else {
                let mut pieces = Pieces::new(self.take_held());
                pieces.list.append(&mut list);
                self.write(pieces).await?;
            }
        } else {
            self.flush().await?;
        }
        self.close().await
    }

    pub(crate) async fn flush(&mut self) -> Result<(), StreamError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let head = self.take_held();
        self.write(head).await
    }

    /// What was held back, all of it.
    fn take_held(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }

    /// The connection itself, where a tunnel's bytes leave and none of them is here.
    pub(crate) fn plain(&self) -> Option<&TcpStream> {
        let write = self.write.as_ref().filter(|_| self.encoder.is_none() && self.held.is_empty() && !self.finished)?;
        write.half.tcp()
    }

    pub(crate) fn reset(&mut self) {
        if let Some(write) = self.write.take() {
            write.half.set_abort();
        }
    }

    /// Waits until the peer resets the connection.
    pub(crate) async fn broken(&mut self) -> Reset {
        match &mut self.write {
            Some(write) => write.half.broken().await,
            None => std::future::pending().await,
        }
        Reset::Connect
    }

    async fn write(&mut self, mut pieces: impl Buf) -> Result<(), StreamError> {
        let Some(write) = self.write.as_mut().filter(|_| !self.finished) else {
            return Err(StreamError::new(Cause::Invalid("the stream has ended".to_owned())));
        };
        while pieces.has_remaining() {
            let written = self.pace.bound(write.half.write_buf(&mut pieces)).await??;
            if written == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            self.pace.moved(written);
        }
        self.pace.bound(write.half.flush()).await??;
        Ok(())
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

impl Drop for Outgoing {
    fn drop(&mut self) {
        let Some(write) = self.write.take() else { return };
        if !self.finished {
            write.half.set_abort();
        } else if let Some(rejoin) = self.rejoin.take() {
            rejoin.give_write(write);
        }
    }
}

/// Pieces of most writes: a head, a chunk's line, content, and the end of the chunk. More make the list grow.
const USUAL_PIECES: usize = 4;

/// The pieces of one vectored write: a head, chunk lines, and content that is not copied.
struct Pieces {
    list: Vec<Bytes>,
    /// Those before this one are written.
    at: usize,
}

impl Pieces {
    fn new(first: Bytes) -> Self {
        let mut list = Vec::with_capacity(USUAL_PIECES);
        if !first.is_empty() {
            list.push(first);
        }
        Self { list, at: 0 }
    }

    fn left(&self) -> &[Bytes] {
        self.list.get(self.at..).unwrap_or_default()
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.left().iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.left().iter().find(|piece| !piece.is_empty()).map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let filled = self.left().iter().filter(|piece| !piece.is_empty()).zip(into);
        filled.map(|(piece, slot)| *slot = IoSlice::new(piece)).count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(piece) = self.list.get_mut(self.at).filter(|_| count > 0) {
            let part = count.min(piece.len());
            piece.advance(part);
            count -= part;
            self.at += usize::from(piece.is_empty());
        }
    }
}
