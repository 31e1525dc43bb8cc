//! Input: frames, and their meaning for the connection and its streams (RFC 9113, sections 5 and
//! 6).

use std::borrow::Cow;
use std::time::Instant;

use bytes::{Buf, BytesMut};

use super::batch::Content;
use super::connection::{Arriving, Connection, Expecting, FAREWELL_PING, PROBE_PING};
use super::event::{Event, Failure};
use super::frame::{self, ACK, END_STREAM, FRAME_HEAD, FrameHead, FrameKind, PADDED, PREFACE};
use super::meter::Verdict;
use super::reason::{ConnectionError, Reason};
use super::stream::Inbound;
use super::streams::Absent;
use crate::h3::{Role, Signal};

/// Bytes of decoded field sections in events that were not polled, beyond which no more are decoded.
#[doc(alias = "bound")]
const UNPOLLED: usize = 256 * 1024;

/// The result of handling input: an error ends the connection, a stream error has been dealt with.
pub(super) type Taken<T = ()> = Result<T, ConnectionError>;

impl<C: Content> Connection<C> {
    /// Takes bytes off the front of `input`: whole frames, and the available part of a DATA frame.
    /// Remaining bytes are an incomplete frame. If this returns false, poll the events and call it
    /// again with the same input: a few bytes can decode to many heads.
    pub fn handle(&mut self, input: &mut BytesMut, now: Instant) -> bool {
        self.meter.set_now(now);
        loop {
            // HPACK amplifies: an indexed line is a byte or two, and the entry that it names up to 4 KiB.
            if self.compression.unpolled >= UNPOLLED {
                return false;
            }
            match self.step(input) {
                Ok(true) => {}
                Ok(false) => return true,
                // The failed state drops the rest of the input, which ends the loop.
                Err(error) => self.fail(error),
            }
            if self.meter.verdict() == Verdict::Calm {
                self.fail(ConnectionError::new(
                    Reason::ENHANCE_YOUR_CALM,
                    "too many resets, or SETTINGS, PING, WINDOW_UPDATE or PRIORITY frames",
                ));
            }
        }
    }

    /// Takes one step through the input; false when more bytes are needed.
    fn step(&mut self, input: &mut BytesMut) -> Taken<bool> {
        match &mut self.expecting {
            Expecting::Preface => self.preface(input),
            Expecting::Frame => self.frame(input),
            Expecting::Content(_) => self.content(input),
            Expecting::Nothing(left) => {
                let now = input.len().min(*left as usize);
                input.advance(now);
                *left -= now as u32;
                let is_past = *left == 0;

                if is_past {
                    self.expecting = Expecting::Frame;
                }
                Ok(is_past)
            }
            Expecting::Failed(_) => {
                input.clear();
                Ok(false)
            }
        }
    }

    fn preface(&mut self, input: &mut BytesMut) -> Taken<bool> {
        let here = input.len().min(PREFACE.len());
        if input[..here] != PREFACE[..here] {
            return Err(ConnectionError::protocol("no preface of HTTP/2"));
        }

        if here < PREFACE.len() {
            return Ok(false);
        }
        input.advance(PREFACE.len());
        self.expecting = Expecting::Frame;

        Ok(true)
    }

    fn frame(&mut self, input: &mut BytesMut) -> Taken<bool> {
        let Some(head) = input.first_chunk::<FRAME_HEAD>() else {
            return Ok(false);
        };
        let head = FrameHead::decode(head);
        if head.length > self.options.frame_size {
            return Err(ConnectionError::size("a frame above MAX_FRAME_SIZE"));
        }

        // Before unknown types are passed over: within a field section they are an error, too (RFC 9113, section 5.5).
        self.check_order(head)?;
        match head.kind {
            FrameKind::Data => return self.data(head, input),
            // RFC 9113, section 4.1: ignored, and so never gathered, however long; but not free of charge.
            FrameKind::Unknown(_) => {
                self.meter.control();
                input.advance(FRAME_HEAD);
                self.expecting = Expecting::Nothing(head.length);
                return Ok(true);
            }
            _ => {}
        }

        let whole = FRAME_HEAD + head.length as usize;
        if input.len() < whole {
            // At most `frame_size`, which was checked above.
            input.reserve(whole - input.len());
            return Ok(false);
        }

        input.advance(FRAME_HEAD);
        let content = input.split_to(head.length as usize);
        self.whole_frame(head, content)?;

        Ok(true)
    }

