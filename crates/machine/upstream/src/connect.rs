//! From an endpoint to a stream: socket or tunnel, then TLS, then the question which HTTP is spoken.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::{CongestionControl, EndpointAddress, HttpVersion};
use hermes_net::quic;
use hermes_net::{ConnectError, LocalEnd, Stream, connect, tls};
use hermes_proto::proxy_protocol::{self, Header};
use rustls::ClientConfig;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::TaskTracker;

use crate::endpoint::Endpoint;
use crate::failure::{ConnectFailure, FailureKind};
use crate::limits::Room;
use crate::nested;
use crate::quic::{First, HEAD_START, Leaving, Memory, staggered};
use crate::reached::{Bounds, Reached, Transport};
use crate::socks::{HopStream, Reach};
use crate::upstream::Upstream;
use crate::via::{self, Carries};
use crate::worker::Worker;

/// The addresses of an endpoint where it has some that we dial ourselves.
pub(crate) type DialAddresses = Option<Arc<[SocketAddr]>>;

/// Finds the addresses of an endpoint. A Unix socket has none, and nor has an endpoint behind
/// another proxy, which resolves the name itself.
pub(crate) async fn dial_addresses(
    client: &Worker,
    upstream: &Upstream,
    endpoint: &Endpoint,
) -> Result<DialAddresses, ConnectFailure> {
    match &endpoint.addresses {
        Some(addresses) if upstream.via().is_none() => addresses
            .current(&client.resolver, &client.tasks)
            .await
            .map(Some),
        _ => Ok(None),
    }
}

/// An attempt to reach an endpoint of an upstream.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) client: &'a Worker,
    pub(crate) upstream: &'a Upstream,
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) bounds: Bounds,
}

