//! Connections of TCP that stay with the end at which they were opened, where the tunnel of their client has moved to another.
//!
//! Everything else follows the tunnel at once. The paths that were left are remembered for as long as they last, and the connections from
//! the first move on: those that were open then are at the end that was left first.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use hermes_ip::offload::{SuperCapsule, cut_super};
use hermes_ip::{PinRoutes, TcpPins};
use hermes_observe::DropReason;
use hermes_proto::capsule::{Capsule, CapsuleSieve, CapsuleType, Sifted, encode_header};
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::ip::Packet;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use super::direction::{Left, PacketDirection, broken};
use super::shared::Shared;
use super::sink::{CapsuleSink, Sink};
use super::source::{Capsules, Source};
use super::stream::Reached;
use crate::broken::Broken;
use crate::filling::Filling;

/// Connections of a tunnel that are remembered after it has moved, and as many from before: half a megabyte. One that is forgotten goes
/// where new ones go.
#[doc(alias = "bound")]
const PINS: usize = 4096;

/// Paths of a tunnel that are kept for their connections; with more, the one that was left first goes.
#[doc(alias = "bound")]
const LEFT: usize = 8;

/// How long a send on a draining path may take: it must not hold up the others.
#[doc(alias = "bound")]
const LEFT_TIME: Duration = Duration::from_secs(1);

/// The capsules that carry packets.
const PACKETS: &[CapsuleType] = &[CapsuleType::Datagram, CapsuleType::SuperPacket];

/// The paths of a client's packets after its tunnel has moved.
#[derive(Default)]
pub struct ConnectionPins {
    steered: Mutex<PinState>,
}

struct PinState {
    pins: TcpPins<u64>,
    /// Draining paths, the oldest first.
    left: Vec<DrainingPath>,
    /// The number of the first path that was left since the last time that no path was draining.
    first: u64,
    /// The number of the path that the tunnel has now.
    current: u64,
}

struct DrainingPath {
    number: u64,
    sink: CapsuleSink,
    /// When a packet was last sent there.
    used: Instant,
}

impl Default for PinState {
    fn default() -> Self {
        Self {
            pins: TcpPins::with_room(PINS),
            left: Vec::new(),
            first: 0,
            current: 0,
        }
    }
}

impl ConnectionPins {
    /// The tunnel leaves a path with connections that stay on it. Returns the number of that path;
    /// `None` for a sink without capsules.
    pub fn leave(&self, sink: &Sink) -> Option<u64> {
        let Sink::Stream(sink) = sink else {
            return None;
        };
        let mut steered = self.steered.lock();
        let number = steered.current;
        if steered.left.is_empty() {
            steered.first = number;
            steered.pins = TcpPins::with_room(PINS);
        }
        if steered.left.len() >= LEFT {
            steered.left.remove(0);
        }
        steered.current += 1;
        steered.left.push(DrainingPath {
            number,
            sink: sink.clone(),
            used: Instant::now(),
        });
        Some(number)
    }

    /// Forgets a draining path: its connections follow the new ones, whose end resets them.
    pub fn forget(&self, number: u64) {
        self.steered
            .lock()
            .left
            .retain(|path| path.number != number);
    }

    /// How long a draining path has been idle; `None` if it is gone.
    pub fn idle(&self, number: u64) -> Option<Duration> {
        let steered = self.steered.lock();
        let path = steered.left.iter().find(|path| path.number == number)?;
        Some(path.used.elapsed())
    }

    /// Whether any path is draining.
    pub(crate) fn is_needed(&self) -> bool {
        !self.steered.lock().left.is_empty()
    }

    /// Whether a capsule is a super-packet of a connection on a draining path.
    fn has_left(&self, capsule: &Capsule) -> bool {
        match SuperCapsule::decode(&capsule.value) {
            Some(SuperCapsule::Packet { packet, .. }) => self.owner(packet).is_some(),
            _ => false,
        }
    }

