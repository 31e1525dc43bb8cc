//! The pipeline: what every exchange goes through, whatever it carries and wherever it entered.
//!
//! ```text
//! accept -> identify -> tag -> authorize -> route -> forward
//! ```

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use hermes_config::model::Route;
use hermes_http::{Kind, RequestHead, ResponseHead, StreamError};
use hermes_net::StreamInfo;
use hermes_observe::{Begin, CLIENT_CLOSED, Exchange};
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{hop, path};
use http::{HeaderMap, StatusCode, Version};
use tokio::time::Instant;

use crate::arrival::Arrival;
use crate::believe::{Belief, Entry};
use crate::explain::explains;
use crate::filter::{self, Stage};
use crate::forward::{Carried, Failed, Unanswered, forward, post};
use crate::identify::Proof;
use crate::listeners::{Entrance, Joined, Place, SessionPlace};
use crate::next::CompiledRoute;
use crate::refusal::Refusal;
use crate::resume::Asked;
use crate::routed::Routed;
use crate::snapshot::{ListenerRules, Snapshot};
use crate::target::Target;
use crate::worker::Shared;
use crate::{max_forwards, pac, trace};

/// Proxies that a request may pass: more than any sensible overlay has, few enough to end a loop soon.
const MAX_HOPS: usize = 16;

/// The key that bounds a user's sessions.
const SESSIONS_PER_USER: &str = "limits.sessions_per_user";

/// What has been decided before the route.
struct Identified {
    user: Option<String>,
    belief: Belief,
    target: Target,
    asked: Option<Asked>,
    /// Of a TRACE: its fields as the client sent them.
    received: HeaderMap,
}

/// The user's places: among the exchanges, and among the sessions.
type Places = (Option<Place<String>>, Option<SessionPlace>);

/// A tunnel that is open, and what it holds while it is carried.
struct Open {
    routed: Routed,
    carried: Carried,
    _places: Places,
}

/// Takes an exchange from its arrival to its end. Whatever happens, it is answered once and recorded once.
pub(crate) fn run(entrance: &Entrance, arrival: Arrival) -> impl Future<Output = ()> + Send {
    take(entrance, arrival, false)
}

/// As [`run`], of an exchange that came in early data and must not be repeated: 425, if nothing else refuses it (RFC 8470, 5.2).
pub(crate) fn refuse_early(
    entrance: &Entrance,
    arrival: Arrival,
) -> impl Future<Output = ()> + Send {
    take(entrance, arrival, true)
}

async fn take(entrance: &Entrance, arrival: Arrival, too_early: bool) {
    // What opens a tunnel is gone before it is carried: most tunnels wait most of their time.
    if let Some(open) = Box::pin(begin(entrance, arrival, too_early)).await {
        let reason = open.carried.carry(&open.routed).await;
        open.routed.exchange.finish(&reason);
    }
}

