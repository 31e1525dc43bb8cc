//! The content of a stored response, which is read while it still comes.

use bytes::{Bytes, BytesMut};
use hermes_http::{Frame, Incoming, Outgoing};
use hermes_net::memory::Charge;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::disk::{DiskContent, OpenContent, Opened};

/// A content. Any number of clients read it, each at its own pace.
pub(crate) struct Body {
    state: Mutex<BodyState>,
    changed: Notify,
}

struct BodyState {
    pieces: Vec<Piece>,
    end: BodyEnd,
    charge: Charge,
    /// Bytes of the charge that are for the head.
    overhead: usize,
    /// The same content on disk.
    disk: Option<DiskContent>,
}

/// A piece of a content.
struct Piece {
    bytes: Bytes,
    /// Where it ends in the content.
    end: u64,
}

/// The end of a content, as far as it is known.
enum BodyEnd {
    /// More comes.
    Growing,
    /// All is there.
    Whole,
    /// All is on disk, and nothing in memory.
    OnDisk,
    /// The next hop broke off.
    Broken,
    /// It is longer than may be stored: the first client reads the rest from the next hop.
    Continues(Option<Box<Incoming>>),
}

/// The next bytes for a reader.
enum Next {
    Bytes(Bytes),
    OnDisk(DiskContent),
    End,
    Broken,
    Rest(Box<Incoming>),
}

/// How the collection of a content ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Collected {
    /// All is there.
    Whole,
    /// It is not, and cannot be stored.
    Partly,
}

impl Body {
    /// A content that is to come. The charge pays for its head, and for the bytes of an announced length.
    pub(crate) fn new(charge: Charge, announced: u64) -> Self {
        let announced = usize::try_from(announced).unwrap_or(usize::MAX);
        Self {
            state: Mutex::new(BodyState {
                pieces: Vec::new(),
                end: BodyEnd::Growing,
                overhead: charge.bytes().saturating_sub(announced),
                charge,
                disk: None,
            }),
            changed: Notify::new(),
        }
    }

    /// The same with its content on disk alone.
    pub(crate) fn found_on_disk(mut self, disk: DiskContent) -> Self {
        let state = self.state.get_mut();
        state.end = BodyEnd::OnDisk;
        state.disk = Some(disk);
        self
    }

    /// All of it is on disk, too.
    pub(crate) fn on_disk(&self, disk: DiskContent) {
        self.state.lock().disk = Some(disk);
    }

    /// The content, if it is on disk alone.
    pub(crate) fn disk(&self) -> Option<DiskContent> {
        let state = self.state.lock();
        let is_there = matches!(state.end, BodyEnd::OnDisk);
        state.disk.clone().filter(|_| is_there)
    }

    /// Its file is gone; whether the content is in memory still.
    pub(crate) fn forget_disk(&self) -> bool {
        let mut state = self.state.lock();
        // Who reads it has it open.
        let is_in_memory = !matches!(state.end, BodyEnd::OnDisk);
        if is_in_memory {
            state.disk = None;
        }
        is_in_memory
    }

    /// Frees the memory of a content that is on disk, too; how many bytes.
    pub(crate) fn release(&self) -> u64 {
        let mut state = self.state.lock();
        if state.disk.is_none() || !matches!(state.end, BodyEnd::Whole) {
            return 0;
        }
        let length = state.length();
        state.pieces.clear();
        state.end = BodyEnd::OnDisk;
        let most = state.charge.bytes();
        let freed = usize::try_from(length).unwrap_or(usize::MAX).min(most);
        state.charge.shrink(freed);
        length
    }

    /// The bytes that came before it broke off; `None` if it did not.
    pub(crate) fn beginning(&self) -> Option<Bytes> {
        let state = self.state.lock();
        if !matches!(state.end, BodyEnd::Broken) {
            return None;
        }
        let length = usize::try_from(state.length()).ok()?;
        let mut all = BytesMut::with_capacity(length);
        for piece in &state.pieces {
            all.extend_from_slice(&piece.bytes);
        }
        Some(all.freeze())
    }

    /// The same with its content in memory; `None` if there is no room for it.
    pub(crate) fn with_content(mut self, content: Bytes) -> Option<Self> {
        let state = self.state.get_mut();
        if !state.charge.grow_if_free(content.len()) {
            return None;
        }
        state.end = BodyEnd::Whole;
        state.pieces = vec![Piece {
            end: content.len() as u64,
            bytes: content,
        }];
        Some(self)
    }

