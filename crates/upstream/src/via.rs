//! Streams through another HTTP proxy's CONNECT (RFC 9110, 9.3.6).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use hermes_config::model::HostPort;
use hermes_http::h1::client::Receiver;
use hermes_http::{Event, Processed, RequestHead, StreamError};
use hermes_net::{PeerAddress, Stream, StreamInfo};
use http::header::PROXY_AUTHORIZATION;
use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, Version};

use crate::checkout::Opened;
use crate::client::Inner;
use crate::connect::Bounds;
use crate::failure::{ConnectFailure, FailureKind};
use crate::tunnel_io::TunnelIo;
use crate::upstream::Upstream;

/// Proxies through which one connection may pass; configurations have no cycles, so this only bounds their length.
const DEPTH: u8 = 4;

/// Tries to open one tunnel: a kept connection may turn out to be closed.
const ATTEMPTS: usize = 2;

/// Opens a tunnel to `place` through the upstream called `via`.
///
/// Boxed, because that upstream may be reached through a further one.
pub(crate) fn tunnel<'a>(
    client: &'a Inner,
    via: &'a str,
    place: &'a HostPort,
    bounds: Bounds,
) -> Pin<Box<dyn Future<Output = Result<Stream, ConnectFailure>> + Send + 'a>> {
    Box::pin(async move {
        let target = place.to_string();
        let unreachable = |reason: String| ConnectFailure::new(FailureKind::Via { status: None }, &target, reason);
        if bounds.depth >= DEPTH {
            return Err(unreachable(format!("more than {DEPTH} proxies on the way")));
        }
        let Some(upstream) = client.directory.upstream(via) else {
            return Err(unreachable(format!("there is no upstream `{via}` to go through")));
        };
        let head = head(client, &upstream, &target).map_err(unreachable)?;
        let further = Bounds { depth: bounds.depth + 1, ..bounds };
        for attempt in 1..=ATTEMPTS {
            let checkout = client.checkout(&upstream, further).await.map_err(|failure| ConnectFailure {
                reason: format!("via {}: {}", failure.endpoint, failure.reason),
                endpoint: target.clone(),
                ..failure
            })?;
            let (reused, proxy) = (checkout.reused, checkout.endpoint.clone());
            let answer = match checkout.open(&head, None, Receiver::Proxy).await {
                Ok(opened) => ask(opened).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(Answer::Tunnel(stream)) => return Ok(stream),
                Ok(Answer::Refused(status)) => return Err(refused(&target, &proxy, status)),
                // Nothing of ours was in the tunnel yet, so asking again does no harm.
                Err(error) if attempt < ATTEMPTS && (reused || error.processed == Processed::No) => {}
                Err(error) => return Err(unreachable(format!("via {proxy}: {error}"))),
            }
        }
        Err(unreachable(format!("via {via}: no tunnel")))
    })
}

fn refused(target: &str, proxy: &str, status: StatusCode) -> ConnectFailure {
    let reason = format!("via {proxy}: it answered {status}");
    ConnectFailure::new(FailureKind::Via { status: Some(status) }, target, reason)
}

fn head(client: &Inner, upstream: &Arc<Upstream>, target: &str) -> Result<RequestHead, String> {
    let authority: Authority = target.parse().map_err(|error| format!("`{target}` is no authority: {error}"))?;
    let mut fields = HeaderMap::new();
    if let Some(token) = upstream.sends_token().then(|| client.directory.token(upstream)).flatten() {
        fields.insert(PROXY_AUTHORIZATION, token);
    }
    Ok(RequestHead {
        method: Method::CONNECT,
        scheme: None,
        authority: Some(authority),
        path: None,
        protocol: None,
        fields,
        version: Version::HTTP_11,
        origin_form: false,
    })
}

enum Answer {
    Tunnel(Stream),
    Refused(StatusCode),
}

async fn ask(opened: Opened) -> Result<Answer, StreamError> {
    let Opened { mut outgoing, mut pending, active, address, .. } = opened;
    outgoing.flush().await?;
    loop {
        match pending.event(Some(&mut outgoing)).await? {
            Event::Interim(_) => {}
            Event::Final(head, _) => return Ok(Answer::Refused(head.status)),
            Event::Tunnel(_, incoming) => {
                let peer = address.map_or(PeerAddress::Unix { uid: None }, PeerAddress::Ip);
                let info = StreamInfo { peer, local: None, tls: None };
                let io = TunnelIo::new(incoming, outgoing).holding(active);
                return Ok(Answer::Tunnel(Stream::other(Box::new(io), info)));
            }
        }
    }
}
