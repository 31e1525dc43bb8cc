//! The receiving half of a stream: frames in the order in which they may come.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hermes_net::clock;
use hermes_net::memory::ExchangeCharge;
use hermes_net::quic::{ReadError, RecvStream};
use hermes_proto::h3::{Code, Fault, Frame, FrameDecoder, Piece, Role, Section, Sequence};

use super::PIECE;
use super::stream_state::StreamState;
use crate::error::{Cause, NO_ROOM, StreamError};

/// The parts of a stream's input.
#[derive(Debug)]
pub(crate) enum Part {
    /// An encoded field section.
    Section(Section, Bytes),
    /// Content, or bytes of a tunnel.
    Data(Bytes),
    /// The end.
    End,
}

/// Why nothing more comes.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The peer broke the protocol.
    Fault(Fault),
    /// The stream or the connection broke.
    Broken(StreamError),
}

impl From<Failure> for StreamError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Fault(fault) => fault.into(),
            Failure::Broken(error) => error,
        }
    }
}

/// The half itself. Dropped before the end, it tells the peer to stop.
#[derive(Debug)]
pub(crate) struct Reader {
    /// Taken only by the end of the reader itself.
    stream: Option<RecvStream>,
    frames: FrameDecoder,
    pub(crate) sequence: Sequence,
    pub(crate) state: Arc<StreamState>,
    /// The charge for an incomplete head or trailers.
    reserved: Option<ExchangeCharge>,
    is_begun: bool,
    /// A part that was found while looking for something else.
    ahead: Option<Result<Part, Failure>>,
    over: bool,
}

impl Reader {
    pub(crate) fn new(stream: RecvStream, state: Arc<StreamState>) -> Self {
        let shared = state.shared();
        let frames = FrameDecoder::request(shared.tables.limits.bytes);
        let sequence = Sequence::new(shared.role);

        Self {
            stream: Some(stream),
            frames,
            sequence,
            state,
            reserved: None,
            is_begun: false,
            ahead: None,
            over: false,
        }
    }

    /// The next part. After the end, or a failure, there is no further part.
    pub(crate) fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Failure>> {
        if let Some(ahead) = self.ahead.take() {
            return Poll::Ready(ahead);
        }
        if self.over {
            return Poll::Ready(Ok(Part::End));
        }

        Poll::Ready(match ready!(self.poll_stream(cx)) {
            Ok(part) => Ok(part),
            Err(failure) => {
                // One mistake ends both halves, with its own code.
                if let Failure::Fault(fault) = &failure {
                    self.state.fail(*fault);
                    self.stop(fault.code);
                }
                self.cancel();
                self.end();
                Err(failure)
            }
        })
    }

    /// As [`Self::poll_part`], without taking the part.
    pub(crate) fn poll_peek(&mut self, cx: &mut Context<'_>) -> Poll<&Result<Part, Failure>> {
        let part = ready!(self.poll_part(cx));
        Poll::Ready(self.ahead.insert(part))
    }

    /// Puts a part back.
    pub(crate) fn unread(&mut self, part: Result<Part, Failure>) {
        self.ahead = Some(part);
    }

    /// Whether it is certain that nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        self.over
            && !matches!(
                self.ahead,
                Some(Ok(Part::Data(_) | Part::Section(..)) | Err(_))
            )
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Failure>> {
        loop {
            match self.frames.next().map_err(Failure::Fault)? {
                Some(piece) => return Poll::Ready(self.part(piece).map_err(Failure::Fault)),
                None => match poll_read(&mut self.stream, cx) {
                    Poll::Pending => {
                        // Only where input is waited for: most heads come whole, and are charged once they are decoded.
                        self.reserve()?;
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(Some(bytes))) => {
                        self.frames.push(bytes);
                        if self.frames.is_counting() {
                            self.frames.handle_time(clock::now().into_std());
                        }
                    }
                    Poll::Ready(Ok(None)) => {
                        return Poll::Ready(self.finish().map_err(Failure::Fault));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(self.broken(error))),
                },
            }
        }
    }