impl Attempt<'_> {
    /// Opens a stream on which HTTP can begin, when there is room for a connection.
    pub(crate) async fn http(self, addresses: &DialAddresses) -> Result<Reached, ConnectFailure> {
        let room = self.room().await?;
        let reached = Reached {
            room,
            ..self.unbounded(addresses).await?
        };

        self.endpoint
            .hop
            .reached(&reached, |version| self.why(version));
        Ok(reached)
    }

    /// As [`http`](Self::http), over HTTP/1.1.
    pub(crate) async fn http1(self, addresses: &DialAddresses) -> Result<Reached, ConnectFailure> {
        let room = self.room().await?;
        Ok(Reached {
            room,
            ..Box::pin(self.over_tcp(addresses, &[HttpVersion::H1])).await?
        })
    }

    /// As [`http`](Self::http), without regard to the bound of connections. If QUIC is one of
    /// several ways, the preferred one has a head start, and the result of QUIC is remembered.
    pub(crate) async fn unbounded(
        self,
        addresses: &DialAddresses,
    ) -> Result<Reached, ConnectFailure> {
        // Boxed: an exchange that finds a connection should not carry the room for making one.
        let tcp = Box::pin(self.over_tcp(addresses, &self.upstream.versions));
        let Some(config) = self.quic_config() else {
            return tcp.await;
        };

        let quic = Box::pin(self.over_quic(config, addresses));
        let memory = &self.endpoint.quic;
        let first = match self.upstream.versions.as_slice() {
            [HttpVersion::H3] => {
                let done = quic.await;
                let first = done
                    .as_ref()
                    .err()
                    .map_or(First::Won, |failure| First::Failed(failure.reason.clone()));
                remember(memory, &first);
                return done;
            }
            // QUIC failed lately: where UDP is blocked, a race would cost each connection its head start.
            [HttpVersion::H3, ..] if !memory.is_worth_trying(Instant::now()) => return tcp.await,
            [HttpVersion::H3, ..] => staggered(memory.head_start(Instant::now()), quic, tcp).await,
            // The other way round there is nothing to remember: TCP is tried first anyway.
            _ => return staggered(HEAD_START, tcp, quic).await.0,
        };

        // Where nothing listens over TCP either, it is not QUIC that failed.
        if !matches!(&first.0, Err(failure) if failure.kind == FailureKind::Refused) {
            remember(memory, &first.1);
        }
        first.0
    }

    /// Reaches the endpoint over QUIC alone, regardless of earlier results.
    pub(crate) async fn quic_alone(
        self,
        addresses: &DialAddresses,
    ) -> Result<Reached, ConnectFailure> {
        let text = &self.endpoint.text;
        let Some(config) = self.quic_config() else {
            return Err(ConnectFailure::new(
                FailureKind::Protocol,
                text.to_string(),
                "no QUIC is configured",
            ));
        };

        let room = self.room().await?;
        Ok(Reached {
            room,
            ..Box::pin(self.over_quic(config, addresses)).await?
        })
    }

    /// Opens a stream for something that is not HTTP, for the client that `whose` names.
    pub(crate) async fn bare(
        self,
        whose: Header,
    ) -> Result<(Stream, Option<SocketAddr>), ConnectFailure> {
        let addresses = dial_addresses(self.client, self.upstream, self.endpoint).await?;
        let (stream, address) = self.plain(&addresses).await?;
        let stream = self.introduce(stream, whose).await?;
        let Some(security) = &self.upstream.security else {
            return Ok((stream, address));
        };

        let name = self.endpoint.name_in_certificate(security);
        let stream = secure(
            stream,
            &security.bare,
            name,
            self.bounds.until,
            &self.endpoint.text,
        )
        .await?;

        Ok((stream, address))
    }

    /// Why this version is used, for people.
    fn why(self, version: u8) -> String {
        match self.upstream.versions.as_slice() {
            [_] => "no other is configured".to_owned(),
            [HttpVersion::H3, ..] if version != 3 => self
                .endpoint
                .quic
                .reason()
                .unwrap_or_else(|| "HTTP/3 is left out".to_owned()),
            [first, ..] if first.number() == version => "it is preferred".to_owned(),
            _ if version == 3 => "TCP failed, or was slower".to_owned(),
            _ if self.upstream.security.is_some() => "the peer chose it (ALPN)".to_owned(),
            _ => "there is no TLS to agree on another".to_owned(),
        }
    }

    async fn room(self) -> Result<Room, ConnectFailure> {
        self.upstream
            .limits
            .connection(self.bounds.until, &self.endpoint.text)
            .await
    }

    pub(crate) fn quic_config(&self) -> Option<&quic::ClientConfig> {
        self.upstream
            .security
            .as_ref()
            .and_then(|tls| tls.quic.as_ref())
    }

    pub(crate) async fn over_quic(
        self,
        config: &quic::ClientConfig,
        addresses: &DialAddresses,
    ) -> Result<Reached, ConnectFailure> {
        let Self {
            client,
            upstream,
            endpoint,
            bounds,
        } = self;

        let name = upstream
            .security
            .as_ref()
            .map_or("", |tls| endpoint.name_in_certificate(tls));
        let (connection, address, nested_mtu) = match (&endpoint.address, upstream.via(), addresses)
        {
            (EndpointAddress::Tcp(place), Some(via), _) => {
                let tunnel = via::tunnel(client, via, place, Carries::Quic, bounds).await?;
                let depth = quic_depth(client, via);

                let nested = nested::connect(
                    tunnel,
                    depth,
                    name,
                    config,
                    bounds.until,
                    &endpoint.text,
                    &client.tunnels,
                );

                let (connection, nested_mtu) = nested.await?;
                (connection, None, Some(nested_mtu))
            }
            (_, _, addresses) => {
                let addresses = addresses.as_deref().unwrap_or_default();
                let config = config.expecting(endpoint.quic.rtt());
                let leaving = Leaving {
                    config: &config,
                    from: &upstream.links.from,
                };
                let connecting =
                    crate::quic::connect(addresses, leaving, name, bounds.until, &endpoint.text);
                let connection = connecting.await?;
                endpoint.quic.measured(connection.path_stats().rtt);
                let address = Some(connection.peer());

                (connection, address, None)
            }
        };

        Ok(Reached {
            nested_mtu,
            ..self.reached(Transport::H3(connection), address)
        })
    }

    pub(crate) async fn over_tcp(
        self,
        addresses: &DialAddresses,
        versions: &[HttpVersion],
    ) -> Result<Reached, ConnectFailure> {
        let Self {
            upstream, endpoint, ..
        } = self;
        let (stream, address) = self.plain(addresses).await?;

        // The connection will carry exchanges of many clients.
        let stream = self.introduce(stream, Header::Local).await?;
        let transport = match &upstream.security {
            Some(security) => {
                let name = endpoint.name_in_certificate(security);
                let config = if versions == [HttpVersion::H1] {
                    &security.h1
                } else {
                    &security.http
                };

                let stream =
                    secure(stream, config, name, self.bounds.until, &endpoint.text).await?;
                agreed(stream, versions, &endpoint.text)?
            }
            None if versions.first() == Some(&HttpVersion::H2) => Transport::H2(stream),
            None => Transport::H1(stream),
        };

        Ok(self.reached(transport, address))
    }

    fn reached(&self, transport: Transport, address: Option<SocketAddr>) -> Reached {
        let endpoint = self.endpoint.text.to_string();
        let keepalive = self.upstream.links.keepalive;
        Reached {
            transport,
            address,
            endpoint,
            room: None,
            keepalive,
            nested_mtu: None,
        }
    }

    async fn plain(
        self,
        addresses: &DialAddresses,
    ) -> Result<(Stream, Option<SocketAddr>), ConnectFailure> {
        let Self {
            client,
            upstream,
            endpoint,
            bounds,
        } = self;
        match (&endpoint.address, upstream.via(), addresses) {
            (EndpointAddress::Tcp(place), Some(via), _) => {
                let tunnel = via::tunnel(client, via, place, Carries::Bytes, bounds).await?;
                Ok((tunnel.into_stream(), None))
            }
            (EndpointAddress::Unix(path), _, _) => {
                let connected = in_time(bounds.until, &endpoint.text, connect::unix(path)).await?;
                Ok((Stream::from(connected), None))
            }
            (EndpointAddress::Tcp(_), None, addresses) => {
                let addresses = addresses.as_deref().unwrap_or_default();
                let from = &upstream.links.from;
                let stream = client
                    .race(addresses, from, bounds.until, &endpoint.text)
                    .await?;
                control(&stream, upstream);
                // The kernel has measured the handshake: a round trip that costs no packet.
                if let hermes_net::Transport::Tcp(tcp) = stream.transport() {
                    endpoint.hop.measured(hermes_net::os::round_trip(tcp));
                }
                let address = stream.info().peer.socket();
                Ok((stream, address))
            }
        }
    }

    /// Names the client of the connection, if the upstream wants a PROXY header; before TLS, as the
    /// PROXY protocol demands.
    async fn introduce(self, mut stream: Stream, whose: Header) -> Result<Stream, ConnectFailure> {
        let Some(version) = self.upstream.proxy_header() else {
            return Ok(stream);
        };
        let header = proxy_protocol::encode(version, whose);
        let written = async {
            stream.write_all(&header).await?;
            stream.flush().await
        };

        let endpoint = &*self.endpoint.text;
        match timeout_at(self.bounds.until, written).await {
            Ok(Ok(())) => Ok(stream),
            Ok(Err(error)) => Err(ConnectFailure::new(
                FailureKind::Refused,
                endpoint,
                error.to_string(),
            )),
            Err(_) => Err(ConnectFailure::timeout(endpoint)),
        }
    }
}

