//! The pipeline: what every exchange goes through, whatever it carries and wherever it entered.
//!
//! ```text
//! accept -> identify -> tag -> authorize -> route -> forward
//! ```

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use hermes_http::{Kind, RequestHead, ResponseHead, StreamError};
use hermes_net::StreamInfo;
use hermes_proto::proxy_status::ProxyError;
use hermes_proto::{hop, via};
use hermes_rules::fields::USER;
use hermes_rules::{Source, Values, apply, believe, path_is_ambiguous};
use http::header::FORWARDED;
use http::{HeaderValue, StatusCode, Version};

use crate::arrival::Arrival;
use crate::explain::explains;
use crate::filter::{self, Stage};
use crate::forward::{Failed, Unanswered, departure, forward, post};
use crate::listeners::{Entrance, Place, Users};
use crate::refusal::Refusal;
use crate::routed::{Belief, Routed, values};
use crate::seeing::{Begin, Exchange};
use crate::snapshot::{ListenerRules, Snapshot};
use crate::target::Target;
use crate::worker::Shared;
use crate::{max_forwards, pac, trace};

/// Proxies that a request may pass: more than any sensible overlay has, few enough to end a loop soon.
const MAX_HOPS: usize = 16;

/// What has been decided before the route.
struct Identified {
    user: Option<String>,
    belief: Belief,
    target: Target,
}

/// Takes an exchange from its arrival to its end. Whatever happens, it is answered once and recorded once.
pub(crate) async fn run(entrance: &Entrance, mut arrival: Arrival) {
    let worker = &entrance.worker;
    let snapshot = worker.snapshot();
    let listener = entrance.rules_in(&snapshot);
    let exchange = Arc::new(worker.shared.seeing.begin(begin(&listener, &arrival)));
    let source = arrival.source().clone();
    trace::enter(&snapshot, &listener, &exchange, &source, arrival.head_mut());
    if let Some(file) = pac::answer(&snapshot.document, &listener, source.tls.is_some(), arrival.head()) {
        return here(&exchange, arrival, file, "responded: proxy.pac").await;
    }
    let explained = explains(&snapshot, &listener, &source);
    let mut identified = identify(&snapshot, &listener, &exchange, &source, arrival.head_mut()).await;
    if let Ok(Identified { user, target, .. }) = &mut identified
        && !snapshot.filters.is_empty()
    {
        let stage = Stage {
            worker,
            filters: &snapshot.filters,
            exchange: &exchange,
            source: &source,
            listener: &listener.name,
            target,
        };
        let authorized = stage.authorize(arrival.head_mut(), user).await;
        identified = authorized.and(identified);
    }
    let decided = identified.and_then(|identified| {
        let places = places(&worker.shared, &listener, identified.user.as_deref(), arrival.kind())?;
        let route = route(&snapshot, &listener, &source, arrival.head(), &identified)?;
        exchange.route(&snapshot.route_names[route]);
        Ok((identified, route, places))
    });
    let (Identified { user, belief, target }, route, _places) = match decided {
        Ok(decided) => decided,
        Err(refusal) => {
            return answer(&exchange, (&snapshot.node, explained), Unanswered::Arrival(arrival), refusal).await;
        }
    };
    post::arrive(arrival.head_mut(), &snapshot.document.routes[route]);
    if let Arrival::Session { session, .. } = &arrival {
        session.set_bounds(listener.hold(snapshot.document.routes[route].datagrams.as_ref()));
    }
    let (worker, entrance) = (worker.clone(), entrance.clone());
    let routed = Routed { worker, entrance, snapshot, listener, exchange, source, target, user, belief, route };
    let forwarded = match count_down(&routed.snapshot, &mut arrival) {
        Ok(None) => forward(&routed, arrival).await,
        Ok(Some(answer)) => return here(&routed.exchange, arrival, answer, "responded: no hop is left").await,
        Err(refusal) => Err(Failed { unanswered: Unanswered::Arrival(arrival), refusal }),
    };
    match forwarded {
        Ok(reason) => routed.exchange.finish(&reason),
        Err(failed) => {
            answer(&routed.exchange, (&routed.snapshot.node, explained), failed.unanswered, failed.refusal).await;
        }
    }
}

