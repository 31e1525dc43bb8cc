//! The one special case: a direction from capsules to capsules. Capsules of unknown types go on,
//! too (RFC 9297, 3.2), which no batch of packets could hold; a QUIC datagram leaves as one if the
//! other side has them.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hermes_http::Reset;
use hermes_http::h3::DatagramSender;
use hermes_observe::DropReason;
use hermes_proto::capsule::{CapsuleCursor, CapsuleSieve, CapsuleType, Sifted};
use hermes_proto::datagram_limit;
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::direction::{Left, PacketDirection, broken};
use super::quic_datagrams::QuicDatagrams;
use super::shared::Shared;
use super::sink::CapsuleSink;
use super::source::Capsules;
use super::stream::{CapsuleStream, Reached};
use crate::broken::Broken;

/// Bytes of capsules other than datagrams that are gathered for one write to HTTP/3.
#[doc(alias = "bound")]
const OTHERS: usize = 32 * 1024;

/// Capsules other than datagrams that go on as they are.
#[derive(Default)]
struct Others {
    /// Gathered for the next write.
    room: BytesMut,
    /// The stream that they go to, while a piece of one has gone there.
    held: Option<OwnedMutexGuard<Shared>>,
}

impl PacketDirection<'_> {
    /// Passes everything on until the stream ends or the direction is stopped.
    pub(crate) async fn pass(
        &self,
        capsules: &mut Capsules,
        to: &CapsuleSink,
    ) -> Result<Left, Broken> {
        if let Some(pins) = self.pins
            && pins.is_needed()
        {
            return Box::pin(self.pass_steered(capsules, to, pins)).await;
        }

        let is_quic = capsules.beside.is_there();
        if to.quic.is_none() && capsules.beside.waits() {
            self.release_capsules(&mut capsules.beside, &to.stream)
                .await?;
        }

        match &to.quic {
            Some(quic) if !is_quic => self.capsules_to_quic(capsules, to, quic).await,
            None if !is_quic => {
                self.stream_to_stream(&mut capsules.stream, &to.stream)
                    .await
            }
            quic => self.quic_to_stream(capsules, to, quic.as_ref()).await,
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
                        reset = broken(sink), if self.alone && held.is_none() => return self.was_reset(reset),
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
            // Held until the capsule ends: directions of other paths lead into this stream, too.
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

    /// Sends written bytes; the holder of the stream need not take it again.
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

    /// Follows `data` to its end, or to the end of a capsule if the direction is to stop; returns
    /// the bytes behind that.
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

    /// Holds a stream, to begin a capsule there.
    async fn hold(&self, stream: &Arc<Mutex<Shared>>) -> Result<OwnedMutexGuard<Shared>, Broken> {
        let stream = stream.clone().lock_owned().await;
        if stream.is_between() {
            Ok(stream)
        } else {
            // A direction broke within a capsule: the peer would take further bytes for its rest.
            Err(Broken::torn())
        }
    }

    /// The end of a direction whose sink was reset.
    pub(crate) fn was_reset(&self, reset: Reset) -> Result<Left, Broken> {
        match reset {
            // The receiver has all it wants (RFC 9113, 8.1).
            Reset::Unneeded => Ok(Left::Ended),
            reset => Err(Broken::reset(self.to(), reset)),
        }
    }

    /// Capsules in, QUIC datagrams out; other capsules go on as they are.
    async fn capsules_to_quic(
        &self,
        capsules: &mut Capsules,
        to: &CapsuleSink,
        quic: &DatagramSender,
    ) -> Result<Left, Broken> {
        let Capsules {
            stream: capsules,
            beside,
            format,
        } = capsules;
        let stream = &to.stream;
        let mut sieve = CapsuleSieve::new(&[CapsuleType::Datagram], format.max_capsule());
        let mut others = Others::default();

        loop {
            self.release(beside, to, quic).await?;
            // Available bytes go into one write; only then are more waited for.
            let waits = others.room.is_empty() || (self.stop.is_set() && sieve.is_between());
            let data = match if waits { None } else { capsules.ready().await } {
                Some(data) => data,
                None => {
                    self.pass_others(&mut others, stream, sieve.is_between())
                        .await?;
                    // Only between capsules may it stop, or write one of its own: anywhere else
                    // would split one.
                    tokio::select! {
                        biased;
                        () = self.stop.seen(), if sieve.is_between() => return Ok(Left::Stopped),
                        limit = self.limits.due(self.to()), if sieve.is_between() => {
                            self.tell(stream, limit).await?;
                            continue;
                        }
                        () = quic.heard(), if beside.waits() => continue,
                        data = capsules.next() => data,
                        reset = broken(stream), if self.alone && others.held.is_none() => return self.was_reset(reset),
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
            // Where it ends is known only once all of it was looked at.
            self.reached(capsules, Reached::Passed);
            self.sift(&mut sieve, &mut others, beside, to, quic).await?;
            capsules.rest = sieve.take_rest();
            self.reached(capsules, Reached::passing(sieve.is_between()));
            self.go_on(beside, to, quic).await?;
        }
    }

    /// Sends taken datagrams, unless they would be lost: then they wait until the peer is heard
    /// again, or another tunnel has taken over.
    async fn go_on(
        &self,
        beside: &mut QuicDatagrams,
        to: &CapsuleSink,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        if !beside.taken.is_empty() && (beside.waits() || quic.is_silent()) {
            self.exchange.dropped(DropReason::QueueFull, beside.keep());
        }
        self.forward(&mut beside.taken, to, quic).await
    }

    /// Sends queued datagrams as capsules.
    async fn release_capsules(
        &self,
        beside: &mut QuicDatagrams,
        stream: &Mutex<Shared>,
    ) -> Result<(), Broken> {
        self.exchange.dropped(DropReason::Expired, beside.release());
        let mut room = BytesMut::new();
        self.encode(&mut beside.taken, &mut room);
        self.write_on(stream, room.freeze()).await
    }

    /// Sends queued datagrams, if they can go on now.
    async fn release(
        &self,
        beside: &mut QuicDatagrams,
        to: &CapsuleSink,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        if !beside.waits() || quic.is_silent() {
            return Ok(());
        }
        self.exchange.dropped(DropReason::Expired, beside.release());
        self.forward(&mut beside.taken, to, quic).await
    }

    /// Takes the datagrams out of the input, up to the next capsule if the direction is to stop,
    /// and gathers the rest. Bytes of the same stream stay in order: taken datagrams come before
    /// the bytes gathered next, and after the earlier ones.
    async fn sift(
        &self,
        sieve: &mut CapsuleSieve,
        others: &mut Others,
        beside: &mut QuicDatagrams,
        to: &CapsuleSink,
        quic: &DatagramSender,
    ) -> Result<(), Broken> {
        while let Some(piece) = sieve
            .next()
            .map_err(|error| Broken::malformed(self.from, error.to_string()))?
        {
            match piece {
                Sifted::Taken(datagram) => {
                    self.pass_others(others, &to.stream, true).await?;
                    beside.taken.push(datagram.value);
                }
                Sifted::Other(bytes) => {
                    // The piece may be only a part of a capsule: everything else for this stream
                    // goes first.
                    self.go_on(beside, to, quic).await?;
                    others.room.extend_from_slice(&bytes);
                    if others.room.len() >= OTHERS {
                        self.pass_others(others, &to.stream, sieve.is_between())
                            .await?;
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

    /// QUIC datagrams and a stream of capsules in; QUIC datagrams out, or capsules if the other
    /// side has no datagrams.
    async fn quic_to_stream(
        &self,
        capsules: &mut Capsules,
        to: &CapsuleSink,
        quic: Option<&DatagramSender>,
    ) -> Result<Left, Broken> {
        let Capsules {
            stream: from,
            beside,
            ..
        } = capsules;
        let stream = &to.stream;
        let mut sieve = CapsuleSieve::new(&[CapsuleType::DatagramLimit], datagram_limit::MAX_VALUE);
        let mut held = None;

        loop {
            if let Some(quic) = quic {
                self.release(beside, to, quic).await?;
            }

            // Within a capsule nothing else may be written to the stream, and no other path can
            // take over.
            let between = sieve.is_between();
            let data = tokio::select! {
                biased;
                () = self.stop.seen(), if between => return Ok(Left::Stopped),
                limit = self.limits.due(self.to()), if between => {
                    self.tell(stream, limit).await?;
                    continue;
                }
                () = beside.fill(), if between || (quic.is_some() && self.limits.floor() == 0) => {
                    self.pass_datagrams(beside, to, quic).await?;
                    continue;
                }
                () = heard(quic), if beside.waits() => continue,
                data = from.next() => data,
                reset = broken(stream), if self.alone && held.is_none() => return self.was_reset(reset),
            };

            let Some(data) = data else {
                return Ok(Left::Ended);
            };
            sieve.push(data.map_err(|error| self.read(&error))?);
            let others = self.heed_limits(&mut sieve, from)?;
            self.reached(from, Reached::passing(sieve.is_between()));
            self.pass_on(&mut held, stream, others, sieve.is_between())
                .await?;
        }
    }

    /// Passes QUIC datagrams on.
    async fn pass_datagrams(
        &self,
        beside: &mut QuicDatagrams,
        to: &CapsuleSink,
        quic: Option<&DatagramSender>,
    ) -> Result<(), Broken> {
        self.exchange.dropped(DropReason::QueueFull, beside.lost());
        let Some(quic) = quic else {
            let mut room = BytesMut::new();
            self.encode(&mut beside.taken, &mut room);
            return self.write_on(&to.stream, room.freeze()).await;
        };
        self.go_on(beside, to, quic).await
    }

    /// Takes the sender's capsules about limits out; returns the other capsules, up to the next one
    /// if the direction is to stop.
    fn heed_limits(
        &self,
        sieve: &mut CapsuleSieve,
        from: &mut CapsuleStream,
    ) -> Result<Bytes, Broken> {
        let mut others = BytesMut::new();
        while let Some(piece) = sieve
            .next()
            .map_err(|error| Broken::malformed(self.from, error.to_string()))?
        {
            match piece {
                Sifted::Taken(limit) => self.heed(&limit.value)?,
                Sifted::Other(bytes) => others.extend_from_slice(&bytes),
            }
            if self.stop.is_set() && sieve.is_between() {
                from.rest = sieve.take_rest();
                break;
            }
        }

        Ok(others.freeze())
    }

    /// Writes a piece of capsules, and counts its bytes: super-packets are most of an upload, on
    /// every kind of path. Unless a capsule ends with it, the stream is held for the next piece:
    /// another direction may lead to the same stream.
    pub(crate) async fn pass_on(
        &self,
        held: &mut Option<OwnedMutexGuard<Shared>>,
        stream: &Arc<Mutex<Shared>>,
        bytes: Bytes,
        ends: bool,
    ) -> Result<(), Broken> {
        if !bytes.is_empty() {
            self.moved(0, bytes.len() as u64);
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
}

/// Waits until the connection that datagrams go to is heard of.
async fn heard(quic: Option<&DatagramSender>) {
    match quic {
        Some(quic) => quic.heard().await,
        None => std::future::pending().await,
    }
}
