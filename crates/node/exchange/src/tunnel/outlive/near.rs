//! The near end: where the route says `resume`, and the client is.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::next::Next;
use hermes_admit::outliving::{ResumePolicy, SharedEnd, WindowShare, ticket};
use hermes_admit::reevaluate::{Move, Opened, Order, TunnelGuard, TunnelState};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Kind, RequestHead, Reset};
use hermes_observe::Exchange;
use hermes_packet::{Broken, Side};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::resumable::{FIELD, Grant, Request, ResumableEnd};
use hermes_proto::session_field::SessionValue;
use hermes_upstream::Active;
use http::StatusCode;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::super::bytes;
use super::path::{self, Carrying, LAST_WORD, PathEnd};
use super::sides::{self, SideEnd};
use crate::carried::{Carry, TunnelEnd};
use crate::pump;
use crate::reach::byte_end::BytePath;
use crate::reach::opening;

/// Pause before a path that could not be opened is tried once more; doubles up to [`LONGEST_PAUSE`].
#[doc(alias = "bound")]
const PAUSE: Duration = Duration::from_millis(50);

/// Longest time between two tries: a tunnel is back within a second of the proxies that it goes through.
#[doc(alias = "bound")]
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Answers in a row that the session is gone, until that is believed: where several nodes share an address, another one may have
/// answered; and a request whose answer was lost is refused the second time.
#[doc(alias = "bound")]
const GONE: u32 = 5;

/// A session that the far end was asked for.
pub(crate) struct AskedSession {
    policy: ResumePolicy,
    share: WindowShare,
}

/// A session that it has granted.
pub(crate) struct Granted {
    asked: Box<AskedSession>,
    grant: Grant,
}

/// Asks for a session in the request for a tunnel, where the route says so. A client that asks itself has a session of its own.
pub(crate) fn ask(
    routed: &Routed,
    next: &Next,
    head: &mut RequestHead,
) -> Option<Box<AskedSession>> {
    let policy = if by_name(routed) {
        next.resume_of_names()?
    } else {
        next.resume()?
    };
    let is_bytes = matches!(head.kind(), Kind::Connect | Kind::ConnectTcp);
    if !is_bytes || head.fields.contains_key(FIELD) {
        return None;
    }

    let share = WindowShare::take(&routed.account(), policy.window)
        .inspect_err(|refused| tracing::debug!(exchange = %routed.exchange.id(), %refused, "no session is asked for"))
        .ok()?;
    Request::New.write(&mut head.fields);
    Some(Box::new(AskedSession { policy, share }))
}

/// Whether a program of this machine asked by a name of the overlay: nothing else enters as a connection at a device.
fn by_name(routed: &Routed) -> bool {
    let device = routed.listener.config.tun();
    device.is_some_and(|device| device.dns().is_some())
}

impl AskedSession {
    /// The answer of the far end; `None` if it knows no sessions.
    pub(crate) fn granted(self: Box<Self>, fields: &mut Fields) -> Option<Box<Granted>> {
        let grant = Grant::take(fields)?;
        Some(Box::new(Granted { asked: self, grant }))
    }
}

/// A tunnel at its near end.
pub(crate) struct NearTunnel {
    client: Duplex,
    guard: TunnelGuard,
    granted: Granted,
    path: Duplex,
    /// Counts it at its upstream.
    active: Active,
}

/// An event in the life of a tunnel.
enum NearEvent {
    Side(SideEnd),
    Path(PathEnd),
    Ordered(Order),
    Opened(Box<Result<BytePath, NoPath>>, PathReason),
    /// All of both directions has arrived, and was written to the client.
    Delivered,
    TooLate,
}

/// Why a path is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PathReason {
    /// The rules lead elsewhere.
    Moves,
    /// The one before is lost.
    Resumes,
}

type OpeningPath = Pin<Box<dyn Future<Output = Result<(BytePath, Opened), NoPath>> + Send>>;

