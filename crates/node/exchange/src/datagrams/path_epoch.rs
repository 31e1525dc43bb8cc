//! The time of a tunnel of datagrams on one path, until that ends or is left for another.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::reevaluate::{Move, Opened, Order, TunnelGuard};
use hermes_http::{Kind, Reset};
use hermes_net::wake_gated::wake_gated;
use hermes_observe::{Counters, Exchange};
use hermes_packet::{Asked, Claim, Left, Session, Sink, Stop};
use hermes_packet::{Broken, Side};
use hermes_plug::refusal::Refusal;
use hermes_rules::reevaluate::Reason;
use hermes_rules::route::Act;
use hermes_rules::session::Silence;

use super::stalled::{Stalled, carried};
use crate::datagrams::draining_paths::SWITCH_TIME;
use crate::reach::datagram_path::Path;
use crate::reach::opening;
use crate::reach::session_token::Resumption;

/// How often a silent tunnel is looked at before it ends.
const LOOKS: u32 = 4;

/// The reason given for a tunnel that had to make room.
pub(crate) const EVICTED: &str = "evicted: others needed its room";

/// How long a path whose session is taken over may take to send datagrams that were read.
#[doc(alias = "bound")]
const LEAVE_TIME: Duration = Duration::from_millis(50);

/// How an epoch ended.
pub(crate) enum EpochEnd {
    Over(Result<&'static str, Broken>),
    Move(Box<(Path, Opened)>),
    Claimed(Claim),
}

/// An epoch, beside its directions.
pub(crate) struct PathEpoch<'a> {
    pub(crate) exchange: &'a Exchange,
    /// The client of a `udp` listener, if it is one.
    pub(crate) session: Option<Arc<Session>>,
    /// Whether UDP is on a side, so that silence ends the tunnel.
    pub(crate) has_udp: bool,
    pub(crate) silence: &'a Silence,
    /// Stops the directions.
    pub(crate) stop: &'a Stop,
    /// Leads to the client.
    pub(crate) client: &'a Sink,
    pub(crate) resumption: &'a mut Resumption,
    pub(crate) guard: &'a mut TunnelGuard,
    pub(crate) moving: Moving,
}

/// A rare event while datagrams go to and fro.
enum EpochEvent {
    /// Both directions have stopped or ended, or one of them broke.
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

/// A move to another path, from the order to the first packet there.
#[derive(Default)]
pub(crate) struct Moving {
    /// The path that is being opened.
    opening: Option<Opening>,
    stalled: Stalled,
}

impl PathEpoch<'_> {
    /// Carries until the end, or until another path is open and nothing is in between.
    pub async fn run(
        &mut self,
        mut directions: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
    ) -> EpochEnd {
        let counters = self.exchange.counters();
        let silence = self.silence;
        let mut silent = pin!(silent(counters, silence));

        loop {
            let event = self.carry(directions.as_mut(), silent.as_mut()).await;
            if matches!(event, EpochEvent::Silent) && !self.is_done() {
                silent.set(self::silent(counters, silence));
                continue;
            }

            if let Some(end) = self.act(event, directions.as_mut()).await {
                return end;
            }
        }
    }

    /// Carries until something comes that has to be done.
    async fn carry(
        &mut self,
        directions: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
        silent: Pin<&mut impl Future<Output = ()>>,
    ) -> EpochEvent {
        let Moving { opening, stalled } = &mut self.moving;
        let stop = self.stop;
        let client = self.client;
        let is_between = || stalled.waits && stop.client_is_between() && client.is_between();

        let beside = pin!(async {
            tokio::select! {
                () = silent, if self.has_udp => EpochEvent::Silent,
                () = self.exchange.evicted() => EpochEvent::Evicted,
                claim = self.resumption.claimed() => EpochEvent::Claimed(claim),
                order = self.guard.order() => EpochEvent::Ordered(order),
                opened = finished(opening) => EpochEvent::Opened(Box::new(opened)),
            }
        });

        tokio::select! {
            left = carried(directions, is_between) => left.map_or(EpochEvent::Between, EpochEvent::Left),
            // Datagrams wake this task all the time; the rare futures are polled only when they were woken themselves.
            event = wake_gated(beside) => event,
        }
    }

