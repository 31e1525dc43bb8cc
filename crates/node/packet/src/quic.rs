//! Packets that leave as QUIC datagrams. One that is too large for the path is dropped and counted:
//! the ends must find out its MTU (RFC 9297, 3.5). If the client asked for it, packets that are too
//! large for QUIC datagrams go as capsules.

use std::ops::Range;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use hermes_http::h3::DatagramSender;
use hermes_net::quic::SentDatagrams;
use hermes_observe::DropReason;
use hermes_proto::batch::Batch;
use hermes_proto::capsule::{self, CapsuleType};
use hermes_proto::{datagram_floor, datagram_limit};
use tokio::sync::Mutex;

use super::direction::{PacketDirection, broken};
use super::filling::Filling;
use super::shared::Shared;
use super::sink::CapsuleSink;
use crate::broken::{Broken, Side};

/// Bytes of room that a sender's buffer should have before more is read: as much as one wake-up of
/// a UDP socket brings.
#[doc(alias = "bound")]
const ROOM: usize = 512 * 1024;

impl PacketDirection<'_> {
    /// Sends packets as QUIC datagrams, and waits for room for more.
    pub(crate) async fn send_quic(
        &self,
        filling: &mut Filling<'_>,
        batch: &Batch,
        to: &CapsuleSink,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        // The connection is silent, so datagrams sent now might be lost: they are kept meanwhile. Recovered ones are not: lost ones are sent again,
        // and a burst of losses that takes acknowledgements alone would make all of them late.
        if quic.is_silent() && !filling.is_recovered() {
            filling.keep();
            // Rare, as room for it would be in each tunnel.
            let mut heard = Box::pin(self.heard(&to.stream, quic));
            return filling.during(heard.as_mut(), self.exchange).await;
        }

        let by_stream = self.by_stream(to, quic);
        let takes_stream = |size: usize| by_stream.contains(&(size + to.context_size()));
        let most = self.limits.heard(self.to());
        let mut largest = 0;
        let mut above = 0;
        let mut beside = 0;
        let mut bytes = 0;

        let wanted = |packet: &&[u8]| {
            let size = packet.len();
            if takes_stream(size) {
                beside = beside.max(size);
                return false;
            }

            largest = largest.max(size);
            above += usize::from(size > most);
            bytes += if size <= most { size } else { 0 };

            size <= most
        };

        let sent = quic.send(to.format.prefix(), filling.packets(batch).filter(wanted));
        self.sent(sent, bytes);
        self.too_large(above + sent.too_large, largest);

        if beside > 0 {
            let mut capsules = BytesMut::new();
            let (packets, bytes) = filling.encode(batch, to.format, &mut capsules, takes_stream);
            self.moved(packets, bytes);
            self.by_capsule(beside, to, quic);
            let write = pin!(self.write_on(&to.stream, capsules.freeze()));
            filling.during(write, self.exchange).await?;
        }

        quic.room(ROOM).await;
        Ok(())
    }

    /// Waits while the connection is silent: datagrams that wait until the peer is heard again, or
    /// another tunnel has taken over, are not lost.
    pub(crate) async fn heard(
        &self,
        stream: &Mutex<Shared>,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        tokio::select! {
            biased;
            () = self.stop.seen() => Ok(()),
            () = quic.heard() => Ok(()),
            reset = broken(stream), if self.alone => Err(Broken::reset(self.from.other(), reset)),
        }
    }

    /// The side that it comes from says how large payloads may be that are sent there.
    pub(crate) fn heed(&self, limit: &[u8]) -> Result<(), Broken> {
        let limit = datagram_limit::decode(limit);
        let limit = limit.ok_or_else(|| {
            Broken::malformed(self.from, "a limit that is not a number".to_owned())
        })?;
        self.limits.hear(self.from, limit);
        Ok(())
    }

    /// Tells the side that it leads to how large payloads may be that come from there.
    pub(crate) async fn tell(&self, stream: &Mutex<Shared>, limit: usize) -> Result<(), Broken> {
        tracing::debug!(target: hermes_observe::LOG, exchange = %self.exchange.id(), limit, "the largest payload that goes on");
        let mut capsule = BytesMut::new();
        datagram_limit::encode(limit, &mut capsule);
        self.write_on(stream, capsule.freeze()).await
    }

    /// The side that it leads to.
    pub(crate) fn to(&self) -> Side {
        self.from.other()
    }

    /// Sizes of datagrams, with their context, that go as capsules: QUIC datagrams are too small
    /// for them, and the client asked for it (`Hermes-Datagram-Floor`). Larger ones, or those above
    /// the other side's limit, are not sent: the operator sees that limit.
    fn by_stream(&self, to: &CapsuleSink, quic: &DatagramSender) -> Range<usize> {
        let context = to.context_size();
        let most = quic.max_payload();
        let floor = self.limits.floor();
        let limit = most
            .saturating_sub(context)
            .max(floor)
            .min(self.limits.heard(self.to()));
        self.exchange
            .counters()
            .datagram_limit(self.from == Side::Client, limit);

        most + 1..if floor == 0 { 1 } else { floor + context + 1 }
    }

    /// Passes datagrams on as they are, and waits for room for more.
    pub(crate) async fn forward(
        &self,
        datagrams: &mut Vec<Bytes>,
        to: &CapsuleSink,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        if datagrams.is_empty() {
            return Ok(());
        }

        let context = to.context_size();
        let by_stream = self.by_stream(to, quic);
        if !by_stream.is_empty() {
            let mut capsules = BytesMut::new();
            let mut large: Vec<_> = datagrams
                .extract_if(.., |datagram| by_stream.contains(&datagram.len()))
                .collect();
            if let Some(largest) = large.iter().map(Bytes::len).max() {
                self.by_capsule(largest - context, to, quic);
                self.encode(&mut large, &mut capsules);
                self.write_on(&to.stream, capsules.freeze()).await?;
            }
        }

        let largest = datagrams
            .iter()
            .map(Bytes::len)
            .max()
            .unwrap_or(0)
            .saturating_sub(context);

        let above = match self.limits.heard(self.to()) {
            most if largest > most => {
                // Only payloads of this context have the limit; contents of other contexts are not
                // ours to judge.
                let is_above = |datagram: &mut Bytes| {
                    datagram.starts_with(to.format.prefix()) && datagram.len() > most + context
                };
                datagrams.extract_if(.., is_above).count()
            }
            _ => 0,
        };

        let bytes = datagrams.iter().map(Bytes::len).sum();
        let sent = quic.forward(datagrams.drain(..));
        self.sent(sent, bytes);
        self.too_large(above + sent.too_large, largest);
        quic.room(ROOM).await;

        Ok(())
    }

    /// Writes datagrams as capsules.
    pub(crate) fn encode(&self, datagrams: &mut Vec<Bytes>, room: &mut BytesMut) {
        let bytes: usize = datagrams.iter().map(Bytes::len).sum();
        self.moved(datagrams.len() as u64, bytes as u64);
        room.reserve(bytes + datagrams.len() * capsule::MAX_HEADER);
        for datagram in datagrams.drain(..) {
            capsule::encode_header(CapsuleType::Datagram, datagram.len() as u64, room);
            room.extend_from_slice(&datagram);
        }
    }

    /// Writes whole capsules.
    pub(crate) async fn write_on(
        &self,
        stream: &Mutex<Shared>,
        bytes: Bytes,
    ) -> Result<(), Broken> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut stream = stream.lock().await;
        if !stream.is_between() {
            return Err(Broken::torn());
        }

        stream
            .data(bytes, true)
            .await
            .map_err(|error| self.write(&error))?;

        stream.flush().await.map_err(|error| self.write(&error))
    }

    /// Counts the fates of datagrams of `bytes` in all; dropped ones are taken to be as long as the
    /// others.
    fn sent(&self, sent: SentDatagrams, bytes: usize) {
        let all = sent.sent + sent.too_large + sent.dropped;
        self.moved(sent.sent as u64, (bytes * sent.sent / all.max(1)) as u64);
        self.exchange
            .dropped(DropReason::QueueFull, sent.dropped as u64);
    }

    /// Counts datagrams that were too large, which the side they come from is told.
    pub(crate) fn too_large(&self, count: usize, largest: usize) {
        if count > 0 {
            self.exchange.dropped(DropReason::TooLarge, count as u64);
            self.limits.exceeded(self.to(), largest);
            self.exchange
                .oversize(largest, self.limits.fits(self.to()), "dropped");
        }
    }

    /// Notes that datagrams of up to this many bytes go as capsules. A QUIC connection inside the tunnel looks for larger packets all the
    /// time: that is no news.
    fn by_capsule(&self, largest: usize, to: &CapsuleSink, quic: &DatagramSender) {
        if self.limits.floor() > datagram_floor::QUIC {
            self.exchange.oversize(
                largest,
                quic.max_payload().saturating_sub(to.context_size()),
                "sent as capsules",
            );
        }
    }
}