/// Why there is no other path.
struct NoPath {
    refusal: Refusal,
    /// Whether another try would end in the same way.
    is_final: bool,
}

/// A tunnel while it is carried, beside the streams of its client.
struct ResumeClient<'a> {
    shared: &'a SharedEnd,
    guard: &'a mut TunnelGuard,
    exchange: &'a Exchange,
    grant: Grant,
    policy: ResumePolicy,
    path: Option<(Carrying<'a>, Active)>,
    opening: Option<(OpeningPath, PathReason)>,
    /// Requests to go on that were made.
    tickets: u32,
    /// Paths that it has left or lost.
    times: u32,
    /// Until when it waits for a path, and why it lost the last one.
    lost: Option<(Instant, String)>,
    is_complete: bool,
}

impl Carry for NearTunnel {
    fn guard(&self) -> &TunnelGuard {
        &self.guard
    }

    fn carry(self: Box<Self>, routed: &Routed) -> TunnelEnd<'_> {
        Box::pin((*self).run(&routed.exchange))
    }
}

impl NearTunnel {
    pub fn new(
        granted: Granted,
        client: Duplex,
        path: Duplex,
        guard: TunnelGuard,
        active: Active,
    ) -> Self {
        Self {
            client,
            guard,
            granted,
            path,
            active,
        }
    }

    /// Carries it to its end, through any number of paths.
    async fn run(self, exchange: &Exchange) -> String {
        let Self {
            mut client,
            mut guard,
            granted,
            path,
            active,
        } = self;

        let Granted { asked, grant } = granted;
        let end = ResumableEnd::new(grant.session, grant.epoch);
        let shared = SharedEnd::new(end, asked.share);

        let near = ResumeClient {
            shared: &shared,
            guard: &mut guard,
            exchange,
            grant,
            policy: asked.policy,
            path: Some((path::carry(path, &shared), active)),
            opening: None,
            tickets: 0,
            times: 0,
            lost: None,
            is_complete: false,
        };

        let side = sides::carry(&mut client, &shared, Side::Client, exchange.counters());
        let carried = near.run(pin!(side)).await;
        match &carried {
            Err(broken) => client.outgoing.reset(broken.reset),
            Ok(()) if client.outgoing.is_wrapped() => {
                Box::pin(pump::part(&mut client)).await;
            }
            Ok(()) => {}
        }
        bytes::end(carried)
    }
}

