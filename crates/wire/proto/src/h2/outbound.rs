//! Output: commands of the streams' owners, and the frames that they become.

use bytes::{BufMut, BytesMut};

use super::batch::{Content, FrameBatch};
use super::connection::Connection;
use super::event::Event;
use super::frame::{self, END_HEADERS, END_STREAM, FRAME_HEAD, FrameHead, FrameKind};
use super::head::{HeadParts, Unsendable};
use super::hpack::HpackEncoder;
use super::reason::Reason;
use super::settings::LARGEST_WINDOW;
use super::stream::{Ending, Inbound, Stream};
use super::turns::Rank;
#[cfg(doc)]
use super::turns::{LONGEST_TURN, SHORTEST_TURN};
use crate::fields::Fields;
use crate::h3::Role;

/// Turns that are taken together on their way to the socket: the longest wait of a stream that
/// begins to send.
#[doc(alias = "bound")]
const BATCH_TURNS: usize = 2;

/// Why a stream cannot be opened. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// As many are open as the peer allows; [`Event::Openable`] says when to try again.
    #[error("the peer allows no more streams at once")]
    Full,
    /// The connection ends.
    #[error("the connection is closing")]
    Closing,
    /// HTTP/2 does not have the request.
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
}

/// Why something cannot be sent on a stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The stream is gone, or its half has ended.
    #[error("the stream has ended")]
    Gone,
    /// HTTP/2 does not have it.
    #[error(transparent)]
    Unsendable(#[from] Unsendable),
}

impl<C: Content> Connection<C> {
    /// Opens a stream with the head of a request, and ends our half of it with `end`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, head: &HeadParts<'_>, end: bool) -> Result<u32, OpenError> {
        // Numbers of streams end at 2^31-1, too, and cannot be used again (RFC 9113, section 5.1.1).
        if self.is_closing() || self.streams.next >= LARGEST_WINDOW {
            return Err(OpenError::Closing);
        }
        // RFC 9113, section 5.1.2: one more would be refused, or end the connection.
        if self.streams.len() >= self.peer.streams as usize {
            return Err(OpenError::Full);
        }

        // The number is used up only by a head that could be written: an error leaves no gap and no stream.
        let number = self.streams.next;
        self.put_head(number, head, end)?;
        self.streams.next += 2;
        let mut stream = Stream::new(Inbound::Head, self.own.window, self.peer.window);

        if let HeadParts::Request { method, .. } = head {
            stream.receiving.is_bare = **method == http::Method::HEAD;
            stream.receiving.is_tunnel = **method == http::Method::CONNECT;
        }

