//! The keys that this node shares with a neighbour: those in use, those before, and the handshakes that lead to the next ones.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hermes_noise::{PrivateKey, PublicKey};
use hermes_proto::custody::{COOKIE, CustodyPacket};

use crate::epoch::Epoch;
use crate::noise::{Handshake, Initiation, Stamp, initiate};
use crate::receiver::PROBE;
use crate::stamps::Stamps;

/// How long a HELLO is repeated as it is; then a fresh one is made.
#[doc(alias = "bound")]
const HELLO_AGE: Duration = Duration::from_secs(10);

/// A HELLO of this node, until it is answered.
struct Hello {
    own: u32,
    initiation: Option<Initiation>,
    message: Bytes,
    begun: Instant,
    at: Instant,
}

/// Addresses that a HELLO is remembered to have come from: one that is forgotten is asked to prove itself by a challenge.
#[doc(alias = "bound")]
const ADDRESSES: usize = 4;

/// A HELLO that was answered.
struct Answered {
    hello: Bytes,
    answer: Bytes,
    stamp: Stamp,
    /// The addresses that it came from, the latest last; at each, a cookie has shown that someone receives there.
    from: VecDeque<SocketAddr>,
}

/// Keys that a HELLO asked for, until something comes under them.
#[derive(Default)]
struct PendingEpoch {
    epoch: Option<Epoch>,
    answered: Option<Answered>,
}

/// The keys that the neighbour has asked for.
#[derive(Default)]
struct PendingEpochs {
    /// By its newest HELLO.
    newest: PendingEpoch,
    /// By a HELLO with an older stamp: someone has repeated it, or the neighbour's clock was set back. It takes no place from the newest.
    doubtful: PendingEpoch,
}

/// The cookie that the neighbour reads in a HELLO of this node before it does anything else.
#[derive(Default)]
struct PeerCookie {
    value: [u8; COOKIE],
    /// When the neighbour asked for it.
    at: Option<Instant>,
}

/// A HELLO that was accepted, the keys that it leads to, and its answer.
pub struct AcceptedHello {
    /// The HELLO's message.
    pub hello: Bytes,
    /// Its stamp, by which an older one is known.
    pub stamp: Stamp,
    /// The keys.
    pub epoch: Epoch,
    /// The datagram that answers it.
    pub answer: Bytes,
}

/// The own key of this node, for its handshakes.
pub struct OwnKey<'a> {
    /// Its key.
    pub key: &'a PrivateKey,
    /// The stamps of its HELLOs.
    pub stamps: &'a mut Stamps,
}

/// The keys that this node shares with a neighbour, and the handshakes for others.
pub struct NeighbourKeys {
    /// The neighbour's own key.
    public: PublicKey,
    /// The keys in use.
    current: Option<Epoch>,
    /// The keys that the neighbour has asked for.
    pending: PendingEpochs,
    /// The keys before, for packets that are still on their way.
    previous: Option<Epoch>,
    hello: Option<Hello>,
    cookie: PeerCookie,
}

impl NeighbourKeys {
    /// No shared keys yet.
    pub fn new(public: PublicKey) -> Self {
        Self {
            public,
            current: None,
            pending: PendingEpochs::default(),
            previous: None,
            hello: None,
            cookie: PeerCookie::default(),
        }
    }

    /// The neighbour's own key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The keys in use.
    pub(super) fn current(&self) -> Option<&Epoch> {
        self.current.as_ref()
    }

    /// Whether the keys in use, if there are any, are to be replaced.
    pub(super) fn is_old(&self, now: Instant) -> bool {
        self.current.as_ref().is_none_or(|keys| keys.is_old(now))
    }

    /// When the HELLO that was begun is due again.
    pub(super) fn hello_due(&self) -> Option<Instant> {
        self.hello.as_ref().map(|hello| hello.at)
    }