    /// RFC 9113, section 3.4: SETTINGS come first; section 6.10: nothing comes between the frames of a section.
    fn check_order(&self, head: FrameHead) -> Taken {
        match &self.block {
            Some(block) if head.kind == FrameKind::Continuation && head.stream == block.stream => {
                Ok(())
            }
            Some(_) => Err(ConnectionError::protocol(
                "a frame between those of a field section",
            )),
            None if head.kind == FrameKind::Continuation => {
                Err(ConnectionError::protocol("CONTINUATION of nothing"))
            }
            None if !self.farewell.is_settled && head.kind != FrameKind::Settings => {
                Err(ConnectionError::protocol("the first frame is not SETTINGS"))
            }
            None => Ok(()),
        }
    }

    fn whole_frame(&mut self, head: FrameHead, content: BytesMut) -> Taken {
        match head.kind {
            FrameKind::Headers => self.headers(head, content),
            FrameKind::Continuation => self.continuation(head, content),
            FrameKind::RstStream => self.rst_stream(head, &content),
            FrameKind::Settings => self.settings(head, &content),
            FrameKind::Ping => self.pinged(head, &content),
            FrameKind::GoAway => self.goaway(head, &content),
            FrameKind::WindowUpdate => self.window_update(head, &content),
            FrameKind::Priority => self.priority(head, &content),
            FrameKind::PriorityUpdate => self.priority_update(head, &content),
            // RFC 9113, section 8.4: clients never push, and our own SETTINGS forbid it to servers.
            FrameKind::PushPromise => Err(ConnectionError::protocol("PUSH_PROMISE")),
            // `frame` has taken these, in pieces.
            FrameKind::Data | FrameKind::Unknown(_) => Ok(()),
        }
    }

    /// Takes the head of a DATA frame. Padding counts in the windows as well (RFC 9113, section 6.9.1).
    fn data(&mut self, head: FrameHead, input: &mut BytesMut) -> Taken<bool> {
        if head.stream == 0 {
            return Err(ConnectionError::protocol("DATA on stream 0"));
        }
        let mut own = FRAME_HEAD;
        let mut arriving = Arriving {
            stream: head.stream,
            left: head.length,
            padding: 0,
            end: head.has(END_STREAM),
        };

        if head.has(PADDED) {
            const MORE: ConnectionError = ConnectionError::protocol("more padding than content");
            if head.length == 0 {
                return Err(MORE);
            }

            // Nothing is consumed before this byte is here: the next call reads the same head again.
            let Some(&padding) = input.get(FRAME_HEAD) else {
                return Ok(false);
            };
            own += 1;
            arriving.padding = padding.into();
            let left = (head.length - 1).checked_sub(arriving.padding);
            arriving.left = left.ok_or(MORE)?;
        }

        input.advance(own);
        // Before the stream is looked up (RFC 9113, section 6.9): a frame in error counts as well, or the windows of both
        // sides drift apart.
        if !self.flow.receive.take(head.length) {
            return Err(ConnectionError::new(
                Reason::FLOW_CONTROL_ERROR,
                "more than the window of the connection",
            ));
        }

        // CVE-2019-9518: flow control does not see such frames.
        if arriving.left == 0 && !arriving.end {
            self.meter.empty();
        }
        // Bytes read earlier may now be worth a WINDOW_UPDATE, because less is left.
        self.tell_room();
        if self.admit(head, arriving.left)? {
            // Padding counts as read.
            self.release(head.stream, head.length - arriving.left);
            self.expecting = Expecting::Content(arriving);
        } else {
            // Flow control does not limit empty frames, so they have a budget.
            if head.length == 0 {
                self.meter.reset();
            }
            // Dropped bytes give their credit back: late frames must not use up the window of the other streams.
            self.release_room(head.length);
            self.expecting = Expecting::Nothing(arriving.left + arriving.padding);
        }

        Ok(true)
    }