impl ResumeClient<'_> {
    async fn run(
        mut self,
        mut side: Pin<&mut impl Future<Output = SideEnd>>,
    ) -> Result<(), Broken> {
        loop {
            match self.event(side.as_mut()).await {
                NearEvent::Delivered => return Ok(()),
                NearEvent::Side(SideEnd::Reset(reset, reason)) => {
                    return Err(Broken::reset(Side::Target, reset).note(&reason));
                }
                NearEvent::Side(SideEnd::Broken(broken)) => {
                    self.tell(&broken).await;
                    return Err(broken);
                }
                NearEvent::Ordered(Order::End(reason)) => {
                    let broken = Broken::policy(&reason);
                    self.tell(&broken).await;
                    return Err(broken);
                }
                NearEvent::Ordered(Order::Move(moved)) => self.begin_move(&moved),
                NearEvent::Path(end) => self.path_ended(end)?,
                NearEvent::Opened(opened, why) => self.opened(*opened, why)?,
                NearEvent::TooLate => return Err(self.gave_up("no path came about in keep_for")),
            }
        }
    }

    async fn event(&mut self, side: Pin<&mut impl Future<Output = SideEnd>>) -> NearEvent {
        let Self {
            shared,
            guard,
            path,
            opening,
            lost,
            is_complete,
            ..
        } = self;

        let until = lost.as_ref().map(|(until, _)| *until);
        tokio::select! {
            biased;
            // First: a tunnel that its client has ended needs no other path.
            end = side => NearEvent::Side(end),
            end = carried(path) => NearEvent::Path(end),
            order = guard.order() => NearEvent::Ordered(order),
            (opened, why) = finished(opening) => {
                let opened = opened.map(|(path, opened)| {
                    guard.moved(opened);
                    path
                });
                NearEvent::Opened(Box::new(opened), why)
            }
            () = poll_fn(|cx| shared.poll_delivered(cx)), if *is_complete => NearEvent::Delivered,
            () = expired(until) => NearEvent::TooLate,
        }
    }

    /// The rules lead elsewhere: the path there is opened while this one carries on.
    fn begin_move(&mut self, moved: &Arc<Move>) {
        self.exchange.moves();
        let fields = self.ticket();
        let state = self.guard.state().clone();
        let moved = moved.clone();
        let opening = Box::pin(async move { open(&state, &moved, fields).await });
        self.opening = Some((opening, PathReason::Moves));
    }

    fn path_ended(&mut self, end: PathEnd) -> Result<(), Broken> {
        self.path = None;
        match end {
            PathEnd::Complete(_) => self.is_complete = true,
            PathEnd::Malformed(reason) => return Err(Broken::malformed(Side::Target, reason)),
            PathEnd::Lost(reason) => {
                tracing::debug!(exchange = %self.exchange.id(), reason, "the path is lost; the tunnel waits for another");
                self.exchange.waits(Some(format!("another path: {reason}")));
                let until = Instant::now() + self.policy.keep_for;
                self.lost = Some((until, reason));
                if self.opening.is_none() {
                    self.reopen();
                }
            }
            // Only said by `tell`, after which there is no further event.
            PathEnd::Told => {}
        }
        Ok(())
    }

    fn reopen(&mut self) {
        let state = self.guard.state().clone();
        let grant = self.grant;
        let first = self.tickets;
        // Each try has a number of its own; those of this future are below those of the next.
        self.tickets = first.saturating_add(TRIES);
        let opening = Box::pin(async move { reopen(&state, &grant, first).await });
        self.opening = Some((opening, PathReason::Resumes));
    }

    fn ticket(&mut self) -> Fields {
        self.tickets = self.tickets.saturating_add(1);
        asking(&self.grant, self.tickets)
    }

    fn opened(&mut self, opened: Result<BytePath, NoPath>, why: PathReason) -> Result<(), Broken> {
        self.opening = None;
        let exchange = self.exchange;
        match opened {
            Ok(opened) => {
                // Bytes still on the old path are sent again, or were received.
                self.path = None;
                self.shared.resume();
                self.path = Some((path::carry(opened.streams, self.shared), opened.active));
                self.lost = None;
                self.times += 1;

                if why == PathReason::Moves {
                    exchange.moved(true);
                    exchange.moved_for("the rules changed".to_owned());
                } else {
                    exchange.resumed(self.times);
                    exchange.moved_for("its path broke".to_owned());
                }
                Ok(())
            }
            Err(unopened) if why == PathReason::Moves => {
                exchange.moved(false);
                let reason = unopened.refusal.reason();
                tracing::warn!(exchange = %exchange.id(), reason, "not moved; it stays on its path");
                if self.path.is_none() {
                    self.reopen();
                }
                Ok(())
            }
            Err(unopened) if unopened.is_final => Err(self.gave_up(&unopened.refusal.reason())),
            Err(_) => {
                self.reopen();
                Ok(())
            }
        }
    }

    /// Without a path, and with no hope for one.
    fn gave_up(&self, reason: &str) -> Broken {
        let lost = self.lost.as_ref().map_or("", |(_, lost)| lost.as_str());
        Broken::reset(Side::Target, Reset::Connect).note(&format!("{lost}; not resumed: {reason}"))
    }

    /// Tells the far end that the tunnel is over. If there is no path, one is tried for: the target would wait for nothing.
    async fn tell(&mut self, broken: &Broken) {
        self.shared
            .reset(u32::from(broken.reset.reason()).into(), &broken.reason());
        let telling = async {
            loop {
                if let Some((path, _)) = &mut self.path {
                    let told = path.await;
                    self.path = None;
                    if matches!(told, PathEnd::Told) {
                        return;
                    }
                }
                if self.opening.is_none() {
                    self.reopen();
                }

                let (opened, why) = finished(&mut self.opening).await;
                let is_final = opened.as_ref().is_err_and(|unopened| unopened.is_final);
                if is_final || self.opened(opened.map(|(path, _)| path), why).is_err() {
                    return;
                }
            }
        };
        // A far end that does not hear of it waits for as long as it keeps tunnels.
        let _ = timeout(LAST_WORD, telling).await;
    }
}

