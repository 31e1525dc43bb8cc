//! Streams and addresses for tunnels that end here.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use hermes_config::model::EndpointAddress;
use hermes_http::{Incoming, Outgoing};
use hermes_net::{LocalEnd, Stream, UdpSocket};
use hermes_proto::proxy_protocol::Header;
use tokio::time::{Instant, timeout_at};

use crate::client::Client;
use crate::connect::{self, Attempt};
use crate::endpoint::{Active, Endpoint};
use crate::endpoint_attempts::EndpointAttempts;
use crate::failure::{ConnectFailure, FailureKind};
use crate::first_bytes::FirstBytes;
use crate::origin::{Asking, place};
use crate::reached::Bounds;
use crate::ring::Affinity;
use crate::socks::{self, Wanted};
use crate::timeouts::Timeouts;
use crate::tunnel::Tunnel;
use crate::upstream::Upstream;
use crate::via::{self, Carries};
use crate::worker::Worker;

/// Where a tunnel ends.
#[derive(Clone, Copy)]
pub enum Dial<'a> {
    /// At an endpoint of an upstream, which the operator chose.
    Upstream {
        /// The upstream.
        upstream: &'a Arc<Upstream>,
        /// The affinity of the tunnel, for `balance: ring_hash`.
        affinity: Option<Affinity>,
        /// Endpoints, as configured, that earlier attempts had: taken only when there is no other.
        avoid: &'a [Arc<str>],
    },
    /// At the target that the request names, through an upstream that speaks SOCKS. Names are resolved there.
    Through {
        /// The upstream.
        upstream: &'a Arc<Upstream>,
        /// The affinity of the tunnel, for `balance: ring_hash`.
        affinity: Option<Affinity>,
        /// Endpoints, as configured, that earlier attempts had: taken only when there is no other.
        avoid: &'a [Arc<str>],
        /// The target's host: a name or an IP address.
        host: &'a str,
        /// Its port.
        port: u16,
        /// The client was answered already: bytes may leave before the proxy's reply, where its version allows it.
        is_early: bool,
    },
    /// At the target that the request names.
    Target {
        /// A name or an IP address, in brackets or not.
        host: &'a str,
        /// Its port.
        port: u16,
        /// The asking user, and the addresses that may be dialled.
        asking: Asking<'a>,
        /// Bytes that may open the connection.
        first: Option<&'a FirstBytes>,
        /// Whether the connection may use several paths (RFC 8684).
        multipath: bool,
    },
}

impl<'a> Dial<'a> {
    /// At any endpoint of `upstream`.
    #[must_use]
    pub fn to(upstream: &'a Arc<Upstream>) -> Self {
        Self::Upstream {
            upstream,
            affinity: None,
            avoid: &[],
        }
    }
}

impl std::fmt::Debug for Dial<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Upstream { upstream, .. } => write!(f, "Upstream({})", upstream.name()),
            Self::Through {
                upstream,
                host,
                port,
                ..
            } => write!(f, "Through({}, {})", upstream.name(), place(host, *port)),
            Self::Target { host, port, .. } => write!(f, "Target({})", place(host, *port)),
        }
    }
}

/// A stream to where a tunnel ends.
#[derive(Debug)]
pub struct Dialled {
    /// The stream; under TLS if the upstream says so.
    pub stream: Stream,
    /// The endpoint as it is configured, or host and port of the target.
    pub endpoint: Arc<str>,
    /// The address that was dialled; `None` for a Unix socket, or behind another proxy.
    pub address: Option<SocketAddr>,
    /// Counts the tunnel; to be kept until it is over.
    pub active: Active,
}

/// The path to a UDP endpoint.
#[derive(Debug)]
pub struct UdpDialled {
    /// The path of its datagrams.
    pub path: UdpPath,
    /// Where a socket towards an address leaves from.
    pub from: LocalEnd,
    /// The endpoint as it is configured, or host and port of the target.
    pub endpoint: Arc<str>,
    /// Counts the tunnel; to be kept until it is over.
    pub active: Active,
}

