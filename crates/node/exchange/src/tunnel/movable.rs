//! A tunnel of bytes that can move to another path, by the seam of [`plug::Movable`](hermes_plug::Movable).
//!
//! The new path is opened while the old one carries on. Then both directions stop between two bytes, and what keeps the bytes agrees
//! with the far end where they go on. If any of that fails, the tunnel stays where it is.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hermes_admit::reevaluate::{Move, Opened, Order, TunnelGuard};
use hermes_http::{Incoming, Outgoing, Reset};
use hermes_observe::{Counters, Exchange};
use hermes_packet::{Broken, Left, Side, Stop};
use hermes_plug::refusal::Refusal;
use hermes_plug::{Movable, Mover, Position};
use hermes_proto::fields::Fields;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::carried::ByteTunnel;
use crate::pump;
use crate::pump::{Direction, Seam};
use crate::reach::opening;
use crate::reach::opening::BytePath;

/// How long both directions may take to stop; the client may have stopped reading.
#[doc(alias = "bound")]
const STOP_TIME: Duration = Duration::from_secs(1);

/// How long the two ends of a tunnel may take to agree on where it goes on: some round trips, and what is sent again.
#[doc(alias = "bound")]
const RESUME_TIME: Duration = Duration::from_secs(5);

/// How many bytes of a tunnel have passed, and what keeps those that may be sent again.
pub(crate) struct Progress {
    movable: Box<dyn Movable>,
    at: Position,
    /// Whether all that was read from the target has been written to the client, and no more is read.
    down_rests: bool,
    /// Whether the path to the target was left within a write: it leads nowhere any more.
    torn: bool,
}

impl Progress {
    /// Of a tunnel that was answered with these fields just now, if it can move; these bytes left with the request.
    pub fn new(mover: &dyn Mover, fields: &mut Fields, early: &Bytes) -> Option<Box<Self>> {
        let mut movable = mover.opened(fields)?;
        if !early.is_empty() {
            movable.keep(early);
        }

        let at = Position {
            client_to_target: early.len() as u64,
            ..Position::default()
        };

        Some(Box::new(Self {
            movable,
            at,
            down_rests: false,
            torn: false,
        }))
    }
}

/// Why a round of carrying was over.
enum ByteRound {
    Over(Result<(), Broken>),
    /// Both directions rest, and this path is open.
    Move(Box<(BytePath, Opened)>),
}

/// What comes while bytes go to and fro.
enum ByteEvent {
    Left(Result<Left, Broken>),
    Ordered(Order),
    Opened(Box<Result<(BytePath, Opened), Refusal>>),
}

type BytePathOpening = Pin<Box<dyn Future<Output = Result<(BytePath, Opened), Refusal>> + Send>>;

/// Carries a tunnel to its end, through any number of moves.
pub(crate) async fn carry(
    tunnel: &mut ByteTunnel,
    progress: Progress,
    exchange: &Exchange,
) -> Result<(), Broken> {
    let mut progress = Mutex::new(progress);
    let carried = loop {
        match round(tunnel, &progress, exchange).await {
            ByteRound::Over(carried) => break carried,
            ByteRound::Move(new) => {
                let moved = switch(tunnel, progress.get_mut(), *new, exchange).await;
                if let Err(broken) = moved {
                    break Err(broken);
                }
            }
        }
    };

    pump::close(&mut tunnel.client, &mut tunnel.target, &carried).await;
    carried
}

