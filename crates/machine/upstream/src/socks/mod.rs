//! Through a proxy that speaks SOCKS5 (RFC 1928, RFC 1929) or SOCKS6: connections by its CONNECT, datagrams by its UDP ASSOCIATE.
//!
//! Names travel to the proxy, which resolves them. A connection to it carries one tunnel, and is as that of any upstream before that: its
//! endpoints take turns, are reached `via` other proxies, and under TLS where the upstream says so.

mod association;
mod association6;
mod handshake;
mod optimistic;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hermes_config::model::{HostPort, SocksVersion};
use hermes_http::{Incoming, Outgoing, h1, pipe};
use hermes_net::Stream;
use hermes_proto::socks::{SocksCommand, SocksTarget};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::endpoint::{Active, Endpoint};
use crate::endpoint_attempts::EndpointAttempts;
use crate::failure::ConnectFailure;
use crate::reached::Bounds;
use crate::socks_hop::SocksHop;
use crate::tunnel::Tunnel;
use crate::upstream::Upstream;
use association6::Relayed6;
use handshake::{Failed, Served};

/// What a tunnel through a proxy of SOCKS is for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) upstream: &'a Arc<Upstream>,
    pub(crate) hop: &'a SocksHop,
    /// Where to.
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// Proxies that are around it.
    pub(crate) depth: u8,
    /// The client was answered already: bytes may leave before the proxy's reply, where its version allows it.
    pub(crate) is_early: bool,
}

impl Wanted<'_> {
    fn target(self) -> SocksTarget {
        SocksTarget {
            host: self.host.to_owned(),
            port: self.port,
        }
    }

    /// The name of the far end in failures.
    fn name(self) -> String {
        let place = HostPort {
            host: self.host.to_owned(),
            port: self.port,
        };
        place.to_string()
    }
}

/// A connection to an endpoint, in the making.
pub(crate) type HopStream<'a> =
    Pin<Box<dyn Future<Output = Result<(Stream, Option<SocketAddr>), ConnectFailure>> + Send + 'a>>;

/// Reaches the endpoints of upstreams, and has tasks for tunnels.
pub(crate) trait Reach: Sync {
    /// Opens a connection to an endpoint, and speaks TLS on it where the upstream says so.
    fn reach<'a>(
        &'a self,
        upstream: &'a Upstream,
        endpoint: &'a Endpoint,
        bounds: Bounds,
    ) -> HopStream<'a>;

    /// Those that carry datagrams.
    fn tunnels(&self) -> &TaskTracker;
}

/// A proxy that has served a wish.
pub(crate) struct ServedHop {
    served: Served,
    pub(crate) endpoint: Arc<str>,
    /// The proxy's address; `None` for a Unix socket, or behind a further proxy.
    address: Option<SocketAddr>,
    pub(crate) active: Active,
}

impl ServedHop {
    /// The connection to the target.
    pub(crate) fn into_stream(self) -> (Stream, Arc<str>, Active) {
        (self.served.stream, self.endpoint, self.active)
    }
}

/// Opens a tunnel for a connection that goes `via` this upstream.
pub(crate) async fn tunnel(
    reach: &dyn Reach,
    wanted: Wanted<'_>,
    is_bytes: bool,
    until: Instant,
) -> Result<Tunnel, ConnectFailure> {
    let attempts = EndpointAttempts::begin(wanted.upstream, None, until).await?;
    if !is_bytes {
        let associated = associate(reach, wanted, attempts).await?;
        let (incoming, outgoing) = *associated.streams;
        return Ok(Tunnel {
            incoming,
            outgoing,
            active: associated.active,
            address: associated.address,
            has_floor: false,
            listens: false,
        });
    }

    let opened = connect(reach, wanted, attempts).await?;
    let (incoming, outgoing) = halves(opened.served.stream);
    Ok(Tunnel {
        incoming,
        outgoing,
        active: opened.active,
        address: opened.address,
        has_floor: false,
        listens: false,
    })
}

/// Opens a connection to the target.
pub(crate) async fn connect(
    reach: &dyn Reach,
    wanted: Wanted<'_>,
    attempts: EndpointAttempts<'_>,
) -> Result<ServedHop, ConnectFailure> {
    let connect = SocksCommand::Connect(wanted.target());
    open(reach, wanted, attempts, &connect).await
}

/// An association, as capsules on a stream within this process.
pub(crate) struct Associated {
    pub(crate) streams: Box<(Incoming, Outgoing)>,
    pub(crate) endpoint: Arc<str>,
    address: Option<SocketAddr>,
    pub(crate) active: Active,
}