/// The path of datagrams to an endpoint.
#[derive(Debug)]
pub enum UdpPath {
    /// A socket towards this address.
    Address(SocketAddr),
    /// A CONNECT-UDP tunnel of another proxy, and whether that understands `Hermes-Datagram-Limit`.
    Tunnel(Box<(Incoming, Outgoing)>, bool),
}

/// A connection in the making. As `dyn`, so that crates that await it do not compile it again.
pub type Connecting<'a, T> = Pin<Box<dyn Future<Output = Result<T, ConnectFailure>> + Send + 'a>>;

impl Client {
    /// Opens a stream for a CONNECT that ends here. `whose` names its client, for upstreams that want a PROXY header.
    ///
    /// # Errors
    /// Why there is no connection.
    #[inline(never)]
    pub fn dial_tcp<'a>(
        &'a self,
        dial: Dial<'a>,
        whose: Header,
        timeouts: &'a Timeouts,
    ) -> Connecting<'a, Dialled> {
        Box::pin(self.tcp(dial, whose, timeouts))
    }

    async fn tcp(
        &self,
        dial: Dial<'_>,
        whose: Header,
        timeouts: &Timeouts,
    ) -> Result<Dialled, ConnectFailure> {
        let until = Instant::now() + timeouts.connect;
        match dial {
            Dial::Upstream {
                upstream,
                affinity,
                avoid,
            } => {
                let attempts = EndpointAttempts::begin(upstream, affinity, until)
                    .await?
                    .avoiding(avoid);
                self.worker.dial_upstream(upstream, attempts, whose).await
            }
            Dial::Through {
                upstream,
                affinity,
                avoid,
                host,
                port,
                is_early,
            } => {
                let wanted = Wanted {
                    is_early,
                    ..wanted(upstream, host, port)?
                };
                let attempts = EndpointAttempts::begin(upstream, affinity, until)
                    .await?
                    .avoiding(avoid);
                // Boxed: most connections are no tunnels.
                let opened = Box::pin(socks::connect(&*self.worker, wanted, attempts)).await?;
                let (stream, endpoint, active) = opened.into_stream();
                Ok(Dialled {
                    stream,
                    endpoint,
                    // That of the target is known to the proxy alone.
                    address: None,
                    active,
                })
            }
            Dial::Target {
                host,
                port,
                asking,
                first,
                multipath,
            } => {
                let endpoint = place(host, port);
                // Around DNS and connecting alike: the time-out is that of the whole attempt.
                let from = self.worker.directory.target_local_end();
                // Where `egress` allows it.
                let is_multipath = multipath && from.is_multipath();
                let from = from.for_client(whose.client()).over_multipath(is_multipath);
                let target = TargetDial {
                    host,
                    port,
                    first,
                    until,
                };
                let dialling = self.worker.dial_target(target, asking, from);
                let dialled = timeout_at(until, dialling).await;
                dialled.unwrap_or_else(|_| Err(ConnectFailure::timeout(endpoint)))
            }
        }
    }

    /// Finds the path for a CONNECT-UDP that ends here. DNS is asked now, so that a failure is known before the tunnel is accepted
    /// (RFC 9298, 3.1); an endpoint behind another proxy is asked for there.
    ///
    /// # Errors
    /// Why there is no socket.
    #[inline(never)]
    pub fn dial_udp<'a>(
        &'a self,
        dial: Dial<'a>,
        timeouts: &'a Timeouts,
    ) -> Connecting<'a, UdpDialled> {
        Box::pin(self.udp(dial, timeouts))
    }

    async fn udp(&self, dial: Dial<'_>, timeouts: &Timeouts) -> Result<UdpDialled, ConnectFailure> {
        let until = Instant::now() + timeouts.connect;
        match dial {
            Dial::Upstream {
                upstream,
                affinity,
                avoid,
            } => {
                let attempts = EndpointAttempts::begin(upstream, affinity, until)
                    .await?
                    .avoiding(avoid);
                self.worker.udp_endpoint(upstream, attempts).await
            }
            Dial::Through {
                upstream,
                affinity,
                avoid,
                host,
                port,
                is_early: _,
            } => {
                let wanted = wanted(upstream, host, port)?;
                let attempts = EndpointAttempts::begin(upstream, affinity, until)
                    .await?
                    .avoiding(avoid);
                let opened = socks::associate(&*self.worker, wanted, attempts);
                let opened = Box::pin(opened).await?;
                Ok(UdpDialled {
                    path: UdpPath::Tunnel(opened.streams, false),
                    from: upstream.links.from.clone(),
                    endpoint: opened.endpoint,
                    active: opened.active,
                })
            }
            Dial::Target {
                host, port, asking, ..
            } => {
                let endpoint = place(host, port);
                let Ok(allowed) = timeout_at(until, self.worker.allowed(host, port, asking)).await
                else {
                    return Err(ConnectFailure::timeout(endpoint));
                };

                let from = self.worker.directory.target_local_end();
                let address = routable(&allowed?, &from, &endpoint).await?;
                Ok(UdpDialled {
                    path: UdpPath::Address(address),
                    from,
                    endpoint: endpoint.into(),
                    active: Active::default(),
                })
            }
        }
    }
}