        if end {
            stream.sending.ending = Ending::Closed;
        }
        self.streams.insert(number, stream);
        Ok(number)
    }

    /// Sends the head of a response, interim or final; the final one ends our half of the stream with `end`.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn respond(
        &mut self,
        number: u32,
        head: &HeadParts<'_>,
        end: bool,
    ) -> Result<(), SendError> {
        if !self.can_send(number) {
            return Err(SendError::Gone);
        }
        self.put_head(number, head, end)?;
        if end {
            self.ended(number);
        }

        Ok(())
    }

    /// Queues content, and the end with `end`. [`Self::capacity`] says how much is welcome.
    ///
    /// # Errors
    /// [`SendError::Gone`].
    pub fn send(&mut self, number: u32, content: C, end: bool) -> Result<(), SendError> {
        if !self.can_send(number) {
            return Err(SendError::Gone);
        }
        let is_empty = content.bytes().is_empty();
        if let Some(stream) = self.streams.get(number)
            && !is_empty
        {
            stream.sending.push(content);
            self.schedule(number, false);
        }

        if end {
            self.finish(number, None)
        } else {
            Ok(())
        }
    }

    /// Ends our half of a stream behind the queue, with trailers if there are any.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn finish(&mut self, number: u32, trailers: Option<&Fields>) -> Result<(), SendError> {
        if !self.can_send(number) {
            return Err(SendError::Gone);
        }
        let section = match trailers {
            Some(fields) => {
                let mut section = BytesMut::new();
                // They wait behind the content, while the sections of other streams leave: no table may count on their turn.
                HeadParts::Trailers(fields).encode(&mut HpackEncoder::new(0), &mut section)?;
                Some(section)
            }
            None => None,
        };

        let Some(stream) = self.streams.get(number) else {
            return Err(SendError::Gone);
        };
        stream.sending.ending = section.map_or(Ending::End, Ending::Trailers);
        if stream.sending.queue.is_empty() {
            let mut control = std::mem::take(&mut self.control);
            self.put_ending(number, &mut control);
            self.control = control;
        }

        Ok(())
    }

    /// Resets a stream and drops its queue.
    pub fn reset(&mut self, stream: u32, reason: Reason) {
        if self.streams.contains(stream) {
            self.put_reset(stream, reason);
        }
    }

    /// Resets a new stream for which there is no room, before any effect: it may be tried again
    /// (RFC 9113, section 8.7).
    pub fn refuse(&mut self, stream: u32) {
        self.reset(stream, Reason::REFUSED_STREAM);
        self.meter.resets(Reason::REFUSED_STREAM);
    }

    /// The owner has dropped a stream. Its queue still leaves.
    pub fn abandon(&mut self, number: u32) {
        let is_server = self.options.role == Role::Server;
        let Some(stream) = self.streams.get(number) else {
            return;
        };

        stream.receiving.is_discarded = true;
        let has_ended = !matches!(stream.sending.ending, Ending::Open);

        // RFC 9113, section 8.1: the response is whole, and the rest of the request is not needed.
        let reason = if has_ended && is_server {
            Reason::NO_ERROR
        } else {
            Reason::CANCEL
        };

        if stream.sending.queue.is_empty() {
            self.put_reset(number, reason);
        } else {
            stream.sending.reset = Some(reason);
        }
    }

    /// A stream is not read any more: the credit of its bytes is given back at once.
    pub fn discard(&mut self, number: u32) {
        if let Some(stream) = self.streams.get(number) {
            stream.receiving.is_discarded = true;
        }
    }

    /// This many bytes of a stream were read, or dropped with it: the peer may send as many more.
    pub fn release(&mut self, number: u32, bytes: u32) {
        if bytes == 0 {
            return;
        }
        if let Some(stream) = self.streams.get(number)
            // Its own window matters no more once the peer has ended the stream; that of the connection does.
            && stream.receiving.inbound != Inbound::Closed
        {
            stream.receiving.window.release(bytes);
            if let Some(bytes) = stream.receiving.window.update() {
                self.put_window_update(number, bytes);
            }
        }

        self.release_room(bytes);
    }

    /// How much content a stream takes now; `None` when it is gone or has ended.
    pub fn capacity(&mut self, number: u32) -> Option<usize> {
        let most = self.options.queue;
        let stream = self.streams.get(number)?;
        matches!(stream.sending.ending, Ending::Open).then(|| stream.sending.capacity(most))
    }

    /// Someone waits for a stream to take content: [`Event::Writable`] says when.
    pub fn await_capacity(&mut self, number: u32) {
        if let Some(stream) = self.streams.get(number) {
            stream.sending.is_awaited = true;
        }
    }

    /// Whether a stream is neither closed nor reset.
    pub fn is_open(&self, stream: u32) -> bool {
        self.streams.contains(stream)
    }

    /// Whether our half of a stream is open.
    pub fn can_send(&mut self, number: u32) -> bool {
        self.streams
            .get(number)
            .is_some_and(|stream| matches!(stream.sending.ending, Ending::Open))
    }

    fn put_head(&mut self, stream: u32, head: &HeadParts<'_>, end: bool) -> Result<(), Unsendable> {
        let start = self.control.len();
        self.control.put_bytes(0, FRAME_HEAD);
        if let Err(error) = head.encode(&mut self.compression.encoder, &mut self.control) {
            self.control.truncate(start);
            return Err(error);
        }

        self.meter.calls_for_updates();
        let length = self.control.len() - start - FRAME_HEAD;
        // Rarely: a section is written in place, and moved only where it needs CONTINUATION.
        if length > self.peer.frame_size as usize {
            let section = self.control.split_off(start + FRAME_HEAD);
            self.control.truncate(start);
            let most = self.peer.frame_size as usize;
            frame::put_section(&mut self.control, stream, end, &section, most);
            return Ok(());
        }

        let head = FrameHead {
            length: length as u32,
            kind: FrameKind::Headers,
            flags: if end {
                END_HEADERS | END_STREAM
            } else {
                END_HEADERS
            },
            stream,
        };

        self.control[start..start + FRAME_HEAD].copy_from_slice(&head.encode());
        Ok(())
    }

    /// Our half of a stream has ended.
    fn ended(&mut self, number: u32) {
        if let Some(stream) = self.streams.get(number) {
            stream.sending.ending = Ending::Closed;
        }
        self.close_if_done(number);
    }

    /// The frame that ends our half, now that the queue is empty, and the frames behind it.
    fn put_ending(&mut self, number: u32, output: &mut BytesMut) {
        let most = self.peer.frame_size as usize;
        let Some(stream) = self.streams.get(number) else {
            return;
        };

        match std::mem::replace(&mut stream.sending.ending, Ending::Closed) {
            Ending::Open => stream.sending.ending = Ending::Open,
            Ending::End => frame::put(output, FrameKind::Data, END_STREAM, number, &[]),
            Ending::Trailers(section) => {
                let mut begun = BytesMut::new();
                self.compression.encoder.begin(&mut begun);
                begun.unsplit(section);
                frame::put_section(output, number, true, &begun, most);
            }
            Ending::Closed => {}
        }

        self.close_if_done(number);
    }

    /// When a stream is sent from now on, beside others.
    pub fn rank(&mut self, number: u32, rank: Rank) {
        if let Some(stream) = self.streams.get(number) {
            stream.sending.rank = rank;
        }
    }

    /// A stream may have something that can be sent; or more, after a turn.
    pub(super) fn schedule(&mut self, number: u32, is_more: bool) {
        let most = self.options.queue;
        let Some(stream) = self.streams.get(number) else {
            return;
        };

        let sending = &mut stream.sending;
        let is_awaited = sending.is_awaited && sending.capacity(most) > 0;
        if is_awaited {
            // One event for one wait: the owner asks again if it has more.
            sending.is_awaited = false;
        }

        // A stream without credit stays out of the turns: its WINDOW_UPDATE leads here again.
        let waits = sending.queued > 0 && sending.window.room() > 0 && !sending.is_scheduled;
        if waits {
            sending.is_scheduled = true;
            let rank = sending.rank;
            let queued = sending.queued;
            if is_more {
                self.streams.turns.go_on(number, rank);
            } else {
                self.streams.turns.begin(number, rank, queued);
            }
        }

        if is_awaited {
            self.events.push_back(Event::Writable { stream: number });
        }
    }

    /// How many bytes of one stream leave before those of another, from now on: [`SHORTEST_TURN`] to [`LONGEST_TURN`], at first the shortest.
    pub fn set_turn(&mut self, bytes: usize) {
        self.streams.turns.set_length(bytes);
    }

    /// Whether [`Self::transmit`] would give something.
    pub fn has_output(&self) -> bool {
        !self.control.is_empty() || (!self.streams.turns.is_empty() && self.flow.send.room() > 0)
    }

    /// Adds the next frames to `batch`. The streams take turns, in the order of their ranks, so
    /// that a small one never waits for a large one.
    pub fn transmit(&mut self, batch: &mut FrameBatch<C>) {
        batch.put(&self.control);
        self.control.clear();
        // Content comes second: window updates, resets and heads are small, and the peer waits for them.
        while batch.len() < self.longest_batch() && self.flow.send.room() > 0 {
            let Some(number) = self.streams.turns.next() else {
                return;
            };
            self.take_turn(number, batch);
        }
    }

    /// Bytes that [`Self::transmit`] adds to a batch at once.
    pub fn longest_batch(&self) -> usize {
        BATCH_TURNS * self.streams.turns.length()
    }

    /// One DATA frame of a stream.
    fn take_turn(&mut self, number: u32, batch: &mut FrameBatch<C>) {
        // No other stream waits, so a longer frame delays none.
        let turn = if self.streams.turns.is_empty() {
            self.longest_batch()
        } else {
            self.streams.turns.length()
        };

        let most = turn
            .min(self.peer.frame_size as usize)
            .min(self.flow.send.room());
        let Some(stream) = self.streams.get(number) else {
            return;
        };

        let sending = &mut stream.sending;
        sending.is_scheduled = false;
        let length = most.min(sending.window.room()).min(sending.queued);

        // No credit, or nothing queued: a WINDOW_UPDATE or new content schedules the stream again.
        if length == 0 {
            return;
        }
        let is_last = length == sending.queued;
        // With trailers, END_STREAM belongs to their HEADERS.
        let end = is_last && matches!(sending.ending, Ending::End);

        let head = FrameHead {
            length: length as u32,
            kind: FrameKind::Data,
            flags: if end { END_STREAM } else { 0 },
            stream: number,
        };

        batch.put(&head.encode());
        let mut left = length;
        while left > 0
            && let Some(content) = sending.pop(left)
        {
            left -= content.bytes().len();
            batch.lend(content);
        }

        sending.window.take(length);
        self.flow.send.take(length);
        if end {
            sending.ending = Ending::Closed;
        }

        self.meter.calls_for_updates();
        if is_last {
            self.emptied(number, batch);
        }

        self.schedule(number, true);
    }

    /// All that a stream had queued is on its way.
    fn emptied(&mut self, number: u32, batch: &mut FrameBatch<C>) {
        // The end leaves in the write of the last content, and behind it.
        let mut output = std::mem::take(&mut self.control);
        self.put_ending(number, &mut output);
        self.control = output;
        if let Some(stream) = self.streams.get(number)
            && let Some(reason) = stream.sending.reset
        {
            self.put_reset(number, reason);
        }

        batch.put(&self.control);
        self.control.clear();
    }
}