/// The user's places among the exchanges, and the sessions, at this listener, where there are bounds.
fn places(
    shared: &Shared,
    listener: &ListenerRules,
    user: Option<&str>,
    kind: Kind,
) -> Result<[Option<Place<String>>; 2], Refusal> {
    let join = |users: &Users, most: usize, what: &str| {
        let Some(user) = user.filter(|_| most < usize::MAX) else { return Ok(None) };
        let refused = || Refusal::new(ProxyError::HttpRequestDenied, format!("the user has too many {what} open here"));
        let place = users.join(&listener.name, user, most);
        place.map(Some).ok_or_else(|| refused().status(StatusCode::TOO_MANY_REQUESTS))
    };
    let exchange = join(&shared.users, listener.config.limits.per_user.unwrap_or(usize::MAX), "exchanges")?;
    let sessions = if kind == Kind::ConnectUdp { listener.sessions_per_user() } else { usize::MAX };
    Ok([exchange, join(&shared.sessions, sessions, "sessions")?])
}

fn begin(listener: &ListenerRules, arrival: &Arrival) -> Begin {
    let kind = filter::kind(arrival.head());
    let protocol = match arrival {
        Arrival::Session { .. } => "udp",
        Arrival::Offered(_) if listener.config.tcp.is_some() => "tcp",
        Arrival::Offered(offered) if offered.head.version == Version::HTTP_2 => "h2",
        Arrival::Offered(_) => "h1",
    };
    Begin { kind, listener: listener.name.clone(), source: arrival.source().peer.to_string(), protocol }
}

/// *Accept* and *identify*: what the exchange is for, whose it is, and which of its fields are believed; then *tag*.
async fn identify(
    snapshot: &Snapshot,
    listener: &ListenerRules,
    exchange: &Exchange,
    source: &StreamInfo,
    head: &mut RequestHead,
) -> Result<Identified, Refusal> {
    exchange.method(head.wire_method().as_str());
    let tls = source.tls.is_some();
    let target = Target::of(head, listener.config.gateway, tls)?;
    exchange.target(&format!("{target}{}", if head.kind() == Kind::Message { head.path() } else { "" }));
    refuse_ambiguity(snapshot, head)?;
    hop::strip(&mut head.fields).map_err(|error| {
        Refusal::new(ProxyError::HttpRequestError, error.to_string()).status(StatusCode::BAD_REQUEST)
    })?;
    let (user, belief) = whose(snapshot, listener, source, head).await?;
    if let Some(user) = &user {
        exchange.user(user);
    }
    tag(snapshot, listener, source, head, &target, user.as_deref())?;
    Ok(Identified { user, belief, target })
}

/// Requests that two implementations could read differently, and those that go round in circles.
fn refuse_ambiguity(snapshot: &Snapshot, head: &RequestHead) -> Result<(), Refusal> {
    if matches!(head.kind(), Kind::Message | Kind::Upgrade) && path_is_ambiguous(head.path()) {
        let refusal = Refusal::new(ProxyError::HttpRequestError, "the path has dot segments, written or encoded");
        return Err(refusal.status(StatusCode::BAD_REQUEST));
    }
    // RFC 9110, 7.6.3: Via shows loops.
    if via::seen(&head.fields, &snapshot.node) > 0 || via::hops(&head.fields) >= MAX_HOPS {
        let details = "the request has been here before, or passed too many proxies";
        return Err(Refusal::new(ProxyError::ProxyLoopDetected, details).status(StatusCode::LOOP_DETECTED));
    }
    Ok(())
}

/// The user whose exchange this is; afterwards the overlay fields are those that are believed.
async fn whose(
    snapshot: &Snapshot,
    listener: &ListenerRules,
    source: &StreamInfo,
    head: &mut RequestHead,
) -> Result<(Option<String>, Belief), Refusal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let authenticated =
        listener.authenticator.authenticate(&mut head.fields, source, listener.config.gateway, now).await;
    let identity = authenticated.map_err(|challenge| {
        listener.seeing.auth_failure(challenge.scheme);
        Refusal::new(ProxyError::HttpRequestDenied, challenge.reason).status(challenge.status).fields(challenge.fields)
    })?;
    let from = snapshot.source_of(listener, source);
    if matches!(from, Source::Client) {
        head.fields.remove(FORWARDED);
    }
    // A peer's certificate says which proxy it is, not whose exchanges it carries.
    let peer = !matches!(from, Source::Client);
    let belief = Belief { scheme: identity.scheme, expires: identity.expires, peer };
    let certificate_of_peer = identity.scheme == "mtls" && !matches!(from, Source::Client);
    let authenticated = identity.user.filter(|_| !certificate_of_peer);
    let config = &listener.config;
    let believed =
        believe(&from, authenticated.as_deref(), config.forged, &config.accepts, &snapshot.overlay, &mut head.fields);
    let user = believed.map_err(|refusal| {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::FORBIDDEN);
        Refusal::new(ProxyError::HttpRequestDenied, refusal.reason).status(status)
    })?;
    let user = match (user, &listener.user) {
        (None, Some(own)) if matches!(from, Source::Client) => Some(own.clone()),
        (user, _) => user,
    };
    if let Some(user) = &user {
        set_user(head, user)?;
    }
    Ok((user, belief))
}