    /// Has a HELLO that was begun sent at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        if let Some(hello) = &mut self.hello {
            hello.at = now;
        }
    }

    /// Whether the neighbour's address asks for a cookie, and answers no HELLO that has it.
    pub(super) fn is_asked_to_prove(&self) -> bool {
        self.hello.is_some() && self.cookie.at.is_some()
    }

    /// Whether a HELLO that was answered has come from this address.
    pub(super) fn has_answered_at(&self, from: SocketAddr) -> bool {
        self.pending.newest.came_from(from) || self.pending.doubtful.came_from(from)
    }

    /// Seals frames under the keys in use.
    pub(super) fn seal(&mut self, frames: &[u8]) -> Option<Bytes> {
        self.current.as_mut()?.seal(frames)
    }

    /// The epoch of the HELLO that was begun: this node's name for the keys that it asks for.
    pub fn hello_epoch(&self) -> Option<u32> {
        self.hello.as_ref().map(|hello| hello.own)
    }

    /// The epochs that this node expects packets under.
    pub fn epochs(&self) -> impl Iterator<Item = u32> + '_ {
        let epochs = [
            &self.current,
            &self.pending.newest.epoch,
            &self.pending.doubtful.epoch,
            &self.previous,
        ];
        let hello = self.hello.as_ref().map(|hello| hello.own);
        epochs
            .into_iter()
            .flatten()
            .map(|epoch| epoch.own)
            .chain(hello)
    }

    /// The answer to a HELLO that was answered before.
    pub fn answer_again(&mut self, hello: &Bytes, from: SocketAddr) -> Option<Bytes> {
        let pending = [&mut self.pending.newest, &mut self.pending.doubtful];
        let mut known = pending
            .into_iter()
            .filter_map(|pending| pending.answered.as_mut());
        let known = known.find(|known| known.hello == *hello)?;
        known.came_from(from);
        Some(known.answer.clone())
    }

    /// Whether a HELLO was answered before.
    pub fn has_answered(&self, hello: &Bytes) -> bool {
        let pending = [&self.pending.newest, &self.pending.doubtful];
        let mut answered = pending
            .into_iter()
            .filter_map(|pending| pending.answered.as_ref());
        answered.any(|known| known.hello == *hello)
    }

    /// Whether a RETRY with this epoch may answer a packet of this process.
    pub fn may_be_asked_again(&self, epoch: u32) -> bool {
        self.hello_epoch() == Some(epoch) || self.is_current(epoch)
    }

    /// The neighbour asks for keys, as was checked. They are pending until a packet comes under them: an old HELLO that someone repeats must not
    /// end keys that are in use.
    pub(super) fn handle_hello(&mut self, accepted: AcceptedHello, from: SocketAddr) {
        let latest = self.pending.newest.answered.as_ref();
        let is_newest = latest.is_none_or(|latest| latest.stamp < accepted.stamp);
        let AcceptedHello {
            hello,
            stamp,
            epoch,
            answer,
        } = accepted;
        let pending = match is_newest {
            true => &mut self.pending.newest,
            false => &mut self.pending.doubtful,
        };
        *pending = PendingEpoch {
            epoch: Some(epoch),
            answered: Some(Answered {
                hello,
                answer,
                stamp,
                from: VecDeque::from([from]),
            }),
        };
    }

    /// The neighbour asks for a cookie; or, while it is silent, has lost the keys in use.
    pub(super) fn handle_retry(
        &mut self,
        epoch: u32,
        cookie: [u8; COOKIE],
        is_silent: bool,
        now: Instant,
    ) {
        if let Some(hello) = &mut self.hello {
            // A cookie that is known brings no further HELLO: a RETRY is not sealed, and repeated ones would multiply ours.
            if hello.own == epoch && self.cookie.value != cookie {
                self.cookie.value = cookie;
                self.cookie.at = Some(now);
                hello.at = now;
            }
        } else if self.is_current(epoch) && is_silent {
            // Anyone can send a RETRY, so it ends only keys under which nothing comes; the old keys stay for packets on their way.
            self.cookie.value = cookie;
            self.hello = None;
            self.previous = self.current.take();
        }
    }

    /// An answer to the HELLO that was begun. Whether there are new keys.
    pub(super) fn handle_answer(
        &mut self,
        epoch: u32,
        peer: u32,
        message: &[u8],
        now: Instant,
    ) -> bool {
        let Some(hello) = self.hello.as_mut().filter(|hello| hello.own == epoch) else {
            return false;
        };
        // A forged answer fails to decrypt, and must not end the handshake: the neighbour's own answer is still to come.
        let is_answer = hello
            .initiation
            .as_mut()
            .is_some_and(|initiation| initiation.read(message).is_ok());
        if !is_answer {
            return false;
        }

        self.cookie.at = None;
        let initiation = self.hello.take().and_then(|hello| hello.initiation);
        let Some(Ok(keys)) = initiation.map(Initiation::keys) else {
            return false;
        };
        self.previous = self.current.take();
        self.current = Some(Epoch::new(epoch, peer, keys, now));
        true
    }

    fn is_current(&self, epoch: u32) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|known| known.peer == epoch)
    }

    /// Opens a packet. The first one under pending keys puts them in use.
    pub(super) fn unseal(&mut self, (epoch, number, sealed): (u32, u64, &Bytes)) -> Option<Bytes> {
        let is_newest = self.pending.newest.is_of(epoch);
        if is_newest || self.pending.doubtful.is_of(epoch) {
            let pending = match is_newest {
                true => &mut self.pending.newest,
                false => &mut self.pending.doubtful,
            };
            let plain = pending.epoch.as_mut()?.open(number, sealed)?;
            // The packet proves that the neighbour has the new keys. Those before still open packets that were sent earlier.
            self.previous = self.current.take();
            self.current = pending.epoch.take();
            self.hello = None;
            if !is_newest {
                // The neighbour's clock was set back: this stamp, although older, is the one that later HELLOs are compared with.
                self.pending.newest = std::mem::take(&mut self.pending.doubtful);
            }
            return Some(plain);
        }

        let known = [self.current.as_mut(), self.previous.as_mut()];
        let known = known.into_iter().flatten().find(|known| known.own == epoch);
        known?.open(number, sealed)
    }

    /// The HELLO that is due, a fresh one where the last is too old.
    pub(super) fn poll_hello(
        &mut self,
        own: OwnKey<'_>,
        draw: &mut dyn FnMut() -> u64,
        now: Instant,
    ) -> Option<Bytes> {
        // The same HELLO is repeated for a while: its answer costs the neighbour nothing the second time.
        let stale = self
            .hello
            .as_ref()
            .is_none_or(|hello| now > hello.begun + HELLO_AGE);
        if stale {
            let stamp = own.stamps.next(now);
            let (initiation, message) = initiate(own.key, &self.public, stamp).ok()?;
            self.hello = Some(Hello {
                own: draw() as u32,
                initiation: Some(initiation),
                message,
                begun: now,
                at: now,
            });
        }

        let hello = self.hello.as_mut().filter(|hello| hello.at <= now)?;
        hello.at = now + PROBE.mul_f64(0.8 + 0.4 * fraction(draw()));
        let packet = CustodyPacket::Hello {
            epoch: hello.own,
            cookie: self.cookie.value,
            message: hello.message.clone(),
        };
        Some(packet.encode())
    }
}

