//! Field sections that come: heads and trailers of messages, and the streams that they open (RFC 9113, sections 4.3, 5.1 and 8.1).

use std::borrow::Cow;

use bytes::BytesMut;
use http::{Method, StatusCode};

use super::batch::Content;
use super::connection::{Block, Connection};
use super::event::Event;
use super::frame::{END_HEADERS, END_STREAM, FrameHead, strip_headers};
use super::head::{BadHead, HeadLines};
use super::inbound::Taken;
use super::reason::{ConnectionError, Reason};
use super::stream::{Inbound, Stream};
use super::streams::Absent;
use crate::field_rules::{content_length, response_length};
use crate::h3::Role;

/// The cost of a frame of a field section beside its bytes: empty ones are not free
/// (CVE-2024-27316).
const BLOCK_FRAME_COST: usize = 1024;

/// How many times the size of a section its encoding may cost.
const BLOCK_FACTOR: usize = 4;

const NO_LENGTH: BadHead = BadHead::Malformed(Cow::Borrowed("content-length is not one number"));

const NO_CONTENT: BadHead = BadHead::Malformed(Cow::Borrowed("less content than was announced"));

impl<C: Content> Connection<C> {
    pub(super) fn headers(&mut self, head: FrameHead, content: BytesMut) -> Taken {
        if head.stream == 0 {
            return Err(ConnectionError::protocol("HEADERS on stream 0"));
        }
        let (bytes, dependency) = strip_headers(head, content)?;
        let mut block = Block {
            stream: head.stream,
            end: head.has(END_STREAM),
            dependency,
            cost: bytes.len() + BLOCK_FRAME_COST,
            bytes,
        };

        if head.has(END_HEADERS) {
            return self.section(block);
        }
        // A copy: the buffer that it was read into is for the next input, and much larger.
        block.bytes = BytesMut::from(&block.bytes[..]);
        self.block = Some(block);
        Ok(())
    }

    pub(super) fn continuation(&mut self, head: FrameHead, content: BytesMut) -> Taken {
        let Some(mut block) = self.block.take() else {
            return Ok(());
        };
        block.cost += content.len() + BLOCK_FRAME_COST;
        if block.cost > BLOCK_FACTOR * self.options.section.bytes.max(16 * 1024) {
            return Err(ConnectionError::new(
                Reason::ENHANCE_YOUR_CALM,
                "a field section of too many bytes or CONTINUATION frames",
            ));
        }

        block.bytes.extend_from_slice(&content);
        if head.has(END_HEADERS) {
            return self.section(block);
        }

        self.block = Some(block);
        Ok(())
    }

    /// A whole section: it is decoded even if the stream is refused, to keep the table in step.
    fn section(&mut self, block: Block) -> Taken {
        let mut lines = HeadLines::new(self.options.section);
        let is_heard = self.is_heard(block.stream);
        let decoded = self
            .compression
            .decoder
            .decode(&block.bytes, |name, value| {
                if is_heard {
                    lines.push(name, value);
                }
            });
        decoded.map_err(|_| {
            ConnectionError::new(
                Reason::COMPRESSION_ERROR,
                "a field section cannot be decoded",
            )
        })?;

        let decoded = self.options.section.bytes.saturating_sub(lines.room());
        self.compression.note_decoded(block.bytes.len(), decoded)?;

        let number = block.stream;
        // RFC 7540, section 5.3.1: an error of this stream alone.
        if block.dependency == Some(number) {
            self.note_opened(number)?;
            self.break_stream(number, Reason::PROTOCOL_ERROR, "a stream depends on itself");
            return Ok(());
        }

        let failed = match self.streams.get(number) {
            Some(stream) => match stream.receiving.inbound {
                Inbound::Head => self.response(number, lines, block.end).err(),
                Inbound::Content if decoded > self.options.trailers => Some(BadHead::Malformed(
                    "the trailers are larger than limits.trailer_bytes".into(),
                )),
                Inbound::Content => self.trailers(number, lines, block.end).err(),
                Inbound::Closed => {
                    let words = "HEADERS after the end of the stream";
                    self.break_stream(number, Reason::STREAM_CLOSED, words);
                    None
                }
            },
            None => match self.streams.absent(number) {
                // One is on its way at most when a stream is reset.
                Absent::Late => {
                    self.meter.reset();
                    None
                }
                Absent::Closed => {
                    let words = "HEADERS on a closed stream";
                    return Err(ConnectionError::new(Reason::STREAM_CLOSED, words));
                }
                Absent::Idle => self.request(number, lines, block.end)?.err(),
            },
        };

        if let Some(bad) = failed {
            self.break_stream(number, Reason::PROTOCOL_ERROR, bad.words().clone());
        }
        Ok(())
    }