/// A wish for an upstream that speaks SOCKS.
fn wanted<'a>(
    upstream: &'a Arc<Upstream>,
    host: &'a str,
    port: u16,
) -> Result<Wanted<'a>, ConnectFailure> {
    let hop = upstream.socks().ok_or_else(|| {
        let reason = "it does not speak SOCKS";
        ConnectFailure::new(FailureKind::NoEndpoint, upstream.name(), reason)
    })?;
    Ok(Wanted {
        upstream,
        hop,
        host,
        port,
        depth: 0,
        is_early: false,
    })
}

/// A target that is dialled.
struct TargetDial<'a> {
    host: &'a str,
    port: u16,
    first: Option<&'a FirstBytes>,
    until: Instant,
}

impl Worker {
    async fn dial_target(
        &self,
        target: TargetDial<'_>,
        asking: Asking<'_>,
        from: LocalEnd,
    ) -> Result<Dialled, ConnectFailure> {
        let TargetDial {
            host, port, until, ..
        } = target;
        let endpoint = place(host, port);
        let addresses = self.allowed(host, port, asking).await?;
        // Of several addresses two could hear the same bytes.
        let first = target.first.filter(|_| addresses.len() == 1);
        let from = from.opening_fast(first.is_some());
        let mut stream = self.race(&addresses, &from, until, &endpoint).await?;
        if let Some(first) = first {
            // Boxed: most tunnels open without.
            Box::pin(first.open(&mut stream, &endpoint)).await?;
        }
        let address = stream.info().peer.socket();

        Ok(Dialled {
            stream,
            endpoint: endpoint.into(),
            address,
            active: Active::default(),
        })
    }

    async fn dial_upstream(
        &self,
        upstream: &Upstream,
        mut attempts: EndpointAttempts<'_>,
        whose: Header,
    ) -> Result<Dialled, ConnectFailure> {
        while let Some(next) = attempts.next() {
            let bounds = Bounds {
                until: next.until,
                depth: 0,
            };

            let attempt = Attempt {
                client: self,
                upstream,
                endpoint: &next.endpoint,
                bounds,
            };

            let attempt = async {
                // The room is taken within the attempt's time: one that waits for it leaves the rest of the time to another endpoint.
                let room = upstream
                    .limits
                    .connection(next.until, &next.endpoint.text)
                    .await?;
                Ok((Box::pin(attempt.bare(whose)).await?, room))
            };

            match timeout_at(next.until, attempt).await {
                Ok(Ok(((stream, address), room))) => {
                    next.endpoint.succeeded();
                    // A tunnel has no status that would say more: its endpoint has done well once it is connected.
                    next.endpoint.served();
                    let active = next.active.in_rooms(None, Some(room));
                    return Ok(Dialled {
                        stream,
                        endpoint: next.endpoint.text.clone(),
                        address,
                        active,
                    });
                }
                Ok(Err(failure)) => attempts.failed(&next.endpoint, failure),
                Err(_) => attempts.failed(
                    &next.endpoint,
                    ConnectFailure::timeout(&*next.endpoint.text),
                ),
            }
        }
        Err(attempts.failure())
    }

