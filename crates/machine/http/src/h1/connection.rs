//! A connection taken apart for one exchange and put together again for the next.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hermes_net::{ReadHalf, Stream, StreamInfo, WriteHalf};
use tokio_util::io::poll_read_buf;

use super::Rejoin;
use super::pieces::Pieces;
use crate::h2::FRAME_SIZE;

/// Least bytes of room for a read; doubled while reads fill it.
#[doc(alias = "bound")]
pub(crate) const READ_ROOM: usize = 16 * 1024;

/// Bytes of room for a read where those before it were filled: one DATA frame of HTTP/2, so that
/// forwarding between versions needs no joining.
#[doc(alias = "bound")]
const MOST_ROOM: usize = FRAME_SIZE as usize;

/// Fewer bytes than these are copied out of the room that they were read into.
const COPY_BELOW: usize = 2048;

/// Bytes that fill less than this share of the room are copied, too.
const SHARE: usize = 8;

/// Whether bytes are so few for their room that they had better be copied than keep it alive.
fn is_little(room: &BytesMut) -> bool {
    room.len() < COPY_BELOW.max(room.capacity() / SHARE)
}

/// Takes all bytes out of a room.
pub(crate) fn take(room: &mut BytesMut) -> Bytes {
    if !is_little(room) {
        return room.split().freeze();
    }
    let bytes = if room.len() < COPY_BELOW {
        few(room)
    } else {
        Bytes::copy_from_slice(room)
    };

    room.clear();
    bytes
}

thread_local! {
    /// The buffer for the next read of a connection without one: most reads find nothing, or
    /// little.
    static ROOM: RefCell<BytesMut> = RefCell::new(BytesMut::new());
    /// Room for the few bytes of a tunnel that were copied.
    static FEW: RefCell<BytesMut> = RefCell::new(BytesMut::new());
}

/// Bytes of the buffer that small copies share: the most that a waiting copy keeps alive.
#[doc(alias = "bound")]
const FEW_ROOM: usize = 2 * COPY_BELOW;

/// The reading half of a connection and its unused input.
pub(crate) struct ReadSide {
    pub(crate) half: ReadHalf,
    pub(crate) buffer: BytesMut,
    /// Room for the next read, at most [`MOST_ROOM`]: more while reads fill it, less when they do not.
    room: u32,
    /// The largest buffer: as large as the other side's.
    most: u32,
    /// Seconds for which the server said that it keeps the connection.
    pub(crate) kept_seconds: Option<u16>,
}

impl fmt::Debug for ReadSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadSide")
            .field("peer", &self.half.info().peer)
            .field("unread", &self.buffer.len())
            .finish()
    }
}

impl fmt::Debug for WriteSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteSide")
            .field("peer", &self.half.info().peer)
            .finish()
    }
}

impl ReadSide {
    /// The reading half of a connection, of which `buffer` was read already.
    pub(crate) fn new(half: ReadHalf, buffer: BytesMut) -> Self {
        Self {
            half,
            buffer,
            room: READ_ROOM as u32,
            most: MOST_ROOM as u32,
            kept_seconds: None,
        }
    }

    /// Reads more into the buffer; 0 at the end of input. While nothing comes, there is no buffer: most connections wait most of
    /// their time.
    pub(crate) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = ready!(self.poll_read(cx))?;
        self.adapt(read);
        Poll::Ready(Ok(read))
    }

    /// Room for the next read after one that brought this many bytes.
    fn adapt(&mut self, read: usize) {
        if read >= self.size() {
            self.room = (2 * self.room).min(MOST_ROOM as u32);
        } else if read < self.room as usize / 4 {
            self.room = (self.room / 2).max(READ_ROOM as u32);
        }
    }

    /// Reads no more at once than the other side has room for.
    pub(crate) fn limit(&mut self, most: usize) {
        self.most = most.clamp(READ_ROOM, MOST_ROOM) as u32;
    }

    fn size(&self) -> usize {
        self.room.min(self.most) as usize
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let size = self.size();
        // An empty buffer that still owns its room is filled again; otherwise the room that this thread's connections share is used.
        if self.buffer.is_empty() && !self.buffer.try_reclaim(size) {
            return self.poll_read_empty(cx);
        }

        self.buffer.reserve(size);
        let read = poll_read_buf(Pin::new(&mut self.half), cx, &mut self.buffer);
        // A connection that waits should keep no room of its own.
        if read.is_pending() {
            self.rest();
        }

        read
    }

    /// Leaves the room to others where most of it is empty, and keeps the bytes alone.
    fn rest(&mut self) {
        if self.buffer.len() >= self.buffer.capacity() / 2 {
            return;
        }

        let bytes = match self.buffer.is_empty() {
            true => BytesMut::new(),
            false => BytesMut::from(&self.buffer[..]),
        };
        let mut room = std::mem::replace(&mut self.buffer, bytes);
        room.clear();
        ROOM.set(room);
    }

    /// Reads into the room that the connections of this thread share. Much is kept where it lies, little is copied.
    fn poll_read_empty(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = ROOM.take();
        room.reserve(self.size());
        let read = poll_read_buf(Pin::new(&mut self.half), cx, &mut room);

        // A head of some hundred bytes: copied, so that the large room stays for the next connection.
        if is_little(&room) {
            self.buffer = BytesMut::from(&room[..]);
            room.clear();
            ROOM.set(room);
        } else {
            self.buffer = room;
        }

        read
    }

    /// Reads bytes of a tunnel past the buffer, which is empty; empty at the end of input. If
    /// copies do not wait for long, nothing is allocated.
    pub(crate) fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut room = ROOM.take();
        room.reserve(self.size());
        let read = poll_read_buf(Pin::new(&mut self.half), cx, &mut room);
        let bytes = take(&mut room);
        ROOM.set(room);
        self.adapt(ready!(read)?);
        Poll::Ready(Ok(bytes))
    }

    /// Reads more into the buffer; 0 at the end of input.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }
}