/// All of an exchange, but for a tunnel only its opening.
async fn begin(entrance: &Entrance, mut arrival: Arrival, too_early: bool) -> Option<Box<Open>> {
    let worker = &entrance.worker;
    let snapshot = worker.snapshot();
    let listener = entrance.rules_in(&snapshot);
    let exchange = entered(&worker.shared, &listener, &arrival);
    let source = arrival.source().clone();
    let entry = Entry {
        snapshot: &snapshot,
        listener: &listener,
        source: &source,
    };
    trace::enter(&snapshot, &listener, &exchange, &source, arrival.head_mut());
    if let Some(file) = pac::answer(&snapshot.document, &listener, &source, arrival.head()) {
        Box::pin(here(&exchange, arrival, file, "responded: proxy.pac")).await;
        return None;
    }
    let explained = explains(&snapshot, &listener, &source);
    let identified = identify(entrance, &entry, &exchange, arrival.head_mut()).await;
    let identified = identified.and_then(|identified| admitted(entrance, &listener, identified));
    let mut identified = identified.and_then(|identified| in_time(identified, too_early));
    if let Ok(Identified {
        user,
        belief,
        target,
        ..
    }) = &mut identified
        && !snapshot.filters.is_empty()
    {
        let stage = Stage {
            worker,
            entry,
            exchange: &exchange,
            target,
            credentials: &belief.credentials,
        };
        match Box::pin(stage.authorize(arrival.head_mut(), user)).await {
            Ok(lasts) => belief.authorized = lasts.map(|lasts| Instant::now() + lasts),
            Err(denied) => identified = Err(denied.refusal),
        }
    }
    let decided = identified.and_then(|mut identified| {
        let places = places(
            (&worker.shared, &listener),
            &exchange,
            &mut identified,
            arrival.kind(),
        )?;
        let route = route(&snapshot, &listener, &source, arrival.head(), &identified)?;
        exchange.route(&route.name);
        Ok((identified, route, places))
    });
    let (
        Identified {
            user,
            belief,
            target,
            asked,
            received,
        },
        route,
        places,
    ) = match decided {
        Ok(decided) => decided,
        Err(refusal) => {
            let unanswered = Unanswered::Arrival(arrival);
            Box::pin(answer(
                &exchange,
                (&snapshot.node, explained),
                unanswered,
                refusal,
            ))
            .await;
            return None;
        }
    };
    on_route(&route.config, &listener, &exchange, &mut arrival);
    let worker = worker.clone();
    let entrance = entrance.clone();
    let belief = Arc::new(belief);
    let routed = Routed {
        worker,
        entrance,
        snapshot,
        listener,
        exchange,
        source,
        target,
        user,
        belief,
        asked,
        route,
    };
    let forwarded = match count_down(&routed.snapshot, &mut arrival, &received) {
        Ok(None) => forward(&routed, arrival).await,
        Ok(Some(answer)) => {
            Box::pin(here(
                &routed.exchange,
                arrival,
                answer,
                "responded: no hop is left",
            ))
            .await;
            return None;
        }
        Err(refusal) => Err(Failed {
            unanswered: Unanswered::Arrival(arrival),
            refusal,
        }),
    };
    match forwarded {
        Ok(Carried::Over(reason)) => routed.exchange.finish(&reason),
        Ok(carried) => {
            return Some(Box::new(Open {
                routed,
                carried,
                _places: places,
            }));
        }
        Err(failed) => {
            let node = &routed.snapshot.node;
            Box::pin(answer(
                &routed.exchange,
                (node, explained),
                failed.unanswered,
                failed.refusal,
            ))
            .await;
        }
    }
    None
}

/// What the route says of an exchange before it leaves.
fn on_route(route: &Route, listener: &ListenerRules, exchange: &Exchange, arrival: &mut Arrival) {
    if post::arrive(arrival.head_mut(), route) {
        exchange.is_post();
    }
    if let Arrival::Session { session, .. } = arrival {
        session.set_bounds(listener.hold(route.datagrams.as_ref()));
    }
}

/// Lets a connection go from the account of its source to that of its user, once that is known.
fn admitted(
    entrance: &Entrance,
    listener: &ListenerRules,
    identified: Identified,
) -> Result<Identified, Refusal> {
    let Some(admission) = &entrance.admission else {
        return Ok(identified);
    };
    let user = match (&identified.belief.proof, &identified.user) {
        (Proof::Password(_) | Proof::Token(_), Some(user)) => user,
        _ => return Ok(identified),
    };
    match admission.known(&entrance.worker.shared, listener, user) {
        Ok(()) => Ok(identified),
        Err(most) => {
            let limit = "limits.connections_per_user";
            listener.user_refused(user, limit, most);
            let details = format!("the user has too many connections open here: {limit} is {most}");
            Err(Refusal::new(ProxyError::HttpRequestDenied, details)
                .status(StatusCode::TOO_MANY_REQUESTS))
        }
    }
}

/// Refuses what came in early data and must not be repeated.
fn in_time(identified: Identified, too_early: bool) -> Result<Identified, Refusal> {
    if !too_early {
        return Ok(identified);
    }
    let details = "it came before the handshake had ended, and somebody could have repeated it";
    Err(Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_EARLY))
}