/// Opens an association for datagrams of the target.
pub(crate) async fn associate(
    reach: &dyn Reach,
    wanted: Wanted<'_>,
    attempts: EndpointAttempts<'_>,
) -> Result<Associated, ConnectFailure> {
    let opened = open(reach, wanted, attempts, &SocksCommand::Associate).await?;
    let fail = |reason: String| handshake::failure(&wanted.name(), &opened.endpoint, reason);

    let (to_proxy, from_node) = pipe(None);
    let (to_node, from_proxy) = pipe(None);
    let Served {
        stream,
        bound,
        association,
    } = opened.served;
    if let Some(association) = association {
        // In clear text only where the connection is; its port is that of connections, unless it is behind another proxy.
        let port = opened.address.filter(|_| !wanted.upstream.is_tls());
        let begun = Relayed6::begin(stream, association, port, wanted).await;
        let relayed = begun.map_err(|error| fail(error.to_string()))?;
        reach.tunnels().spawn(relayed.carry(from_node, to_node));
    } else {
        let relay = relay(bound, opened.address)
            .ok_or_else(|| fail("it named no address for datagrams".to_owned()))?;
        let begun = association::Relayed::begin(relay, wanted, stream).await;
        let relayed = begun.map_err(|error| fail(error.to_string()))?;
        reach.tunnels().spawn(relayed.carry(from_node, to_node));
    }
    Ok(Associated {
        streams: Box::new((from_proxy, to_proxy)),
        endpoint: opened.endpoint,
        address: opened.address,
        active: opened.active,
    })
}

/// Where the datagrams of an association of SOCKS5 go.
fn relay(bound: Option<SocketAddr>, proxy: Option<SocketAddr>) -> Option<SocketAddr> {
    let mut relay = bound?;
    // RFC 1928 does not say it, but proxies write zeros where they mean the address that they were reached at.
    if relay.ip().is_unspecified() {
        relay.set_ip(proxy?.ip());
    }
    Some(relay)
}

/// Has one of the proxies serve a wish.
async fn open(
    reach: &dyn Reach,
    wanted: Wanted<'_>,
    mut attempts: EndpointAttempts<'_>,
    command: &SocksCommand,
) -> Result<ServedHop, ConnectFailure> {
    while let Some(next) = attempts.next() {
        let bounds = Bounds {
            until: next.until,
            depth: wanted.depth,
        };
        let asked = async {
            let limits = &wanted.upstream.limits;
            let room = limits.connection(next.until, &next.endpoint.text).await?;
            let reaching = reach.reach(wanted.upstream, &next.endpoint, bounds);
            let (stream, address) = reaching.await?;
            Ok::<_, ConnectFailure>((ask(stream, wanted, command).await, address, room))
        };

        let failure = match timeout_at(next.until, asked).await {
            Ok(Ok((Ok(served), address, room))) => {
                next.endpoint.succeeded();
                next.endpoint.served();
                return Ok(ServedHop {
                    served,
                    endpoint: next.endpoint.text.clone(),
                    address,
                    active: next.active.in_rooms(None, Some(room)),
                });
            }
            Ok(Ok((Err(failed), ..))) => {
                let failure = failed.explain(&wanted.name(), &next.endpoint.text);
                // The proxy works; it would say the same again, and so would its neighbours.
                if failed.is_refusal() {
                    next.endpoint.succeeded();
                    return Err(failure);
                }
                failure
            }
            Ok(Err(failure)) => failure,
            Err(_) => ConnectFailure::timeout(&*next.endpoint.text),
        };
        attempts.failed(&next.endpoint, failure);
    }
    Err(attempts.failure())
}

async fn ask(stream: Stream, wanted: Wanted<'_>, command: &SocksCommand) -> Result<Served, Failed> {
    let SocksHop { version, password } = wanted.hop;
    let handshake = handshake::Handshake::new(stream);
    match version {
        SocksVersion::V5 => handshake.ask(password.as_ref(), command).await,
        SocksVersion::V6 => {
            handshake
                .ask_6(password.as_ref(), command, wanted.is_early)
                .await
        }
    }
}

fn halves(stream: Stream) -> (Incoming, Outgoing) {
    let (read, write) = stream.split();
    (
        Incoming::H1(h1::BodyReceiver::bytes(read)),
        Outgoing::H1(h1::BodySender::bytes(write)),
    )
}
