//! Reaching the next hop: a connection for HTTP, a TCP connection, or an address for UDP.

mod affinity;
mod binding;
pub(crate) mod bulk;
pub(crate) mod byte_end;
pub(crate) mod carrier_path;
pub(crate) mod cause;
pub(crate) mod datagram_path;
pub(crate) mod departure;
pub(crate) mod descriptor_share;
pub(crate) mod early_bytes;
pub(crate) mod form;
pub(crate) mod from_stack;
mod kept_request;
pub(crate) mod next_tunnel;
pub(crate) mod opening;
pub(crate) mod plug_request;
pub(crate) mod progress;
pub(crate) mod race;
pub(crate) mod recovery;
pub(crate) mod retry;
pub(crate) mod session_token;
pub(crate) mod termination;
pub(crate) mod transforms;
pub(crate) mod verdict;
pub(crate) mod wait;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hermes_admit::next::To;
use hermes_admit::routed::Routed;
use hermes_http::h1::client::Receiver;
use hermes_http::{Outgoing, Pending, RequestHead};
use hermes_net::clock;
use hermes_net::shares::Share;
use hermes_net::{Asker, within};
use hermes_plug::refusal::Refusal;
use hermes_plug::target::{Target, is_https};
use hermes_proto::authority::HostPort;
use hermes_proto::proxy_protocol::Header;
use hermes_proto::proxy_status::ProxyError;
use hermes_rules::judge::Phase;
use hermes_rules::retry::Outcome;
use hermes_rules::session::Silence;
use hermes_rules::{Values, render};
use hermes_upstream::{
    Asking, Checkout, ConnectFailure, Dial, FailureKind, Hop, OPENING, Origin, Own, Timeouts,
    Upstream,
};
use http::StatusCode;
use http::uri::PathAndQuery;

use crate::reach::affinity::affinity;
use crate::reach::departure::address_proxy;
use crate::reach::descriptor_share::ShareOwner;
use crate::reach::retry::Tries;

/// Longest silence within the content of a refusal that is passed on.
#[doc(alias = "bound")]
pub(crate) const REFUSAL_IDLE: Duration = Duration::from_secs(10);

/// An exchange that was opened towards the next hop.
pub(crate) struct Reached {
    pub(crate) outgoing: Outgoing,
    pub(crate) pending: Pending,
    pub(crate) active: hermes_upstream::Active,
    pub(crate) endpoint: Arc<str>,
    /// Whether the connection had served other exchanges, so that it may have died of age unseen.
    pub(crate) reused: bool,
    /// The kind of node at the other end.
    pub(crate) hop: Hop,
}

/// Why the next hop was not reached.
pub(crate) struct Unreached {
    pub(crate) refusal: Refusal,
    /// The outcome for the retry policy; `None` if another attempt would end in the same way.
    pub(crate) outcome: Option<Outcome>,
}

impl Unreached {
    /// The time of the attempt was over before the request had left.
    pub(crate) fn too_late(tries: &Tries<'_>) -> Self {
        let refusal = Refusal::new(
            ProxyError::ConnectionTimeout,
            "no connection in the time of an attempt",
        );
        let refusal = match tries.tried().last() {
            Some(endpoint) => refusal.next_hop(endpoint),
            None => refusal,
        };

        Self {
            refusal,
            outcome: Some(Outcome::ConnectFailure),
        }
    }
}

impl From<Refusal> for Unreached {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal,
            outcome: None,
        }
    }
}

/// Longest silence of a session of UDP.
pub(crate) fn silence(timeouts: &Timeouts) -> Silence {
    Silence {
        unanswered: timeouts.udp_unanswered,
        answered: timeouts.udp_answered,
        conversation: timeouts.udp,
    }
}

/// A connection on which an exchange may be opened.
pub(crate) struct Ready {
    checkout: Checkout,
    /// The descriptor that was held while the address of its origin was asked for.
    share: Option<Share>,
}

