//! One direction of a tunnel of packets, between any two ends, which can be stopped without losing any.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use hermes_http::{Reset, StreamError};
use hermes_net::UdpError;
use hermes_observe::{DropReason, Exchange};
use hermes_proto::batch::{Batch, PushError};
use hermes_proto::capsule::{Capsule, CapsuleDecoder};
use tokio::sync::Mutex;

use super::changes::{ChangedDirection, DatagramChanges};
use super::connection_pins::ConnectionPins;
use super::device::{Device, DeviceCapsules, SentPackets};
use super::filling::{Filled, Filling};
use super::limit::Limits;
use super::room::in_room;
use super::shared::Shared;
use super::sink::{CapsuleSink, Sink};
use super::source::Source;
use super::stop::Stop;
use super::stream::{CapsuleStream, Reached};
use super::{PacketEnd, PacketReader};
use crate::broken::{Broken, Side};

/// How a direction ended its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The direction was told to stop, and everything that was read has been sent.
    Stopped,
    /// The stream that it read has ended.
    Ended,
}

/// One direction of a tunnel of packets: its counters, its source, and its stop signal.
pub struct PacketDirection<'a> {
    /// The exchange of the datagrams.
    pub exchange: &'a Exchange,
    /// The side that its packets come from.
    pub from: Side,
    /// Stops it between packets.
    pub stop: &'a Stop,
    /// Whether no other direction leads into its sink, so that this one watches for a break of that.
    pub alone: bool,
    /// The limits on payloads, and the sides that are told of them.
    pub limits: &'a Limits,
    /// Which packets go along paths that the tunnel has left, where it has moved.
    pub pins: Option<&'a ConnectionPins>,
}

impl ChangedDirection for PacketDirection<'_> {
    fn side(&self) -> Side {
        self.from
    }

    fn dropped(&self) {
        self.exchange.dropped(DropReason::Policy, 1);
    }

    fn malformed(&self) {
        self.exchange.dropped(DropReason::Malformed, 1);
    }

    fn too_long(&self, bytes: usize) {
        self.too_large(1, bytes);
    }
}