impl PendingEpoch {
    fn is_of(&self, epoch: u32) -> bool {
        self.epoch.as_ref().is_some_and(|known| known.own == epoch)
    }

    fn came_from(&self, from: SocketAddr) -> bool {
        let answered = self.answered.as_ref();
        answered.is_some_and(|answered| answered.from.contains(&from))
    }
}

impl Answered {
    fn came_from(&mut self, from: SocketAddr) {
        self.from.retain(|known| *known != from);
        if self.from.len() >= ADDRESSES {
            self.from.pop_front();
        }
        self.from.push_back(from);
    }
}

impl AcceptedHello {
    /// The keys that a HELLO asked for, which this node calls `own` and the neighbour `peer`, and the answer.
    pub fn new((own, peer): (u32, u32), hello: Bytes, handshake: Handshake, now: Instant) -> Self {
        let packet = CustodyPacket::Answer {
            epoch: peer,
            own,
            message: handshake.answer,
        };
        Self {
            hello,
            stamp: handshake.stamp,
            epoch: Epoch::new(own, peer, handshake.keys, now),
            answer: packet.encode(),
        }
    }
}

/// A number from 0 to 1.
pub(super) fn fraction(drawn: u64) -> f64 {
    (drawn >> 11) as f64 / (1_u64 << 53) as f64
}