/// Opens an exchange over HTTP. Nothing of its content has left if that fails.
pub(crate) async fn open(
    tries: &Tries<'_>,
    head: &RequestHead,
    target: &Target,
    length: Option<u64>,
) -> Result<Reached, Unreached> {
    let ready = checkout(tries, head, target).await?;
    open_on(ready, tries, head, length).await
}

/// The same on a connection that is there.
pub(crate) async fn open_on(
    ready: Ready,
    tries: &Tries<'_>,
    head: &RequestHead,
    length: Option<u64>,
) -> Result<Reached, Unreached> {
    let Ready { checkout, share } = ready;
    let next = tries.next;
    let timeouts = &tries.next.timeouts;
    tries.goes_to(&checkout.endpoint);

    match share {
        // A link is shared between exchanges, so its descriptor is not this one's to count.
        _ if checkout.is_link() => {}
        Some(share) => tries.routed.exchange.hold(share),
        None => descriptor_share::take_one(tries.routed)?,
    }

    let endpoint = checkout.endpoint.clone();
    let reused = checkout.reused;
    let hop = next.hop(checkout.is_link());
    let head = address_proxy(head, &endpoint, next);
    let opening = pin!(checkout.open(&head, length, next.receiver()));
    let opening = within(
        || clock::now() + timeouts.header.unwrap_or(OPENING),
        opening,
    )
    .await;

    let opening = opening.ok_or_else(|| {
        let details = "the next hop has no room for a further exchange, or does not answer";
        let refusal = Refusal::new(ProxyError::HttpResponseTimeout, details).next_hop(&endpoint);
        Unreached {
            refusal,
            outcome: Some(Outcome::ConnectFailure),
        }
    })?;

    let opened = opening.map_err(|error| {
        let outcome = retry::of_opening(&error);
        Unreached {
            refusal: Refusal::of_stream(&error, &endpoint),
            outcome,
        }
    })?;

    let outgoing = opened.outgoing;
    let pending = opened.pending;
    let active = opened.active;

    Ok(Reached {
        outgoing,
        pending,
        active,
        endpoint,
        reused,
        hop,
    })
}

/// A connection to the next hop. No byte of the exchange has left.
pub(crate) async fn checkout(
    tries: &Tries<'_>,
    head: &RequestHead,
    target: &Target,
) -> Result<Ready, Unreached> {
    let routed = tries.routed;
    let timeouts = &tries.next.timeouts;

    // A name server is asked on a socket of its own.
    let asks = tries.next.is_target() && !routed.exchange.holds();
    let share = asks.then(|| ShareOwner::of(routed).take(1)).transpose()?;

    let checked_out = match &tries.next.to {
        To::Connector(_) | To::Handler(_) => return Err(nowhere().into()),
        To::Upstream { upstream, .. } if upstream.attached().is_some() => {
            let name = attached_name(routed, upstream, head, target);
            let attached = &routed.worker.shared.attachments.attached;
            attached
                .checkout(upstream, &name, timeouts, &tries.tried())
                .await
        }
        To::Upstream { upstream, receiver } => {
            checkout_upstream(tries, head, upstream, *receiver).await
        }
        To::Target => checkout_origin(tries, head, &origin(head, target)?).await,
    };

    let checkout = checked_out.map_err(|failure| unreached(tries, &failure))?;
    Ok(Ready { checkout, share })
}

/// A connection to an endpoint of an upstream.
async fn checkout_upstream(
    tries: &Tries<'_>,
    head: &RequestHead,
    upstream: &Arc<Upstream>,
    receiver: Receiver,
) -> Result<Checkout, ConnectFailure> {
    let routed = tries.routed;
    let client = &routed.worker.client;
    let timeouts = &tries.next.timeouts;
    let affinity = affinity(routed, tries.next, Some(head));

    // A link to another proxy may carry it: the server's connection is at the end of the overlay.
    let is_link = receiver == Receiver::Proxy && upstream.may_share();
    match binding::own(routed, head, |own| upstream.is_known_to(own)) {
        // It may turn out to be no link: then no other exchange may have it.
        Some(_) if is_link => client
            .checkout_for(upstream, timeouts, affinity, &tries.tried())
            .await
            .map(Checkout::alone),
        Some(own) => {
            client
                .checkout_own(upstream, timeouts, affinity, own, &tries.tried())
                .await
        }
        None if bulk::is_expected(routed, tries.next, head.kind()) => {
            client
                .checkout_own(upstream, timeouts, affinity, Own::NEW, &tries.tried())
                .await
        }
        None => {
            client
                .checkout_for(upstream, timeouts, affinity, &tries.tried())
                .await
        }
    }
}