impl PacketDirection<'_> {
    /// Moves packets until the stream ends or the direction is stopped.
    ///
    /// # Errors
    /// A side broke.
    pub async fn run(&self, source: &mut Source, sink: &Sink) -> Result<Left, Broken> {
        match (source, sink) {
            (Source::Stream(capsules), Sink::Stream(to)) => Box::pin(self.pass(capsules, to)).await,
            (source, sink) => {
                let mut filling = Filling::new(source, sink, self.exchange);
                self.carry(&mut filling, sink).await
            }
        }
    }

    /// As [`Self::run`], for a tunnel of UDP whose datagrams are changed on their way. Capsules of other types are dropped.
    ///
    /// # Errors
    /// A side broke, or a change ended the tunnel.
    pub async fn run_changed(
        &self,
        source: &mut Source,
        sink: &Sink,
        changes: &mut DatagramChanges,
    ) -> Result<Left, Broken> {
        let mut filling = Filling::new(source, sink, self.exchange).through(changes);
        self.carry(&mut filling, sink).await
    }

    /// The loop between any two ends: fills a batch from one and sends it to the other.
    ///
    /// Only the wait for room is boxed, not the send itself, as a batch must not allocate: a tunnel
    /// that waits for packets has the memory of the latter anyway.
    pub(crate) async fn carry(
        &self,
        filling: &mut Filling<'_>,
        sink: &Sink,
    ) -> Result<Left, Broken> {
        let mut batch = Batch::with(sink.layout());
        let is_quic = sink.quic().is_some();
        let has_limits = is_quic || self.limits.may_narrow(self.from);
        let mut due = has_limits.then(|| Box::pin(self.limits.due(self.to())));
        loop {
            // The opposite direction reads the same stream, and hears when it breaks. Asking here as well would wake this one for each frame
            // that leaves, though not for each QUIC datagram.
            let came = tokio::select! {
                // Stop first: on a busy tunnel the other branches may always be ready.
                biased;
                () = self.stop.seen(), if filling.is_between() => DirectionEvent::Stop,
                limit = first(&mut due) => DirectionEvent::Limit(limit),
                filled = filling.fill(self, &mut batch) => DirectionEvent::Filled(filled),
                reset = sink.broken(), if is_quic && self.alone => DirectionEvent::Reset(reset),
            };

            match self.next(came)? {
                AfterWait::Send => {}
                AfterWait::Leave(left) => return Ok(left),
                AfterWait::Tell(limit) => {
                    if let Sink::Stream(to) = sink {
                        Box::pin(self.tell(&to.stream, limit)).await?;
                    }
                    due = Some(Box::pin(self.limits.due(self.to())));
                    continue;
                }
            }

            if self.send_first(filling, &batch, sink).await? {
                continue;
            }
            match sink {
                Sink::End(end) => match filling.reader() {
                    Some(reader) => {
                        self.send_to_end(reader, &mut batch, end).await?;
                    }
                    None => self.send(&batch, end).await?,
                },
                Sink::Stream(to) => match &to.quic {
                    Some(quic) => {
                        self.send_quic(filling, &batch, to, quic).await?;
                    }
                    None => {
                        let data = in_room(|room| {
                            let (packets, bytes) =
                                filling.encode(&batch, to.format, room, |_| true);
                            self.moved(packets, bytes);
                        });
                        let write = pin!(self.write_on(&to.stream, data));
                        filling.during(write, self.exchange).await?;
                    }
                },
            }
        }
    }

    /// The next step after a wait.
    fn next(&self, came: DirectionEvent) -> Result<AfterWait, Broken> {
        Ok(match came {
            DirectionEvent::Stop => AfterWait::Leave(Left::Stopped),
            DirectionEvent::Limit(limit) => AfterWait::Tell(limit),
            DirectionEvent::Filled(filled) => match filled? {
                Filled::Packets => AfterWait::Send,
                Filled::Ended => AfterWait::Leave(Left::Ended),
            },
            DirectionEvent::Reset(reset) => return Err(Broken::reset(self.to(), reset)),
        })
    }

    /// Sends an end's packets: in place if the other end takes them, and otherwise from a batch
    /// that they are copied into.
    async fn send_to_end(
        &self,
        reader: &PacketReader,
        batch: &mut Batch,
        end: &PacketEnd,
    ) -> Result<(), Broken> {
        if let Some(found) = reader.batch(end.layout()) {
            return self.send(found, end).await;
        }

        // As many at a time as the batch has room for.
        let mut taken = 0;
        loop {
            let all = self.copy(reader.packets(), &mut taken, batch);
            self.send(batch, end).await?;
            if all {
                return Ok(());
            }
        }
    }

    /// Copies packets into an emptied batch, from the first that was not `taken` before; returns whether all found room.
    fn copy<'p>(
        &self,
        packets: impl Iterator<Item = &'p [u8]>,
        taken: &mut usize,
        batch: &mut Batch,
    ) -> bool {
        batch.clear();
        for packet in packets.skip(*taken) {
            match batch.push(packet) {
                Ok(()) => {}
                Err(PushError::Full) if !batch.is_empty() => return false,
                Err(_) => self.too_large(1, packet.len()),
            }
            *taken += 1;
        }

        true
    }

    async fn send(&self, batch: &Batch, end: &PacketEnd) -> Result<(), Broken> {
        if let PacketEnd::Device(device, _) = end {
            return self.send_to_device(batch, &**device).await;
        }
        for run in batch.runs() {
            let segment = (run.count > 1).then_some(run.segment_size);
            let sent = end.send(run.bytes, segment).await;
            let sent = sent.map_err(|error| Broken::socket(self.to(), &error))?;
            self.moved(run.count as u64, run.bytes.len() as u64);
            if let Some(reason) = sent {
                self.exchange.dropped(reason, 1);
                if reason == DropReason::TooLarge {
                    self.limits.narrowed(self.to());
                }
            }
        }

        Ok(())
    }

    async fn send_to_device(&self, batch: &Batch, device: &dyn Device) -> Result<(), Broken> {
        if batch.is_empty() {
            return Ok(());
        }

        let turn = match device.turn() {
            Some(turn) => Some(turn.await),
            None => None,
        };
        let mut sent = SentPackets::default();
        let done = poll_fn(|cx| device.poll_send(cx, batch, &mut sent)).await;
        done.map_err(|error| Broken::socket(self.to(), &UdpError::Io(error)))?;

        // Dropped datagrams are taken to be as long as the others.
        let bytes: usize = batch.iter().map(<[u8]>::len).sum();
        let moved = batch
            .len()
            .saturating_sub(sent.too_large + sent.full + sent.forbidden + sent.failed);
        self.moved(moved as u64, (bytes * moved / batch.len()) as u64);
        self.too_large(sent.too_large, sent.largest);
        self.exchange
            .dropped(DropReason::QueueFull, sent.full as u64);
        self.exchange
            .dropped(DropReason::Policy, sent.forbidden as u64);
        self.exchange
            .dropped(DropReason::SendFailed, sent.failed as u64);

        // The turn is over when all others of this worker have had theirs.
        if turn.is_some() {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Sends capsules that go before the packets of a batch, and on the tunnel's draining paths,
    /// too; returns whether that is all.
    async fn send_first(
        &self,
        filling: &mut Filling<'_>,
        batch: &Batch,
        sink: &Sink,
    ) -> Result<bool, Broken> {
        let capsules = filling.take_capsules();
        if let (Some(pins), Sink::Stream(to)) = (self.pins, sink)
            && pins.is_needed()
        {
            let filled = self.as_capsules(filling, batch, to, capsules);
            Box::pin(self.steer_capsules(filled, to, pins)).await?;
            return Ok(true);
        }
        if let Some(capsules) = capsules {
            self.send_capsules(capsules, sink).await?;
        }
        Ok(false)
    }

    /// Sends a device's capsules.
    async fn send_capsules(&self, mut capsules: DeviceCapsules, sink: &Sink) -> Result<(), Broken> {
        let bytes = capsules.take_bytes();
        match sink {
            Sink::Stream(to) => {
                self.write_on(&to.stream, bytes).await?;
                self.moved(capsules.packets, capsules.size);
                Ok(())
            }
            Sink::End(PacketEnd::Device(device, _)) => self.give_capsules(bytes, &**device),
            Sink::End(_) => Ok(()),
        }
    }

    /// Gives a device the capsules of another one.
    fn give_capsules(&self, bytes: Bytes, device: &dyn Device) -> Result<(), Broken> {
        let mut decoder = CapsuleDecoder::new(device.format().max_capsule());
        decoder.push(bytes);
        while let Some(capsule) = decoder
            .next()
            .map_err(|error| Broken::malformed(self.from, error.to_string()))?
        {
            self.give_capsule(&capsule, device)?;
        }
        Ok(())
    }

    /// Gives a device a capsule that came between packets, and counts the packets in it.
    pub(crate) fn give_capsule(
        &self,
        capsule: &Capsule,
        device: &dyn Device,
    ) -> Result<(), Broken> {
        let handled = device.handle_capsule(capsule.kind, &capsule.value);
        let packets = handled.map_err(|reason| Broken::malformed(self.from, reason))?;
        self.moved(packets.moved, packets.bytes);
        if let Some((reason, count)) = packets.dropped {
            self.exchange.dropped(reason, count);
        }
        Ok(())
    }

    /// The packets and capsules of a fill, as capsules.
    fn as_capsules(
        &self,
        filling: &Filling<'_>,
        batch: &Batch,
        to: &CapsuleSink,
        capsules: Option<DeviceCapsules>,
    ) -> Bytes {
        let mut bytes = BytesMut::new();
        filling.encode(batch, to.format, &mut bytes, |_| true);
        if let Some(capsules) = capsules {
            bytes.extend_from_slice(&capsules.bytes);
        }
        bytes.freeze()
    }

    pub(crate) fn moved(&self, datagrams: u64, bytes: u64) {
        Self::count(self.exchange, self.from, datagrams, bytes);
    }

    /// Counts datagrams from one side to the other.
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

    /// Notes where the read part of the stream ends.
    pub(crate) fn reached(&self, stream: &mut CapsuleStream, reached: Reached) {
        stream.reached = reached;
        if self.from == Side::Client {
            self.stop.client_reached(reached == Reached::Between);
        }
    }

    pub(crate) fn read(&self, error: &StreamError) -> Broken {
        Broken::read(self.from, error)
    }

    pub(crate) fn write(&self, error: &StreamError) -> Broken {
        Broken::write(self.from.other(), error)
    }
}

/// What ends a wait for packets. An enum, so that there is no await within the `select!`, whose
/// future would then hold the outcome beside its branches.
enum DirectionEvent {
    /// Stop.
    Stop,
    /// The limit on payloads has changed to this many bytes.
    Limit(usize),
    /// Packets, or the end.
    Filled(Result<Filled, Broken>),
    /// The peer broke the stream that it sends on.
    Reset(Reset),
}

/// The step after a wait for packets. It needs no drop, so that a tunnel keeps no memory for it.
enum AfterWait {
    /// Packets are to be sent.
    Send,
    /// The direction ends its run.
    Leave(Left),
    /// The peer is told that payloads may have so many bytes.
    Tell(usize),
}

/// The output of this future, if there is one.
async fn first<F: Future + Unpin>(future: &mut Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

impl Sink {
    /// Resolves when a stream breaks; the others say so when they are used.
    async fn broken(&self) -> Reset {
        match self {
            Self::End(_) => std::future::pending().await,
            Self::Stream(to) => broken(&to.stream).await,
        }
    }
}

/// Resolves when the stream breaks, as far as that can be seen while no one writes to it.
pub(crate) async fn broken(sink: &Mutex<Shared>) -> Reset {
    poll_fn(|cx| match sink.try_lock() {
        Ok(mut outgoing) => pin!(outgoing.broken()).poll(cx),
        // The holder is writing, and sees a break itself.
        Err(_) => Poll::Pending,
    })
    .await
}