    /// Charges awaited input: a request without its head, or a section by its announced length. So
    /// each section that was begun can be read to its end, and one too many is refused.
    fn reserve(&mut self) -> Result<(), Failure> {
        let awaited = self.frames.awaited();
        let charges = &self.state.shared().tables.charges;
        let awaits_request = !self.is_begun && self.state.shared().role == Role::Server;

        let reserved = if awaits_request {
            charges.begin(&mut self.reserved, awaited)
        } else if awaited > 0 {
            charges.reserve(&mut self.reserved, awaited)
        } else {
            return Ok(());
        };
        reserved.map_err(|_| self.refused(awaits_request))
    }

    /// The stream ends, and nothing else of its connection.
    fn refused(&self, is_request: bool) -> Failure {
        // A request that nothing was done for may be tried again (RFC 9114, 4.1.1).
        self.state.abandon(match is_request {
            true => Code::RequestRejected,
            false => Code::ExcessiveLoad,
        });
        Failure::Broken(StreamError::new(Cause::Memory(NO_ROOM)))
    }

    /// Ready once the stream was ended because no one reads it. To be polled while it is not read.
    pub(crate) fn poll_still(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.over) else {
            return Poll::Pending;
        };
        let error = ready!(stream.poll_still(cx));
        self.cancel();
        self.end();
        Poll::Ready(self.broken(error))
    }

    fn broken(&self, error: ReadError) -> Failure {
        if matches!(error, ReadError::Still) {
            self.state.abandon(Code::ExcessiveLoad);
        }
        Failure::Broken(self.state.explain(error))
    }

    fn part(&mut self, piece: Piece) -> Result<Part, Fault> {
        match piece {
            Piece::Data(data) => {
                self.sequence.handle_data(data.len())?;
                Ok(Part::Data(data))
            }
            Piece::Frame(Frame::Headers(section)) => {
                self.reserved = None;
                self.is_begun = true;
                Ok(Part::Section(self.sequence.handle_headers()?, section))
            }
            // The decoder passes on no other frame of a request stream: a PUSH_PROMISE, which no one has allowed (RFC 9114, 7.2.5).
            Piece::Frame(_) => Err(self.sequence.handle_push()),
        }
    }

    fn finish(&mut self) -> Result<Part, Fault> {
        self.frames.finish()?;
        self.sequence.handle_end()?;
        self.end();
        Ok(Part::End)
    }

    fn stop(&mut self, otherwise: Code) {
        if let Some(stream) = &mut self.stream {
            stream.stop(self.state.code_or(otherwise));
        }
    }

    /// The sections that are not read need their entries no more.
    fn cancel(&self) {
        self.state.shared().tables.cancel(self.state.id());
    }

    fn end(&mut self) {
        self.over = true;
        self.reserved = None;
        self.state.end_receiving();
    }

    /// Whether the request came before the handshake had ended, so that it may have been repeated by someone (RFC 8470).
    pub(crate) fn is_early(&self) -> bool {
        self.stream.as_ref().is_some_and(RecvStream::is_early)
            && !self.state.shared().connection.is_confirmed()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.cancel();
        self.state.end_receiving();
        match self.state.shared().role {
            // RFC 9114, 4.1: a server that has answered may need no more of the request. Told before the answer is there, a
            // client could take it for a failure.
            Role::Server => drop(
                self.stream
                    .take()
                    .map(|stream| self.state.part_with(stream)),
            ),
            Role::Client => self.stop(Code::RequestCancelled),
        }
    }
}

fn poll_read(
    stream: &mut Option<RecvStream>,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Bytes>, ReadError>> {
    stream
        .as_mut()
        .map_or(Poll::Ready(Ok(None)), |stream| stream.poll_read(cx, PIECE))
}
