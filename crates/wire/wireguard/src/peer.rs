//! One peer: its handshakes, its sessions, and its endpoint.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ipnet::IpNet;

use crate::handshake::{self, Begun, Opened};
use crate::indices::PeerId;
use crate::macs::{CookieValue, MacKeys, counts_still};
use crate::message::{Cookie, Data, Initiation, MAC, Response, encode_initiation, encode_response};
use crate::own::Own;
use crate::sessions::Sessions;
use crate::timers::{Due, Timers};
use crate::timestamp::Timestamp;
use crate::transport::{NotOpened, Transport, TransportEnds};
use crate::waiting::WaitingPackets;
use hermes_noise::{PresharedKey, PublicKey};

/// The shortest time between two handshakes of one peer that are answered.
#[doc(alias = "bound")]
const BETWEEN_HANDSHAKES: Duration = Duration::from_millis(20);

/// The configuration of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSettings {
    /// The key that identifies it.
    pub public_key: PublicKey,
    /// The secret shared beside that.
    pub preshared_key: Option<PresharedKey>,
    /// Its endpoint, until it is heard from elsewhere; `None`: learned from its datagrams.
    pub endpoint: Option<SocketAddr>,
    /// Sources of its packets, and destinations of packets to it.
    pub allowed: Vec<IpNet>,
    /// The silence after which it is sent a keepalive; `None`: no keepalives.
    pub keepalive: Option<Duration>,
    /// The longest packet, in bytes: no packet is padded beyond it.
    pub mtu: usize,
}

/// Traffic from and to a peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PeerCounters {
    /// Packets that came from it.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Packets that were sent to it.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that did not count: played again, forged, or under old keys.
    pub refused: u64,
    /// Packets with a source that is not [allowed](PeerSettings::allowed), and malformed ones.
    pub forged: u64,
    /// Packets to it that were lost: its endpoint is unknown, or it does not answer.
    pub lost: u64,
}

/// The visible state of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerView {
    /// Its key.
    pub public_key: PublicKey,
    /// Its current endpoint, if known.
    pub endpoint: Option<SocketAddr>,
    /// How long ago it proved who it is by a handshake.
    pub last_handshake: Option<Duration>,
    /// Its traffic.
    pub counters: PeerCounters,
}

/// A peer.
pub(crate) struct Peer {
    id: PeerId,
    settings: PeerSettings,
    /// The MACs of messages to it.
    keys: MacKeys,
    endpoint: Option<SocketAddr>,
    handshakes: Handshakes,
    sessions: Sessions,
    waiting: WaitingPackets,
    timers: Timers,
    counters: PeerCounters,
}

/// The state of the handshakes with a peer.
#[derive(Default)]
struct Handshakes {
    /// The timestamp of its last handshake.
    latest: Timestamp,
    /// When that arrived.
    answered: Option<Instant>,
    /// A handshake that this end has begun.
    open: Option<OpenHandshake>,
    /// A cookie of the peer, and when it came.
    cookie: Option<(CookieValue, Instant)>,
    /// When the last one ended well.
    agreed: Option<Instant>,
}

struct OpenHandshake {
    begun: Begun,
    local: u32,
    /// The first MAC of its initiation, by which a cookie is known.
    first: [u8; MAC],
}

impl Peer {
    pub(crate) fn new(id: PeerId, settings: PeerSettings, now: Instant) -> Self {
        let mut timers = Timers::default();
        // A peer with a keepalive is to be reachable from the start, not from its first packet on.
        if settings.keepalive.is_some() && settings.endpoint.is_some() {
            timers.begin(now);
        }
        Self {
            id,
            keys: MacKeys::of(&settings.public_key),
            endpoint: settings.endpoint,
            settings,
            handshakes: Handshakes::default(),
            sessions: Sessions::default(),
            waiting: WaitingPackets::default(),
            timers,
            counters: PeerCounters::default(),
        }
    }

    pub(crate) fn public_key(&self) -> &PublicKey {
        &self.settings.public_key
    }

    /// Whether its endpoint has this address.
    pub(crate) fn is_at(&self, address: IpAddr) -> bool {
        let known = self.endpoint.map(|known| known.ip().to_canonical());
        known == Some(address.to_canonical())
    }

    pub(crate) fn view(&self, now: Instant) -> PeerView {
        let agreed = self.handshakes.agreed;
        PeerView {
            public_key: self.settings.public_key,
            endpoint: self.endpoint,
            last_handshake: agreed.map(|agreed| now.saturating_duration_since(agreed)),
            counters: self.counters,
        }
    }