    /// Whether the lines of a section on a stream are of use; of those that come for a stream which was reset only the table is kept.
    fn is_heard(&mut self, number: u32) -> bool {
        match self.streams.get(number) {
            Some(stream) => !matches!(stream.receiving.inbound, Inbound::Closed),
            None => self.streams.absent(number) == Absent::Idle,
        }
    }

    /// A client opens a stream (RFC 9113, section 5.1.1), if it is not open.
    fn note_opened(&mut self, number: u32) -> Taken {
        if self.streams.absent(number) != Absent::Idle {
            return Ok(());
        }
        if self.options.role == Role::Client || number.is_multiple_of(2) {
            return Err(ConnectionError::protocol(
                "HEADERS on a stream that the peer must not open",
            ));
        }

        self.streams.highest = number;
        self.meter.opened(number);
        Ok(())
    }

    fn request(&mut self, number: u32, lines: HeadLines, end: bool) -> Taken<Result<(), BadHead>> {
        self.note_opened(number)?;
        // Behind the last GOAWAY, nothing is begun (RFC 9113, section 6.8).
        if self.farewell.last.is_some() {
            self.meter.reset();
            // Remembered, as content may follow: the client learns from our GOAWAY to send the request elsewhere.
            self.streams.remember(number);
            return Ok(Ok(()));
        }

        if self.streams.len() >= self.options.streams as usize {
            self.put_reset(number, Reason::REFUSED_STREAM);
            self.meter.resets(Reason::REFUSED_STREAM);
            return Ok(Ok(()));
        }

        let mut stream = Stream::new(Inbound::Content, self.own.window, self.peer.window);
        if end {
            stream.receiving.inbound = Inbound::Closed;
        }

        let event = match lines.request() {
            Ok(request) => {
                let is_tunnel = request.method == Method::CONNECT;
                if !is_tunnel {
                    let Ok(expected) = content_length(&request.fields) else {
                        return Ok(Err(NO_LENGTH));
                    };
                    if end && expected.is_some_and(|length| length > 0) {
                        return Ok(Err(NO_CONTENT));
                    }
                    stream.receiving.expected = expected;
                }

                Event::Request {
                    stream: number,
                    request,
                    end,
                }
            }
            Err(BadHead::Refused(status, words)) => {
                stream.receiving.is_discarded = true;
                Event::Refuse {
                    stream: number,
                    status,
                    words,
                }
            }
            Err(malformed) => return Ok(Err(malformed)),
        };

        self.streams.insert(number, stream);
        self.events.push_back(event);
        Ok(Ok(()))
    }

    fn response(&mut self, number: u32, lines: HeadLines, end: bool) -> Result<(), BadHead> {
        let mut response = lines.response()?;
        let Some(stream) = self.streams.get(number) else {
            return Ok(());
        };

        if response.status.is_informational() {
            if end {
                // RFC 9113, section 8.1.
                let words = "an interim response that ends the stream";
                return Err(BadHead::Malformed(words.into()));
            }
        } else {
            let receiving = &mut stream.receiving;
            receiving.inbound = Inbound::Content;
            // RFC 9110, section 9.3.6: a length in a 2xx answer to CONNECT means nothing.
            let is_tunnel = receiving.is_tunnel && response.status.is_success();
            let is_bare = receiving.is_bare
                || matches!(
                    response.status,
                    StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
                );

            if !is_tunnel {
                let expected = response_length(&mut response.fields).map_err(|_| NO_LENGTH);
                // RFC 9110, section 8.6: such a response announces the length that another one
                // would have.
                receiving.expected = if is_bare { Some(0) } else { expected? };
            }

            if end && !self.finish_inbound(number) {
                return Ok(());
            }
        }

        self.events.push_back(Event::Response {
            stream: number,
            response,
            end,
        });

        Ok(())
    }

    fn trailers(&mut self, number: u32, lines: HeadLines, end: bool) -> Result<(), BadHead> {
        // RFC 9113, section 8.1.
        if !end {
            return Err(BadHead::Malformed("HEADERS within content".into()));
        }
        let trailers = lines.trailers()?;
        if self.finish_inbound(number) {
            self.events.push_back(Event::End {
                stream: number,
                trailers: Some(Box::new(trailers)),
            });
        }

        Ok(())
    }
}