    /// The draining path with the connection of this packet.
    fn owner(&self, packet: &[u8]) -> Option<(u64, CapsuleSink)> {
        let packet = Packet::parse(packet).ok()?;
        let now = Instant::now();
        let mut steered = self.steered.lock();
        let PinState {
            pins,
            left,
            first,
            current,
        } = &mut *steered;

        let routes = PinRoutes {
            new: *current,
            before: *first,
        };
        let is_there = |owner| owner == *current || left.iter().any(|path| path.number == owner);
        let owner = pins.owner(&packet, routes, is_there, now);
        let path = left.iter_mut().find(|path| path.number == owner)?;
        path.used = now;
        Some((owner, path.sink.clone()))
    }
}

/// Whether a capsule goes on as it is, along the path that the tunnel has now.
fn is_passed_whole(capsule: &Capsule, pins: &ConnectionPins) -> bool {
    capsule.kind == CapsuleType::SuperPacket && !pins.has_left(capsule)
}

/// Takes the packets of a capsule as HTTP datagrams. Super-packets are cut: it is not remembered
/// whether the old end takes them.
fn push_packets(capsule: Capsule, format: DatagramFormat, packets: &mut Vec<Bytes>) {
    if capsule.kind == CapsuleType::Datagram {
        return packets.push(capsule.value);
    }
    cut_super(&capsule.value, |packet| {
        let mut datagram = BytesMut::from(format.prefix());
        datagram.extend_from_slice(packet);
        packets.push(datagram.freeze());
    });
}

/// Where the packets of a tunnel go.
#[derive(Clone, Copy)]
struct PacketRoutes<'a> {
    /// Along the path that the tunnel has now.
    current: &'a CapsuleSink,
    /// How packets are written in HTTP datagrams there.
    format: DatagramFormat,
    /// The connections that stay on other paths.
    pins: &'a ConnectionPins,
}

