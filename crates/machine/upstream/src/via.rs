//! Tunnels through another proxy. Through one of HTTP: of bytes by its CONNECT (RFC 9110, 9.3.6), of datagrams by its CONNECT-UDP (RFC 9298). Those of
//! SOCKS are in [`socks`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hermes_config::model::HostPort;
use hermes_http::h1::client::Receiver;
use hermes_http::{Cause, Event, Kind, Processed, RequestHead, StreamError};
use hermes_proto::capsule::CAPSULE_PROTOCOL;
use hermes_proto::fields::Fields;
use hermes_proto::upgrade::Protocol;
use hermes_proto::{datagram_floor, datagram_limit, proxy_status, uri_template};
use http::header::PROXY_AUTHORIZATION;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Method, StatusCode, Version};

use crate::failure::{ConnectFailure, FailureKind};
use crate::opened::Opened;
use crate::reached::Bounds;
use crate::socks::{self, Wanted};
use crate::tunnel::Tunnel;
use crate::upstream::Upstream;
use crate::worker::Worker;

/// Proxies through which one connection may pass: configurations have no cycles, so this only
/// bounds their length.
#[doc(alias = "bound")]
pub(crate) const DEPTH: u8 = 4;

/// Attempts to open one tunnel: a kept connection may turn out to be closed.
#[doc(alias = "bound")]
const ATTEMPTS: usize = 2;

/// The content of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    /// Bytes.
    Bytes,
    /// Datagrams of any sender.
    Datagrams,
    /// The packets of a QUIC connection.
    Quic,
}

/// Opens a tunnel to `place` through the upstream called `via`.
///
/// Boxed, because that upstream may be reached through a further one.
pub(crate) fn tunnel<'a>(
    client: &'a Worker,
    via: &'a str,
    place: &'a HostPort,
    carries: Carries,
    bounds: Bounds,
) -> Pin<Box<dyn Future<Output = Result<Tunnel, ConnectFailure>> + Send + 'a>> {
    Box::pin(async move {
        let target = place.to_string();
        if bounds.depth >= DEPTH {
            let reason = format!("more than {DEPTH} proxies on the way");
            return Err(unreachable(&target, reason));
        }
        let Some(upstream) = client.directory.upstream(via) else {
            let reason = format!("there is no upstream `{via}` to go through");
            return Err(unreachable(&target, reason));
        };

        if let Some(hop) = upstream.socks() {
            let wanted = Wanted {
                upstream: &upstream,
                hop,
                host: &place.host,
                port: place.port,
                depth: bounds.depth + 1,
                is_early: false,
            };
            return socks::tunnel(client, wanted, carries == Carries::Bytes, bounds.until).await;
        }

        let opening = Opening {
            client,
            upstream,
            place,
            target,
            carries,
        };
        // The proxy may itself be reached via another one; the depth ends a circle.
        let further = Bounds {
            depth: bounds.depth + 1,
            ..bounds
        };

        let mut attempts = 1;
        loop {
            match opening.attempt(further).await {
                Ok(tunnel) => return Ok(tunnel),
                Err(failed) if failed.may_repeat && attempts < ATTEMPTS => attempts += 1,
                Err(failed) => return Err(failed.failure),
            }
        }
    })
}

/// The opening of one tunnel.
struct Opening<'a> {
    client: &'a Worker,
    upstream: Arc<Upstream>,
    place: &'a HostPort,
    /// The place, as failures name it.
    target: String,
    carries: Carries,
}

/// An attempt to open a tunnel that failed.
struct FailedAttempt {
    failure: ConnectFailure,
    /// Another attempt does no harm, and may succeed.
    may_repeat: bool,
}

impl From<ConnectFailure> for FailedAttempt {
    fn from(failure: ConnectFailure) -> Self {
        Self {
            failure,
            may_repeat: false,
        }
    }
}

impl Opening<'_> {
    async fn attempt(&self, bounds: Bounds) -> Result<Tunnel, FailedAttempt> {
        let checkout = self.client.checkout(&self.upstream, bounds).await;
        let checkout = checkout.map_err(|failure| ConnectFailure {
            reason: format!("via {}: {}", failure.endpoint, failure.reason),
            endpoint: self.target.clone(),
            before: Vec::new(),
            ..failure
        })?;

        let reused = checkout.reused;
        let proxy = checkout.endpoint.clone();
        let head = head(
            self.client,
            &self.upstream,
            &proxy,
            self.place,
            self.carries,
        )
        .map_err(|reason| unreachable(&self.target, reason))?;
        let answer = match checkout.open(&head, None, Receiver::Proxy).await {
            Ok(opened) => ask(opened).await,
            Err(error) => Err(error),
        };

        match answer {
            Ok(Answer::Tunnel(tunnel)) => Ok(*tunnel),
            Ok(Answer::Refused(status, why)) => {
                let why = why.or_else(|| self.wanted_credentials(status));
                Err(refused(&self.target, &proxy, status, why).into())
            }
            // Another attempt would get the same alert.
            Err(error) if alert_of(&error).is_some() => {
                Err(untrusted(&self.target, &proxy, &error).into())
            }
            Err(error) => Err(FailedAttempt {
                // No bytes of ours were in the tunnel yet, so asking again does no harm.
                may_repeat: reused || error.processed == Processed::No,
                failure: unreachable(&self.target, format!("via {proxy}: {error}")),
            }),
        }
    }

    fn wanted_credentials(&self, status: StatusCode) -> Option<String> {
        let has_token = self.client.directory.token(&self.upstream).is_some();
        self.upstream.wanted_credentials(status, has_token)
    }
}