fn set_user(head: &mut RequestHead, user: &str) -> Result<(), Refusal> {
    let value = HeaderValue::from_str(user)
        .map_err(|_| Refusal::new(ProxyError::ProxyConfigurationError, "the user's name is no field value"))?;
    head.fields.insert(USER, value);
    Ok(())
}

/// *Tag*: the fields that this listener adds.
fn tag(
    snapshot: &Snapshot,
    listener: &ListenerRules,
    source: &StreamInfo,
    head: &mut RequestHead,
    target: &Target,
    user: Option<&str>,
) -> Result<(), Refusal> {
    let peer = source.peer.socket();
    if head.kind() == Kind::Message {
        departure::append_forwarded(head, peer, source.tls.is_some());
    }
    let config = &listener.config;
    if config.set.is_empty() && config.append.is_empty() && config.remove.is_empty() {
        return Ok(());
    }
    let (path, method) = (head.path().to_owned(), head.method.clone());
    let values =
        Values { path: &path, method: method.as_str(), ..values(source, listener, user, target, &snapshot.node) };
    apply(&config.set, &config.append, &config.remove, &mut head.fields, &values)
        .map_err(|bad| Refusal::new(ProxyError::HttpRequestError, format!("field {}: {}", bad.name, bad.reason)))
}

/// *Route*: the first route that matches.
fn route(
    snapshot: &Snapshot,
    listener: &ListenerRules,
    source: &StreamInfo,
    head: &RequestHead,
    identified: &Identified,
) -> Result<usize, Refusal> {
    let Identified { user, target, .. } = identified;
    let facts = filter::facts(head, target, user.as_deref(), source, &listener.name);
    snapshot.table.decide(&facts).ok_or_else(|| {
        let details = format!("no route for {target} from listener {}", listener.name);
        Refusal::new(ProxyError::DestinationNotFound, details).status(StatusCode::NOT_FOUND)
    })
}

/// A TRACE or OPTIONS comes one hop nearer to its end; the answer, if that is here.
fn count_down(snapshot: &Snapshot, arrival: &mut Arrival) -> Result<Option<(ResponseHead, Bytes)>, Refusal> {
    let Arrival::Offered(offered) = arrival else { return Ok(None) };
    let has_content = offered.has_content();
    max_forwards::count_down(&mut offered.head, has_content, &snapshot.overlay)
}

/// Answers what is for this proxy itself.
async fn here(exchange: &Exchange, arrival: Arrival, (head, content): (ResponseHead, Bytes), reason: &str) {
    exchange.method(arrival.head().wire_method().as_str());
    exchange.status(head.status.as_u16());
    match arrival.refuse(head, content).await {
        Ok(()) => exchange.finish(reason),
        Err(error) => exchange.finish(&format!("client_closed: {error}")),
    }
}

/// Answers what nobody answered, and records why.
async fn answer(exchange: &Exchange, (node, explained): (&str, bool), unanswered: Unanswered, refusal: Refusal) {
    exchange.status(refusal.code().as_u16());
    let reason = refusal.reason();
    let (head, content) = refusal.answer(node, explained);
    let answered: Result<(), StreamError> = match unanswered {
        Unanswered::Arrival(arrival) => arrival.refuse(head, content).await,
        Unanswered::Responder(responder) => responder.answer(head, content).await,
    };
    match answered {
        Ok(()) => exchange.finish(&reason),
        Err(_) => exchange.finish(&format!("client_closed: before the answer ({reason})")),
    }
}
