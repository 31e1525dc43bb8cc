//! The source of a direction: an end, or a stream with its capsules and QUIC datagrams taken apart.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use hermes_ip::offload::cut_super;
use hermes_observe::{DropReason, Exchange};
use hermes_proto::batch::{Batch, Layout, MAX_RUN_DATAGRAMS, PushError};
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::DatagramFormat;

use super::changes::DatagramChanges;
use super::device::{Device, DeviceCapsules};
use super::direction::PacketDirection;
use super::end::PacketReader;
use super::sink::Sink;
use super::source::{Capsules, Source};
use super::stream::Reached;
use crate::broken::Broken;

/// The result of a fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Packets; maybe an empty batch, after a piece of a capsule.
    Packets,
    /// The end of a stream.
    Ended,
}

/// A source that is read, and the changes of its datagrams, where the route asks for any.
pub(crate) struct Filling<'a> {
    reading: Reading<'a>,
    changes: Option<&'a mut DatagramChanges>,
}

/// A source that is read.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one in each direction, whose future holds it"
)]
enum Reading<'a> {
    /// The packets of an end stay in its buffer.
    End(&'a mut PacketReader),
    /// Packets in capsules are copied into the direction's batch.
    Capsules(Unwrapping<'a>),
}

/// A stream with the packets in its capsules.
struct Unwrapping<'a> {
    capsules: &'a mut Capsules,
    decoder: CapsuleDecoder,
    /// Handles capsules that carry no packets.
    device: Option<&'a dyn Device>,
    /// Packets for which the batch had no room: one, or those of a super-packet.
    next: VecDeque<Bytes>,
    /// Whether the stream has ended.
    ended: bool,
    /// Whether the packets of the batch are to be given out again.
    kept: bool,
}

impl<'a> Filling<'a> {
    /// Begins to read a source of packets for this sink.
    pub(crate) fn new(source: &'a mut Source, to: &'a Sink, exchange: &Exchange) -> Self {
        let reading = match source {
            Source::End(reader) => {
                reader.lead(to.layout(), to.quic().is_some());
                Reading::End(reader)
            }
            Source::Stream(capsules) => {
                exchange.dropped(DropReason::Expired, capsules.beside.release());
                Reading::Capsules(Unwrapping::new(capsules, to.device()))
            }
        };
        Self {
            reading,
            changes: None,
        }
    }

    /// The same, which takes packets alone: capsules for a device are dropped.
    pub(crate) fn of_packets(source: &'a mut Source, to: &'a Sink, exchange: &Exchange) -> Self {
        let mut filling = Self::new(source, to, exchange);
        if let Reading::Capsules(unwrapping) = &mut filling.reading {
            unwrapping.device = None;
        }
        filling
    }

    /// Whether lost datagrams are recovered at the side that this leads to.
    pub(crate) fn is_recovered(&self) -> bool {
        let changes = self.changes.as_deref();
        changes.is_some_and(|changes| changes.recovery.to.is_some())
    }

    /// The same, with these changes of its datagrams.
    pub(crate) fn through(self, changes: &'a mut DatagramChanges) -> Self {
        Self {
            changes: Some(changes),
            ..self
        }
    }

    /// The capsules of the device at the end, if there are any.
    pub(crate) fn take_capsules(&mut self) -> Option<DeviceCapsules> {
        match &mut self.reading {
            Reading::End(reader) => reader.take_capsules(),
            Reading::Capsules(_) => None,
        }
    }

    /// Whether the direction can stop now without losing a packet or a part of a capsule.
    pub(crate) fn is_between(&self) -> bool {
        let has_changed_all = |changes: &DatagramChanges| changes.is_between();
        let is_between = match &self.reading {
            Reading::End(_) => true,
            Reading::Capsules(unwrapping) => unwrapping.is_between(),
        };
        is_between && self.changes.as_deref().is_none_or(has_changed_all)
    }

