//! The loops of a tunnel that has UDP on one side or on both.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use hermes_http::{Frame, Incoming, Outgoing, StreamError};
use hermes_proto::batch::Batch;
use hermes_proto::capsule::{CapsuleDecoder, CapsuleType};
use hermes_proto::datagram::{MAX_UDP_CAPSULE, UDP_CONTEXT, UdpDatagram};

use super::UdpEnd;
use crate::forward::{Broken, Side, silence};
use crate::seeing::{DropReason, Exchange};

/// Room for the capsules of one wake-up, in bytes.
const CAPSULE_ROOM: usize = 32 * 1024;

/// How long the end of a stream may take to be sent.
const END_TIME: Duration = Duration::from_secs(5);

/// Counts datagrams that came from one side.
struct Tally<'a> {
    exchange: &'a Exchange,
    from: Side,
}

impl Tally<'_> {
    fn moved(&self, datagrams: u64, bytes: u64) {
        let counters = self.exchange.counters();
        let (count, sum) = match self.from {
            Side::Client => (&counters.datagrams_in, &counters.client_to_target),
            Side::Target => (&counters.datagrams_out, &counters.target_to_client),
        };
        count.fetch_add(datagrams, Ordering::Relaxed);
        sum.fetch_add(bytes, Ordering::Relaxed);
    }

    fn lost(&self, reason: DropReason, datagrams: u64) {
        self.exchange.dropped(reason, datagrams);
    }
}

/// Carries a tunnel between a pair of streams, which lead to `streams`, and UDP on the other side. Ends cleanly when either
/// the streams end or nothing moved for `idle`.
///
/// # Errors
/// A side broke; both are to be reset.
pub async fn carry_udp(
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    udp: &UdpEnd,
    streams: Side,
    exchange: &Exchange,
    idle: Duration,
) -> Result<&'static str, Broken> {
    let to_udp = stream_to_udp(incoming, udp, streams, Tally { exchange, from: streams });
    let from_udp = udp_to_stream(udp, outgoing, streams, Tally { exchange, from: streams.other() });
    let ended = tokio::select! {
        ended = to_udp => ended.map(|()| "done"),
        failed = from_udp => failed.map(|never| match never {}),
        () = silence(exchange.counters(), idle) => Ok("idle"),
    };
    udp.settle(exchange);
    // RFC 9298, 3: the stream ends where the socket does. A peer that does not read is not waited for.
    if ended.is_ok()
        && let Ok(finished) = tokio::time::timeout(END_TIME, farewell(incoming, outgoing)).await
    {
        finished.map_err(|error| Broken::write(streams, &error))?;
    }
    ended
}

/// Carries datagrams between two UDP ends, until nothing moved for `idle`.
///
/// # Errors
/// A socket failed.
pub async fn carry_udp_to_udp(
    client: &UdpEnd,
    target: &UdpEnd,
    exchange: &Exchange,
    idle: Duration,
) -> Result<&'static str, Broken> {
    let up = udp_to_udp(client, target, Tally { exchange, from: Side::Client });
    let down = udp_to_udp(target, client, Tally { exchange, from: Side::Target });
    let ended = tokio::select! {
        failed = up => failed.map(|never| match never {}),
        failed = down => failed.map(|never| match never {}),
        () = silence(exchange.counters(), idle) => Ok("idle"),
    };
    client.settle(exchange);
    ended
}

/// Ends our direction and waits for the end of the other: a stream that is dropped half open looks broken to its peer.
async fn farewell(incoming: &mut Incoming, outgoing: &mut Outgoing) -> Result<(), StreamError> {
    outgoing.finish(None).await?;
    while let Some(Ok(_)) = incoming.frame().await {}
    Ok(())
}

/// A loop that ends only by failing.
enum Never {}

async fn udp_to_stream(udp: &UdpEnd, outgoing: &mut Outgoing, to: Side, tally: Tally<'_>) -> Result<Never, Broken> {
    let mut reader = udp.reader();
    let mut room = BytesMut::new();
    loop {
        tokio::select! {
            filled = reader.fill() => filled.map_err(|error| Broken::socket(to.other(), &error))?,
            reset = outgoing.broken() => return Err(Broken::reset(to, reset)),
        }
        room.reserve(CAPSULE_ROOM);
        let (datagrams, bytes) = reader.encode(&mut room);
        tally.moved(datagrams, bytes);
        outgoing.data(room.split().freeze(), false).await.map_err(|error| Broken::write(to, &error))?;
        outgoing.flush().await.map_err(|error| Broken::write(to, &error))?;
    }
}

async fn stream_to_udp(incoming: &mut Incoming, udp: &UdpEnd, from: Side, tally: Tally<'_>) -> Result<(), Broken> {
    let mut capsules = CapsuleDecoder::new(MAX_UDP_CAPSULE);
    let mut batch = Batch::default();
    while let Some(frame) = incoming.frame().await {
        if let Frame::Data(data) = frame.map_err(|error| Broken::read(from, &error))? {
            capsules.push(data);
            deliver(&mut capsules, &mut batch, udp, from, &tally).await?;
        }
    }
    capsules.finish().map_err(|error| Broken::malformed(from, error.to_string()))
}

/// Sends every datagram that is complete. Capsules that are not known are passed over (RFC 9297, 3.2), and so are datagrams
/// of contexts that nobody registered (RFC 9298, 4).
async fn deliver(
    capsules: &mut CapsuleDecoder,
    batch: &mut Batch,
    udp: &UdpEnd,
    from: Side,
    tally: &Tally<'_>,
) -> Result<(), Broken> {
    let malformed = |reason: String| Broken::malformed(from, reason);
    while let Some(capsule) = capsules.next().map_err(|error| malformed(error.to_string()))? {
        if capsule.kind != CapsuleType::Datagram {
            continue;
        }
        let datagram = UdpDatagram::decode(capsule.value).map_err(|error| malformed(error.to_string()))?;
        if datagram.context != UDP_CONTEXT {
            tally.lost(DropReason::UnknownContext, 1);
        } else if batch.push(&datagram.payload).is_err() {
            send(batch, udp, from, tally).await?;
            let _ = batch.push(&datagram.payload);
        }
    }
    send(batch, udp, from, tally).await
}

async fn send(batch: &mut Batch, udp: &UdpEnd, from: Side, tally: &Tally<'_>) -> Result<(), Broken> {
    for run in batch.runs() {
        let segment = (run.count > 1).then_some(run.segment_size);
        let sent = udp.send(run.bytes, segment).await.map_err(|error| Broken::socket(from.other(), &error))?;
        tally.moved(run.count as u64, run.bytes.len() as u64);
        if let Some(reason) = sent {
            tally.lost(reason, 1);
        }
    }
    batch.clear();
    Ok(())
}

async fn udp_to_udp(from: &UdpEnd, to: &UdpEnd, tally: Tally<'_>) -> Result<Never, Broken> {
    let mut reader = from.reader();
    let mut batch = Batch::default();
    loop {
        reader.fill().await.map_err(|error| Broken::socket(tally.from, &error))?;
        let mut full = Vec::new();
        reader.for_each(|datagram| {
            if batch.push(datagram).is_err() {
                full.push(std::mem::take(&mut batch));
                let _ = batch.push(datagram);
            }
        });
        full.push(std::mem::take(&mut batch));
        for mut batch in full {
            send(&mut batch, to, tally.from, &tally).await?;
        }
    }
}