/// A connection to the origin that the request names.
async fn checkout_origin(
    tries: &Tries<'_>,
    head: &RequestHead,
    origin: &Origin,
) -> Result<Checkout, ConnectFailure> {
    let routed = tries.routed;
    let client = &routed.worker.client;
    let timeouts = &tries.next.timeouts;
    let allow = |address| allowed(routed, address);
    let asking = asking(routed, &allow);

    match binding::own(routed, head, |own| origin.is_known_to(own)) {
        Some(own) => {
            client
                .checkout_own_origin(origin, asking, timeouts, own)
                .await
        }
        None => client.checkout_origin(origin, asking, timeouts).await,
    }
}

/// The name under which the node that an exchange goes to is attached. Hosts are compared without case, and names have no capitals.
fn attached_name(
    routed: &Routed,
    upstream: &Upstream,
    head: &RequestHead,
    target: &Target,
) -> String {
    let target = match target {
        Target::Host(host) => Target::host_port(host.host.to_ascii_lowercase(), host.port),
        other => other.clone(),
    };

    let values = Values {
        path: head.path(),
        query: head.path.as_ref().and_then(PathAndQuery::query),
        method: head.wire_method().as_str(),
        ..routed.values(&target)
    };

    upstream
        .attached()
        .map(|name| render(name, &values))
        .unwrap_or_default()
}

/// Opens a TCP connection to where the overlay ends.
pub(crate) async fn dial(
    tries: &Tries<'_>,
    target: &Target,
) -> Result<hermes_upstream::Dialled, Refusal> {
    // Before the dial: a user at its bound must not make this node open sockets.
    descriptor_share::take_one(tries.routed)?;
    let allow = |address: SocketAddr| allowed(tries.routed, address);
    loop {
        let deadline = tries.begin();
        let avoid = tries.tried();
        let place = place(tries, target, &allow, &avoid)?;

        let dialling =
            tries
                .routed
                .worker
                .client
                .dial_tcp(place, whose(tries.routed), &tries.next.timeouts);

        match retry::within(deadline, pin!(dialling)).await {
            Some(Ok(dialled)) => {
                tries.goes_to(&dialled.endpoint);
                return Ok(dialled);
            }
            Some(Err(failure)) => pause(tries, unreached(tries, &failure)).await?,
            None => pause(tries, Unreached::too_late(tries)).await?,
        }
    }
}

/// Finds the path of UDP where the overlay ends.
pub(crate) async fn dial_udp(
    tries: &Tries<'_>,
    target: &Target,
) -> Result<hermes_upstream::UdpDialled, Refusal> {
    let allow = |address: SocketAddr| allowed(tries.routed, address);
    loop {
        let deadline = tries.begin();
        let avoid = tries.tried();
        let place = place(tries, target, &allow, &avoid)?;
        let finding = tries
            .routed
            .worker
            .client
            .dial_udp(place, &tries.next.timeouts);

        match retry::within(deadline, pin!(finding)).await {
            Some(Ok(dialled)) => {
                tries.goes_to(&dialled.endpoint);
                return Ok(dialled);
            }
            Some(Err(failure)) => pause(tries, unreached(tries, &failure)).await?,
            None => pause(tries, Unreached::too_late(tries)).await?,
        }
    }
}

/// Waits for the next attempt, when no byte of the last one was sent.
pub(crate) async fn pause(tries: &Tries<'_>, unreached: Unreached) -> Result<(), Refusal> {
    match tries.again(unreached.outcome, true) {
        Ok(pause) => tokio::time::sleep(pause).await,
        Err(stop) => return Err(tries.explain(unreached.refusal, stop)),
    }
    Ok(())
}

