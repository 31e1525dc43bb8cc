//! Reaching the next hop: a connection for HTTP, a TCP connection, or an address for UDP.

use std::net::SocketAddr;
use std::time::Duration;

use hermes_http::{Outgoing, Pending, RequestHead};
use hermes_proto::proxy_status::ProxyError;
use hermes_upstream::{Checkout, ConnectFailure, Dial, FailureKind, Origin, Timeouts};
use http::StatusCode;

use super::departure::{Next, address_proxy};
use crate::refusal::Refusal;
use crate::routed::Routed;
use crate::target::{Target, is_https};

/// Longest silence within the content of a refusal that is passed on.
pub(crate) const REFUSAL_IDLE: Duration = Duration::from_secs(10);

/// An exchange that was opened towards the next hop.
pub(crate) struct Reached {
    pub(crate) outgoing: Outgoing,
    pub(crate) pending: Pending,
    pub(crate) active: hermes_upstream::Active,
    pub(crate) endpoint: String,
    /// Whether the connection had served other exchanges, so that it may have died of age unseen.
    pub(crate) reused: bool,
}

/// Why the next hop was not reached, and whether another try is safe.
pub(crate) struct Unreached {
    pub(crate) refusal: Refusal,
    pub(crate) stale: bool,
}

impl From<Refusal> for Unreached {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, stale: false }
    }
}

/// The time-outs of an exchange: the upstream's, under those of its route.
pub(crate) fn timeouts(routed: &Routed, next: &Next) -> Timeouts {
    let base = match next {
        Next::Upstream { upstream, .. } => *upstream.timeouts(),
        Next::Target => Timeouts::default(),
    };
    base.overlaid(&routed.snapshot.document.routes[routed.route].timeouts)
}

/// Opens an exchange over HTTP.
pub(crate) async fn open(
    routed: &Routed,
    next: &Next,
    head: &RequestHead,
    target: &Target,
    length: Option<u64>,
    timeouts: &Timeouts,
) -> Result<Reached, Unreached> {
    let checkout = checkout(routed, next, head, target, timeouts).await?;
    routed.exchange.upstream(next.name(), &checkout.endpoint);
    let (endpoint, reused) = (checkout.endpoint.clone(), checkout.reused);
    let mut head = head.clone();
    address_proxy(&mut head, &endpoint, next.is_tls());
    let opening = tokio::time::timeout(timeouts.header, checkout.open(&head, length, next.receiver())).await;
    let opening = opening.map_err(|_| {
        let details = "the next hop has no room for a further exchange, or does not answer";
        Unreached::from(Refusal::new(ProxyError::HttpResponseTimeout, details).next_hop(&endpoint))
    })?;
    let opened = opening.map_err(|error| {
        let stale = reused || error.processed == hermes_http::Processed::No;
        Unreached { refusal: Refusal::of_stream(&error, &endpoint), stale }
    })?;
    let (outgoing, pending, active) = (opened.outgoing, opened.pending, opened.active);
    Ok(Reached { outgoing, pending, active, endpoint, reused })
}

async fn checkout(
    routed: &Routed,
    next: &Next,
    head: &RequestHead,
    target: &Target,
    timeouts: &Timeouts,
) -> Result<Checkout, Unreached> {
    let client = &routed.worker.client;
    let checked_out = match next {
        Next::Upstream { upstream, .. } => client.checkout(upstream, timeouts).await,
        Next::Target => {
            let tls = is_https(head, false);
            let origin = Origin { tls, host: target.host.clone(), port: target.port };
            client.checkout_origin(&origin, &|address| allowed(routed, address), timeouts).await
        }
    };
    checked_out.map_err(|failure| Unreached::from(unreached(routed, next, &failure)))
}

/// Opens a TCP connection to where the overlay ends.
pub(crate) async fn dial(
    routed: &Routed,
    next: &Next,
    target: &Target,
    timeouts: &Timeouts,
) -> Result<hermes_upstream::Dialled, Refusal> {
    let allow = |address: SocketAddr| allowed(routed, address);
    let dialled = routed.worker.client.dial_tcp(place(next, target, &allow), timeouts).await;
    let dialled = dialled.map_err(|failure| unreached(routed, next, &failure))?;
    routed.exchange.upstream(next.name(), &dialled.endpoint);
    Ok(dialled)
}

/// The address that UDP goes to where the overlay ends.
pub(crate) async fn udp_address(
    routed: &Routed,
    next: &Next,
    target: &Target,
    timeouts: &Timeouts,
) -> Result<(SocketAddr, hermes_upstream::Active), Refusal> {
    let allow = |address: SocketAddr| allowed(routed, address);
    let found = routed.worker.client.udp_address(place(next, target, &allow), timeouts).await;
    let (address, endpoint, active) = found.map_err(|failure| unreached(routed, next, &failure))?;
    routed.exchange.upstream(next.name(), &endpoint);
    Ok((address, active))
}

fn place<'a>(next: &'a Next, target: &'a Target, allow: hermes_upstream::Allow<'a>) -> Dial<'a> {
    match next {
        Next::Upstream { upstream, .. } => Dial::Upstream(upstream),
        Next::Target => Dial::Target { host: &target.host, port: target.port, allow },
    }
}

/// The egress rules, on the address that is about to be dialled.
fn allowed(routed: &Routed, address: SocketAddr) -> Result<(), String> {
    routed.snapshot.egress.check(address).map_err(|denied| denied.to_string())
}

fn unreached(routed: &Routed, next: &Next, failure: &ConnectFailure) -> Refusal {
    let error = failure.proxy_error();
    routed.worker.shared.seeing.connect_failure(next.name(), error.token());
    routed.exchange.upstream(next.name(), &failure.endpoint);
    let refusal = Refusal::new(error, failure.reason.clone()).next_hop(&failure.endpoint);
    // A name that nobody here knows is the client's mistake, as it is where no route knows it.
    if failure.kind == FailureKind::Dotless { refusal.status(StatusCode::NOT_FOUND) } else { refusal }
}
