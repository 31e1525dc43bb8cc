//! One direction of a tunnel of datagrams, between any two ends, which can be stopped where nothing is lost.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;
use hermes_http::{Incoming, Reset, StreamError};
use hermes_observe::{DropReason, Exchange};
use hermes_proto::batch::{Batch, MAX_RUN_DATAGRAMS};
use hermes_proto::capsule::{CapsuleCursor, CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::{MAX_UDP_CAPSULE, UDP_CONTEXT, UdpDatagram};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::beside::Beside;
use super::end::UdpReader;
use super::limit::Limits;
use super::room::in_room;
use super::shared::Shared;
use super::sink::Sink;
use super::stop::Stop;
use super::stream::{CapsuleStream, Reached};
use super::{Bounds, UdpEnd};
use crate::broken::{Broken, Side};

/// Where datagrams come from.
pub enum Origin {
    /// UDP.
    Udp(UdpReader),
    /// Capsules.
    Stream(Capsules),
}

/// A stream of capsules that is read, and the QUIC datagrams beside it.
pub struct Capsules {
    pub(crate) stream: CapsuleStream,
    pub(crate) beside: Beside,
}

/// How a lane was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It was told to stop, and everything that was read has been sent.
    Stopped,
    /// The stream that it read has ended.
    Ended,
}

/// A lane: what it counts, whence, and when it stops.
pub struct Lane<'a> {
    /// Whose datagrams they are.
    pub exchange: &'a Exchange,
    /// The side that it comes from.
    pub from: Side,
    /// Ends it where nothing is lost.
    pub stop: &'a Stop,
    /// Whether it is the only one into its sink, and hears when that breaks.
    pub alone: bool,
    /// How large payloads may be, and who is told.
    pub limits: &'a Limits,
}

impl Origin {
    /// Reads a stream.
    pub fn stream(mut incoming: Incoming) -> Self {
        let beside = Beside::new(incoming.datagrams());
        Self::Stream(Capsules {
            stream: CapsuleStream::new(incoming),
            beside,
        })
    }

    /// Lets so much of a stream's datagrams wait where they cannot go on. UDP has its own bounds.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        if let Self::Stream(capsules) = self {
            capsules.beside.set_bounds(bounds);
        }
    }

    /// Keeps what UDP brought last, as if it had not been sent.
    pub fn keep(&mut self) {
        if let Self::Udp(reader) = self {
            reader.keep();
        }
    }

    /// Waits for `done`. Datagrams that come meanwhile wait within their bounds; capsules do in their stream.
    pub async fn during<W: Future>(&mut self, done: W, exchange: &Exchange) -> W::Output {
        match self {
            Self::Stream(capsules) => capsules.beside.during(done, exchange).await,
            Self::Udp(_) => done.await,
        }
    }

    /// Waits for the end of a stream; what still comes is of no use.
    pub async fn drain(&mut self) {
        if let Self::Stream(capsules) = self {
            while let Some(Ok(_)) = capsules.stream.next().await {}
        }
    }

    /// Whether the last that was read is a piece of a capsule, which has been passed on: nothing else can follow it there, nor its other
    /// piece anywhere else.
    pub fn is_within(&self) -> bool {
        matches!(self, Self::Stream(capsules) if capsules.stream.reached == Reached::Passed)
    }

    /// Whether the next reader here begins with a capsule.
    pub fn is_between(&self) -> bool {
        matches!(self, Self::Stream(capsules) if capsules.stream.reached == Reached::Between)
            || self.is_udp()
    }

    /// Whether it is UDP.
    pub fn is_udp(&self) -> bool {
        matches!(self, Self::Udp(_))
    }
}

