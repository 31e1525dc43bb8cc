//! A request's content that can be sent more than once, as long as all of it was kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use hermes_admit::memory_limits::UNCHARGED;
use hermes_http::{Frame, Incoming, StreamError};
use hermes_net::memory::{Charge, Overdrawn, OwnerAccount, Purpose};
use hermes_proto::fields::Fields;
use tokio::net::TcpStream;

use crate::pump::Source;

/// Bytes of a block that small pieces of kept content are copied into.
#[doc(alias = "bound")]
const BLOCK: usize = 16 * 1024;

/// Bytes of the first such block.
#[doc(alias = "bound")]
const FIRST_BLOCK: usize = 64;

/// The memory of a line of trailers beside its bytes.
const LINE_OVERHEAD: usize = 32;

/// Content that is kept while it streams, up to a bound.
pub(crate) struct Replay<'a> {
    incoming: Incoming,
    length: Option<u64>,
    kept: Kept,
    /// The account that kept content is charged to, looked up where there is some.
    account: &'a (dyn Fn() -> OwnerAccount + Sync),
    /// Why no more is kept, where the account had no room.
    overdrawn: Option<Box<Overdrawn>>,
    /// While it is sent again: the block that is sent next. After the last one, content comes from the client.
    again: Option<usize>,
    /// Set once something was passed on that was not kept, or once nothing need be kept.
    lost: &'a AtomicBool,
    /// Counts the client's bytes, each once.
    moved: &'a AtomicU64,
}

/// Kept content. It is copied together: content in pieces of one byte costs no more than content in one piece, and a few bytes
/// do not hold the whole buffer that they came in.
struct Kept {
    blocks: Vec<Bytes>,
    /// The last block, which more may join.
    last: BytesMut,
    trailers: Option<Fields>,
    /// Bytes of memory that blocks may still be given.
    room: usize,
    /// Bytes of memory that blocks take.
    taken: usize,
    /// The charge for bytes above [`UNCHARGED`].
    charge: Option<Charge>,
}

/// Why content is not kept.
enum Unkept {
    /// More came than may be kept.
    Full,
    /// Its user or source may have no more memory.
    Overdrawn(Box<Overdrawn>),
}

impl From<Overdrawn> for Unkept {
    fn from(overdrawn: Overdrawn) -> Self {
        Self::Overdrawn(Box::new(overdrawn))
    }
}

impl Kept {
    fn new(room: u64) -> Self {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Self {
            blocks: Vec::new(),
            last: BytesMut::new(),
            trailers: None,
            room,
            taken: 0,
            charge: None,
        }
    }

    fn push(&mut self, mut data: &[u8], account: impl Fn() -> OwnerAccount) -> Result<(), Unkept> {
        while !data.is_empty() {
            let free = self.last.capacity() - self.last.len();
            if free == 0 {
                self.begin_block(data.len(), &account)?;
                continue;
            }

            let (taken, rest) = data.split_at(free.min(data.len()));
            self.last.extend_from_slice(taken);
            data = rest;
        }
        Ok(())
    }

    /// Blocks double up to [`BLOCK`], and never take more memory than there is room for content.
    fn begin_block(
        &mut self,
        wanted: usize,
        account: impl Fn() -> OwnerAccount,
    ) -> Result<(), Unkept> {
        self.close();
        let grown = self
            .blocks
            .last()
            .map_or(FIRST_BLOCK, |block| 2 * block.len());
        let size = grown.max(wanted).min(BLOCK).min(self.room);

        if size == 0 {
            return Err(Unkept::Full);
        }
        self.take(size, account)?;
        self.last = BytesMut::with_capacity(size);

        Ok(())
    }

    /// Takes so much of the room, and charges it.
    fn take(&mut self, size: usize, account: impl Fn() -> OwnerAccount) -> Result<(), Unkept> {
        self.room = self.room.checked_sub(size).ok_or(Unkept::Full)?;
        self.taken += size;
        if self.taken <= UNCHARGED {
            return Ok(());
        }

        match &mut self.charge {
            Some(charge) => charge.grow(size)?,
            None => self.charge = Some(account().charge(Purpose::Replays, self.taken)?),
        }
        Ok(())
    }