    /// Has a content that is on disk alone in memory again; whether there is room.
    pub(crate) fn take_back(&self, content: Bytes) -> bool {
        let mut state = self.state.lock();
        let is_on_disk = matches!(state.end, BodyEnd::OnDisk);
        if !is_on_disk || !state.charge.grow_if_free(content.len()) {
            return false;
        }
        state.pieces = vec![Piece {
            end: content.len() as u64,
            bytes: content,
        }];
        state.end = BodyEnd::Whole;
        true
    }

    /// The content, if all of it is in memory.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        let state = self.state.lock();
        let is_whole = matches!(state.end, BodyEnd::Whole);
        is_whole.then(|| {
            state
                .pieces
                .first()
                .map(|piece| piece.bytes.clone())
                .unwrap_or_default()
        })
    }

    /// Reads all that comes, at most `most` bytes. A content that ends too early breaks off for its readers, too.
    pub(crate) async fn collect(&self, mut incoming: Incoming, most: u64) -> Collected {
        // Set where the task is dropped in the midst, too.
        let unfinished = Unfinished(self);
        while let Some(frame) = incoming.frame().await {
            match frame {
                Ok(Frame::Data(bytes)) => {
                    if !self.push(bytes, most) {
                        self.end(BodyEnd::Continues(Some(Box::new(incoming))));
                        return Collected::Partly;
                    }
                }
                // RFC 9111, section 3: a cache may leave trailers out.
                Ok(Frame::Trailers(_)) => {}
                Err(_) => return Collected::Partly,
            }
        }
        self.end(BodyEnd::Whole);
        drop(unfinished);
        Collected::Whole
    }

    /// Adds a piece; whether there is room for more of them. The piece itself is kept in any case, as it was taken from the next hop.
    fn push(&self, bytes: Bytes, most: u64) -> bool {
        let mut state = self.state.lock();
        let length = state.length() + bytes.len() as u64;
        let missing = usize::try_from(length).unwrap_or(usize::MAX);
        let missing = missing.saturating_add(state.overhead);
        let missing = missing.saturating_sub(state.charge.bytes());
        let has_room = length <= most && (missing == 0 || state.charge.grow_if_free(missing));
        state.pieces.push(Piece { bytes, end: length });
        drop(state);
        self.changed.notify_waiters();
        has_room
    }

    fn end(&self, end: BodyEnd) {
        let mut state = self.state.lock();
        // One allocation of the right size, in place of buffers that are shared with a connection.
        if matches!(end, BodyEnd::Whole) {
            let length = state.length();
            let mut whole = BytesMut::with_capacity(usize::try_from(length).unwrap_or_default());
            for piece in &state.pieces {
                whole.extend_from_slice(&piece.bytes);
            }
            state.pieces = vec![Piece {
                bytes: whole.freeze(),
                end: length,
            }];
        }
        state.end = end;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Sends the bytes of `from` up to `to`, or up to the end. A sender that is dropped before the end resets the stream.
    /// `opened` is its file, where that was opened before.
    pub(crate) async fn send(
        &self,
        from: u64,
        to: Option<u64>,
        mut opened: Option<OpenContent>,
        mut outgoing: Outgoing,
    ) {
        let mut at = from;
        loop {
            if to.is_some_and(|to| at >= to) {
                let _ = outgoing.finish(None).await;
                return;
            }
            let next = match self.next(at).await {
                Next::OnDisk(disk) => from_disk(&mut opened, &disk, at).await,
                next => next,
            };
            match next {
                Next::Bytes(mut bytes) => {
                    if let Some(left) = to.and_then(|to| usize::try_from(to - at).ok()) {
                        bytes.truncate(left);
                    }
                    at += bytes.len() as u64;
                    if outgoing.data(bytes, false).await.is_err() {
                        return;
                    }
                }
                Next::End => {
                    let _ = outgoing.finish(None).await;
                    return;
                }
                Next::Broken | Next::OnDisk(_) => return,
                Next::Rest(rest) => return forward(*rest, outgoing).await,
            }
        }
    }

    async fn next(&self, at: u64) -> Next {
        loop {
            // Registered before the look, so that no piece between the two is missed.
            let changed = self.changed.notified();
            if let Some(next) = self.look(at) {
                return next;
            }
            changed.await;
        }
    }

    fn look(&self, at: u64) -> Option<Next> {
        let mut state = self.state.lock();
        let index = state.pieces.partition_point(|piece| piece.end <= at);
        if let Some(piece) = state.pieces.get(index) {
            let start = piece.end - piece.bytes.len() as u64;
            let within = usize::try_from(at - start).unwrap_or_default();
            return Some(Next::Bytes(piece.bytes.slice(within..)));
        }
        match &mut state.end {
            BodyEnd::Growing => None,
            BodyEnd::Whole => Some(Next::End),
            BodyEnd::OnDisk => Some(state.disk.clone().map_or(Next::Broken, Next::OnDisk)),
            BodyEnd::Broken => Some(Next::Broken),
            BodyEnd::Continues(rest) => Some(rest.take().map_or(Next::Broken, Next::Rest)),
        }
    }
}