    /// Whether the content of a DATA frame is to go to its stream.
    fn admit(&mut self, head: FrameHead, content: u32) -> Taken<bool> {
        let Some(stream) = self.streams.get(head.stream) else {
            return match self.streams.absent(head.stream) {
                Absent::Idle => Err(ConnectionError::protocol("DATA on an idle stream")),
                Absent::Closed => Err(ConnectionError::new(
                    Reason::STREAM_CLOSED,
                    "DATA on a closed stream",
                )),
                // RFC 9113, section 5.1: these frames were on their way when we reset the stream.
                Absent::Late => Ok(false),
            };
        };

        let receiving = &mut stream.receiving;
        let (reason, words) = match receiving.inbound {
            Inbound::Closed => (Reason::STREAM_CLOSED, "DATA after the end of the stream"),
            Inbound::Head => (Reason::PROTOCOL_ERROR, "content before a head"),
            // RFC 9113, section 6.1: padding counts against the window, too.
            Inbound::Content if !receiving.window.take(head.length) => (
                Reason::FLOW_CONTROL_ERROR,
                "more than the window of the stream",
            ),
            Inbound::Content => match &mut receiving.expected {
                // RFC 9113, section 8.1.1: content beyond the announced length is malformed.
                Some(expected) if *expected < u64::from(content) => {
                    (Reason::PROTOCOL_ERROR, "more content than was announced")
                }
                Some(expected) => {
                    *expected -= u64::from(content);
                    return Ok(true);
                }
                None => return Ok(true),
            },
        };

        self.break_stream(head.stream, reason, words);
        Ok(false)
    }

    /// Takes the next part of a DATA frame.
    fn content(&mut self, input: &mut BytesMut) -> Taken<bool> {
        let Expecting::Content(arriving) = &mut self.expecting else {
            return Ok(true);
        };
        let here = input.len().min(arriving.left as usize);
        arriving.left -= here as u32;
        let is_whole = arriving.left == 0;

        let Arriving {
            stream,
            padding,
            end,
            ..
        } = *arriving;

        if is_whole {
            self.expecting = match padding {
                0 => Expecting::Frame,
                padding => Expecting::Nothing(padding),
            };
        }

        if here > 0 {
            let data = input.split_to(here).freeze();
            // Between two parts of a frame the owner may have reset or dropped the stream.
            match self.streams.get(stream) {
                Some(open) if !open.receiving.is_discarded => {
                    self.events.push_back(Event::Data { stream, data });
                }
                _ => self.release(stream, here as u32),
            }
        }

        if is_whole && end && self.streams.contains(stream) && self.finish_inbound(stream) {
            let trailers = None;
            self.events.push_back(Event::End { stream, trailers });
        }

        Ok(is_whole)
    }

    /// Ends the peer's half of a stream; false if it sent less than it had announced.
    pub(super) fn finish_inbound(&mut self, number: u32) -> bool {
        let Some(stream) = self.streams.get(number) else {
            return false;
        };
        if stream.receiving.expected.is_some_and(|left| left > 0) {
            self.break_stream(
                number,
                Reason::PROTOCOL_ERROR,
                "less content than was announced",
            );
            return false;
        }

        stream.receiving.inbound = Inbound::Closed;
        self.close_if_done(number);
        true
    }

    /// The peer broke the protocol on a stream (RFC 9113, section 5.4.2).
    pub(super) fn break_stream(
        &mut self,
        stream: u32,
        reason: Reason,
        words: impl Into<Cow<'static, str>>,
    ) {
        if self.streams.contains(stream) {
            self.note_failed(stream, Failure::Broken(reason, words.into()));
        }
        // The code goes out even where the stream is gone: the peer is to learn of its mistake.
        self.put_reset(stream, reason);
        // MadeYouReset, CVE-2025-8671: a reset that the peer provokes costs as much as one that it sends.
        self.meter.resets(reason);
    }

