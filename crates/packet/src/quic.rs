//! Lanes with QUIC datagrams on a side. What came as one leaves as one where the other side has them, and one that is too large
//! there is dropped and counted: the ends must find out what the path carries (RFC 9297, 3.5).

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_http::Reset;
use hermes_http::h3::DatagramSender;
use hermes_net::quic::SentDatagrams;
use hermes_observe::DropReason;
use hermes_proto::batch::Batch;
use hermes_proto::capsule::{self, CapsuleSieve, CapsuleType, Sifted};
use hermes_proto::datagram::{MAX_UDP_CAPSULE, UDP_CONTEXT, UdpDatagram};
use hermes_proto::{datagram_floor, datagram_limit};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::UdpEnd;
use super::beside::Beside;
use super::end::UdpReader;
use super::lane::{Capsules, Lane, Left, broken};
use super::shared::Shared;
use super::stream::Reached;
use crate::broken::{Broken, Side};

/// Bytes of room that a sender's buffer should have before more is read: what one wake-up of a UDP
/// socket may bring.
#[doc(alias = "bound")]
const ROOM: usize = 512 * 1024;

/// Bytes of capsules other than datagrams that are gathered for one write to HTTP/3.
#[doc(alias = "bound")]
const OTHERS: usize = 32 * 1024;

/// The context of UDP payloads as it is written.
const CONTEXT: [u8; 1] = [UDP_CONTEXT as u8];

/// Capsules other than datagrams that go on as they are.
#[derive(Default)]
struct Others {
    /// Gathered for the next write.
    room: BytesMut,
    /// The stream that they go to, while a piece of one has gone there.
    held: Option<OwnedMutexGuard<Shared>>,
}