/// The user's places among the exchanges, and the sessions, at this listener, where there are bounds.
fn places(
    (shared, listener): (&Shared, &ListenerRules),
    exchange: &Arc<Exchange>,
    Identified {
        user,
        asked,
        target,
        ..
    }: &mut Identified,
    kind: Kind,
) -> Result<Places, Refusal> {
    let Some(user) = user.as_deref() else {
        return Ok((None, None));
    };
    let per_user = listener.config.limits.per_user.unwrap_or(usize::MAX);
    let mut places = (None, None);
    if per_user < usize::MAX {
        let place = shared.users.join(&listener.name, user, per_user);
        places.0 =
            Some(place.ok_or_else(|| {
                too_many(listener, user, ("exchanges", "limits.per_user", per_user))
            })?);
    }
    let sessions = if kind == Kind::ConnectUdp {
        listener.sessions_per_user()
    } else {
        usize::MAX
    };
    if sessions == usize::MAX {
        return Ok(places);
    }
    let known = match asked {
        Some(Asked::Again(token)) if shared.resumable.knows(token, Some(user)) => Some(*token),
        _ => None,
    };
    // One that is taken over counts twice until its old way has ended, and must not fail for that. A fresh one must.
    let most = if known.is_some() {
        sessions.saturating_mul(2)
    } else {
        sessions
    };
    let joined = shared
        .sessions
        .join((&listener.name, user), most, target, exchange);
    let Joined { place, evicted } =
        joined.ok_or_else(|| too_many(listener, user, ("sessions", SESSIONS_PER_USER, most)))?;
    if evicted > 0 {
        listener.sessions_evicted(evicted, (SESSIONS_PER_USER, most), Some(user));
    }
    if let Some(token) = known
        && shared.sessions.count(&listener.name, user) > sessions
    {
        *asked = Some(Asked::Only(token));
    }
    places.1 = Some(place);
    Ok(places)
}

/// The user has as many as he may have.
fn too_many(
    listener: &ListenerRules,
    user: &str,
    (what, limit, most): (&str, &str, usize),
) -> Refusal {
    listener.user_refused(user, limit, most);
    let details = format!("the user has too many {what} open here: {limit} is {most}");
    Refusal::new(ProxyError::HttpRequestDenied, details).status(StatusCode::TOO_MANY_REQUESTS)
}

/// Enters it in the table of live exchanges.
fn entered(shared: &Shared, listener: &ListenerRules, arrival: &Arrival) -> Arc<Exchange> {
    let exchange = Arc::new(
        shared
            .seeing
            .begin_at(described(listener, arrival), listener.seeing.clone()),
    );
    if let Some(session) = arrival.session() {
        session.is_exchange(&exchange);
    }
    exchange
}

fn described(listener: &ListenerRules, arrival: &Arrival) -> Begin {
    let kind = filter::kind(arrival.head());
    let protocol = match arrival {
        Arrival::Session { .. } => "udp",
        Arrival::Offered(_) if listener.config.tcp.is_some() => "tcp",
        Arrival::Offered(offered) if offered.head.version == Version::HTTP_3 => "h3",
        Arrival::Offered(offered) if offered.head.version == Version::HTTP_2 => "h2",
        Arrival::Offered(_) => "h1",
    };
    Begin {
        kind,
        listener: listener.name.clone(),
        source: arrival.source().peer,
        protocol,
    }
}