/// Sets the congestion control of a TCP connection as the upstream is configured.
fn control(stream: &Stream, upstream: &Upstream) {
    if let Some(wanted @ (CongestionControl::Cubic | CongestionControl::Bbr)) =
        upstream.links.congestion
    {
        stream.control_congestion(wanted.name());
    }
}

fn remember(memory: &Memory, first: &First) {
    match first {
        First::Won => memory.worked(),
        First::Failed(reason) => memory.failed(reason, Instant::now()),
        First::Slow => memory.failed("slower than TCP, or silent", Instant::now()),
    }
}

/// Connections of QUIC, one inside the other, that begin with this upstream and lead outwards.
fn quic_depth(client: &Worker, via: &str) -> u8 {
    let mut depth = 0;
    let mut next = client.directory.upstream(via);
    // No deeper than tunnels are opened.
    while let Some(upstream) =
        next.filter(|upstream| depth < via::DEPTH && upstream.versions.contains(&HttpVersion::H3))
    {
        depth += 1;
        next = upstream
            .via()
            .and_then(|via| client.directory.upstream(via));
    }

    depth
}

impl Reach for Worker {
    fn reach<'a>(
        &'a self,
        upstream: &'a Upstream,
        endpoint: &'a Endpoint,
        bounds: Bounds,
    ) -> HopStream<'a> {
        let attempt = Attempt {
            client: self,
            upstream,
            endpoint,
            bounds,
        };
        Box::pin(attempt.bare(Header::Local))
    }

    fn tunnels(&self) -> &TaskTracker {
        &self.tunnels
    }
}