    /// Ends the last block, so that it can be sent; its free room stays with it.
    fn close(&mut self) {
        if !self.last.is_empty() {
            let block = self.last.split().freeze();
            self.blocks.push(block);
        }
    }

    fn push_trailers(
        &mut self,
        trailers: &Fields,
        account: impl Fn() -> OwnerAccount,
    ) -> Result<(), Unkept> {
        let lines = trailers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + LINE_OVERHEAD);
        self.take(lines.sum(), account)?;
        self.trailers = Some(trailers.clone());
        Ok(())
    }
}

impl<'a> Replay<'a> {
    /// Keeps at most `room` bytes, and charges them to the account.
    pub fn new(
        incoming: Incoming,
        room: u64,
        account: &'a (dyn Fn() -> OwnerAccount + Sync),
        lost: &'a AtomicBool,
        moved: &'a AtomicU64,
    ) -> Self {
        let length = incoming.length();
        Self {
            incoming,
            length,
            kept: Kept::new(room),
            account,
            overdrawn: None,
            again: None,
            lost,
            moved,
        }
    }

    /// Begins again with the first piece.
    pub(crate) fn rewind(&mut self) {
        self.kept.close();
        self.again = Some(0);
    }

    /// Bytes of the whole content, where the client announced them.
    pub(crate) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Why the content was not kept, where memory was short.
    pub(crate) fn overdrawn(&self) -> Option<&Overdrawn> {
        self.overdrawn.as_deref()
    }

    /// Frees the kept content, all of which has been sent.
    fn forget(&mut self) {
        self.kept = Kept::new(0);
        self.again = None;
    }

    fn keep(&mut self, frame: &Frame) {
        if self.lost.load(Ordering::Relaxed) {
            return self.forget();
        }
        let kept = match frame {
            Frame::Data(data) => self.kept.push(data, self.account),
            Frame::Trailers(trailers) => self.kept.push_trailers(trailers, self.account),
        };

        // Content that cannot be kept goes on all the same: it is sent once.
        if let Err(unkept) = kept {
            if let Unkept::Overdrawn(overdrawn) = unkept {
                self.overdrawn = Some(overdrawn);
            }
            self.lost.store(true, Ordering::Relaxed);
            self.forget();
        }
    }

    /// The piece that is sent again next, if any is left.
    fn next_kept(&mut self) -> Option<Frame> {
        let at = self.again?;
        if let Some(block) = self.kept.blocks.get(at) {
            self.again = Some(at + 1);
            return Some(Frame::Data(block.clone()));
        }
        self.again = None;
        self.kept.trailers.clone().map(Frame::Trailers)
    }

    /// Whether something is still to be sent again.
    fn is_behind(&self) -> bool {
        self.again
            .is_some_and(|at| at < self.kept.blocks.len() || self.kept.trailers.is_some())
    }
}

