//! The far end: where a tunnel becomes a TCP connection to the target.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::next::Next;
use hermes_admit::outliving::{FarEnd, KEEP_FOR, SharedEnd, WINDOW, WindowShare};
use hermes_admit::reevaluate::{Opened, TunnelGuard, TunnelState, enter};
use hermes_admit::routed::Routed;
use hermes_http::{Duplex, Kind, RequestHead, Reset};
use hermes_observe::Exchange;
use hermes_packet::{Broken, Claim, Destination, SessionEntry, Side, Token, Waiting};
use hermes_plug::arrival::{Arrival, End};
use hermes_plug::refusal::Refusal;
use hermes_proto::fields::Fields;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::resumable::{Grant, Request, ResumableEnd, Ticket};
use hermes_proto::session_field::SessionValue;
use http::StatusCode;
use tokio::time::{Instant, sleep_until, timeout};

use super::path::{self, Carrying, LAST_WORD, PathEnd};
use super::sides::{self, SideEnd};
use crate::carried::{Carried, Carry, TunnelEnd};
use crate::failed::Failed;
use crate::reach::byte_end::ByteEnd;
use crate::reach::departure::depart;
use crate::reach::form;
use crate::reach::retry::Tries;

/// How long a tunnel whose bytes have all arrived is kept for a near end that may not know it.
#[doc(alias = "bound")]
const LINGER: Duration = Duration::from_secs(10);

/// The reason given for an exchange whose tunnel goes on in another.
const TAKEN_OVER: &str = "done: its session was taken over";

/// A tunnel at its far end.
pub(crate) struct FarTunnel {
    handed: Box<FarEnd>,
    entry: SessionEntry<Box<FarEnd>>,
    guard: TunnelGuard,
    /// The path; none if the near end was gone before it was answered.
    path: Option<Duplex>,
}

/// A session that is granted with the answer.
pub(crate) struct NewSession {
    grant: Grant,
    share: WindowShare,
    destination: Destination,
}

/// The session that a request for a tunnel asks for. The field is removed.
pub(crate) fn asked(arrival: &mut Arrival) -> Option<Request> {
    Request::take(&mut arrival.head_mut().fields)
}

impl NewSession {
    /// A session for a tunnel that is about to be accepted; none if its user has too many.
    pub(crate) fn grant(routed: &Routed, next: &Next, target: String) -> Option<Self> {
        let outliving = &routed.worker.shared.outliving;
        let share = WindowShare::take(&routed.account(), WINDOW)
            .inspect_err(|refused| tracing::debug!(exchange = %routed.exchange.id(), %refused, "no session is granted"))
            .ok()?;
        let grant = outliving.grant()?;

        Some(Self {
            grant,
            share,
            destination: destination(routed, next, target),
        })
    }

    /// Says so in the answer.
    pub(crate) fn tell(&self, fields: &mut Fields) {
        self.grant.write(fields);
    }

    /// The tunnel.
    pub(crate) fn tunnel(
        self,
        routed: &Routed,
        target: ByteEnd,
        path: Duplex,
        guard: TunnelGuard,
    ) -> Carried {
        let Self {
            grant,
            share,
            destination,
        } = self;

        let end = ResumableEnd::new(grant.session, grant.epoch);
        let sessions = &routed.worker.shared.outliving.bytes;
        let entry = sessions.enter(Token::of(grant.session), destination, 0);
        let entry = entry.owned_by(&routed.owner());

        let handed = FarEnd {
            shared: SharedEnd::new(end, share),
            target: target.streams,
            endpoint: target.endpoint,
            address: target.address,
            _active: target.active,
            times: 0,
        };

        Carried::tunnel(FarTunnel {
            handed: Box::new(handed),
            entry,
            guard,
            path: Some(path),
        })
    }
}

/// Whose a session is, and where it leads. Its key says more than an address of the near end, which may change.
fn destination(routed: &Routed, next: &Next, target: String) -> Destination {
    Destination {
        user: routed.user.clone(),
        source: None,
        listener: routed.listener.name.clone(),
        target,
        upstream: next.name().clone(),
    }
}

/// Goes on with the tunnel that the request asks for.
pub(crate) async fn resume(
    routed: &Routed,
    arrival: Arrival,
    next: &Next,
    ticket: Ticket,
) -> Result<Carried, Failed> {
    let handed = match claim(routed, arrival.head(), next, &ticket).await {
        Ok(handed) => handed,
        Err(refusal) => {
            return Err(Failed::untouched(arrival, refusal));
        }
    };

    let (mut handed, destination) = handed;
    handed.times += 1;
    handed.shared.resume();

    let tries = Tries::new(routed, next, arrival.head());
    tries.begin();
    tries.goes_to(&handed.endpoint);
    routed.exchange.resumed(handed.times);
    routed
        .exchange
        .status(arrival.head().opening_status().as_u16());

    let sessions = &routed.worker.shared.outliving.bytes;
    let token = Token::of(ticket.session);
    let entry = sessions.enter_after(token, destination, handed.times, ticket.number);
    let entry = entry.owned_by(&routed.owner());
    let opened = Opened::new(routed, arrival.head(), next, handed.address);
    let guard = enter(routed, opened, false);

    let kind = arrival.kind();
    let mut fields = form::opening_fields(routed, kind);
    Request::New.write(&mut fields);

    // A near end that is gone comes back: the tunnel is kept as if it had lost this path later.
    let path = match arrival.accept(fields).await {
        Ok(End::Stream(incoming, outgoing)) => {
            let path = Duplex { incoming, outgoing };
            Some(form::bytes(kind, Kind::Connect, path))
        }
        Ok(End::Packets(_)) | Err(_) => None,
    };

    Ok(Carried::tunnel(FarTunnel {
        handed,
        entry,
        guard,
        path,
    }))
}