    fn rst_stream(&mut self, head: FrameHead, content: &[u8]) -> Taken {
        let Ok(code) = <[u8; 4]>::try_from(content) else {
            return Err(ConnectionError::size("RST_STREAM of another length"));
        };
        self.meter.reset();
        // Rapid reset, CVE-2023-44487: counted above, whether the stream is open or long gone.
        if self.streams.remove(head.stream).is_some() {
            let reason = Reason::from(u32::from_be_bytes(code));
            self.note_failed(head.stream, Failure::Reset(reason));
            self.note_openable();
            return Ok(());
        }

        match self.streams.absent(head.stream) {
            Absent::Idle => Err(ConnectionError::protocol("RST_STREAM on an idle stream")),
            Absent::Closed | Absent::Late => Ok(()),
        }
    }

    fn settings(&mut self, head: FrameHead, content: &[u8]) -> Taken {
        if head.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS on a stream"));
        }
        if head.has(ACK) {
            if !content.is_empty() {
                return Err(ConnectionError::size("an acknowledgement with settings"));
            }
            // An acknowledgement of SETTINGS that we did not send costs its sender.
            match self.own.unacknowledged.checked_sub(1) {
                Some(left) => self.acknowledged(left),
                None => self.meter.control(),
            }
            return Ok(());
        }

        if self.farewell.is_settled {
            self.meter.control();
        } else {
            // RFC 9113, section 6.5.2: no limit, unless this frame sets one; our guess ends here.
            self.peer.streams = u32::MAX;
        }

        let before = self.peer;
        self.peer.apply(content)?;
        // RFC 9113, section 6.5.3: applied first; frames that lean on the new values queue behind the acknowledgement.
        frame::put(&mut self.control, FrameKind::Settings, ACK, 0, &[]);

        self.compression.encoder.allow(self.peer.header_table);
        self.resize_streams(i64::from(self.peer.window) - i64::from(before.window))?;
        if !self.farewell.is_settled {
            self.farewell.is_settled = true;
            self.events.push_back(Event::Settled);
        }