/// Carries until the end, or until another path is open and both directions rest.
async fn round(
    tunnel: &mut ByteTunnel,
    progress: &Mutex<Progress>,
    exchange: &Exchange,
) -> ByteRound {
    let stop = Stop::default();
    let ByteTunnel {
        client,
        target,
        guard,
        ..
    } = tunnel;

    let counters = exchange.counters();
    let mut both = pin!(directions(client, target, counters, progress, &stop));
    let mut opening: Option<BytePathOpening> = None;

    loop {
        let came = tokio::select! {
            left = both.as_mut() => ByteEvent::Left(left),
            order = guard.order() => ByteEvent::Ordered(order),
            opened = finished(&mut opening) => ByteEvent::Opened(Box::new(opened)),
        };

        match came {
            ByteEvent::Left(left) => return ByteRound::Over(left.map(drop)),
            ByteEvent::Ordered(Order::End(reason)) => {
                return ByteRound::Over(Err(Broken::policy(&reason)));
            }
            ByteEvent::Ordered(Order::Move(moved)) => {
                exchange.moves();
                let mut fields = Fields::new();
                progress.lock().movable.ask(&mut fields);
                // A later order replaces the path that is still being opened: it has the newer
                // rules.
                opening = Some(open(guard, moved, fields));
            }
            ByteEvent::Opened(opened) => {
                opening = None;
                let new = match *opened {
                    Ok(new) => new,
                    Err(refusal) => {
                        exchange.moved(false);
                        tracing::warn!(exchange = %exchange.id(), reason = refusal.reason(), "not moved; it goes on as it was");
                        continue;
                    }
                };

                // Only once the new path is open is the old one stopped: a failure costs the tunnel
                // nothing.
                match leave(both.as_mut(), &stop, progress).await {
                    Some(Ok(Left::Stopped)) => return ByteRound::Move(Box::new(new)),
                    Some(left) => return ByteRound::Over(left.map(drop)),
                    None => {
                        if let Err(broken) = stay(exchange, guard, new, "a side takes nothing") {
                            return ByteRound::Over(Err(broken));
                        }
                    }
                }
            }
        }
    }
}

fn open(guard: &TunnelGuard, moved: Arc<Move>, fields: Fields) -> BytePathOpening {
    let routed = guard
        .state()
        .routed(moved.snapshot.clone(), moved.route.clone());
    Box::pin(async move { opening::bytes(&routed, &moved.head, fields, moved.head.kind()).await })
}

async fn finished(opening: &mut Option<BytePathOpening>) -> Result<(BytePath, Opened), Refusal> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

/// Stops both directions; `None` where one of them cannot.
async fn leave(
    both: Pin<&mut impl Future<Output = Result<Left, Broken>>>,
    stop: &Stop,
    progress: &Mutex<Progress>,
) -> Option<Result<Left, Broken>> {
    stop.set();
    if let Ok(left) = timeout(STOP_TIME, both).await {
        return Some(left);
    }

    // A target that takes nothing holds nothing up: what was to go there is kept, and takes the new path.
    let mut progress = progress.lock();
    if progress.down_rests {
        progress.torn = true;
        return Some(Ok(Left::Stopped));
    }

    stop.take_back();
    None
}

/// The tunnel stays where it is, if the rules allow that for a tunnel that cannot be moved.
fn stay(
    exchange: &Exchange,
    guard: &TunnelGuard,
    (mut path, opened): (BytePath, Opened),
    reason: &str,
) -> Result<(), Broken> {
    exchange.moved(false);
    path.streams.outgoing.reset(Reset::Cancel);
    forbidden(guard, &opened, reason)?;
    tracing::warn!(exchange = %exchange.id(), reason, "not moved; it goes on as it was");
    Ok(())
}

fn forbidden(guard: &TunnelGuard, opened: &Opened, reason: &str) -> Result<(), Broken> {
    match guard.forbids(opened) {
        Some(forbidden) => {
            Err(Broken::policy(&forbidden).note(&format!("and it could not move: {reason}")))
        }
        None => Ok(()),
    }
}

/// Goes on by the new path, or stays.
async fn switch(
    tunnel: &mut ByteTunnel,
    progress: &mut Progress,
    (path, opened): (BytePath, Opened),
    exchange: &Exchange,
) -> Result<(), Broken> {
    let at = progress.at;
    let resumed = timeout(RESUME_TIME, progress.movable.resume(path.streams, at)).await;
    let resumed = resumed.unwrap_or_else(|_| Err("it took too long".to_owned()));

    let (incoming, mut outgoing) = match resumed {
        Ok(halves) => halves,
        Err(reason) => {
            exchange.moved(false);
            // A write to the old path was cut off, so nothing can follow there.
            if progress.torn {
                return Err(Broken::reset(Side::Target, Reset::Cancel).note(&reason));
            }
            tracing::warn!(exchange = %exchange.id(), reason, "not moved; it goes on as it was");
            return forbidden(&tunnel.guard, &opened, &reason);
        }
    };

    progress.torn = false;
    progress.down_rests = at.target_ended;
    // The client's end was said on the old path only.
    if at.client_ended {
        let ended = outgoing.finish(None).await;
        ended.map_err(|error| Broken::write(Side::Target, &error))?;
    }

    let (_, mut old) = std::mem::replace(&mut tunnel.target, (incoming, outgoing));
    old.reset(Reset::Cancel);
    tunnel.active = path.active;
    tunnel.guard.moved(opened);
    exchange.moved(true);

    Ok(())
}