/// Numbers that one series of tries may use.
const TRIES: u32 = 1 << 16;

async fn carried(path: &mut Option<(Carrying<'_>, Active)>) -> PathEnd {
    match path {
        Some((path, _)) => path.await,
        None => std::future::pending().await,
    }
}

async fn finished(
    opening: &mut Option<(OpeningPath, PathReason)>,
) -> (Result<(BytePath, Opened), NoPath>, PathReason) {
    match opening {
        Some((path, why)) => (path.await, *why),
        None => std::future::pending().await,
    }
}

async fn expired(until: Option<Instant>) {
    match until {
        Some(until) => Box::pin(sleep_until(until)).await,
        None => std::future::pending().await,
    }
}

/// The field that asks to go on.
fn asking(grant: &Grant, number: u32) -> Fields {
    let mut fields = Fields::new();
    Request::Again(ticket(grant, number)).write(&mut fields);
    fields
}

/// Opens a path where the rules lead.
async fn open(
    state: &TunnelState,
    moved: &Move,
    fields: Fields,
) -> Result<(BytePath, Opened), NoPath> {
    let routed = state.routed(moved.snapshot.clone(), moved.route.clone());
    let unopened = |refusal: Refusal| NoPath {
        is_final: refusal.is_final() && refusal.code() != StatusCode::TOO_MANY_REQUESTS,
        refusal,
    };

    let opened = opening::bytes(&routed, &moved.head, fields, Kind::Connect).await;
    let (mut path, opened) = opened.map_err(unopened)?;

    // A proxy without the session would take the bytes that follow for those of a new tunnel.
    if Request::take(&mut path.fields) != Some(Request::New) {
        let details = "the tunnel was opened anew, by a proxy that does not know its session";
        let refusal = Refusal::new(ProxyError::HttpRequestDenied, details);
        return Err(NoPath {
            refusal: refusal.status(StatusCode::GONE),
            is_final: true,
        });
    }
    Ok((path, opened))
}

/// Opens a path by the rules in force, and tries again until it succeeds or a rule forbids it: a proxy that restarts is soon back.
async fn reopen(
    state: &Arc<TunnelState>,
    grant: &Grant,
    first: u32,
) -> Result<(BytePath, Opened), NoPath> {
    let mut pause = PAUSE;
    let mut gone = 0;

    for number in 1..=TRIES {
        let moved = state.anew(state.snapshot()).map_err(|reason| NoPath {
            refusal: Refusal::new(ProxyError::HttpRequestDenied, reason.to_string()),
            is_final: true,
        })?;

        let fields = asking(grant, first.saturating_add(number));
        let unopened = match open(state, &moved, fields).await {
            Ok(opened) => return Ok(opened),
            Err(unopened) => unopened,
        };

        if unopened.refusal.code() == StatusCode::GONE {
            gone += 1;
        }
        let may_go_on = unopened.refusal.code() == StatusCode::GONE && gone < GONE;
        if unopened.is_final && !may_go_on {
            return Err(unopened);
        }

        // Tunnels that broke together need not come back in one moment.
        sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }

    let refusal = Refusal::new(
        ProxyError::HttpRequestDenied,
        "the path was asked for too often",
    );
    Err(NoPath {
        refusal,
        is_final: false,
    })
}