/// A copy of a few bytes: the buffer that they were read into is large.
fn few(bytes: &[u8]) -> Bytes {
    if bytes.is_empty() {
        return Bytes::new();
    }
    FEW.with_borrow_mut(|few| {
        if few.capacity() < bytes.len() {
            few.reserve(FEW_ROOM);
        }
        few.extend_from_slice(bytes);
        few.split().freeze()
    })
}

/// The writing half of a connection, and its unwritten output.
pub(crate) struct WriteSide {
    pub(crate) half: WriteHalf,
    /// In a place of its own: the halves of a connection go through many hands.
    pub(crate) pieces: Box<Pieces>,
}

impl WriteSide {
    pub(crate) fn new(half: WriteHalf) -> Self {
        Self {
            half,
            pieces: Box::default(),
        }
    }
}

/// An HTTP/1.1 connection between two exchanges.
#[derive(Debug)]
pub struct Connection {
    pub(crate) read: ReadSide,
    pub(crate) write: WriteSide,
    pub(crate) reusable: bool,
    /// Rejoined the halves after the previous exchange; reused by the next one.
    pub(crate) rejoin: Option<Arc<Rejoin>>,
}

impl Connection {
    /// A connection over a fresh stream; `read` are bytes that were read from it already.
    pub fn new(stream: Stream, read: BytesMut) -> Self {
        let (read_half, write_half) = stream.split();
        Self {
            read: ReadSide::new(read_half, read),
            write: WriteSide::new(write_half),
            reusable: true,
            rejoin: None,
        }
    }

    /// The other end.
    pub fn source(&self) -> &Arc<StreamInfo> {
        self.read.half.info()
    }

    /// How long the server keeps it between exchanges, where its last answer said so.
    pub fn kept_for(&self) -> Option<Duration> {
        let seconds = self.read.kept_seconds?;
        Some(Duration::from_secs(seconds.into()))
    }

    /// Whether it can be left to [`Self::into_stream`] while nothing is open on it.
    pub(crate) fn can_wait(&self) -> bool {
        self.read.half.is_socket()
    }

    /// The stream alone, where nothing was read that is not used: the rest is made again when it is needed.
    pub(crate) fn into_stream(self) -> Option<Stream> {
        if !self.read.buffer.is_empty() {
            return None;
        }
        Stream::rejoin(self.read.half, self.write.half).ok()
    }

    /// Whether another exchange can begin. A peer that closed, or spoke out of turn, makes the connection unusable.
    pub fn is_usable(&mut self) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        // Ready would mean the end, an error, or bytes that no request asked for: a response to nothing could be taken for the next
        // one's.
        self.reusable && self.read.buffer.is_empty() && self.read.poll_fill(&mut cx).is_pending()
    }

    /// Resolves when an idle connection becomes useless: the peer closed it, or spoke out of turn.
    pub async fn spoilt(&mut self) {
        if self.reusable && self.read.buffer.is_empty() {
            let _ = self.read.fill().await;
        }
    }
}

/// Polls a decoder that may need more input: `step` returns its result on the buffer, `None` for
/// more.
pub(crate) fn poll_step<T>(
    read: &mut ReadSide,
    cx: &mut Context<'_>,
    mut step: impl FnMut(&mut BytesMut) -> Option<T>,
) -> Poll<io::Result<Option<T>>> {
    loop {
        if let Some(done) = step(&mut read.buffer) {
            return Poll::Ready(Ok(Some(done)));
        }
        if ready!(read.poll_fill(cx))? == 0 {
            return Poll::Ready(Ok(None));
        }
    }
}