impl Source for Replay<'_> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, StreamError>>> {
        if let Some(frame) = self.next_kept() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let polled = self.incoming.poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            if let Frame::Data(data) = frame {
                self.moved.fetch_add(data.len() as u64, Ordering::Relaxed);
            }
            self.keep(frame);
        }

        polled
    }

    fn is_end(&self) -> bool {
        !self.is_behind() && self.incoming.is_end()
    }

    fn limit(&mut self, most: usize) {
        self.incoming.limit(most);
    }

    fn poll_unasked(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        self.incoming.poll_unasked(cx)
    }

    /// None: bytes that the kernel moves could not be kept.
    fn bulk(&self) -> Option<(&TcpStream, u64)> {
        self.incoming
            .bulk()
            .filter(|_| !self.is_behind() && self.lost.load(Ordering::Relaxed))
    }

    fn count(&self) -> Option<&AtomicU64> {
        Some(self.moved)
    }

    fn passed(&mut self, bytes: u64) {
        self.incoming.passed(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermes_net::memory::{Memory, OWNER_FLOOR, Owner};
    use std::future::poll_fn;

    /// An owner that has its floor and no more.
    fn poor() -> OwnerAccount {
        static POOR: Memory = Memory::new(2 * OWNER_FLOOR, 0);
        POOR.owner(Owner::Local)
    }

    fn rich() -> OwnerAccount {
        static RICH: Memory = Memory::new(1 << 30, 0);
        RICH.owner(Owner::Local)
    }

    async fn all(replay: &mut Replay<'_>) -> Vec<u8> {
        let mut content = Vec::new();
        while let Some(frame) = poll_fn(|cx| replay.poll_frame(cx)).await {
            if let Frame::Data(data) = frame.unwrap() {
                content.extend_from_slice(&data);
            }
        }
        content
    }

    #[tokio::test]
    async fn what_was_kept_is_sent_again_and_counted_once() {
        let (lost, moved) = (AtomicBool::new(false), AtomicU64::new(0));
        let incoming = Incoming::Full(Some(Bytes::from_static(b"content")));
        let mut replay = Replay::new(incoming, 7, &rich, &lost, &moved);
        assert_eq!(replay.length(), Some(7));
        for _ in 0..3 {
            assert!(!replay.is_end());
            assert_eq!(all(&mut replay).await, b"content");
            assert!(replay.is_end());
            replay.rewind();
        }
        assert_eq!(
            (lost.load(Ordering::Relaxed), moved.load(Ordering::Relaxed)),
            (false, 7)
        );
    }

    #[tokio::test]
    async fn what_is_larger_than_the_bound_passes_and_is_not_kept() {
        let (lost, moved) = (AtomicBool::new(false), AtomicU64::new(0));
        let incoming = Incoming::Full(Some(Bytes::from_static(b"content")));
        let mut replay = Replay::new(incoming, 6, &rich, &lost, &moved);
        assert_eq!(all(&mut replay).await, b"content");
        assert!(lost.load(Ordering::Relaxed) && replay.kept.blocks.is_empty());
        assert_eq!(replay.overdrawn(), None);
    }

    #[tokio::test]
    async fn content_passes_and_is_not_kept_where_its_owner_has_no_room() {
        let (lost, moved) = (AtomicBool::new(false), AtomicU64::new(0));
        let content = vec![7; 2 * OWNER_FLOOR];
        let incoming = Incoming::Full(Some(Bytes::from(content.clone())));
        let mut replay = Replay::new(incoming, 1 << 20, &poor, &lost, &moved);
        assert_eq!(all(&mut replay).await, content);
        assert!(lost.load(Ordering::Relaxed));
        assert!(replay.overdrawn().is_some() && replay.kept.charge.is_none());
        assert_eq!(poor().owned(), 0);
    }

    #[test]
    fn content_in_pieces_of_one_byte_takes_no_more_memory_than_may_be_kept() {
        const ROOM: usize = 64 * 1024;
        let mut kept = Kept::new(ROOM as u64);
        for _ in 0..ROOM {
            assert!(kept.push(b"x", rich).is_ok());
        }
        assert!(kept.push(b"x", rich).is_err(), "the bound counts");
        let memory = kept.blocks.iter().map(Bytes::len).sum::<usize>() + kept.last.capacity();
        assert_eq!((memory, kept.room), (ROOM, 0));
        assert_eq!(kept.charge.as_ref().unwrap().bytes(), ROOM);
        assert!(kept.blocks.len() < 20, "{} blocks", kept.blocks.len());
    }

    #[test]
    fn trailers_count() {
        let mut kept = Kept::new(100);
        let trailers = Fields::from_iter([(
            http::header::ETAG,
            "x".repeat(64).parse::<http::HeaderValue>().unwrap(),
        )]);
        assert!(kept.push_trailers(&trailers, rich).is_ok());
        assert!(kept.push_trailers(&trailers, rich).is_err());
    }
}