    /// Waits for packets. They stay where they are, or come into `batch`. Dropping the future loses nothing.
    pub(crate) async fn fill(
        &mut self,
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> Result<Filled, Broken> {
        match &mut self.changes {
            None => self.reading.fill(direction, batch).await,
            // Boxed: few tunnels have changes, and each would have room for this wait.
            Some(changes) => Box::pin(self.reading.fill_changed(changes, direction, batch)).await,
        }
    }

    /// The packets: in `batch`, or in the end's buffer.
    pub(crate) fn packets<'b>(&'b self, batch: &'b Batch) -> impl Iterator<Item = &'b [u8]> {
        self.reading.packets(batch, self.changes.is_some())
    }

    /// The end with the packets; `None` if they are in the batch.
    pub(crate) fn reader(&self) -> Option<&PacketReader> {
        match &self.reading {
            Reading::End(reader) if self.changes.is_none() => Some(reader),
            Reading::End(_) | Reading::Capsules(_) => None,
        }
    }

    /// Keeps the packets for the next call, because they cannot be sent now.
    pub(crate) fn keep(&mut self) {
        match (&mut self.changes, &mut self.reading) {
            (Some(changes), _) => changes.keep(),
            (None, Reading::End(reader)) => reader.keep(),
            (None, Reading::Capsules(unwrapping)) => unwrapping.kept = true,
        }
    }

    /// Waits for `write`, which sends the packets; see [`PacketReader::during`].
    pub(crate) async fn during<W: Future>(
        &mut self,
        write: Pin<&mut W>,
        exchange: &Exchange,
    ) -> W::Output {
        match &mut self.reading {
            Reading::End(reader) => reader.during(write, exchange).await,
            Reading::Capsules(_) => write.await,
        }
    }

    /// Appends packets of a `wanted` size as capsules; returns their number and bytes of payload.
    pub(crate) fn encode(
        &self,
        batch: &Batch,
        format: DatagramFormat,
        into: &mut BytesMut,
        wanted: impl Fn(usize) -> bool,
    ) -> (u64, u64) {
        let mut count = 0;
        let mut bytes = 0;
        for packet in self.packets(batch) {
            // Longer ones than a capsule may carry do not come out of a UDP socket.
            if wanted(packet.len()) && format.encode_capsule(packet, into).is_ok() {
                count += 1;
                bytes += packet.len() as u64;
            }
        }

        (count, bytes)
    }
}

impl Reading<'_> {
    async fn fill(
        &mut self,
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> Result<Filled, Broken> {
        match self {
            Self::End(reader) => {
                let filled = reader.fill().await;
                filled.map_err(|error| Broken::socket(direction.from, &error))?;
                if reader.take_narrow() {
                    direction.limits.narrowed(direction.from);
                }
                Ok(Filled::Packets)
            }
            Self::Capsules(unwrapping) => unwrapping.fill(direction, batch).await,
        }
    }

    /// The same, with changes of the datagrams.
    async fn fill_changed(
        &mut self,
        changes: &mut DatagramChanges,
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> Result<Filled, Broken> {
        if changes.refill(direction, batch) {
            return Ok(Filled::Packets);
        }

        let recovery = changes.recovery.clone();
        let filled = tokio::select! {
            biased;
            filled = self.fill(direction, &mut changes.found) => filled?,
            // Nothing was found, and something may have to leave all the same.
            () = recovery.event(), if !recovery.is_none() => {
                changes.change(std::iter::empty(), direction, batch)?;
                return Ok(Filled::Packets);
            }
        };

        let found = std::mem::replace(&mut changes.found, Batch::with(Layout::UDP));
        let changed = changes.change(self.packets(&found, false), direction, batch);
        changes.found = found;
        changed?;
        Ok(filled)
    }

    /// The packets: where they lie, unless all of them were copied into the batch.
    fn packets<'b>(
        &'b self,
        batch: &'b Batch,
        is_copied: bool,
    ) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        match self {
            Self::End(reader) if !is_copied => Place::Own(reader.packets()),
            Self::End(_) | Self::Capsules(_) => Place::Batch(batch.iter()),
        }
    }
}

impl<'a> Unwrapping<'a> {
    fn new(capsules: &'a mut Capsules, device: Option<&'a dyn Device>) -> Self {
        let decoder = CapsuleDecoder::new(capsules.format.max_capsule());
        Self {
            capsules,
            decoder,
            device,
            next: VecDeque::new(),
            ended: false,
            kept: false,
        }
    }

    fn is_between(&self) -> bool {
        self.next.is_empty() && self.decoder.finish().is_ok()
    }