/// Whose tunnel it is, for targets that want a PROXY header.
fn whose(routed: &Routed) -> Header {
    match (routed.source.peer.socket(), routed.source.local) {
        (Some(source), Some(destination)) => Header::Proxied {
            source,
            destination,
        },
        _ => Header::Unknown,
    }
}

fn place<'a>(
    tries: &'a Tries<'_>,
    target: &'a Target,
    allow: hermes_upstream::Allow<'a>,
    avoid: &'a [Arc<str>],
) -> Result<Dial<'a>, Refusal> {
    match &tries.next.to {
        To::Connector(_) | To::Handler(_) => Err(nowhere()),
        To::Upstream { upstream, .. } if upstream.is_socks() => {
            let HostPort { host, port } = one_host(target)?;
            Ok(Dial::Through {
                upstream,
                affinity: affinity(tries.routed, tries.next, None),
                avoid,
                host,
                port: *port,
                is_early: tries.next.answers_early(),
            })
        }
        To::Upstream { upstream, .. } => Ok(Dial::Upstream {
            upstream,
            affinity: affinity(tries.routed, tries.next, None),
            avoid,
        }),
        To::Target => {
            let HostPort { host, port } = one_host(target)?;
            Ok(Dial::Target {
                host,
                port: *port,
                asking: asking(tries.routed, allow),
                first: tries.first_bytes(),
                multipath: tries.is_multipath(),
            })
        }
    }
}

/// A plug is at the end of the route.
fn nowhere() -> Refusal {
    let details = "what a plug takes is sent nowhere";
    Refusal::new(ProxyError::ProxyInternalError, details)
}

/// The origin that the request names.
fn origin(head: &RequestHead, target: &Target) -> Result<Origin, Refusal> {
    let HostPort { host, port } = one_host(target)?;
    Ok(Origin {
        tls: is_https(head, false),
        host: host.clone(),
        port: *port,
    })
}

/// The host that is dialled.
fn one_host(target: &Target) -> Result<&HostPort, Refusal> {
    target.as_host().ok_or_else(|| {
        let details = format!("{target} is not a host to connect to");
        Refusal::new(ProxyError::HttpRequestError, details).status(StatusCode::BAD_REQUEST)
    })
}

/// Who asks, and which addresses may be dialled.
fn asking<'a>(routed: &Routed, allow: hermes_upstream::Allow<'a>) -> Asking<'a> {
    Asking {
        allow,
        asker: asker(routed),
    }
}

/// Whose turn it is at DNS: that of the user, or of the source where there is none.
pub(crate) fn asker(routed: &Routed) -> Asker {
    Asker::user_or_source(routed.user.as_deref(), &routed.source.peer)
}

/// The egress rules, on the address that is about to be dialled.
fn allowed(routed: &Routed, address: SocketAddr) -> Result<(), String> {
    routed
        .snapshot
        .may_choose(address)
        .map_err(|denied| denied.to_string())
}

fn unreached(tries: &Tries<'_>, failure: &ConnectFailure) -> Unreached {
    let error = failure.proxy_error();
    tries
        .routed
        .worker
        .shared
        .telemetry
        .connect_failure(tries.next.name(), error.token());

    tries.failed_before(&failure.before);
    tries.goes_to(&failure.endpoint.as_str().into());
    let refusal = Refusal::new(error, failure.reason.clone()).next_hop(&failure.endpoint);
    let refusal = match failure.kind {
        FailureKind::Prohibited => refusal.at(Phase::Forward, "egress"),
        _ => refusal,
    };

    // A name that no one here knows is the client's mistake, as it is where no route knows it.
    let unknown = failure.kind == FailureKind::Dotless;
    let refusal = if unknown {
        refusal.status(StatusCode::NOT_FOUND)
    } else {
        refusal
    };

    Unreached {
        refusal,
        outcome: retry::of_connect(failure.kind),
    }
}