    async fn udp_endpoint(
        &self,
        upstream: &Upstream,
        mut attempts: EndpointAttempts<'_>,
    ) -> Result<UdpDialled, ConnectFailure> {
        while let Some(next) = attempts.next() {
            match timeout_at(
                next.until,
                self.udp_path(upstream, &next.endpoint, next.until),
            )
            .await
            {
                Ok(Ok((path, outer))) => {
                    next.endpoint.succeeded();
                    let endpoint = next.endpoint.text.clone();
                    // The exchange with the outer proxy lasts as long as the tunnel, and counts there too.
                    let active = next.active.inside(outer);
                    return Ok(UdpDialled {
                        path,
                        from: upstream.links.from.clone(),
                        endpoint,
                        active,
                    });
                }
                Ok(Err(failure)) => attempts.failed(&next.endpoint, failure),
                Err(_) => attempts.failed(
                    &next.endpoint,
                    ConnectFailure::timeout(&*next.endpoint.text),
                ),
            }
        }
        Err(attempts.failure())
    }

    async fn udp_path(
        &self,
        upstream: &Upstream,
        endpoint: &Endpoint,
        until: Instant,
    ) -> Result<(UdpPath, Active), ConnectFailure> {
        match (&endpoint.address, upstream.via()) {
            (EndpointAddress::Tcp(place), Some(via)) => {
                let tunnel = via::tunnel(
                    self,
                    via,
                    place,
                    Carries::Datagrams,
                    Bounds { until, depth: 0 },
                )
                .await?;

                let Tunnel {
                    incoming,
                    outgoing,
                    active,
                    listens,
                    ..
                } = tunnel;

                Ok((
                    UdpPath::Tunnel(Box::new((incoming, outgoing)), listens),
                    active,
                ))
            }
            _ => Ok((
                UdpPath::Address(self.udp_of(upstream, endpoint).await?),
                Active::default(),
            )),
        }
    }

    pub(crate) async fn udp_of(
        &self,
        upstream: &Upstream,
        endpoint: &Endpoint,
    ) -> Result<SocketAddr, ConnectFailure> {
        let unfit = |reason| {
            Err(ConnectFailure::new(
                FailureKind::NoEndpoint,
                &*endpoint.text,
                reason,
            ))
        };
        match (
            &endpoint.address,
            connect::dial_addresses(self, upstream, endpoint).await?,
        ) {
            (_, Some(addresses)) => {
                routable(&addresses, &upstream.links.from, &endpoint.text).await
            }
            (EndpointAddress::Unix(_), None) => unfit("a Unix socket carries no UDP"),
            (EndpointAddress::Tcp(_), None) => {
                unfit("it is behind another proxy, and has no address here")
            }
        }
    }
}

/// The first address that there is a route to. UDP cannot be raced, because no one has to answer.
async fn routable(
    addresses: &[SocketAddr],
    from: &LocalEnd,
    endpoint: &str,
) -> Result<SocketAddr, ConnectFailure> {
    // No other to choose: the caller, who opens the socket, learns whether there is a route.
    if let [only] = addresses {
        return Ok(*only);
    }
    let mut reason = "the name has no address".to_owned();
    for address in addresses {
        // Connecting UDP sends nothing: it asks the kernel for a route.
        match UdpSocket::connected_from(*address, from).await {
            Ok(_) => return Ok(*address),
            Err(error) => reason = format!("{address}: {error}"),
        }
    }

    Err(ConnectFailure::new(
        FailureKind::Unreachable,
        endpoint,
        reason,
    ))
}