    /// All available packets go into one batch; it waits only if there are none. It returns after
    /// each wait, because the direction may have to stop by then.
    async fn fill(
        &mut self,
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> Result<Filled, Broken> {
        // The last batch could not be sent: it is given out again.
        if std::mem::take(&mut self.kept) {
            return Ok(Filled::Packets);
        }

        batch.clear();
        let mut is_full = false;
        let mut has_read = false;

        while !is_full && let Some(packet) = self.next.pop_front() {
            has_read = true;
            is_full = !self.put(Some(packet), direction, batch);
        }
        if has_read && !is_full {
            is_full = self.decode(direction, batch)?;
        }

        while !is_full && batch.len() < MAX_RUN_DATAGRAMS && !self.ended {
            // A stopped direction reads no further: bytes that it took now would be lost with it.
            let stops = direction.stop.is_set() && self.is_between();
            let data = match if stops {
                None
            } else {
                self.capsules.stream.ready().await
            } {
                Some(data) => data,
                None if has_read || stops => return Ok(Filled::Packets),
                None => tokio::select! {
                    biased;
                    // Datagrams first: they age, and the stream keeps its bytes.
                    () = self.capsules.beside.fill() => {
                        self.take_beside(direction, batch)?;
                        return Ok(Filled::Packets);
                    }
                    data = self.capsules.stream.next() => data,
                },
            };

            let Some(data) = data else {
                self.ended = true;
                break;
            };

            has_read = true;
            self.decoder
                .push(data.map_err(|error| direction.read(&error))?);

            // Until this is decoded, a capsule may have begun.
            direction.reached(&mut self.capsules.stream, Reached::Held);
            is_full = self.decode(direction, batch)?;
        }

        if !self.ended || !batch.is_empty() {
            return Ok(Filled::Packets);
        }
        let ended = self.decoder.finish().map(|()| Filled::Ended);
        ended.map_err(|error| Broken::malformed(direction.from, error.to_string()))
    }

    /// Puts every complete packet into the batch; returns whether that is full. Capsules of unknown types are skipped (RFC 9297,
    /// section 3.2).
    fn decode(
        &mut self,
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> Result<bool, Broken> {
        let malformed = |reason: String| Broken::malformed(direction.from, reason);
        while let Some(capsule) = self
            .decoder
            .next()
            .map_err(|error| malformed(error.to_string()))?
        {
            if capsule.kind == CapsuleType::DatagramLimit {
                direction.heed(&capsule.value)?;
            }
            if capsule.kind == CapsuleType::SuperPacket && self.device.is_none() {
                if !self.put_super(&capsule.value, direction, batch) {
                    return Ok(true);
                }
                continue;
            }
            if capsule.kind != CapsuleType::Datagram {
                if let Some(device) = self.device {
                    direction.give_capsule(&capsule, device)?;
                }
                continue;
            }
            let packet = self.capsules.format.decode(capsule.value);
            let packet = packet.map_err(|error| malformed(error.to_string()))?;
            if !self.put(packet, direction, batch) {
                return Ok(true);
            }
        }

        if self.decoder.finish().is_ok() {
            direction.reached(&mut self.capsules.stream, Reached::Between);
        }
        Ok(false)
    }

    /// Takes QUIC datagrams, as far as there is room.
    fn take_beside(
        &mut self,
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> Result<(), Broken> {
        let beside = &mut self.capsules.beside;
        direction
            .exchange
            .dropped(DropReason::QueueFull, beside.lost());

        let mut taken = std::mem::take(&mut beside.taken);
        let mut datagrams = taken.drain(..);
        for datagram in datagrams.by_ref() {
            let packet = self.capsules.format.decode(datagram);
            let packet =
                packet.map_err(|error| Broken::malformed(direction.from, error.to_string()))?;
            if !self.put(packet, direction, batch) {
                break;
            }
        }

        let rest: Vec<Bytes> = datagrams.collect();
        self.capsules.beside.taken = if rest.is_empty() { taken } else { rest };
        Ok(())
    }

    /// Puts the packets of a super-packet into the batch, or behind it, as the sink takes no
    /// super-packets; false if it was full.
    fn put_super(
        &mut self,
        value: &[u8],
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> bool {
        let mut cut = Vec::new();
        if self.capsules.format == DatagramFormat::IP {
            cut_super(value, |packet| cut.push(Bytes::copy_from_slice(packet)));
        }
        let mut cut = cut.into_iter();
        for packet in cut.by_ref() {
            if !self.put(Some(packet), direction, batch) {
                self.next.extend(cut);
                return false;
            }
        }
        true
    }

    /// Puts a packet into the batch, or behind it; false if it was full. Packets of contexts that
    /// no one registered are dropped (RFC 9298, 4).
    fn put(
        &mut self,
        packet: Option<Bytes>,
        direction: &PacketDirection<'_>,
        batch: &mut Batch,
    ) -> bool {
        let Some(packet) = packet else {
            direction.exchange.dropped(DropReason::UnknownContext, 1);
            return true;
        };
        match batch.push(&packet) {
            Ok(()) => true,
            Err(PushError::Full) => {
                // In front: packets keep their order.
                self.next.push_front(packet);
                false
            }
            Err(PushError::TooLong) => {
                direction.too_large(1, packet.len());
                true
            }
        }
    }
}

/// Packets where they were found, or in a batch.
enum Place<A, B> {
    Own(A),
    Batch(B),
}

impl<'a, A, B> Iterator for Place<A, B>
where
    A: Iterator<Item = &'a [u8]>,
    B: Iterator<Item = &'a [u8]>,
{
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Own(packets) => packets.next(),
            Self::Batch(packets) => packets.next(),
        }
    }
}