        self.note_openable();
        Ok(())
    }

    /// The peer has acknowledged SETTINGS of ours: the table size and the stream window hold from now on.
    fn acknowledged(&mut self, left: u32) {
        self.own.unacknowledged = left;
        self.compression.settle(self.options.table);
        // RFC 9113, section 6.9.2: the peer counts with the new size from here on. Applied earlier, a smaller window would turn
        // bytes on their way into errors.
        if self.own.unacknowledged == 0
            && let Some(window) = self.own.told.take()
        {
            let by = i64::from(window) - i64::from(self.own.window);
            self.own.window = window;
            for (_, stream) in self.streams.all() {
                stream.receiving.window.shift(by);
            }
        }
    }

    /// The peer's window of streams has changed (RFC 9113, section 6.9.2).
    fn resize_streams(&mut self, by: i64) -> Taken {
        if by == 0 {
            return Ok(());
        }
        let mut ready = Vec::new();
        for (number, stream) in self.streams.all() {
            // A window may fall below zero; the stream then waits until updates lift it above.
            if !stream.sending.window.shift(by) {
                return Err(ConnectionError::new(
                    Reason::FLOW_CONTROL_ERROR,
                    "a window above the largest",
                ));
            }
            ready.push(number);
        }

        for number in ready {
            self.schedule(number, false);
        }
        Ok(())
    }

    fn pinged(&mut self, head: FrameHead, content: &[u8]) -> Taken {
        if head.stream != 0 {
            return Err(ConnectionError::protocol("PING on a stream"));
        }
        if content.len() != 8 {
            return Err(ConnectionError::size("PING of another length"));
        }

        if !head.has(ACK) {
            self.meter.control();
            frame::put(&mut self.control, FrameKind::Ping, ACK, 0, content);
        } else if content == FAREWELL_PING && self.awaits_farewell() {
            self.close_door();
        } else if content == PROBE_PING && self.own.probes > 0 {
            self.own.probes -= 1;
            self.events.push_back(Event::Pong);
        } else {
            self.meter.control();
        }

        Ok(())
    }

    fn goaway(&mut self, head: FrameHead, content: &[u8]) -> Taken {
        if head.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY on a stream"));
        }
        let Some(([l0, l1, l2, l3, c0, c1, c2, c3], _)) = content.split_first_chunk::<8>() else {
            return Err(ConnectionError::size("GOAWAY that is too short"));
        };

        let last = u32::from_be_bytes([l0 & 0x7f, *l1, *l2, *l3]);
        let reason = Reason::from(u32::from_be_bytes([*c0, *c1, *c2, *c3]));
        // The first GOAWAY is free; each further one makes us walk over the streams.
        let before = self.farewell.heard.replace(last);
        if before.is_some() {
            self.meter.control();
        }

        // RFC 9113, section 6.8: the server processed no stream above `last`, so those requests may go to another connection.
        if self.options.role == Role::Client && before.is_none_or(|before| last < before) {
            let above: Vec<u32> = self
                .streams
                .all()
                .map(|(number, _)| number)
                .filter(|number| *number > last)
                .collect();
            for number in above {
                self.streams.remove(number);
                self.note_failed(number, Failure::Unprocessed);
            }
        }

        self.events.push_back(Event::Goaway { reason });
        Ok(())
    }

    fn window_update(&mut self, head: FrameHead, content: &[u8]) -> Taken {
        let Ok(bytes) = <[u8; 4]>::try_from(content) else {
            return Err(ConnectionError::size("WINDOW_UPDATE of another length"));
        };
        self.meter.update();
        let bytes = i64::from(u32::from_be_bytes(bytes) & 0x7fff_ffff);

        if head.stream == 0 && bytes == 0 {
            return Err(ConnectionError::protocol("WINDOW_UPDATE of nothing"));
        }
        if head.stream == 0 {
            // No stream is scheduled: those with content kept their turns, and `transmit` looks at this window itself.
            if !self.flow.send.shift(bytes) {
                return Err(ConnectionError::new(
                    Reason::FLOW_CONTROL_ERROR,
                    "a window above the largest",
                ));
            }
            return Ok(());
        }

        let Some(stream) = self.streams.get(head.stream) else {
            return match self.streams.absent(head.stream) {
                Absent::Idle => Err(ConnectionError::protocol("WINDOW_UPDATE on an idle stream")),
                Absent::Closed | Absent::Late => Ok(()),
            };
        };

        // RFC 9113, section 6.9: on a stream, either mistake ends that stream alone.
        if bytes == 0 {
            let reason = Reason::PROTOCOL_ERROR;
            self.break_stream(head.stream, reason, "WINDOW_UPDATE of nothing");
        } else if stream.sending.window.shift(bytes) {
            self.schedule(head.stream, false);
        } else {
            let reason = Reason::FLOW_CONTROL_ERROR;
            self.break_stream(head.stream, reason, "a window above the largest");
        }

        Ok(())
    }

    /// Checks the form of PRIORITY and ignores its content (RFC 9113, section 5.3.2).
    fn priority(&mut self, head: FrameHead, content: &[u8]) -> Taken {
        self.meter.control();
        if head.stream == 0 {
            return Err(ConnectionError::protocol("PRIORITY on stream 0"));
        }

        let depends_on_itself = content
            .first_chunk::<4>()
            .is_some_and(|bytes| u32::from_be_bytes(*bytes) & 0x7fff_ffff == head.stream);
        let error = match content.len() {
            5 if !depends_on_itself => return Ok(()),
            5 => ConnectionError::protocol("a stream depends on itself"),
            _ => ConnectionError::size("PRIORITY of another length"),
        };

        if !self.streams.contains(head.stream) {
            return Err(error);
        }
        self.break_stream(head.stream, error.reason, error.words);
        Ok(())
    }

    /// RFC 9218, section 7.1.
    fn priority_update(&mut self, head: FrameHead, content: &[u8]) -> Taken {
        self.meter.control();
        let Some((stream, value)) = content.split_first_chunk::<4>() else {
            return Err(ConnectionError::size("PRIORITY_UPDATE that is too short"));
        };

        let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
        if head.stream != 0 || stream == 0 || self.options.role == Role::Client {
            return Err(ConnectionError::protocol(
                "PRIORITY_UPDATE that must not be",
            ));
        }

        let signal = Signal::parse(value);
        self.events
            .push_back(Event::PriorityUpdate { stream, signal });
        Ok(())
    }
}