    pub(crate) fn endpoint(&self) -> Option<SocketAddr> {
        self.endpoint
    }

    /// Begins a handshake with the peer at this endpoint: its current keys are those of another end, so its messages cannot be opened here.
    pub(crate) fn take_over(&mut self, own: &mut Own, endpoint: SocketAddr, now: Instant) {
        self.endpoint = Some(endpoint);
        self.initiate(own, now);
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Seals a packet behind the bytes in `out`; returns its destination, unless it waits or is
    /// lost.
    pub(crate) fn send(
        &mut self,
        own: &mut Own,
        packet: &[u8],
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Option<SocketAddr> {
        // Routing by key (section 2): a key may carry these addresses and no others, in both directions.
        let destination = inner(packet).map(|inner| inner.destination);
        let is_allowed = destination.is_some_and(|address| self.allows(address));
        let (Some(to), true) = (self.endpoint, is_allowed) else {
            self.counters.lost += 1;
            return None;
        };

        let mtu = self.settings.mtu;
        let session = self.sessions.usable(now);
        let is_sealed = session.is_some_and(|session| session.seal(packet, mtu, out));
        // No keys, or they are used up: the packet waits for the handshake that this begins.
        if !is_sealed {
            self.counters.lost += self.waiting.push(packet);
            self.initiate(own, now);
            return None;
        }
        self.sent(own, packet.len(), now);
        Some(to)
    }

    /// A message was sent; it had so many bytes of a packet.
    fn sent(&mut self, own: &mut Own, bytes: usize, now: Instant) {
        if bytes > 0 {
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += bytes as u64;
        }
        self.timers.sent(bytes > 0, self.settings.keepalive, now);
        let current = self.sessions.current();
        if current.is_some_and(|current| current.is_used_up(now)) {
            self.initiate(own, now);
        }
    }

    /// Sends the waiting packets, or, if there are none, an empty message.
    fn flush(&mut self, own: &mut Own, now: Instant) {
        let mut packet = self.waiting.pop().unwrap_or_default();
        loop {
            self.send_now(own, &packet, now);
            match self.waiting.pop() {
                Some(next) => packet = next,
                None => return,
            }
        }
    }

    /// Sends a packet, or an empty message, if there are keys; says whether it did.
    fn send_now(&mut self, own: &mut Own, packet: &[u8], now: Instant) -> bool {
        let mtu = self.settings.mtu;
        let mut message = Vec::new();
        let session = self.sessions.usable(now);
        let is_sealed = session.is_some_and(|session| session.seal(packet, mtu, &mut message));
        if let (Some(to), true) = (self.endpoint, is_sealed) {
            own.send(to, message);
            self.sent(own, packet.len(), now);
            return true;
        }
        self.counters.lost += u64::from(!packet.is_empty());
        false
    }

    /// Begins a handshake, unless one is open.
    fn initiate(&mut self, own: &mut Own, now: Instant) {
        if !self.timers.is_beginning() {
            self.send_initiation(own, now);
        }
    }

    fn send_initiation(&mut self, own: &mut Own, now: Instant) {
        let Some(to) = self.endpoint else {
            return;
        };
        // A retry is a new handshake: the old one has an index and a key of its own, which must not stay.
        self.close_handshake(own);
        self.timers.initiated(own.jitter(), now);
        let Some(local) = own.indices.take(self.id) else {
            return;
        };

        let PeerSettings {
            public_key,
            preshared_key,
            ..
        } = &self.settings;
        let timestamp = own.clock.timestamp(now);
        let begun = handshake::begin(&own.key, public_key, preshared_key.as_ref(), timestamp);
        let Ok((begun, noise)) = begun else {
            own.indices.retire([local]);
            return;
        };
        let mut message = encode_initiation(local, &noise);
        let first = self
            .keys
            .complete(&mut message, self.handshakes.cookie(now));
        self.handshakes.open = Some(OpenHandshake {
            begun,
            local,
            first,
        });
        own.send(to, message);
    }

    fn close_handshake(&mut self, own: &mut Own) {
        let open = self.handshakes.open.take();
        own.indices.retire(open.map(|open| open.local));
    }

    /// Answers a handshake that the peer has begun; false: it is an old one, or there are too many.
    pub(crate) fn handle_initiation(
        &mut self,
        own: &mut Own,
        (from, initiation): (SocketAddr, &Initiation<'_>),
        opened: Opened,
        now: Instant,
    ) -> bool {
        let is_early = self
            .handshakes
            .answered
            // A peer, too, may not make this end compute all day.
            .is_some_and(|last| now.saturating_duration_since(last) < BETWEEN_HANDSHAKES);
        // Section 5.1: an initiation that was recorded and is played again has an old timestamp.
        if opened.timestamp <= self.handshakes.latest || is_early {
            self.counters.refused += 1;
            return false;
        }
        let Some(local) = own.indices.take(self.id) else {
            return false;
        };
        let timestamp = opened.timestamp;
        let Ok((noise, keys)) = opened.answer(self.settings.preshared_key.as_ref()) else {
            own.indices.retire([local]);
            return false;
        };

        let ends = TransportEnds {
            local,
            remote: initiation.sender,
            is_initiator: false,
        };
        let retired = self.sessions.answered(Transport::new(keys, ends, now));
        own.indices.retire(retired.into_iter().flatten());
        // Only now: a handshake that failed here may be tried again with its timestamp.
        self.handshakes.latest = timestamp;
        self.handshakes.answered = Some(now);
        self.heard(from, false, now);

        let mut message = encode_response(local, initiation.sender, &noise);
        self.keys
            .complete(&mut message, self.handshakes.cookie(now));
        own.send(from, message);
        true
    }

    /// Takes the answer to a handshake that this end has begun; false if it is not one.
    pub(crate) fn handle_response(
        &mut self,
        own: &mut Own,
        (from, response): (SocketAddr, &Response<'_>),
        now: Instant,
    ) -> bool {
        let open = self.handshakes.open.as_mut();
        // The index leads here from any of the peer's sessions; the answer must be for the open handshake.
        let open = open.filter(|open| open.local == response.receiver);
        let is_answer = open.is_some_and(|open| open.begun.read(response.noise).is_ok());
        // Anyone can send under an index that he saw: what does not decrypt leaves the handshake as it is.
        let Some(open) = self.handshakes.open.take_if(|_| is_answer) else {
            self.counters.refused += 1;
            return false;
        };
        // The index is in use until the session has it, and must not leak with the handshake.
        let Ok(keys) = open.begun.keys() else {
            own.indices.retire([open.local]);
            return false;
        };

        let ends = TransportEnds {
            local: open.local,
            remote: response.sender,
            is_initiator: true,
        };
        let retired = self.sessions.began(Transport::new(keys, ends, now));
        own.indices.retire(retired.into_iter().flatten());
        self.agreed(now);
        self.heard(from, false, now);
        // The responder must not use the keys before it has received a message under them, so one is sent even without a packet.
        self.flush(own, now);
        true
    }

    /// Takes a cookie for the next initiation; false if it is not from this peer.
    pub(crate) fn handle_cookie(&mut self, reply: &Cookie<'_>, now: Instant) -> bool {
        let open = self.handshakes.open.as_ref();
        // Kept for the retry, at its own time: a reply that triggered a message would be a lever for floods (section 6.6).
        let cookie = open.and_then(|open| self.keys.open_cookie(reply, &open.first));
        match cookie {
            Some(cookie) => {
                self.handshakes.cookie = Some((cookie, now));
                true
            }
            None => {
                self.counters.refused += 1;
                false
            }
        }
    }

    /// Opens a message with data; true: there is a packet in `room`.
    pub(crate) fn handle_data(
        &mut self,
        own: &mut Own,
        (from, data): (SocketAddr, &Data<'_>),
        room: &mut Vec<u8>,
        now: Instant,
    ) -> bool {
        let session = self.sessions.of_index(data.receiver);
        let opened = session.map_or(Err(NotOpened::Expired), |session| {
            session.open(data, room, now)
        });
        if opened.is_err() {
            self.counters.refused += 1;
            return false;
        }

        // Only an authenticated message counts: it moves the endpoint, confirms new keys and retires the old ones.
        let (is_new, retired) = self.sessions.used(data.receiver);
        own.indices.retire(retired.into_iter().flatten());
        self.heard(from, !room.is_empty(), now);
        // The initiator has used the new keys, so that we may, too: until now it might not have had our response.
        if is_new {
            self.close_handshake(own);
            self.agreed(now);
            if !self.waiting.is_empty() {
                self.flush(own, now);
            }
        }
        let current = self.sessions.current();
        if current.is_some_and(|current| current.is_nearly_over(now)) {
            self.initiate(own, now);
        }
        !room.is_empty() && self.check_packet(room)
    }

    /// Removes the padding of a packet; false if it is malformed, or its source is not the peer's.
    fn check_packet(&mut self, packet: &mut Vec<u8>) -> bool {
        let found = inner(packet);
        // Section 2: the key decides which sources are genuine.
        let Some(found) = found.filter(|found| self.allows(found.source)) else {
            self.counters.forged += 1;
            return false;
        };
        packet.truncate(found.length);
        self.counters.received_packets += 1;
        self.counters.received_bytes += found.length as u64;
        true
    }

    fn allows(&self, address: IpAddr) -> bool {
        let allowed = &self.settings.allowed;
        allowed.iter().any(|net| net.contains(&address))
    }

    /// Notes an authenticated message: answers go to its source from now on (section 2.1).
    fn heard(&mut self, from: SocketAddr, has_packet: bool, now: Instant) {
        // Roaming (section 2.1); `from` is that of an authenticated message, so a forged datagram moves no one.
        self.endpoint = Some(from);
        self.timers
            .received(has_packet, self.settings.keepalive, now);
    }

    fn agreed(&mut self, now: Instant) {
        self.handshakes.agreed = Some(now);
        self.timers.stopped();
        self.timers.agreed(now);
    }

    pub(crate) fn handle_timeout(&mut self, own: &mut Own, now: Instant) {
        while let Some(due) = self.timers.take_due(now) {
            match due {
                Due::Retry => self.send_initiation(own, now),
                Due::GiveUp => {
                    self.close_handshake(own);
                    self.timers.stopped();
                    self.counters.lost += self.waiting.clear();
                }
                // Section 6.5: sent, and nothing heard; the peer may have restarted and lost its keys.
                Due::Silence => self.initiate(own, now),
                Due::Keepalive => {
                    self.send_now(own, &[], now);
                }
                // Without keys the keepalive becomes a handshake, and the interval begins anew, or this timer would be due forever.
                Due::Persistent => {
                    if !self.send_now(own, &[], now) {
                        self.initiate(own, now);
                        self.timers.passed(self.settings.keepalive, now);
                    }
                }
                Due::Forget => {
                    own.indices.retire(self.sessions.clear());
                    self.timers.forgot();
                }
            }
        }
    }

    /// The peer was removed.
    pub(crate) fn leave(mut self, own: &mut Own) {
        self.close_handshake(own);
        own.indices.retire(self.sessions.clear());
    }
}

impl Handshakes {
    /// The cookie of the peer, if it counts still.
    fn cookie(&self, now: Instant) -> Option<&CookieValue> {
        let (cookie, came) = self.cookie.as_ref()?;
        counts_still(*came, now).then_some(cookie)
    }
}

/// The parts of a packet that routing by key needs.
struct InnerPacket {
    source: IpAddr,
    destination: IpAddr,
    /// Without padding.
    length: usize,
}

/// Reads the header of a packet; `None` if it is malformed, or longer than the buffer.
fn inner(packet: &[u8]) -> Option<InnerPacket> {
    let read = |at: usize| packet.get(at..at + 2)?.first_chunk().copied();
    let found = match packet.first()? >> 4 {
        // RFC 791, 3.1: total length at 2, addresses at 12.
        4 => {
            let addresses: &[u8; 8] = packet.get(12..20)?.first_chunk()?;
            let [s0, s1, s2, s3, d0, d1, d2, d3] = *addresses;
            InnerPacket {
                source: [s0, s1, s2, s3].into(),
                destination: [d0, d1, d2, d3].into(),
                length: u16::from_be_bytes(read(2)?).into(),
            }
        }
        // RFC 8200, 3: the payload's length at 4, without the header of 40 bytes; addresses at 8.
        6 => {
            let source: [u8; 16] = packet.get(8..24)?.try_into().ok()?;
            let destination: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            InnerPacket {
                source: source.into(),
                destination: destination.into(),
                length: 40 + usize::from(u16::from_be_bytes(read(4)?)),
            }
        }
        _ => return None,
    };
    // Shorter than the buffer is allowed: the rest is padding (section 5.4.6).
    (found.length >= 20 && found.length <= packet.len()).then_some(found)
}