impl Lane<'_> {
    /// Sends what was taken to UDP, in runs.
    pub(crate) async fn deliver_beside(
        &self,
        beside: &mut Beside,
        batch: &mut Batch,
        udp: &UdpEnd,
    ) -> Result<(), Broken> {
        self.exchange.dropped(DropReason::QueueFull, beside.lost());
        for datagram in beside.taken.drain(..) {
            match UdpDatagram::decode(datagram) {
                Ok(datagram) => self.collect(&datagram, batch, udp).await?,
                Err(error) => return Err(Broken::malformed(self.from, error.to_string())),
            }
        }
        self.send(batch, udp).await
    }

    /// UDP in, QUIC datagrams out.
    pub(crate) async fn udp_to_quic(
        &self,
        reader: &mut UdpReader,
        stream: &Arc<Mutex<Shared>>,
        quic: &DatagramSender,
    ) -> Result<Left, Broken> {
        loop {
            tokio::select! {
                biased;
                () = self.stop.seen() => return Ok(Left::Stopped),
                limit = self.limits.due(self.to()) => {
                    self.tell(stream, limit).await?;
                    continue;
                }
                filled = reader.fill() => filled.map_err(|error| Broken::socket(self.from, &error))?,
                reset = broken(stream), if self.alone => return Err(Broken::reset(self.from.other(), reset)),
            }
            if quic.is_silent() {
                reader.keep();
                reader
                    .during(self.heard(stream, quic), self.exchange)
                    .await?;
                continue;
            }
            let by_stream = self.by_stream(quic);
            let takes_stream = |size: usize| by_stream.contains(&(size + CONTEXT.len()));
            let most = self.limits.heard(self.to());
            let largest = Cell::new(0);
            let above = Cell::new(0);
            let beside = Cell::new(0);
            let (sent, bytes) = reader.send(quic, &CONTEXT, |size| {
                if takes_stream(size) {
                    beside.set(size.max(beside.get()));
                    return false;
                }
                largest.set(size.max(largest.get()));
                above.set(above.get() + usize::from(size > most));
                size <= most
            });
            self.sent(sent, bytes);
            self.too_large(above.get() + sent.too_large, largest.get());
            if beside.get() > 0 {
                let mut capsules = BytesMut::new();
                let (datagrams, bytes) = reader.encode(&mut capsules, takes_stream);
                self.moved(datagrams, bytes);
                self.by_capsule(beside.get(), quic);
                reader
                    .during(self.write_on(stream, capsules.freeze()), self.exchange)
                    .await?;
            }
            quic.room(ROOM).await;
        }
    }

    /// Waits while nothing comes back on the connection: what waits until it is heard of, or another tunnel has taken its place, is
    /// not lost.
    async fn heard(&self, stream: &Mutex<Shared>, quic: &DatagramSender) -> Result<(), Broken> {
        tokio::select! {
            biased;
            () = self.stop.seen() => Ok(()),
            () = quic.heard() => Ok(()),
            reset = broken(stream), if self.alone => Err(Broken::reset(self.from.other(), reset)),
        }
    }

    /// Capsules in, QUIC datagrams out; other capsules go on as they are.
    pub(crate) async fn capsules_to_quic(
        &self,
        capsules: &mut Capsules,
        stream: &Arc<Mutex<Shared>>,
        quic: &DatagramSender,
    ) -> Result<Left, Broken> {
        let Capsules {
            stream: capsules,
            beside,
        } = capsules;
        let mut sieve = CapsuleSieve::new(CapsuleType::Datagram, MAX_UDP_CAPSULE);
        let mut others = Others::default();
        loop {
            self.release(beside, stream, quic).await?;
            // What is there goes into one write; only then is more waited for.
            let waits = others.room.is_empty() || (self.stop.is_set() && sieve.is_between());
            let data = match if waits { None } else { capsules.ready().await } {
                Some(data) => data,
                None => {
                    self.pass_others(&mut others, stream, sieve.is_between())
                        .await?;
                    tokio::select! {
                        biased;
                        () = self.stop.seen(), if sieve.is_between() => return Ok(Left::Stopped),
                        limit = self.limits.due(self.to()), if sieve.is_between() => {
                            self.tell(stream, limit).await?;
                            continue;
                        }
                        () = quic.heard(), if beside.waits() => continue,
                        data = capsules.next() => data,
                        reset = broken(stream), if self.alone && others.held.is_none() => match reset {
                            Reset::Unneeded => return Ok(Left::Ended),
                            reset => return Err(Broken::reset(self.from.other(), reset)),
                        },
                    }
                }
            };
            let Some(data) = data else {
                self.pass_others(&mut others, stream, sieve.is_between())
                    .await?;
                let ended = sieve.is_between().then_some(Left::Ended);
                return ended.ok_or_else(|| {
                    Broken::malformed(self.from, "the stream ended inside a capsule".to_owned())
                });
            };
            sieve.push(data.map_err(|error| self.read(&error))?);
            // Where it ends is not known before all of it was looked at.
            self.reached(capsules, Reached::Passed);
            self.sift(&mut sieve, &mut others, beside, (stream, quic))
                .await?;
            capsules.rest = sieve.take_rest();
            self.reached(capsules, Reached::passing(sieve.is_between()));
            self.go_on(beside, stream, quic).await?;
        }
    }

    /// Sends what was taken, unless it would be lost: then it waits until the connection is heard of, or another tunnel has taken its place.
    async fn go_on(
        &self,
        beside: &mut Beside,
        stream: &Mutex<Shared>,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        if !beside.taken.is_empty() && (beside.waits() || quic.is_silent()) {
            self.exchange.dropped(DropReason::QueueFull, beside.keep());
        }
        self.forward(&mut beside.taken, stream, quic).await
    }

    /// Sends what waited as capsules.
    pub(crate) async fn release_capsules(
        &self,
        beside: &mut Beside,
        stream: &Mutex<Shared>,
    ) -> Result<(), Broken> {
        self.exchange.dropped(DropReason::Expired, beside.release());
        let mut room = BytesMut::new();
        self.encode(&mut beside.taken, &mut room);
        self.write_on(stream, room.freeze()).await
    }

    /// Sends what waited, if it can go on now.
    async fn release(
        &self,
        beside: &mut Beside,
        stream: &Mutex<Shared>,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        if !beside.waits() || quic.is_silent() {
            return Ok(());
        }
        self.exchange.dropped(DropReason::Expired, beside.release());
        self.forward(&mut beside.taken, stream, quic).await
    }

    /// Takes the datagrams out of what came, up to the next capsule if the lane is to stop, and gathers the rest. What goes on the same
    /// stream stays in order: datagrams that are taken come before what is gathered next, and after what was before.
    async fn sift(
        &self,
        sieve: &mut CapsuleSieve,
        others: &mut Others,
        beside: &mut Beside,
        (stream, quic): (&Arc<Mutex<Shared>>, &DatagramSender),
    ) -> Result<(), Broken> {
        while let Some(piece) = sieve
            .next()
            .map_err(|error| Broken::malformed(self.from, error.to_string()))?
        {
            match piece {
                Sifted::Taken(datagram) => {
                    self.pass_others(others, stream, true).await?;
                    beside.taken.push(datagram);
                }
                Sifted::Other(bytes) => {
                    // It may be a part only: what else goes on the stream goes before.
                    self.go_on(beside, stream, quic).await?;
                    others.room.extend_from_slice(&bytes);
                    if others.room.len() >= OTHERS {
                        self.pass_others(others, stream, sieve.is_between()).await?;
                    }
                }
            }
            if self.stop.is_set() && sieve.is_between() {
                break;
            }
        }
        Ok(())
    }

    /// Writes the capsules that were gathered.
    async fn pass_others(
        &self,
        others: &mut Others,
        stream: &Arc<Mutex<Shared>>,
        ends: bool,
    ) -> Result<(), Broken> {
        let bytes = others.room.split().freeze();
        self.pass_on(&mut others.held, stream, bytes, ends).await
    }

    /// QUIC datagrams and a stream of capsules in; out go QUIC datagrams, or capsules where the other side has none.
    pub(crate) async fn quic_to_stream(
        &self,
        capsules: &mut Capsules,
        stream: &Arc<Mutex<Shared>>,
        quic: Option<&DatagramSender>,
    ) -> Result<Left, Broken> {
        let Capsules {
            stream: from,
            beside,
        } = capsules;
        let mut sieve = CapsuleSieve::new(CapsuleType::DatagramLimit, datagram_limit::MAX_VALUE);
        let mut room = BytesMut::new();
        let mut held = None;
        loop {
            if let Some(quic) = quic {
                self.release(beside, stream, quic).await?;
            }
            let between = sieve.is_between();
            let data = tokio::select! {
                biased;
                () = self.stop.seen(), if between => return Ok(Left::Stopped),
                limit = self.limits.due(self.to()), if between && quic.is_some() => {
                    self.tell(stream, limit).await?;
                    continue;
                }
                () = beside.fill(), if between || (quic.is_some() && self.limits.floor() == 0) => {
                    self.exchange.dropped(DropReason::QueueFull, beside.lost());
                    match quic {
                        Some(quic) => self.go_on(beside, stream, quic).await?,
                        None => {
                            self.encode(&mut beside.taken, &mut room);
                            self.write_on(stream, room.split().freeze()).await?;
                        }
                    }
                    continue;
                }
                () = heard(quic), if beside.waits() => continue,
                data = from.next() => data,
                reset = broken(stream), if self.alone && held.is_none() => match reset {
                    Reset::Unneeded => return Ok(Left::Ended),
                    reset => return Err(Broken::reset(self.from.other(), reset)),
                },
            };
            let Some(data) = data else {
                return Ok(Left::Ended);
            };
            sieve.push(data.map_err(|error| self.read(&error))?);
            while let Some(piece) = sieve
                .next()
                .map_err(|error| Broken::malformed(self.from, error.to_string()))?
            {
                match piece {
                    Sifted::Taken(limit) => self.heed(&limit)?,
                    Sifted::Other(bytes) => room.extend_from_slice(&bytes),
                }
                if self.stop.is_set() && sieve.is_between() {
                    from.rest = sieve.take_rest();
                    break;
                }
            }
            self.reached(from, Reached::passing(sieve.is_between()));
            self.moved(0, room.len() as u64);
            self.pass_on(&mut held, stream, room.split().freeze(), sieve.is_between())
                .await?;
        }
    }

    /// The side that it comes from says how large payloads may be that are sent there.
    pub(crate) fn heed(&self, limit: &[u8]) -> Result<(), Broken> {
        let limit = datagram_limit::decode(limit);
        let limit = limit
            .ok_or_else(|| Broken::malformed(self.from, "a limit that is no number".to_owned()))?;
        self.limits.hear(self.from, limit);
        Ok(())
    }

    /// Tells the side that it leads to how large payloads may be that come from there.
    async fn tell(&self, stream: &Mutex<Shared>, limit: usize) -> Result<(), Broken> {
        tracing::debug!(target: hermes_observe::LOG, exchange = %self.exchange.id(), limit, "the largest payload that goes on");
        let mut capsule = BytesMut::new();
        datagram_limit::encode(limit, &mut capsule);
        self.write_on(stream, capsule.freeze()).await
    }

    /// The side that it leads to.
    fn to(&self) -> Side {
        self.from.other()
    }

    /// Sizes of datagrams, with their context, that go as capsules: QUIC datagrams are too small for them, and the client asked
    /// for it (`Hermes-Datagram-Floor`). What is larger, or larger than the other side wants, does not go: the operator sees that limit.
    fn by_stream(&self, quic: &DatagramSender) -> Range<usize> {
        let most = quic.max_payload();
        let floor = self.limits.floor();
        let limit = most
            .saturating_sub(CONTEXT.len())
            .max(floor)
            .min(self.limits.heard(self.to()));
        self.exchange
            .counters()
            .datagram_limit(self.from == Side::Client, limit);
        most + 1..if floor == 0 {
            1
        } else {
            floor + CONTEXT.len() + 1
        }
    }

    /// Passes datagrams on as they are, and waits for room for more.
    pub(crate) async fn forward(
        &self,
        datagrams: &mut Vec<Bytes>,
        stream: &Mutex<Shared>,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        if datagrams.is_empty() {
            return Ok(());
        }
        let by_stream = self.by_stream(quic);
        if !by_stream.is_empty() {
            let mut capsules = BytesMut::new();
            let mut large: Vec<_> = datagrams
                .extract_if(.., |datagram| by_stream.contains(&datagram.len()))
                .collect();
            if let Some(largest) = large.iter().map(Bytes::len).max() {
                self.by_capsule(largest - CONTEXT.len(), quic);
                self.encode(&mut large, &mut capsules);
                self.write_on(stream, capsules.freeze()).await?;
            }
        }
        let largest = datagrams
            .iter()
            .map(Bytes::len)
            .max()
            .unwrap_or(0)
            .saturating_sub(CONTEXT.len());
        let above = match self.limits.heard(self.to()) {
            most if largest > most => {
                let is_above = |datagram: &mut Bytes| {
                    datagram.starts_with(&CONTEXT) && datagram.len() > most + CONTEXT.len()
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

    /// Writes a piece of capsules. Unless a capsule ends with it, the stream is held for the next piece: another lane may lead to
    /// the same stream.
    async fn pass_on(
        &self,
        held: &mut Option<OwnedMutexGuard<Shared>>,
        stream: &Arc<Mutex<Shared>>,
        bytes: Bytes,
        ends: bool,
    ) -> Result<(), Broken> {
        if !bytes.is_empty() {
            let mut outgoing = match held.take() {
                Some(outgoing) => outgoing,
                None => self.hold(stream).await?,
            };
            outgoing
                .data(bytes, ends)
                .await
                .map_err(|error| self.write(&error))?;
            outgoing.flush().await.map_err(|error| self.write(&error))?;
            *held = Some(outgoing);
        }
        if ends {
            *held = None;
        }
        Ok(())
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

    /// Counts what became of datagrams of `bytes` in all; those that were dropped are taken to be as long as the others.
    fn sent(&self, sent: SentDatagrams, bytes: usize) {
        let all = sent.sent + sent.too_large + sent.dropped;
        self.moved(sent.sent as u64, (bytes * sent.sent / all.max(1)) as u64);
        self.exchange
            .dropped(DropReason::QueueFull, sent.dropped as u64);
    }

    /// Counts datagrams that were too large, which the side they come from is told.
    fn too_large(&self, count: usize, largest: usize) {
        if count > 0 {
            self.exchange.dropped(DropReason::TooLarge, count as u64);
            self.limits.exceeded(self.to(), largest);
            self.exchange
                .oversize(largest, self.limits.fits(self.to()), "dropped");
        }
    }

    /// Notes that datagrams of up to this many bytes go as capsules. A QUIC connection inside the tunnel looks for larger packets all the
    /// time: that is no news.
    fn by_capsule(&self, largest: usize, quic: &DatagramSender) {
        if self.limits.floor() > datagram_floor::QUIC {
            self.exchange.oversize(
                largest,
                quic.max_payload().saturating_sub(CONTEXT.len()),
                "sent as capsules",
            );
        }
    }
}

/// Waits until the connection that datagrams go to is heard of.
async fn heard(quic: Option<&DatagramSender>) {
    match quic {
        Some(quic) => quic.heard().await,
        None => std::future::pending().await,
    }
}