impl Worker {
    /// As [`race`]. If descriptors are short, kept connections are closed.
    pub(crate) async fn race(
        &self,
        addresses: &[SocketAddr],
        from: &LocalEnd,
        until: Instant,
        endpoint: &str,
    ) -> Result<Stream, ConnectFailure> {
        match race(addresses, from, until, endpoint).await {
            // Idle connections are worth less than this one. Once: if there are none left, the second attempt says why.
            Err(failure) if failure.kind == FailureKind::Descriptors && self.pool.give_way() => {
                race(addresses, from, until, endpoint).await
            }
            done => done,
        }
    }
}

/// Connects to the first of `addresses` that answers (RFC 8305).
async fn race(
    addresses: &[SocketAddr],
    from: &LocalEnd,
    until: Instant,
    endpoint: &str,
) -> Result<Stream, ConnectFailure> {
    let connecting = connect::tcp_from(addresses, remaining(until), from);
    let tcp = in_time(until, endpoint, connecting).await?;
    // Which of several addresses has answered, the kernel has to be asked; of one that opens with its first bytes it knows no peer yet.
    Ok(match addresses {
        [only] => Stream::tcp(tcp, *only),
        _ => Stream::from(tcp),
    })
}

async fn in_time<T>(
    until: Instant,
    endpoint: &str,
    connecting: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectFailure> {
    match timeout_at(until, connecting).await {
        Ok(connected) => connected.map_err(|error| ConnectFailure::connect(endpoint, &error)),
        Err(_) => Err(ConnectFailure::timeout(endpoint)),
    }
}

/// Speaks TLS on the stream.
pub(crate) async fn secure(
    stream: Stream,
    config: &Arc<ClientConfig>,
    name: &str,
    until: Instant,
    endpoint: &str,
) -> Result<Stream, ConnectFailure> {
    let wrapped = tls::connect(stream, config.clone(), name, remaining(until)).await;
    wrapped.map_err(|error| ConnectFailure::tls(endpoint, &error))
}

/// The stream with the version that ALPN settled. A peer that does not know ALPN speaks HTTP/1.1.
pub(crate) fn agreed(
    stream: Stream,
    wanted: &[HttpVersion],
    endpoint: &str,
) -> Result<Transport, ConnectFailure> {
    let alpn = stream
        .info()
        .tls
        .as_ref()
        .and_then(|tls| tls.alpn.as_deref());
    if alpn == Some(b"h2") && wanted.contains(&HttpVersion::H2) {
        return Ok(Transport::H2(stream));
    }

    if alpn != Some(b"h2") && wanted.contains(&HttpVersion::H1) {
        return Ok(Transport::H1(stream));
    }

    // RFC 9113, 3.2: HTTP/2 over TLS needs ALPN.
    Err(ConnectFailure::new(
        FailureKind::Alpn,
        endpoint,
        "the peer did not agree to HTTP/2 (ALPN `h2`)",
    ))
}

fn remaining(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