fn unreachable(target: &str, reason: String) -> ConnectFailure {
    ConnectFailure::new(FailureKind::Via { status: None }, target, reason)
}

/// The alert with which a proxy ended the connection, if it did.
fn alert_of(error: &StreamError) -> Option<u8> {
    match error.cause {
        Cause::Alert { id, .. } => Some(id),
        _ => None,
    }
}

fn untrusted(target: &str, proxy: &str, error: &StreamError) -> ConnectFailure {
    let kind = alert_of(error).map_or(FailureKind::Protocol, FailureKind::TlsAlert);
    ConnectFailure::new(kind, target, format!("via {proxy}: {error}"))
}

fn refused(target: &str, proxy: &str, status: StatusCode, why: Option<String>) -> ConnectFailure {
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let reason = format!("via {proxy}: it answered {status}{why}");
    ConnectFailure::new(
        FailureKind::Via {
            status: Some(status),
        },
        target,
        reason,
    )
}

fn head(
    client: &Worker,
    upstream: &Arc<Upstream>,
    proxy: &str,
    place: &HostPort,
    carries: Carries,
) -> Result<RequestHead, String> {
    let authority = |text: &str| {
        text.parse::<Authority>()
            .map_err(|error| format!("`{text}` is not an authority: {error}"))
    };

    let mut fields = Fields::new();
    if let Some(token) = upstream
        .sends_token()
        .then(|| client.directory.token(upstream))
        .flatten()
    {
        fields.insert(PROXY_AUTHORIZATION, token);
    }
    upstream.add_fields(&mut fields, Receiver::Proxy);

    // A CONNECT has neither scheme nor path (RFC 9113, 8.5).
    let connect = RequestHead {
        method: Method::CONNECT,
        scheme: None,
        authority: Some(authority(&place.to_string())?),
        path: None,
        protocol: None,
        fields,
        version: Version::HTTP_11,
        origin_form: false,
    };

    if carries == Carries::Bytes {
        return Ok(connect);
    }
    let mut fields = connect.fields;
    // RFC 9297, 3.4: the content of both directions is capsules.
    fields.insert(CAPSULE_PROTOCOL, HeaderValue::from_static("?1"));
    fields.insert(datagram_limit::FIELD, datagram_limit::understood());

    if carries == Carries::Quic {
        fields.insert(
            datagram_floor::FIELD,
            datagram_floor::value(datagram_floor::QUIC),
        );
    }

    let template = upstream
        .template(Kind::ConnectUdp)
        .unwrap_or(&uri_template::UDP);
    let path = template.expand(&place.host, place.port);
    let (scheme, authority) = template.origin().cloned().unwrap_or_else(|| {
        let scheme = if upstream.is_tls() {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        // A Unix socket has no authority; the name says only that it is the proxy itself.
        (
            scheme,
            authority(proxy).unwrap_or_else(|_| Authority::from_static("localhost")),
        )
    });

    Ok(RequestHead {
        scheme: Some(scheme),
        authority: Some(authority),
        path: Some(
            path.parse()
                .map_err(|error| format!("`{path}` is not a path: {error}"))?,
        ),
        protocol: Some(Protocol::ConnectUdp),
        fields,
        ..connect
    })
}

enum Answer {
    Tunnel(Box<Tunnel>),
    /// With this status, and perhaps its words.
    Refused(StatusCode, Option<String>),
}

async fn ask(opened: Opened) -> Result<Answer, StreamError> {
    let Opened {
        mut outgoing,
        mut pending,
        active,
        address,
        ..
    } = opened;

    // HTTP/1.1 holds a head back until content follows, which a tunnel has none of before the answer.
    outgoing.flush().await?;
    loop {
        match pending.event(Some(&mut outgoing)).await? {
            Event::Interim(_) => {}
            Event::Final(head, _) => {
                // RFC 9209: the proxy may name the hop behind it that failed.
                let why = proxy_status::first_error(&head.fields).map(|told| told.to_string());
                return Ok(Answer::Refused(head.status, why));
            }
            Event::Tunnel(head, incoming) => {
                let has_floor = datagram_floor::of(&head.fields) > 0;
                let listens = datagram_limit::is_understood(&head.fields);
                let tunnel = Tunnel {
                    incoming,
                    outgoing,
                    active,
                    address,
                    has_floor,
                    listens,
                };

                return Ok(Answer::Tunnel(Box::new(tunnel)));
            }
        }
    }
}
