//! The destinations of an association, each of which has a tunnel.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hermes_net::StreamInfo;
use hermes_packet::{Bounds, PacketEnd, Session, SessionKey, SessionTarget, Sessions};
use hermes_plug::Gate;
use hermes_plug::arrival::PacketArrival;
use hermes_plug::opening_head::connect_udp;
use hermes_proto::socks::SocksTarget;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Destinations of one association at once, each a tunnel.
#[doc(alias = "bound")]
const DESTINATIONS: usize = 64;

/// Datagrams to one destination that wait until its tunnel is open.
#[doc(alias = "bound")]
pub(super) const WAITING: Bounds = Bounds {
    bytes: 64 * 1024,
    age: Duration::from_secs(5),
};

/// How long datagrams to a destination that was refused are dropped: it bounds the tunnels that a client makes us open in vain.
#[doc(alias = "bound")]
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// Silence of the client, and of all its tunnels, after which the association ends.
#[doc(alias = "bound")]
pub(super) const SILENCE: Duration = Duration::from_secs(300);

/// Those of one client.
pub(super) struct Destinations {
    gate: Gate,
    sessions: Sessions,
    /// Ended with the association.
    tunnels: JoinSet<()>,
    /// When the client was heard last.
    heard: Instant,
    /// When to see whether it is silent.
    look: Instant,
}

impl Destinations {
    pub(super) fn new(gate: &Gate) -> Self {
        let now = Instant::now();
        Self {
            gate: gate.clone(),
            sessions: Sessions::default(),
            tunnels: JoinSet::new(),
            heard: now,
            look: now + SILENCE,
        }
    }

    /// Takes a datagram of the client; the first one to a destination begins its tunnel, with the session of `begin`.
    pub(super) fn push(
        &mut self,
        key: SessionKey,
        payload: &[u8],
        begin: impl FnOnce() -> Beginning,
    ) {
        self.heard = Instant::now();
        let known = self.sessions.find(&key);
        if let Some(session) = known.or_else(|| self.begin(key, begin)) {
            session.push(std::iter::once(payload), self.heard);
        }
    }

    /// Begins the tunnel to another destination.
    fn begin(
        &mut self,
        key: SessionKey,
        begin: impl FnOnce() -> Beginning,
    ) -> Option<Arc<Session>> {
        let head = key.target.host_port().as_ref().and_then(connect_udp)?;
        self.sessions.make_room(DESTINATIONS).ok()?;
        let Beginning { session, source } = begin();
        let session = Arc::new(session);
        self.sessions.enter(key.clone(), session.clone());

        let arrival = PacketArrival {
            head,
            source,
            end: PacketEnd::Session(session.clone()),
        };
        let tunnel = Tunnel {
            gate: self.gate.clone(),
            sessions: self.sessions.clone(),
            session: session.clone(),
            key,
        };
        self.tunnels.spawn(tunnel.carry(arrival));
        Some(session)
    }

    /// Forgets tunnels that have ended, until nothing has passed for long.
    pub(super) async fn silence(&mut self) {
        loop {
            tokio::select! {
                Some(_) = self.tunnels.join_next(), if !self.tunnels.is_empty() => {}
                () = tokio::time::sleep_until(self.look) => {
                    let silent_since = self.heard + SILENCE;
                    if silent_since <= Instant::now() && self.sessions.is_empty() {
                        return;
                    }
                    self.look = silent_since.max(Instant::now() + SILENCE / 4);
                }
            }
        }
    }
}

/// A session that begins, and the source of its exchange.
pub(super) struct Beginning {
    pub(super) session: Session,
    pub(super) source: Arc<StreamInfo>,
}

/// The tunnel to one destination.
struct Tunnel {
    gate: Gate,
    sessions: Sessions,
    session: Arc<Session>,
    key: SessionKey,
}

impl Tunnel {
    async fn carry(self, arrival: PacketArrival) {
        self.gate.hand_in(arrival).await;
        if self.session.is_refused() {
            // Each of its datagrams would be refused again; the table may need the room before that.
            tokio::select! {
                () = tokio::time::sleep(REFUSED_FOR) => {}
                () = self.session.evicted() => {}
            }
        }
        self.sessions.leave(&self.key, &self.session);
    }
}

/// The target of a datagram; `None` where it has no port.
pub(super) fn session_target(target: SocksTarget) -> Option<SessionTarget> {
    let SocksTarget { host, port } = target;
    if port == 0 {
        return None;
    }
    Some(match host.parse::<IpAddr>() {
        Ok(address) => SessionTarget::Address(SocketAddr::from((address, port))),
        Err(_) => SessionTarget::Name(host.into(), port),
    })
}