/// *Accept* and *identify*: what the exchange is for, whose it is, and which of its fields are believed; then *tag*.
async fn identify(
    entrance: &Entrance,
    entry: &Entry<'_>,
    exchange: &Exchange,
    head: &mut RequestHead,
) -> Result<Identified, Refusal> {
    let Entry {
        snapshot,
        listener,
        source,
    } = *entry;
    exchange.method(head.wire_method());
    let received = max_forwards::received(head);
    let tls = source.tls.is_some();
    let target = Target::of(head, listener, tls)?;
    let has_path = matches!(head.kind(), Kind::Message | Kind::Upgrade);
    exchange.target(target.with_path(if has_path { head.path() } else { "" }));
    entry.verify().inspect_err(|_| entrance.dismiss())?;
    path::refuse_dots(head.path()).map_err(|error| bad_request(error.to_string()))?;
    refuse_circles(snapshot, head)?;
    hop::strip(&mut head.fields).map_err(|error| bad_request(error.to_string()))?;
    let asked = Asked::take(&mut head.fields).filter(|_| head.kind() == Kind::ConnectUdp);
    let mut belief = entry.identify(head).await?;
    let user = entry.believe(&belief, &target, head)?;
    if let Some(user) = &user {
        exchange.user(user);
    }
    belief.user.clone_from(&user);
    Ok(Identified {
        user,
        belief,
        target,
        asked,
        received,
    })
}

fn bad_request(reason: String) -> Refusal {
    Refusal::new(ProxyError::HttpRequestError, reason).status(StatusCode::BAD_REQUEST)
}

/// Requests that go round in circles.
fn refuse_circles(snapshot: &Snapshot, head: &RequestHead) -> Result<(), Refusal> {
    // RFC 9110, 7.6.3: Via shows loops.
    let passed = snapshot.via.passed(&head.fields);
    let details = if passed.own > 0 {
        "a node of this name had the request before: routes lead in a circle, or two nodes share a name (`node:`)"
    } else if passed.hops >= MAX_HOPS {
        "the request passed too many proxies"
    } else {
        return Ok(());
    };
    Err(Refusal::new(ProxyError::ProxyLoopDetected, details).status(StatusCode::LOOP_DETECTED))
}

/// *Route*: the first route that matches.
fn route(
    snapshot: &Snapshot,
    listener: &ListenerRules,
    source: &StreamInfo,
    head: &RequestHead,
    identified: &Identified,
) -> Result<Arc<CompiledRoute>, Refusal> {
    let Identified { user, target, .. } = identified;
    let facts = filter::facts(head, target, user.as_deref(), source, &listener.name);
    snapshot.table.decide(&facts).cloned().ok_or_else(|| {
        let details = format!("no route for {target} from listener {}", listener.name);
        Refusal::new(ProxyError::DestinationNotFound, details).status(StatusCode::NOT_FOUND)
    })
}

/// A TRACE or OPTIONS comes one hop nearer to its end; the answer, if that is here.
fn count_down(
    snapshot: &Snapshot,
    arrival: &mut Arrival,
    received: &HeaderMap,
) -> Result<Option<(ResponseHead, Bytes)>, Refusal> {
    let Arrival::Offered(offered) = arrival else {
        return Ok(None);
    };
    max_forwards::withdraw(&mut offered.head, received, &snapshot.overlay);
    let has_content = offered.has_content();
    max_forwards::count_down(&mut offered.head, has_content, received, &snapshot.overlay)
}

/// Answers what is for this proxy itself.
async fn here(
    exchange: &Exchange,
    arrival: Arrival,
    (head, content): (ResponseHead, Bytes),
    reason: &str,
) {
    exchange.method(arrival.head().wire_method());
    exchange.status(head.status.as_u16());
    match arrival.refuse(head, content).await {
        Ok(()) => exchange.finish(reason),
        Err(error) => exchange.finish(&format!("client_closed: {error}")),
    }
}

/// Answers what nobody answered, and records why.
async fn answer(
    exchange: &Exchange,
    (node, explained): (&str, bool),
    unanswered: Unanswered,
    refusal: Refusal,
) {
    exchange.status(refusal.code().as_u16());
    let reason = refusal.reason();
    let (head, content) = refusal.answer(node, explained);
    let answered: Result<(), StreamError> = match unanswered {
        Unanswered::Arrival(arrival) => arrival.refuse(head, content).await,
        Unanswered::Responder(responder) => responder.answer(head, content).await,
    };
    match answered {
        _ if reason.starts_with(CLIENT_CLOSED) => exchange.finish(&reason),
        Ok(()) => exchange.finish(&reason),
        Err(_) => exchange.finish(&format!("client_closed: before the answer ({reason})")),
    }
}