/// Both directions, until both have ended or both rest.
async fn directions(
    (client_in, client_out): &mut (Incoming, Outgoing),
    (target_in, target_out): &mut (Incoming, Outgoing),
    counters: &Counters,
    progress: &Mutex<Progress>,
    stop: &Stop,
) -> Result<Left, Broken> {
    let half = |from| Half {
        progress,
        stop,
        from,
    };

    let up = half(Side::Client).run(client_in, target_out, &counters.client_to_target);
    let down = half(Side::Target).run(target_in, client_out, &counters.target_to_client);
    let mut up = pin!(up);
    let mut down = pin!(down);

    // The direction that rests last is not polled again, so the other one is waited for here.
    let (first, second) = tokio::select! {
        left = &mut up => (left?, down.await?),
        left = &mut down => (left?, up.await?),
    };

    Ok(if [first, second].contains(&Left::Stopped) {
        Left::Stopped
    } else {
        Left::Ended
    })
}

/// One direction of a tunnel that can move.
#[derive(Clone, Copy)]
struct Half<'a> {
    progress: &'a Mutex<Progress>,
    stop: &'a Stop,
    from: Side,
}

impl Half<'_> {
    /// Moves bytes until they end, or until both directions rest.
    async fn run(
        self,
        incoming: &mut Incoming,
        outgoing: &mut Outgoing,
        moved: &AtomicU64,
    ) -> Result<Left, Broken> {
        let direction = Direction {
            from: self.from,
            moved,
            rules: None,
        };

        if self.has_ended() {
            self.stop.ended();
            return Ok(Left::Ended);
        }

        loop {
            let halted = AtomicBool::new(false);
            let seam = Seamed {
                half: self,
                halted: &halted,
            };

            pump::pump_by(incoming, outgoing, direction, seam).await?;
            if !halted.load(Ordering::Relaxed) {
                self.ended();
                self.stop.ended();
                return Ok(Left::Ended);
            }

            self.rests(true);
            if self.stop.rest().await {
                return Ok(Left::Stopped);
            }

            self.rests(false);
        }
    }

    fn has_ended(self) -> bool {
        let at = self.progress.lock().at;
        match self.from {
            Side::Client => at.client_ended,
            Side::Target => at.target_ended,
        }
    }

    fn rests(self, rests: bool) {
        if self.from == Side::Target {
            self.progress.lock().down_rests = rests;
        }
    }

    fn ended(self) {
        self.rests(true);
        let at = &mut self.progress.lock().at;
        match self.from {
            Side::Client => at.client_ended = true,
            Side::Target => at.target_ended = true,
        }
    }
}

/// The seam of one direction.
struct Seamed<'a> {
    half: Half<'a>,
    /// Whether it was stopped, and has not ended.
    halted: &'a AtomicBool,
}

impl Seam for Seamed<'_> {
    const MOVES: bool = true;

    fn stops(&self) -> bool {
        let stops = self.half.stop.is_set();
        self.halted.store(stops, Ordering::Relaxed);
        stops
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        match self.half.from {
            Side::Client => self.half.progress.lock().movable.poll_room(cx),
            Side::Target => Poll::Ready(usize::MAX),
        }
    }

    fn passes(&mut self, bytes: &Bytes) {
        if self.half.from == Side::Client {
            let mut progress = self.half.progress.lock();
            progress.movable.keep(bytes);
            progress.at.client_to_target += bytes.len() as u64;
        }
    }

    fn passed(&mut self, bytes: usize) {
        if self.half.from == Side::Target {
            let mut progress = self.half.progress.lock();
            progress.at.target_to_client += bytes as u64;
            let delivered = progress.at.target_to_client;
            progress.movable.delivered(delivered);
        }
    }
}