    /// Whether a silent tunnel is done. It is not if its client has sent something just now: that belongs to this session, and begins
    /// no other.
    fn is_done(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.retire())
    }

    /// Acts on an event. `None`: the epoch goes on. Futures are boxed: they are rare, and each tunnel would have room for them.
    async fn act(
        &mut self,
        event: EpochEvent,
        directions: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
    ) -> Option<EpochEnd> {
        match event {
            EpochEvent::Left(left) => Some(EpochEnd::Over(left.map(|_| "done"))),
            EpochEvent::Silent => Some(EpochEnd::Over(Ok("idle"))),
            EpochEvent::Evicted => Some(EpochEnd::Over(Ok(EVICTED))),
            EpochEvent::Claimed(claim) => {
                Box::pin(rest(directions, self.stop)).await;
                Some(EpochEnd::Claimed(claim))
            }
            EpochEvent::Ordered(Order::End(reason)) => {
                Some(EpochEnd::Over(Err(Broken::policy(&reason))))
            }
            EpochEvent::Ordered(Order::Move(moved)) if !self.can_follow(&moved) => {
                let reason = Reason::OtherAction(moved.route.name.to_string());
                Some(EpochEnd::Over(Err(Broken::policy(&reason))))
            }
            EpochEvent::Ordered(Order::Move(moved)) => {
                self.begin_move(moved);
                None
            }
            EpochEvent::Between => {
                // The rules may have changed meanwhile.
                self.moving.stalled.waits = false;
                self.guard.reevaluate();
                None
            }
            EpochEvent::Opened(opened) => Box::pin(self.opened(directions, *opened)).await,
        }
    }

    /// Whether the tunnel can go where it is sent: one of IP packets goes on to proxies alone, and its client asks again for one that
    /// ends here.
    fn can_follow(&self, moved: &Move) -> bool {
        let is_ip = self.guard.state().head().kind() == Kind::ConnectIp;
        !is_ip || matches!(moved.route.act, Act::Proxy(_))
    }

    fn begin_move(&mut self, moved: Arc<Move>) {
        self.moving.stalled.waits = false;
        self.exchange.moves();
        self.moving.opening = Some(open(self.guard, moved, self.asked()));
    }

    /// The session that is asked for on another path. The addresses of CONNECT-IP are those of its session, which another path may lead to
    /// as well; UDP gets a new one, so that its old path can still answer.
    fn asked(&self) -> Asked {
        match &*self.resumption {
            Resumption::Beyond(token) if self.guard.state().head().kind() == Kind::ConnectIp => {
                Asked::Again(*token)
            }
            _ => Asked::New,
        }
    }

    /// Leaves the old path once the new one is open. `None`: the tunnel goes on as it was, because the new one could not be
    /// opened, or the old one could not be left.
    async fn opened(
        &mut self,
        directions: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
        opened: Result<(Path, Opened), Refusal>,
    ) -> Option<EpochEnd> {
        self.moving.opening = None;
        let stays = match opened {
            Ok(new) => match leave(directions, self.stop, self.client, Box::new(new)).await {
                Ok(end) => return Some(end),
                Err(new) => {
                    let (path, opened) = *new;
                    let stalled = &mut self.moving.stalled;
                    stalled.stay(self.exchange, self.guard, path, opened)
                }
            },
            Err(refusal) => {
                let exchange = self.exchange.id();
                let reason = refusal.reason();
                tracing::warn!(%exchange, reason, "not moved; it stays on its path");
                Ok(())
            }
        };

        self.exchange.moved(false);
        stays.err().map(|broken| EpochEnd::Over(Err(broken)))
    }
}

/// Resolves when a tunnel of datagrams was silent for as long as one of its kind may be, looked at four times in that span.
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

fn open(guard: &TunnelGuard, moved: Arc<Move>, asked: Asked) -> Opening {
    let routed = guard
        .state()
        .routed(moved.snapshot.clone(), moved.route.clone());
    Box::pin(async move { opening::open(&routed, &moved.head, asked).await })
}

async fn finished(opening: &mut Option<Opening>) -> Result<(Path, Opened), Refusal> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

/// Stops the directions, so that the tunnel can go on by a path that is open; gives that back if a capsule does not end.
async fn leave(
    directions: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
    stop: &Stop,
    client: &Sink,
    new: Box<(Path, Opened)>,
) -> Result<EpochEnd, Box<(Path, Opened)>> {
    stop.set();
    let left = tokio::time::timeout(SWITCH_TIME, directions).await;

    // Half a capsule cannot go on elsewhere, and nothing else can follow it.
    if left.is_ok() || (stop.client_is_between() && client.is_between()) {
        return Ok(stopped(left, new));
    }
    stop.take_back();
    Err(new)
}

/// Stops the directions because another tunnel takes the session over. Datagrams that were read are sent as far as
/// possible: the path may lead nowhere.
async fn rest(directions: Pin<&mut impl Future<Output = Result<Left, Broken>>>, stop: &Stop) {
    stop.set();
    let _ = tokio::time::timeout(LEAVE_TIME, directions).await;
}

/// The end of an epoch whose directions were told to stop.
fn stopped(
    directions: Result<Result<Left, Broken>, tokio::time::error::Elapsed>,
    new: Box<(Path, Opened)>,
) -> EpochEnd {
    let over = match directions {
        Ok(Ok(Left::Ended)) => Ok("done"),
        Ok(Err(broken)) if broken.side == Side::Client => Err(broken),
        Ok(Ok(Left::Stopped) | Err(_)) => return EpochEnd::Move(new),
        Err(_) => Err(Broken::idle(Side::Target)),
    };

    // It must not look like a broken path: the proxy that ends the tunnel would wait for it to be opened again.
    new.0.ends.sink.reset(Reset::Unneeded);
    EpochEnd::Over(over)
}
