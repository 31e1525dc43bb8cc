//! A tunnel of datagrams, which can move from one way to another without losing any.
//!
//! The new way is opened while the old one carries on. Then both lanes stop between two datagrams, what the client sends goes
//! the new way, and what still comes back on the old one is taken for [`LINGER`].

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hermes_http::{Incoming, Outgoing, Reset};
use hermes_net::UdpSocket;
use hermes_net::wake_gated::wake_gated;
use hermes_observe::{Counters, Exchange};
use hermes_packet::{
    Asked, Bounds, Claim, Lane, Left, Limits, PacketEnd, PacketReader, Received, Session, Sink,
    Source, Stop,
};
use hermes_proto::datagram::DatagramFormat;
use hermes_proto::datagram_limit;
use hermes_rules::session::Silence;
use hermes_upstream::Active;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::held::Held;
use super::pump::END_TIME;
use super::resume::Again;
use super::stalled::{Stalled, carried};
use super::{Broken, Side, departure, paths};
use crate::arrival::End;
use crate::redecide::{Move, Opened, Order, Place};
use crate::refusal::Refusal;
use crate::routed::Routed;

/// How long answers are still taken from a way that was left: longer than any sensible path takes to answer.
#[doc(alias = "bound")]
const LINGER: Duration = Duration::from_secs(2);

/// Ways at once from which answers are still taken; with more, the next move waits.
#[doc(alias = "bound")]
const LINGERING: usize = 8;

/// Looks at a silent tunnel before it ends.
const LOOKS: u32 = 4;

/// How long the end of a tunnel that has to make room may take to be sent.
#[doc(alias = "bound")]
const PART_TIME: Duration = Duration::from_secs(1);

/// The reason of a tunnel that had to make room.
const EVICTED: &str = "evicted: others needed its room";

/// How long a way that is being left may take to send what was read; its next hop may have stopped reading.
#[doc(alias = "bound")]
const SWITCH_TIME: Duration = Duration::from_secs(1);

/// How long a way whose session is taken over may take to send what was read.
#[doc(alias = "bound")]
const LEAVE_TIME: Duration = Duration::from_millis(50);

/// Two directions that lead to one side.
pub(crate) struct Ends {
    pub(super) source: Source,
    pub(super) sink: Sink,
}

/// A way to the target.
pub(crate) struct Path {
    pub(crate) ends: Ends,
    pub(crate) active: Active,
    /// Silence after which the tunnel ends, where it has UDP on a side.
    pub(crate) silence: Silence,
    /// What lets the session go on when a way breaks.
    pub(crate) held: Held,
    /// Whether the next hop understands [`datagram_limit`].
    pub(crate) listens: bool,
}

impl Ends {
    /// Of a pair of streams.
    pub(crate) fn streams(incoming: Incoming, outgoing: Outgoing) -> Self {
        Self {
            source: Source::stream(incoming, DatagramFormat::UDP),
            sink: Sink::stream(outgoing, DatagramFormat::UDP),
        }
    }

    /// Of an end that this node has itself.
    pub(crate) fn end(end: PacketEnd) -> Self {
        Self {
            source: Source::end(&end),
            sink: Sink::End(end),
        }
    }

    /// Of a UDP socket that was taken over, with what came to it meanwhile.
    pub(crate) fn resumed(socket: Arc<UdpSocket>, received: Received) -> Self {
        let sink = Sink::End(PacketEnd::Socket(socket.clone(), received.bounds()));
        Self {
            source: Source::End(PacketReader::Socket(socket, received)),
            sink,
        }
    }

    /// Ends our direction and waits for the end of the other: a stream that is dropped half open looks broken to its peer. RFC
    /// 9298, 3: a stream ends where the socket does. A peer that does not read is not waited for.
    pub(super) async fn farewell(&mut self) {
        let _ = tokio::time::timeout(END_TIME, async {
            if self.sink.finish().await.is_ok() {
                self.source.drain().await;
            }
        })
        .await;
    }
}