impl Lane<'_> {
    /// Moves datagrams until the stream ends or the lane is stopped.
    ///
    /// # Errors
    /// A side broke.
    pub async fn run(&self, origin: &mut Origin, sink: &Sink) -> Result<Left, Broken> {
        match (origin, sink) {
            (Origin::Udp(reader), Sink::Udp(udp)) => self.udp_to_udp(reader, udp).await,
            (Origin::Udp(reader), Sink::Stream(stream, Some(quic))) => {
                self.udp_to_quic(reader, stream, quic).await
            }
            (Origin::Udp(reader), Sink::Stream(stream, None)) => {
                self.udp_to_stream(reader, stream).await
            }
            (Origin::Stream(capsules), Sink::Udp(udp)) => self.stream_to_udp(capsules, udp).await,
            (Origin::Stream(capsules), Sink::Stream(stream, quic)) => {
                let is_quic = capsules.beside.is_there();
                if quic.is_none() && capsules.beside.waits() {
                    self.release_capsules(&mut capsules.beside, stream).await?;
                }
                match quic {
                    Some(quic) if !is_quic => self.capsules_to_quic(capsules, stream, quic).await,
                    None if !is_quic => self.stream_to_stream(&mut capsules.stream, stream).await,
                    quic => self.quic_to_stream(capsules, stream, quic.as_ref()).await,
                }
            }
        }
    }

    pub(crate) fn moved(&self, datagrams: u64, bytes: u64) {
        Self::count(self.exchange, self.from, datagrams, bytes);
    }

    /// Counts what went from a side to the other.
    pub fn count(exchange: &Exchange, from: Side, datagrams: u64, bytes: u64) {
        let counters = exchange.counters();
        let (count, sum) = match from {
            Side::Client => (&counters.datagrams_in, &counters.client_to_target),
            Side::Target => (&counters.datagrams_out, &counters.target_to_client),
        };
        count.fetch_add(datagrams, Ordering::Relaxed);
        sum.fetch_add(bytes, Ordering::Relaxed);
        if datagrams + bytes > 0 {
            counters.spoke(from == Side::Client);
        }
    }

    /// Notes where what was read ends.
    pub(crate) fn reached(&self, stream: &mut CapsuleStream, reached: Reached) {
        stream.reached = reached;
        if self.from == Side::Client {
            self.stop.client_reached(reached == Reached::Between);
        }
    }

    /// Holds a stream, to begin a capsule there.
    pub(crate) async fn hold(
        &self,
        stream: &Arc<Mutex<Shared>>,
    ) -> Result<OwnedMutexGuard<Shared>, Broken> {
        let stream = stream.clone().lock_owned().await;
        if stream.is_between() {
            Ok(stream)
        } else {
            Err(Broken::torn())
        }
    }

    pub(crate) fn read(&self, error: &StreamError) -> Broken {
        Broken::read(self.from, error)
    }

    pub(crate) fn write(&self, error: &StreamError) -> Broken {
        Broken::write(self.from.other(), error)
    }

    async fn udp_to_udp(&self, reader: &mut UdpReader, udp: &UdpEnd) -> Result<Left, Broken> {
        let mut batch = Batch::default();
        loop {
            tokio::select! {
                biased;
                () = self.stop.seen() => return Ok(Left::Stopped),
                filled = reader.fill() => filled.map_err(|error| Broken::socket(self.from, &error))?,
            }
            let mut full = Vec::new();
            reader.for_each(|datagram| {
                if batch.push(datagram).is_err() {
                    full.push(std::mem::take(&mut batch));
                    let _ = batch.push(datagram);
                }
            });
            full.push(std::mem::take(&mut batch));
            for mut batch in full {
                self.send(&mut batch, udp).await?;
            }
        }
    }

    /// The lane against this one reads the same stream, and hears when it breaks. To ask here, too, would wake this one for each frame that leaves.
    async fn udp_to_stream(
        &self,
        reader: &mut UdpReader,
        sink: &Arc<Mutex<Shared>>,
    ) -> Result<Left, Broken> {
        loop {
            tokio::select! {
                biased;
                () = self.stop.seen() => return Ok(Left::Stopped),
                filled = reader.fill() => filled.map_err(|error| Broken::socket(self.from, &error))?,
            }
            let data = in_room(|room| {
                let (datagrams, bytes) = reader.encode(room, |_| true);
                self.moved(datagrams, bytes);
            });
            reader
                .during(self.write_on(sink, data), self.exchange)
                .await?;
        }
    }

    async fn stream_to_udp(&self, capsules: &mut Capsules, udp: &UdpEnd) -> Result<Left, Broken> {
        let mut decoder = CapsuleDecoder::new(MAX_UDP_CAPSULE);
        let mut batch = Batch::default();
        self.exchange
            .dropped(DropReason::Expired, capsules.beside.release());
        loop {
            // Everything that is there goes into one batch; only then is it sent and waited for more.
            let stops = self.stop.is_set() && decoder.finish().is_ok();
            let data = match if stops {
                None
            } else {
                capsules.stream.ready().await
            } {
                Some(data) => data,
                None => {
                    self.send(&mut batch, udp).await?;
                    tokio::select! {
                        biased;
                        () = self.stop.seen(), if decoder.finish().is_ok() => return Ok(Left::Stopped),
                        () = capsules.beside.fill() => {
                            self.deliver_beside(&mut capsules.beside, &mut batch, udp).await?;
                            continue;
                        }
                        data = capsules.stream.next() => data,
                    }
                }
            };
            let Some(data) = data else {
                self.send(&mut batch, udp).await?;
                let ended = decoder.finish().map(|()| Left::Ended);
                return ended.map_err(|error| Broken::malformed(self.from, error.to_string()));
            };
            decoder.push(data.map_err(|error| self.read(&error))?);
            // What is in the way of the rest of it is not known before.
            self.reached(&mut capsules.stream, Reached::Held);
            self.deliver(&mut decoder, &mut batch, udp).await?;
            if decoder.finish().is_ok() {
                self.reached(&mut capsules.stream, Reached::Between);
            }
        }
    }

    /// Passes capsules on as they are, those of unknown types too (RFC 9297, 3.2).
    async fn stream_to_stream(
        &self,
        capsules: &mut CapsuleStream,
        sink: &Arc<Mutex<Shared>>,
    ) -> Result<Left, Broken> {
        let mut cursor = CapsuleCursor::default();
        let mut held: Option<OwnedMutexGuard<Shared>> = None;
        loop {
            let stops = self.stop.is_set() && cursor.is_between();
            let data = match if stops { None } else { capsules.ready().await } {
                Some(data) => data,
                None => {
                    self.flush(&mut held, sink).await?;
                    tokio::select! {
                        biased;
                        () = self.stop.seen(), if cursor.is_between() => return Ok(Left::Stopped),
                        data = capsules.next() => data,
                        reset = broken(sink), if self.alone && held.is_none() => match reset {
                            // The receiver has all it wants (RFC 9113, 8.1).
                            Reset::Unneeded => return Ok(Left::Ended),
                            reset => return Err(Broken::reset(self.from.other(), reset)),
                        },
                    }
                }
            };
            let Some(data) = data else {
                return Ok(Left::Ended);
            };
            let mut data = data.map_err(|error| self.read(&error))?;
            capsules.rest = self.follow(&mut cursor, &mut data);
            self.reached(capsules, Reached::passing(cursor.is_between()));
            self.moved(0, data.len() as u64);
            let mut outgoing = match held.take() {
                Some(outgoing) => outgoing,
                None => self.hold(sink).await?,
            };
            outgoing
                .data(data, cursor.is_between())
                .await
                .map_err(|error| self.write(&error))?;
            held = (!cursor.is_between()).then_some(outgoing);
        }
    }

    /// Sends what was written; the holder of the stream need not take it again.
    async fn flush(
        &self,
        held: &mut Option<OwnedMutexGuard<Shared>>,
        sink: &Mutex<Shared>,
    ) -> Result<(), Broken> {
        let flushed = match held {
            Some(outgoing) => outgoing.flush().await,
            None => sink.lock().await.flush().await,
        };
        flushed.map_err(|error| self.write(&error))
    }

    /// Follows `data` to its end, or to the end of a capsule if the lane is to stop; what lies behind that is returned.
    fn follow(&self, cursor: &mut CapsuleCursor, data: &mut Bytes) -> Bytes {
        let mut used = 0;
        while used < data.len() {
            used += cursor.advance(&data[used..]);
            if self.stop.is_set() && cursor.is_between() {
                break;
            }
        }
        data.split_off(used)
    }

    /// Puts every datagram that is complete into the batch, and sends that when it is full. Capsules that are not known are passed over (RFC 9297, 3.2), and so are datagrams
    /// of contexts that no one registered (RFC 9298, 4).
    async fn deliver(
        &self,
        capsules: &mut CapsuleDecoder,
        batch: &mut Batch,
        udp: &UdpEnd,
    ) -> Result<(), Broken> {
        let malformed = |reason: String| Broken::malformed(self.from, reason);
        while let Some(capsule) = capsules
            .next()
            .map_err(|error| malformed(error.to_string()))?
        {
            if capsule.kind == CapsuleType::DatagramLimit {
                self.heed(&capsule.value)?;
            }
            if capsule.kind != CapsuleType::Datagram {
                continue;
            }
            let datagram =
                UdpDatagram::decode(capsule.value).map_err(|error| malformed(error.to_string()))?;
            self.collect(&datagram, batch, udp).await?;
        }
        if batch.len() >= MAX_RUN_DATAGRAMS {
            self.send(batch, udp).await
        } else {
            Ok(())
        }
    }

    /// Puts a datagram into the batch, which is sent when it is full.
    pub(crate) async fn collect(
        &self,
        datagram: &UdpDatagram,
        batch: &mut Batch,
        udp: &UdpEnd,
    ) -> Result<(), Broken> {
        if datagram.context != UDP_CONTEXT {
            self.exchange.dropped(DropReason::UnknownContext, 1);
        } else if batch.push(&datagram.payload).is_err() {
            self.send(batch, udp).await?;
            let _ = batch.push(&datagram.payload);
        }
        Ok(())
    }

    pub(crate) async fn send(&self, batch: &mut Batch, udp: &UdpEnd) -> Result<(), Broken> {
        for run in batch.runs() {
            let segment = (run.count > 1).then_some(run.segment_size);
            let sent = udp.send(run.bytes, segment).await;
            let sent = sent.map_err(|error| Broken::socket(self.from.other(), &error))?;
            self.moved(run.count as u64, run.bytes.len() as u64);
            if let Some(reason) = sent {
                self.exchange.dropped(reason, 1);
            }
        }
        batch.clear();
        Ok(())
    }
}

/// Resolves when the stream breaks, as far as that can be seen while no one writes to it.
pub(crate) async fn broken(sink: &Mutex<Shared>) -> Reset {
    poll_fn(|cx| match sink.try_lock() {
        Ok(mut outgoing) => pin!(outgoing.broken()).poll(cx),
        Err(_) => Poll::Pending,
    })
    .await
}
