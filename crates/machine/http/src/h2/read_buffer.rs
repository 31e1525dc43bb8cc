//! Where a connection reads to: the room belongs to its worker, and the connection keeps only bytes of a frame that is not whole.
//!
//! A burst of a few frames has many bytes read at once. If each connection kept the room for its next burst, thousands of connections
//! that said something once would cost as much as if they all spoke.

use std::cell::Cell;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

/// Bytes that are read at once on a quiet connection.
const READ: usize = 8 * 1024;

/// Bytes that are read at once where a lot comes.
#[doc(alias = "bound")]
const READ_BULK: usize = 128 * 1024;

/// Bytes that are read where room is to be made first.
const FEW: usize = 256;

thread_local! {
    /// Room that no connection of this worker reads to now: at most one buffer, of two reads at most.
    static SPARE: Cell<BytesMut> = Cell::new(BytesMut::new());
}

/// Bytes that came and were not handled, and room for more.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    bytes: BytesMut,
    /// How much is read next.
    appetite: usize,
    /// The last read filled its room.
    is_hungry: bool,
    /// There is no room but for the bytes themselves.
    is_resting: bool,
}

/// How much was read at once, and how much there was room for.
struct Filled {
    read: usize,
    room: usize,
}

impl ReadBuffer {
    pub(crate) fn new() -> Self {
        Self {
            bytes: BytesMut::new(),
            appetite: READ,
            is_hungry: false,
            is_resting: true,
        }
    }

    /// The bytes, for the machine that takes them off the front.
    pub(crate) fn bytes_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// How many bytes were not handled.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Reads once. Returns the number of bytes: 0 at the end. While no bytes come, others use the
    /// buffer.
    pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.is_resting {
            self.take_spare();
        }
        let Poll::Ready(filled) = self.poll_read(stream, cx) else {
            self.rest();
            return Poll::Pending;
        };

        let Filled { read, room } = filled?;
        // A read that fills its room has left something behind.
        self.is_hungry = read == room;
        self.appetite = if self.is_hungry {
            (self.appetite * 2).min(READ_BULK)
        } else if read < self.appetite / 8 {
            READ
        } else {
            self.appetite
        };

        Poll::Ready(Ok(read))
    }

    fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Filled>> {
        let is_short = self.bytes.capacity() - self.bytes.len() < self.appetite / 2;
        if is_short && !self.bytes.try_reclaim(self.appetite) {
            // The last bytes are still in use, and most of the time no more follow at once: a
            // buffer is made when they do.
            if !self.is_hungry {
                let mut few = [0; FEW];
                let mut buffer = ReadBuf::new(&mut few);
                ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;

                self.bytes.reserve(self.appetite);
                self.bytes.extend_from_slice(buffer.filled());
                return Poll::Ready(Ok(Filled {
                    read: buffer.filled().len(),
                    room: FEW,
                }));
            }
            self.bytes.reserve(self.appetite);
        }

        let room = self.bytes.capacity() - self.bytes.len();
        let read = ready!(pin!(stream.read_buf(&mut self.bytes)).poll(cx))?;
        Poll::Ready(Ok(Filled { read, room }))
    }

    /// Takes the room that no one uses, if there is some.
    fn take_spare(&mut self) {
        self.is_resting = false;
        let mut spare = SPARE.take();
        if spare.capacity() == 0 {
            return;
        }

        // A spare buffer with parts in use elsewhere may be too small for the waiting bytes:
        // reading makes room then.
        spare.extend_from_slice(&self.bytes);
        self.bytes = spare;
    }

    /// Leaves the room to others, and keeps the bytes alone.
    fn rest(&mut self) {
        self.is_resting = true;
        let bytes = match self.bytes.is_empty() {
            true => BytesMut::new(),
            false => BytesMut::from(&self.bytes[..]),
        };
        let mut room = std::mem::replace(&mut self.bytes, bytes);
        room.clear();
        SPARE.set(room);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn fill(buffer: &mut ReadBuffer, stream: &mut (impl AsyncRead + Unpin)) -> usize {
        std::future::poll_fn(|cx| buffer.poll_fill(stream, cx))
            .await
            .unwrap()
    }

    fn is_pending(buffer: &mut ReadBuffer, stream: &mut (impl AsyncRead + Unpin)) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        buffer.poll_fill(stream, &mut cx).is_pending()
    }

    #[tokio::test]
    async fn a_connection_that_waits_keeps_its_bytes_and_no_room() {
        let (mut here, mut there) = tokio::io::duplex(1 << 20);
        let mut buffer = ReadBuffer::new();
        there.write_all(&[7; 300_000]).await.unwrap();

        let mut came = 0;
        while came < 300_000 {
            came += fill(&mut buffer, &mut here).await;
            let length = buffer.len();
            drop(buffer.bytes_mut().split_to(length - length.min(5)));
        }
        assert_eq!(buffer.appetite, READ_BULK);
        assert!(is_pending(&mut buffer, &mut here));
        assert_eq!(buffer.bytes[..], [7; 5]);
        assert!(buffer.bytes.capacity() < 64);

        there.write_all(&[8; 10]).await.unwrap();
        let few = fill(&mut buffer, &mut here).await;
        assert_eq!(few, 10);
        assert_eq!(buffer.bytes[..], [&[7; 5][..], &[8; 10]].concat());
    }

    #[tokio::test]
    async fn connections_that_wait_leave_their_room_to_each_other() {
        let (mut here, mut there) = tokio::io::duplex(1 << 20);
        let mut first = ReadBuffer::new();
        there.write_all(&[1; 3000]).await.unwrap();
        while first.len() < 3000 {
            fill(&mut first, &mut here).await;
        }
        let room = first.bytes_mut().split().as_ptr().addr();
        assert!(is_pending(&mut first, &mut here));

        let mut second = ReadBuffer::new();
        there.write_all(&[2; 3000]).await.unwrap();
        assert_eq!(fill(&mut second, &mut here).await, 3000);
        assert!(second.bytes.as_ptr().addr().abs_diff(room) < READ);
    }
}