impl Ends {
    /// The client of a `udp` listener, if it leads to one.
    fn session(&self) -> Option<Arc<Session>> {
        match &self.sink {
            Sink::End(PacketEnd::Session(session)) => Some(session.clone()),
            _ => None,
        }
    }

    /// Ends our direction, and waits for nothing: others need the room.
    async fn part(&mut self) {
        let _ = tokio::time::timeout(PART_TIME, self.sink.finish()).await;
    }
}

/// Resolves when a tunnel of datagrams was silent for as long as what it is may be, looked at four times in that span.
async fn silent(counters: &Counters, silence: &Silence) {
    let mut last = counters.moved();
    let mut looks = 0;
    while looks < LOOKS {
        tokio::time::sleep(silence.after(counters.traffic()) / LOOKS).await;
        let now = counters.moved();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
}

impl From<End> for Ends {
    fn from(end: End) -> Self {
        match end {
            End::Stream(incoming, outgoing) => Self::streams(incoming, outgoing),
            End::Udp(udp) => Self::end(udp),
        }
    }
}

/// Carries a tunnel to its end; returns the reason of that.
pub(crate) async fn carry(routed: &Routed, ends: Box<(End, Path, Place)>) -> String {
    let (mut tunnel, mut place) = Tunnel::new(routed, *ends);
    let ended = loop {
        let round = tunnel.round(&mut place).await;
        tunnel.exchange.moved(matches!(round, Round::Move(_)));
        match round {
            Round::Over(Err(broken)) if broken.is_of_the_way() => match broken.side {
                Side::Client => return Box::pin(tunnel.wait(broken, &mut place)).await,
                Side::Target => match Box::pin(tunnel.open_again(broken, &mut place)).await {
                    Ok(()) => {}
                    Err(broken) => break Err(broken),
                },
            },
            Round::Over(ended) => break ended,
            Round::Claimed(claim) => return tunnel.hand_over(claim),
            Round::Move(new) => {
                let (path, opened) = *new;
                Box::pin(tunnel.switch(path)).await;
                place.moved(opened);
            }
        }
    };
    Box::pin(tunnel.end(ended)).await
}

/// A tunnel that is carried.
pub(super) struct Tunnel {
    pub(super) exchange: Arc<Exchange>,
    pub(super) client: Ends,
    pub(super) path: Path,
    /// Bounds on datagrams that wait.
    hold: Bounds,
    /// Ways that were left and may still answer.
    left: JoinSet<()>,
    limits: Limits,
    /// Cancelled when the tunnel ends.
    over: CancellationToken,
    pub(super) again: Again,
    /// Whether the client asked for a session, and can open it again.
    asked: bool,
}

/// Why a round of carrying was over.
enum Round {
    Over(Result<&'static str, Broken>),
    Move(Box<(Path, Opened)>),
    Claimed(Claim),
}

/// What comes rarely while datagrams go to and fro.
enum Rare {
    /// Both lanes were left, or one of them broke.
    Left(Result<Left, Broken>),
    Silent,
    Evicted,
    Claimed(Claim),
    Ordered(Order),
    /// The capsule has ended that kept the tunnel from moving.
    Between,
    Opened(Box<Result<(Path, Opened), Refusal>>),
}

type Opening = Pin<Box<dyn Future<Output = Result<(Path, Opened), Refusal>> + Send>>;

/// A move to another way, from the order to the first packet there.
#[derive(Default)]
struct Moving {
    /// The way that is being opened.
    opening: Option<Opening>,
    stalled: Stalled,
}

impl Moving {
    fn begin(&mut self, exchange: &Exchange, place: &Place, moved: Arc<Move>) {
        self.stalled.waits = false;
        exchange.moves();
        self.opening = Some(open(place, moved));
    }

    /// Carries until something comes that has to be done.
    async fn meanwhile(
        &mut self,
        lanes: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
        (stop, sink): (&Stop, &Sink),
        silent: (Pin<&mut impl Future<Output = ()>>, bool),
        exchange: &Exchange,
        held: &mut Held,
        place: &mut Place,
    ) -> Rare {
        let Self { opening, stalled } = self;
        let is_between = || stalled.waits && stop.client_is_between() && sink.is_between();
        let beside = pin!(beside(silent, exchange, held, place, opening));
        tokio::select! {
            left = carried(lanes, is_between) => left.map_or(Rare::Between, Rare::Left),
            came = wake_gated(beside) => came,
        }
    }

    /// Leaves the old way once the new one is open. `None`: the tunnel goes on as it was, because that could not be opened or the old one
    /// not be left.
    async fn opened(
        &mut self,
        exchange: &Exchange,
        place: &mut Place,
        lanes: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
        ends: (&Stop, &Sink),
        opened: Result<(Path, Opened), Refusal>,
    ) -> Option<Round> {
        self.opening = None;
        let stays = match opened {
            Ok(new) => match leave(lanes, ends, Box::new(new)).await {
                Ok(round) => return Some(round),
                Err(new) => self.stalled.stay(exchange, place, *new),
            },
            Err(refusal) => {
                tracing::warn!(exchange = %exchange.id(), reason = refusal.reason(), "not moved; it goes on as it was");
                Ok(())
            }
        };

        exchange.moved(false);
        stays.err().map(|broken| Round::Over(Err(broken)))
    }
}

impl Tunnel {
    fn new(routed: &Routed, (client, path, place): (End, Path, Place)) -> (Self, Place) {
        let mut client = Ends::from(client);
        let head = place.standing().head();
        let hold = routed.listener.hold(routed.route.config.datagrams.as_ref());
        client.source.set_bounds(hold);
        let mut limits = Limits::new(departure::floor(routed, &head));
        limits.lead(
            Side::Client,
            &client.sink,
            datagram_limit::is_understood(&head.fields),
        );
        let exchange = routed.exchange.clone();
        let asked = routed.asked.is_some();
        let left = JoinSet::new();
        let over = CancellationToken::new();
        let again = Again::default();
        (
            Self {
                exchange,
                client,
                path,
                hold,
                left,
                limits,
                over,
                again,
                asked,
            },
            place,
        )
    }

    /// Carries until the end, or until another way is open and nothing is in between.
    async fn round(&mut self, place: &mut Place) -> Round {
        let stop = Stop::default();
        let alone = self.left.is_empty();
        let udp = self.has_udp();
        self.limits
            .lead(Side::Target, &self.path.ends.sink, self.path.listens);
        self.path.ends.source.set_bounds(self.hold);
        let silence = self.silence();

        let Self {
            exchange,
            client,
            path: Path { ends, held, .. },
            limits,
            ..
        } = self;
        let session = client.session();
        let sink = client.sink.clone();
        let mut lanes = pin!(lanes(exchange, (client, ends), &stop, alone, limits));
        let mut silent = pin!(silent(exchange.counters(), &silence));
        let mut moving = Moving::default();
        let ends = (&stop, &sink);
        loop {
            let silent_now = (silent.as_mut(), udp);
            let came = moving
                .meanwhile(lanes.as_mut(), ends, silent_now, exchange, held, place)
                .await;
            match came {
                Rare::Left(left) => return Round::Over(left.map(|_| "done")),
                // What came just now begins no other session, but goes on with this one.
                Rare::Silent if session.as_ref().is_none_or(|session| session.retire()) => {
                    return Round::Over(Ok("idle"));
                }
                Rare::Silent => silent.set(self::silent(exchange.counters(), &silence)),
                Rare::Evicted => return Round::Over(Ok(EVICTED)),
                Rare::Claimed(claim) => {
                    rest(lanes.as_mut(), &stop).await;
                    return Round::Claimed(claim);
                }
                Rare::Ordered(Order::End(reason)) => {
                    return Round::Over(Err(Broken::policy(&reason)));
                }
                Rare::Ordered(Order::Move(moved)) => moving.begin(exchange, place, moved),
                // The rules may have changed meanwhile.
                Rare::Between => {
                    moving.stalled.waits = false;
                    place.redecide();
                }
                Rare::Opened(opened) => {
                    let round = moving
                        .opened(exchange, place, lanes.as_mut(), ends, *opened)
                        .await;
                    if let Some(round) = round {
                        return round;
                    }
                }
            }
        }
    }

    /// How long it may be silent. Only the node that has the client itself knows that it is done when it has its answer: a client that asks
    /// by CONNECT-UDP says so by ending its stream (RFC 9298, 3.1), and all nodes behind it let go with that.
    fn silence(&self) -> Silence {
        match self.client.session() {
            Some(_) => self.path.silence,
            None => Silence::of_any(self.path.silence.conversation),
        }
    }

    /// Leaves the way for a new one.
    async fn switch(&mut self, new: Path) {
        while self.left.try_join_next().is_some() {}
        if self.left.len() >= LINGERING {
            self.left.join_next().await;
        }
        let mut old = std::mem::replace(&mut self.path, new);
        // It leads to another socket now.
        old.held = Held::Nothing;
        // It did not stop in time. What would still come begins within a capsule, and so would what follows there.
        if !old.ends.source.is_between() || !old.ends.sink.is_between() {
            old.ends.sink.reset(Reset::Cancel);
            return;
        }
        let client = self.client.sink.clone();
        let exchange = self.exchange.clone();
        self.left.spawn(linger(
            old,
            client,
            exchange,
            (self.limits.floor(), self.over.clone()),
        ));
    }

    /// Whether UDP is on a side. Streams alone have no time-out, and end in each direction for itself.
    fn has_udp(&self) -> bool {
        self.client.source.is_end() || self.path.ends.source.is_end()
    }

    pub(super) async fn end(mut self, ended: Result<&'static str, Broken>) -> String {
        let udp = self.has_udp();
        // What the client sends from now on begins another session.
        if let Some(session) = self.client.session() {
            // So does what it asked just now, which met the end of a tunnel that had to make room.
            let made_room = matches!(ended, Ok("done" | EVICTED));
            if made_room && self.exchange.counters().traffic().asks_anew() {
                self.client.source.keep();
            }
            session.leave();
        }
        self.client.sink.settle(&self.exchange);
        // Ways that were left end in an orderly way, too: one that is dropped looks broken.
        self.over.cancel();
        let client = &mut self.client;
        let path = &mut self.path.ends;
        let reason = match ended {
            Ok(EVICTED) => {
                tokio::join!(client.part(), path.part());
                EVICTED.to_owned()
            }
            Ok(reason) if udp => {
                tokio::join!(client.farewell(), path.farewell());
                reason.to_owned()
            }
            Ok(reason) => reason.to_owned(),
            Err(broken) => {
                client.sink.reset(broken.reset);
                // A session that no one will take over is not to wait for that.
                let goes_on = self.asked && broken.side == Side::Client && broken.is_of_the_way();
                match self.path.held {
                    Held::Beyond(_) if !goes_on => path.farewell().await,
                    _ => path.sink.reset(broken.reset),
                }
                broken.reason()
            }
        };
        while self.left.join_next().await.is_some() {}
        reason
    }
}

/// What comes beside the lanes.
async fn beside(
    (silent, udp): (Pin<&mut impl Future<Output = ()>>, bool),
    exchange: &Exchange,
    held: &mut Held,
    place: &mut Place,
    opening: &mut Option<Opening>,
) -> Rare {
    tokio::select! {
        () = silent, if udp => Rare::Silent,
        () = exchange.evicted() => Rare::Evicted,
        claim = held.claimed() => Rare::Claimed(claim),
        order = place.order() => Rare::Ordered(order),
        opened = finished(opening) => Rare::Opened(Box::new(opened)),
    }
}

fn open(place: &Place, moved: Arc<Move>) -> Opening {
    let routed = place
        .standing()
        .routed(moved.snapshot.clone(), moved.route.clone());
    Box::pin(async move { paths::open(&routed, &moved.head, Asked::New).await })
}

async fn finished(opening: &mut Option<Opening>) -> Result<(Path, Opened), Refusal> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

/// Stops the lanes, so that the tunnel can go on by a way that is open; gives that back if a capsule does not end.
async fn leave(
    lanes: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
    (stop, sink): (&Stop, &Sink),
    new: Box<(Path, Opened)>,
) -> Result<Round, Box<(Path, Opened)>> {
    stop.set();
    let left = tokio::time::timeout(SWITCH_TIME, lanes).await;
    // What is within a capsule cannot go on elsewhere, and nothing else can follow it.
    if left.is_ok() || (stop.client_is_between() && sink.is_between()) {
        return Ok(stopped(left, new));
    }
    stop.take_back();
    Err(new)
}

/// Stops the lanes for another node, which takes the session over. What was read is sent, as far as that goes: the way may lead nowhere.
async fn rest(lanes: Pin<&mut impl Future<Output = Result<Left, Broken>>>, stop: &Stop) {
    stop.set();
    let _ = tokio::time::timeout(LEAVE_TIME, lanes).await;
}

/// What follows once the lanes were told to stop.
fn stopped(
    lanes: Result<Result<Left, Broken>, tokio::time::error::Elapsed>,
    new: Box<(Path, Opened)>,
) -> Round {
    match lanes {
        Ok(Ok(Left::Ended)) => Round::Over(Ok("done")),
        Ok(Err(broken)) if broken.side == Side::Client => Round::Over(Err(broken)),
        Ok(Ok(Left::Stopped) | Err(_)) => Round::Move(new),
        Err(_) => Round::Over(Err(Broken::idle(Side::Target))),
    }
}

/// Both directions. Where UDP is on a side, the end of one is the end of both.
async fn lanes(
    exchange: &Exchange,
    (client, path): (&mut Ends, &mut Ends),
    stop: &Stop,
    alone: bool,
    limits: &Limits,
) -> Result<Left, Broken> {
    let streams = !client.source.is_end() && !path.source.is_end();
    let up = Lane {
        exchange,
        from: Side::Client,
        stop,
        alone: true,
        limits,
    };
    let down = Lane {
        exchange,
        from: Side::Target,
        stop,
        alone,
        limits,
    };
    let up = direction(up, &mut client.source, &path.sink, streams);
    let down = direction(down, &mut path.source, &client.sink, streams);
    let mut up = pin!(up);
    let mut down = pin!(down);
    let (first, second) = tokio::select! {
        left = &mut up => match left? {
            Left::Ended if !streams => return Ok(Left::Ended),
            left => (left, down.await?),
        },
        left = &mut down => match left? {
            Left::Ended if !streams => return Ok(Left::Ended),
            left => (left, up.await?),
        },
    };
    Ok(if [first, second].contains(&Left::Ended) {
        Left::Ended
    } else {
        Left::Stopped
    })
}

/// One direction; its end goes on where both sides are streams. It has stopped once the other one has, too.
async fn direction(
    lane: Lane<'_>,
    source: &mut Source,
    sink: &Sink,
    passes_end: bool,
) -> Result<Left, Broken> {
    loop {
        let left = lane.run(source, sink).await?;
        if left == Left::Ended {
            if passes_end {
                sink.finish()
                    .await
                    .map_err(|error| Broken::write(lane.from.other(), &error))?;
            }
            lane.stop.ended();
            return Ok(left);
        }
        if lane.stop.rest().await {
            return Ok(left);
        }
    }
}

/// Takes what still comes on a way that was left, then ends it.
async fn linger(
    mut old: Path,
    client: Sink,
    exchange: Arc<Exchange>,
    (floor, over): (usize, CancellationToken),
) {
    let stop = Stop::default();
    // What it says of its limits is of no use any more.
    let limits = Limits::new(floor);
    let lane = Lane {
        exchange: &exchange,
        from: Side::Target,
        stop: &stop,
        alone: false,
        limits: &limits,
    };
    {
        let mut answers = pin!(lane.run(&mut old.ends.source, &client));
        tokio::select! {
            _ = &mut answers => {}
            () = over.cancelled() => {}
            () = tokio::time::sleep(LINGER) => {
                stop.set();
                let _ = tokio::time::timeout(SWITCH_TIME, answers).await;
            }
        }
    }
    old.ends.farewell().await;
    drop(old.active);
}
