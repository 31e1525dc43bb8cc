//! The input of an HTTP/3 stream.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use hermes_net::memory::ExchangeCharge;
use hermes_proto::fields::Fields;
use hermes_proto::h3::{Code, decode_trailers};

use super::PIECE;
use super::datagrams::DatagramReceiver;
use super::reader::{Failure, Part, Reader};
use crate::Frame;
use crate::error::{Cause, NO_ROOM, StreamError};
use crate::pace::Pace;

/// The receiving half.
#[derive(Debug)]
pub struct RequestStreamReceiver {
    reader: Reader,
    length: Option<u64>,
    done: bool,
    datagrams_taken: bool,
    pace: Pace,
    /// The charge for its fields.
    charge: Option<ExchangeCharge>,
}

impl RequestStreamReceiver {
    /// Content of this length, where it is known.
    pub(crate) fn new(reader: Reader, length: Option<u64>) -> Self {
        Self {
            reader,
            length,
            done: false,
            datagrams_taken: false,
            pace: Pace::default(),
            charge: None,
        }
    }

    /// Takes over the charge for the head of a response.
    pub(crate) fn charged(mut self, charge: ExchangeCharge) -> Self {
        self.charge = Some(charge);
        self
    }

    /// Charges trailers, until no one reads the stream any more.
    fn charge(&mut self, trailers: &Fields) -> Result<(), StreamError> {
        let bytes = trailers.footprint();
        let charged = match &mut self.charge {
            Some(charge) => charge.add(bytes),
            none => {
                let charges = &self.reader.state.shared().tables.charges;
                charges.add(bytes).map(|charge| *none = Some(charge))
            }
        };

        charged.map_err(|_| {
            self.reader.state.abandon(Code::ExcessiveLoad);
            StreamError::new(Cause::Memory(NO_ROOM))
        })
    }

    pub(crate) fn pace(&mut self, pace: Pace) {
        self.pace = pace;
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame, StreamError>>> {
        if self.done {
            return Poll::Ready(None);
        }
        let polled = match self.poll_next(cx) {
            Poll::Ready(polled) => polled,
            Poll::Pending => Err(ready!(self.pace.poll_slow(cx))),
        };

        match &polled {
            Ok(Some(Frame::Data(data))) => self.pace.moved(data.len()),
            _ => self.done = true,
        }

        Poll::Ready(polled.transpose())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, StreamError>> {
        Poll::Ready(match ready!(self.reader.poll_part(cx)) {
            Ok(Part::Data(first)) => Ok(Some(Frame::Data(self.join(first, cx)))),
            Ok(Part::End) => Ok(None),
            Ok(Part::Section(_, section)) => self
                .trailers(section, cx)
                .map(|trailers| Some(Frame::Trailers(trailers))),
            Err(failure) => Err(failure.into()),
        })
    }

    /// Ready once the stream was ended because it was not read.
    pub(crate) fn poll_still(&mut self, cx: &mut Context<'_>) -> Poll<StreamError> {
        if self.done {
            return Poll::Pending;
        }
        let failure = ready!(self.reader.poll_still(cx));
        self.done = true;
        Poll::Ready(failure.into())
    }

    /// Joins the content of consecutive packets: each alone would be a write of its own on the
    /// other side.
    fn join(&mut self, first: Bytes, cx: &mut Context<'_>) -> Bytes {
        let mut joined: Option<BytesMut> = None;
        let mut length = first.len();
        while length < PIECE {
            match self.reader.poll_part(cx) {
                Poll::Ready(Ok(Part::Data(next))) if length + next.len() <= PIECE => {
                    length += next.len();
                    joined
                        .get_or_insert_with(|| with_room(&first))
                        .extend_from_slice(&next);
                }
                Poll::Ready(other) => {
                    self.reader.unread(other);
                    break;
                }
                Poll::Pending => break,
            }
        }

        joined.map_or(first, BytesMut::freeze)
    }

    fn trailers(&mut self, section: Bytes, cx: &mut Context<'_>) -> Result<Fields, StreamError> {
        // Only the end may follow, and the owner does not ask for it any more.
        if let Poll::Ready(Err(failure)) = self.reader.poll_part(cx) {
            return Err(failure.into());
        }
        let state = &self.reader.state;
        let tables = &state.shared().tables;
        let read = tables.read_trailers(state.id(), &section, decode_trailers);
        let trailers = read.map_err(|fault| {
            state.fail(fault);
            StreamError::from(Failure::Fault(fault))
        })?;

        self.charge(&trailers)?;
        Ok(trailers)
    }

    pub(crate) fn is_end(&self) -> bool {
        self.done || self.reader.is_over()
    }

    pub(crate) fn length(&self) -> Option<u64> {
        if self.is_end() { Some(0) } else { self.length }
    }

    pub(crate) fn datagrams(&mut self) -> Option<DatagramReceiver> {
        let queue = self
            .reader
            .state
            .datagrams()
            .filter(|_| !self.datagrams_taken)?
            .clone();

        self.datagrams_taken = true;
        Some(DatagramReceiver::new(queue))
    }
}

fn with_room(first: &[u8]) -> BytesMut {
    let mut room = BytesMut::with_capacity(PIECE);
    room.extend_from_slice(first);
    room
}