/// Takes a tunnel over, if the request may.
async fn claim(
    routed: &Routed,
    head: &RequestHead,
    next: &Next,
    ticket: &Ticket,
) -> Result<(Box<FarEnd>, Destination), Refusal> {
    let outliving = &routed.worker.shared.outliving;
    outliving.check(ticket).map_err(gone)?;

    let (_, target) = depart(routed, head.clone(), next)?;
    let destination = destination(routed, next, target.to_string());
    let token = Token::of(ticket.session);
    let claim = outliving
        .bytes
        .claim_next(&token, &destination, ticket.number);

    let handed = claim
        .await
        .ok_or_else(|| gone("the session has ended, is another's, or was resumed since"))?;

    // The rules may have changed since the session's address was allowed.
    if let Some(address) = handed.address.filter(|_| next.is_target())
        && routed.snapshot.may_choose(address).is_err()
    {
        return Err(gone("egress does not allow the session's address any more"));
    }
    Ok((handed, destination))
}

/// Why a tunnel does not go on.
fn gone(reason: &str) -> Refusal {
    let details = format!("the tunnel cannot be resumed: {reason}");
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::GONE)
}

/// An event in the life of a tunnel.
enum FarEvent {
    Claimed(Claim<Box<FarEnd>>),
    Side(SideEnd),
    Path(PathEnd),
    Forbidden(Broken),
    Stopping,
    TooLate,
}

/// How an exchange is done with a tunnel.
enum FarOver {
    Over(Result<(), Broken>),
    Claimed(Claim<Box<FarEnd>>),
}

/// A tunnel while it is carried, beside its streams.
struct ResumeServer<'a> {
    shared: &'a SharedEnd,
    entry: &'a mut SessionEntry<Box<FarEnd>>,
    guard: &'a mut TunnelGuard,
    state: Arc<TunnelState>,
    exchange: &'a Exchange,
    path: Option<Carrying<'a>>,
    /// The wait for a path, if it has none.
    waits: Option<FarWait>,
}

/// A tunnel that waits.
struct FarWait {
    until: Instant,
    /// How it ends if no one comes.
    otherwise: Result<(), Broken>,
    _counted: Waiting<Box<FarEnd>>,
}

impl Carry for FarTunnel {
    fn guard(&self) -> &TunnelGuard {
        &self.guard
    }

    fn carry(self: Box<Self>, routed: &Routed) -> TunnelEnd<'_> {
        Box::pin((*self).run(&routed.exchange))
    }
}

impl FarTunnel {
    /// Carries it until it ends, or goes on in another exchange.
    async fn run(self, exchange: &Exchange) -> String {
        let Self {
            mut handed,
            mut entry,
            mut guard,
            path,
        } = self;

        let FarEnd { shared, target, .. } = &mut *handed;
        let shared = &*shared;
        let far = ResumeServer {
            shared,
            entry: &mut entry,
            state: guard.state().clone(),
            guard: &mut guard,
            exchange,
            path: path.map(|path| path::carry(path, shared)),
            waits: None,
        };

        let side = sides::carry(target, shared, Side::Target, exchange.counters());
        let end = far.run(pin!(side)).await;
        match end {
            FarOver::Claimed(claim) => {
                let _ = claim.send(handed);
                TAKEN_OVER.to_owned()
            }
            FarOver::Over(Ok(())) => "done".to_owned(),
            FarOver::Over(Err(broken)) => {
                handed.target.outgoing.reset(broken.reset);
                broken.reason()
            }
        }
    }
}