impl BodyState {
    fn length(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.end)
    }
}

/// A content that is being collected: broken, if that ends without another end.
struct Unfinished<'a>(&'a Body);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(state.end, BodyEnd::Growing) {
            state.end = BodyEnd::Broken;
        }
        drop(state);
        self.0.changed.notify_waiters();
    }
}

/// The next bytes of a content on disk, which is opened once. A block that cannot be read breaks the answer off.
async fn from_disk(opened: &mut Option<OpenContent>, disk: &DiskContent, at: u64) -> Next {
    if at >= disk.length() {
        return Next::End;
    }
    if opened.is_none() {
        match disk.open(at).await {
            Opened::Well(content) => *opened = Some(content),
            Opened::Damaged | Opened::Late => return Next::Broken,
        }
    }
    let Some(content) = opened else {
        return Next::Broken;
    };
    match content.read(at).await {
        Ok(bytes) if !bytes.is_empty() => Next::Bytes(bytes),
        _ => Next::Broken,
    }
}

/// Passes on a content that is not stored.
pub(crate) async fn forward(mut incoming: Incoming, mut outgoing: Outgoing) {
    while let Some(frame) = incoming.frame().await {
        let sent = match frame {
            Ok(Frame::Data(bytes)) => outgoing.data(bytes, false).await,
            Ok(Frame::Trailers(trailers)) => {
                let _ = outgoing.finish(Some(trailers)).await;
                return;
            }
            Err(_) => return,
        };
        if sent.is_err() {
            return;
        }
    }
    let _ = outgoing.finish(None).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hermes_http::pipe;
    use hermes_net::memory::{Memory, Owner, Purpose};

    use super::*;

    fn body() -> Arc<Body> {
        let charge = Memory::node()
            .owner(Owner::Local)
            .empty_charge(Purpose::Cached);
        Arc::new(Body::new(charge, 0))
    }

    /// All that comes, and whether it came to its end.
    async fn read(mut incoming: Incoming) -> (Vec<u8>, bool) {
        let mut all = Vec::new();
        while let Some(frame) = incoming.frame().await {
            match frame {
                Ok(Frame::Data(bytes)) => all.extend_from_slice(&bytes),
                Ok(Frame::Trailers(_)) => {}
                Err(_) => return (all, false),
            }
        }
        (all, true)
    }

    /// Sends `pieces` to a body of at most 8 bytes, while a client reads from `from` on.
    async fn through(pieces: &[&'static str], ends: bool, from: u64) -> (Vec<u8>, bool, Collected) {
        let body = body();
        let (mut origin, incoming) = pipe(None);
        let (client, answer) = pipe(None);
        let origin = async move {
            for piece in pieces {
                origin
                    .data(Bytes::from_static(piece.as_bytes()), false)
                    .await
                    .unwrap();
            }
            if ends {
                origin.finish(None).await.unwrap();
            }
        };
        let (collected, (), (), (all, is_whole)) = tokio::join!(
            body.collect(incoming, 8),
            origin,
            body.send(from, None, None, client),
            read(answer)
        );
        (all, is_whole, collected)
    }

    #[tokio::test]
    async fn a_reader_follows_a_content_that_comes() {
        let all = through(&["ab", "cd", "e"], true, 0).await;
        assert_eq!(all, (b"abcde".to_vec(), true, Collected::Whole));
        let end = through(&["ab", "cd", "e"], true, 3).await;
        assert_eq!(end, (b"de".to_vec(), true, Collected::Whole));
    }

    #[tokio::test]
    async fn a_content_that_breaks_off_is_not_whole_for_anyone() {
        let broken = through(&["ab"], false, 0).await;
        assert_eq!(broken, (b"ab".to_vec(), false, Collected::Partly));
    }

    #[tokio::test]
    async fn a_content_longer_than_may_be_stored_goes_on_to_its_client() {
        let long = through(&["abcdefg", "hij", "klm", "n"], true, 0).await;
        assert_eq!(long, (b"abcdefghijklmn".to_vec(), true, Collected::Partly));
    }
}
