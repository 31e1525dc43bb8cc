//! `udp` listeners: the datagrams of one client address for one target become a CONNECT-UDP session.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::entrance::Entrance;
use hermes_admit::snapshot::{ListenerRules, SessionBound};
use hermes_exchange as pipeline;
use hermes_net::memory::{Memory, Owner};
use hermes_net::shared_socket::{
    DatagramSocket, Forwarded, NextDatagrams, OtherProcesses, ReceivedRun,
};
use hermes_net::wake_gated::wake_gated;
use hermes_net::{ErrorSockets, PeerAddress, RecvBatch, StreamInfo, UdpError, UdpSocket, Watch};
use hermes_observe::DropReason;
use hermes_packet::{
    CapturedFlow, Hold, NoRoom, PacketEnd, Queue, Session, SessionKey, SessionTarget, Sessions,
};
use hermes_plug::arrival::{Arrival, PacketArrival};
use hermes_plug::opening_head::connect_udp;
use tokio::time::Instant;

use super::answering_sockets::AnsweringSockets;

/// How long a client whose tunnel was refused is ignored: it bounds the tunnels that it can make us
/// ask for.
#[doc(alias = "bound")]
const DEAF_AFTER_REFUSAL: Duration = Duration::from_secs(1);

/// Pause after an error of the socket itself, such as a lack of memory.
const AFTER_ERROR: Duration = Duration::from_millis(50);

/// Silence after which a session of a draining listener is over: UDP has no farewell.
#[doc(alias = "bound")]
const DRAIN_QUIET: Duration = Duration::from_secs(2);

/// How often a listener that drains looks whether its sessions have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(100);