impl ResumeServer<'_> {
    async fn run(mut self, mut side: Pin<&mut impl Future<Output = SideEnd>>) -> FarOver {
        if self.path.is_none() {
            let lost = "the near end was gone before it was answered".to_owned();
            if let Some(end) = self.path_ended(PathEnd::Lost(lost)) {
                return FarOver::Over(end);
            }
        }

        loop {
            match self.event(side.as_mut()).await {
                FarEvent::Claimed(claim) => return FarOver::Claimed(claim),
                FarEvent::Side(SideEnd::Reset(reset, reason)) => {
                    return FarOver::Over(Err(Broken::reset(Side::Client, reset).note(&reason)));
                }
                FarEvent::Side(SideEnd::Broken(broken)) => return self.broken(broken).await,
                FarEvent::Forbidden(broken) => return self.broken(broken).await,
                FarEvent::Path(end) => {
                    if let Some(end) = self.path_ended(end) {
                        return self.delivered(end, side).await;
                    }
                }
                FarEvent::Stopping => {
                    let broken = Broken::reset(Side::Client, Reset::Connect);
                    return FarOver::Over(Err(broken.note("the node stops")));
                }
                FarEvent::TooLate => match self.waits.take() {
                    Some(wait) => return FarOver::Over(wait.otherwise),
                    None => continue,
                },
            }
        }
    }

    async fn event(&mut self, side: Pin<&mut impl Future<Output = SideEnd>>) -> FarEvent {
        let Self {
            entry,
            guard,
            state,
            exchange,
            path,
            waits,
            ..
        } = self;

        let until = waits.as_ref().map(|waits| waits.until);
        tokio::select! {
            biased;
            // First: the claimant carries on with the same end, and meets there whatever would have ended this exchange.
            claim = entry.claimed() => FarEvent::Claimed(claim),
            end = side => FarEvent::Side(end),
            end = carried(path) => FarEvent::Path(end),
            reason = guard.ended() => FarEvent::Forbidden(Broken::policy(&reason)),
            () = exchange.evicted() => {
                let broken = Broken::reset(Side::Client, Reset::Cancel);
                FarEvent::Forbidden(broken.note("others needed its room"))
            }
            // A near end that comes for it is sent elsewhere.
            () = state.stops(), if until.is_some() => FarEvent::Stopping,
            () = expired(until) => FarEvent::TooLate,
        }
    }

    /// The end of the tunnel that follows from that of a path; `None` if the tunnel waits for another.
    fn path_ended(&mut self, end: PathEnd) -> Option<Result<(), Broken>> {
        self.path = None;
        let (time, otherwise) = match end {
            PathEnd::Complete(true) => return Some(Ok(())),
            PathEnd::Complete(false) => (LINGER, Ok(())),
            PathEnd::Malformed(reason) => {
                return Some(Err(Broken::malformed(Side::Client, reason)));
            }
            PathEnd::Told => return Some(Ok(())),
            PathEnd::Lost(reason) => {
                tracing::debug!(exchange = %self.exchange.id(), reason, "the path is lost; the tunnel is kept");
                let broken = Broken::reset(Side::Client, Reset::Connect).note(&reason);
                (KEEP_FOR, Err(broken.note("not resumed in time")))
            }
        };

        match self.entry.wait() {
            Some(counted) => {
                self.exchange.waits(Some("the near end".to_owned()));
                self.waits = Some(FarWait {
                    until: Instant::now() + time,
                    otherwise,
                    _counted: counted,
                });
                None
            }
            None => Some(otherwise.map_err(|broken| broken.note("too many tunnels wait"))),
        }
    }

    /// The target broke, or the tunnel may not go on. The near end hears of it, now or when it comes back.
    async fn broken(mut self, broken: Broken) -> FarOver {
        self.shared
            .reset(u32::from(broken.reset.reason()).into(), &broken.reason());
        if let Some(path) = &mut self.path {
            let told = timeout(LAST_WORD, path).await;
            self.path = None;
            if matches!(told, Ok(PathEnd::Told)) {
                return FarOver::Over(Err(broken));
            }
            // The near end did not hear of it. It may come back within the time that tunnels are kept, and learns the reason then.
            let end = PathEnd::Lost(broken.reason());
            if self.path_ended(end).is_some() {
                return FarOver::Over(Err(broken));
            }
        }

        let until = self.waits.as_ref().map(|waits| waits.until);
        tokio::select! {
            biased;
            claim = self.entry.claimed() => FarOver::Claimed(claim),
            () = self.state.stops() => FarOver::Over(Err(broken)),
            () = self.exchange.evicted() => FarOver::Over(Err(broken)),
            () = expired(until) => FarOver::Over(Err(broken)),
        }
    }

    /// All has arrived; the target takes the rest.
    async fn delivered(
        self,
        end: Result<(), Broken>,
        side: Pin<&mut impl Future<Output = SideEnd>>,
    ) -> FarOver {
        if end.is_err() {
            return FarOver::Over(end);
        }

        let shared = self.shared;
        tokio::select! {
            biased;
            () = poll_fn(|cx| shared.poll_delivered(cx)) => FarOver::Over(Ok(())),
            end = side => FarOver::Over(match end {
                SideEnd::Broken(broken) => Err(broken),
                SideEnd::Reset(reset, reason) => Err(Broken::reset(Side::Client, reset).note(&reason)),
            }),
            reason = self.guard.ended() => FarOver::Over(Err(Broken::policy(&reason))),
        }
    }
}

async fn carried(path: &mut Option<Carrying<'_>>) -> PathEnd {
    match path {
        Some(path) => path.await,
        None => std::future::pending().await,
    }
}

async fn expired(until: Option<Instant>) {
    match until {
        Some(until) => Box::pin(sleep_until(until)).await,
        None => std::future::pending().await,
    }
}