impl PacketDirection<'_> {
    /// Passes packets on, and nothing else: the end of a draining path has no say about the
    /// client's addresses any more.
    ///
    /// # Errors
    /// A side broke.
    pub async fn run_packets(&self, source: &mut Source, sink: &Sink) -> Result<Left, Broken> {
        let mut filling = Filling::of_packets(source, sink, self.exchange);
        self.carry(&mut filling, sink).await
    }

    /// Sends the capsules of a device on, and packets of connections to where they were opened.
    pub(crate) async fn steer_capsules(
        &self,
        capsules: Bytes,
        to: &CapsuleSink,
        pins: &ConnectionPins,
    ) -> Result<(), Broken> {
        let mut sieve = CapsuleSieve::new(PACKETS, to.format.max_capsule());
        let mut held = None;
        let mut rest = capsules;
        let routes = PacketRoutes {
            current: to,
            format: to.format,
            pins,
        };
        // A direction that is to stop leaves a rest, of which nothing may be lost.
        while !rest.is_empty() {
            sieve.push(rest);
            self.sort(&mut sieve, &mut held, routes).await?;
            rest = sieve.take_rest();
        }
        Ok(())
    }

    /// Passes everything on as [`Self::pass`] does, and packets of connections to where they were opened.
    pub(crate) async fn pass_steered(
        &self,
        capsules: &mut Capsules,
        to: &CapsuleSink,
        pins: &ConnectionPins,
    ) -> Result<Left, Broken> {
        let Capsules {
            stream: from,
            beside,
            format,
        } = capsules;
        let mut sieve = CapsuleSieve::new(PACKETS, format.max_capsule());
        let mut held = None;
        let routes = PacketRoutes {
            current: to,
            format: *format,
            pins,
        };
        self.exchange.dropped(DropReason::Expired, beside.release());
        self.steer(&mut beside.taken, routes).await?;

        loop {
            // Within a capsule nothing else may be written to the stream, and no other path can take over.
            let between = sieve.is_between();
            let data = tokio::select! {
                biased;
                () = self.stop.seen(), if between => return Ok(Left::Stopped),
                () = beside.fill(), if between => {
                    self.steer(&mut beside.taken, routes).await?;
                    continue;
                }
                data = from.next() => data,
                reset = broken(&to.stream), if self.alone && held.is_none() => return self.was_reset(reset),
            };

            let Some(data) = data else {
                let ended = between.then_some(Left::Ended);
                return ended.ok_or_else(|| {
                    Broken::malformed(self.from, "the stream ended inside a capsule".to_owned())
                });
            };
            sieve.push(data.map_err(|error| self.read(&error))?);
            self.reached(from, Reached::Passed);
            self.sort(&mut sieve, &mut held, routes).await?;
            from.rest = sieve.take_rest();
            self.reached(from, Reached::passing(sieve.is_between()));
        }
    }

    /// Sends available packets, in order: up to the next capsule if the direction is to stop. The
    /// stream is held only within a capsule.
    async fn sort(
        &self,
        sieve: &mut CapsuleSieve,
        held: &mut Option<OwnedMutexGuard<Shared>>,
        routes: PacketRoutes<'_>,
    ) -> Result<(), Broken> {
        let mut packets = Vec::new();
        let mut others = BytesMut::new();
        while let Some(piece) = sieve
            .next()
            .map_err(|error| Broken::malformed(self.from, error.to_string()))?
        {
            match piece {
                Sifted::Taken(capsule) if is_passed_whole(&capsule, routes.pins) => {
                    self.steer(&mut packets, routes).await?;
                    encode_header(capsule.kind, capsule.value.len() as u64, &mut others);
                    others.extend_from_slice(&capsule.value);
                }
                Sifted::Taken(capsule) => {
                    let ended = others.split().freeze();
                    self.pass_on(held, &routes.current.stream, ended, true)
                        .await?;
                    push_packets(capsule, routes.format, &mut packets);
                }
                Sifted::Other(bytes) => {
                    self.steer(&mut packets, routes).await?;
                    others.extend_from_slice(&bytes);
                }
            }
            if self.stop.is_set() && sieve.is_between() {
                break;
            }
        }

        self.steer(&mut packets, routes).await?;
        self.pass_on(
            held,
            &routes.current.stream,
            others.freeze(),
            sieve.is_between(),
        )
        .await
    }

    /// Sends each packet where its connection is, and the others where the tunnel leads now.
    async fn steer(
        &self,
        packets: &mut Vec<Bytes>,
        routes: PacketRoutes<'_>,
    ) -> Result<(), Broken> {
        let PacketRoutes {
            current,
            format,
            pins,
        } = routes;
        let mut elsewhere: Vec<(u64, CapsuleSink, Vec<Bytes>)> = Vec::new();
        packets.retain(|packet| {
            let owner = packet
                .strip_prefix(format.prefix())
                .and_then(|packet| pins.owner(packet));
            let Some((number, sink)) = owner else {
                return true;
            };
            match elsewhere.iter_mut().find(|(one, ..)| *one == number) {
                Some((.., packets)) => packets.push(packet.clone()),
                None => elsewhere.push((number, sink, vec![packet.clone()])),
            }
            false
        });

        for (number, sink, mut packets) in elsewhere {
            let sent = timeout(LEFT_TIME, self.give(&mut packets, &sink)).await;
            // The path is lost with its connections; the tunnel goes on without it.
            if !matches!(sent, Ok(Ok(()))) {
                pins.forget(number);
            }
        }
        self.give(packets, current).await
    }

    /// Sends packets along one path.
    async fn give(&self, packets: &mut Vec<Bytes>, to: &CapsuleSink) -> Result<(), Broken> {
        if packets.is_empty() {
            return Ok(());
        }
        match &to.quic {
            Some(quic) => self.forward(packets, to, quic).await,
            None => {
                let mut room = BytesMut::new();
                self.encode(packets, &mut room);
                self.write_on(&to.stream, room.freeze()).await
            }
        }
    }
}