/// Takes datagrams until told to stop; then those that have arrived already, and those of sessions that are open.
pub(super) async fn serve(
    mut entrance: Entrance,
    socket: DatagramSocket,
    watch: &Watch,
) -> io::Result<()> {
    let others = OtherProcesses::new(socket.rendezvous)?;
    let socket = Arc::new(UdpSocket::bound(socket.socket)?);
    let own = socket.local_addr().ok();
    let owner = Owner::Listener(entrance.rules.name.as_ref().into());
    let share = Share {
        sessions: Sessions::default(),
        hold: Hold::new(Memory::node().owner(owner)),
        answers: AnswerWay::By(socket.clone()),
        own,
        watch: watch.clone(),
    };

    let mut intake = Intake {
        socket,
        others,
        batch: RecvBatch::new(),
        room: Vec::new(),
        is_closing: false,
        welcome: true,
    };
    while let Some(next) = intake.next(&share.sessions, watch).await {
        let received = match next {
            NextDatagrams::Received(received) => received,
            NextDatagrams::Forwarded(arrived) => {
                if let Some(forwarded) = arrived.decode(&intake.room) {
                    let others = &mut intake.others;
                    share.deliver(&mut entrance, others, &forwarded, intake.welcome);
                }
                continue;
            }
        };

        if let Err(error) = received {
            after(&error, &entrance.rules.name).await;
            continue;
        }
        entrance.renew();
        share.take_batch(&entrance, &mut intake);

        // The tunnels take these datagrams before more are received: the kernel's buffer is the larger one.
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Waits as long as an error of the socket asks for.
async fn after(error: &UdpError, listener: &str) {
    match error {
        // An answer that did not reach its client; the socket goes on.
        UdpError::Refused | UdpError::Unreachable | UdpError::TooLarge | UdpError::Dropped => {}
        UdpError::Io(error) => {
            tracing::warn!(listener, %error, "cannot receive; trying again");
            tokio::time::sleep(AFTER_ERROR).await;
        }
    }
}

/// The receiving side of the socket, until it is drained.
struct Intake {
    socket: Arc<UdpSocket>,
    others: OtherProcesses<SocketAddr>,
    /// Datagrams that the socket received.
    batch: RecvBatch,
    /// Datagrams that other processes forward.
    room: Vec<u8>,
    is_closing: bool,
    /// Whether clients without a session may still begin one.
    welcome: bool,
}

impl Intake {
    /// Waits for datagrams, in `batch` or in `room`; `None` once the socket is drained.
    async fn next(
        &mut self,
        sessions: &Sessions,
        watch: &Watch,
    ) -> Option<NextDatagrams<Result<usize, UdpError>>> {
        loop {
            tokio::select! {
                biased;
                () = watch.forced() => return None,
                next = self.others.next_or(&mut self.room, self.socket.recv(&mut self.batch)) => {
                    return Some(next);
                }
                () = watch.graceful(), if !self.is_closing => {
                    self.is_closing = true;
                    self.others.drain();
                    // Lets the run time hear of datagrams that have come.
                    tokio::task::yield_now().await;
                }
                // Clients that come later belong to the next listener. Only when nothing is left to
                // receive: the order of these branches matters.
                () = std::future::ready(()), if self.is_closing && self.welcome => {
                    self.welcome = false;
                }
                () = drained(sessions), if !self.welcome => return None,
            }
        }
    }
}

/// Resolves when no session is left: those that are open may go on.
pub(super) async fn drained(sessions: &Sessions) {
    while !sessions.is_empty() {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

/// One worker's share of a listener.
#[derive(Clone)]
pub(super) struct Share {
    pub(super) sessions: Sessions,
    /// Their datagrams that wait.
    pub(super) hold: Arc<Hold>,
    pub(super) answers: AnswerWay,
    /// Its own address.
    pub(super) own: Option<SocketAddr>,
    pub(super) watch: Watch,
}

/// The sockets that answers leave by.
#[derive(Clone)]
pub(super) enum AnswerWay {
    /// The one that datagrams come to.
    By(Arc<UdpSocket>),
    /// One of each target's address, since clients expect them from there.
    OfTargets {
        sockets: AnsweringSockets,
        /// Those by which clients are told errors.
        errors: Arc<ErrorSockets>,
    },
}

/// Whose datagrams came, and how they are taken.
#[derive(Clone)]
pub(super) struct ArrivedFlow {
    /// The client, and where its datagrams go.
    pub(super) key: SessionKey,
    /// The address of ours that the client asked.
    pub(super) local: Option<IpAddr>,
    /// Whether clients may still begin sessions here.
    pub(super) welcome: bool,
}

impl ArrivedFlow {
    /// All that comes to this socket is for the listener's target.
    fn of(run: &ReceivedRun<'_>, welcome: bool) -> Self {
        Self {
            key: key(run),
            local: run.local,
            welcome,
        }
    }
}

fn key(run: &ReceivedRun<'_>) -> SessionKey {
    SessionKey {
        client: run.source,
        target: SessionTarget::OfListener,
    }
}

impl Share {
    /// Takes received datagrams whose sessions are ours.
    fn take_batch(&self, entrance: &Entrance, intake: &mut Intake) {
        let now = Instant::now();
        for run in intake.batch.runs() {
            let run = ReceivedRun::from(&run);
            if !self.is_given_away(&mut intake.others, &run) {
                self.take(entrance, &run, now, intake.welcome);
            }
        }
    }

    /// Puts datagrams into the session of their client.
    fn take(&self, entrance: &Entrance, run: &ReceivedRun<'_>, now: Instant, welcome: bool) {
        match self.session(entrance, ArrivedFlow::of(run, welcome)) {
            Some(session) => session.push(run.datagrams(), now),
            None => entrance
                .worker
                .shared
                .telemetry
                .datagrams_dropped(DropReason::SessionLimit, run.count()),
        }
    }

    /// Whether datagrams are given to another process: this one has no session of their client.
    fn is_given_away(
        &self,
        others: &mut OtherProcesses<SocketAddr>,
        run: &ReceivedRun<'_>,
    ) -> bool {
        others.has_any() && self.sessions.find(&key(run)).is_none() && others.give(run.source, run)
    }

    /// Takes forwarded datagrams, or gives them on.
    fn deliver(
        &self,
        entrance: &mut Entrance,
        others: &mut OtherProcesses<SocketAddr>,
        forwarded: &Forwarded<'_>,
        welcome: bool,
    ) {
        let is_known = self.sessions.find(&key(&forwarded.run)).is_some();
        if is_known || !others.give_on(forwarded.run.source, forwarded) {
            entrance.renew();
            self.take(entrance, &forwarded.run, Instant::now(), welcome);
        }
    }

    /// The client's session, begun if need be; `None` when there are too many.
    pub(super) fn session(&self, entrance: &Entrance, flow: ArrivedFlow) -> Option<Arc<Session>> {
        self.sessions
            .find(&flow.key)
            .or_else(|| self.begin(entrance, flow, false))
    }

    /// Begins a session; `second` says that it goes on with the leftover of another one.
    fn begin(&self, entrance: &Entrance, flow: ArrivedFlow, second: bool) -> Option<Arc<Session>> {
        // A client that is never silent would begin one after the other and hold the node.
        if self.watch.is_forced() {
            return None;
        }

        let successor = if flow.welcome {
            None
        } else {
            Some(entrance.successor()?)
        };

        let entrance = successor.as_ref().unwrap_or(entrance);
        let rules = &entrance.rules;
        let target = flow.key.target.host_port();
        let target = target.as_ref().or(rules.config.target());
        let head = target.and_then(connect_udp)?;
        if !self.has_room(rules) {
            return None;
        }

        let peer = PeerAddress::Ip(flow.key.client);
        let sources = &entrance.worker.shared.shares.sources;
        let Some(place) = sources.enter(&rules.name, &peer, rules.per_source()) else {
            rules.source_refused(&peer);
            return None;
        };

        let session = self.session_of(&flow, rules)?;
        let session = Arc::new(if second { session.second() } else { session });
        self.sessions.enter(flow.key.clone(), session.clone());
        let source = Arc::new(StreamInfo {
            peer,
            local: self.own,
            tls: None,
            origin: None,
        });
        let arrival = Arrival::from(PacketArrival {
            head,
            source,
            end: PacketEnd::Session(session.clone()),
        });

        let entrance = entrance.clone();
        let share = self.clone();
        let begun = session.clone();
        self.watch.spawn(async move {
            share.carry(&entrance, arrival, &begun).await;
            share.sessions.leave(&flow.key, &begun);
            // Given back first: the session that goes on with the leftover needs it.
            drop(place);
            if let Some(leftover) = begun.leftover() {
                share.go_on(&entrance, flow, &leftover);
            }
        });

        Some(session)
    }

    /// A session of this flow; `None` where no socket can be had for its answers.
    fn session_of(&self, flow: &ArrivedFlow, rules: &ListenerRules) -> Option<Session> {
        let client = flow.key.client;
        let session = Session::new(
            client,
            flow.local,
            self.answering(&flow.key.target)?,
            rules.datagram_bounds(None),
            &self.hold,
        );
        match (&self.answers, &flow.key.target) {
            (AnswerWay::OfTargets { errors, .. }, SessionTarget::Address(target)) => {
                let captured = CapturedFlow::new(client, *target, errors.clone());
                Some(session.of_captured(captured))
            }
            _ => Some(session),
        }
    }

    /// The socket that answers of a target leave by; `None` when there is none to be had.
    fn answering(&self, target: &SessionTarget) -> Option<Arc<UdpSocket>> {
        match (&self.answers, target) {
            (AnswerWay::By(socket), _) => Some(socket.clone()),
            (AnswerWay::OfTargets { sockets, .. }, SessionTarget::Address(address)) => {
                sockets.of(*address)
            }
            (AnswerWay::OfTargets { .. }, _) => None,
        }
    }

    /// Makes room for one more session of the listener; false where none may be ended for it.
    fn has_room(&self, rules: &ListenerRules) -> bool {
        let bound = SessionBound {
            key: "limits.connections",
            most: rules.connections(),
        };

        match self.sessions.make_room(bound.most) {
            Ok(0) => true,
            Ok(ended) => {
                rules.sessions_evicted(ended, bound, None);
                true
            }
            Err(NoRoom) => {
                rules.sessions_refused(1, bound);
                false
            }
        }
    }

    /// Carries a session to its end.
    async fn carry(&self, entrance: &Entrance, arrival: Arrival, begun: &Session) {
        let over = pin!(async {
            tokio::select! {
                () = async {
                    self.watch.graceful().await;
                    begun.quiet(DRAIN_QUIET).await;
                } => {}
                () = self.watch.forced() => {}
                () = begun.evicted() => {}
            }
        });

        tokio::select! {
            () = pipeline::run(entrance, arrival) => {}
            () = wake_gated(over) => {}
        }

        // The session stays in the table meanwhile, so that datagrams of its client find it and begin no other.
        if begun.is_refused() {
            tokio::time::sleep(DEAF_AFTER_REFUSAL).await;
        }
    }

    /// Gives the leftover of a session to the next one of its client: those datagrams came when the tunnel was ending already.
    fn go_on(&self, entrance: &Entrance, flow: ArrivedFlow, leftover: &Queue) {
        let found = self.sessions.find(&flow.key);
        if let Some(session) = found.or_else(|| self.begin(entrance, flow, true)) {
            session.push(leftover.iter(), Instant::now());
        }
    }
}
