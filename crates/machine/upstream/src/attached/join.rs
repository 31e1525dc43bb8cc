//! Attaching to another proxy: the stream on which this node is the server.

use std::sync::Arc;

use hermes_http::h1::client::Receiver;
use hermes_http::{Event, Incoming, Outgoing, RequestHead, StreamError};
use hermes_net::{Stream, StreamInfo};
use hermes_proto::fields::Fields;
use hermes_proto::ptth;
use hermes_proto::upgrade::Protocol;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Version};
use tokio::time::{Instant, timeout_at};

use super::lent::Rest;
use crate::endpoint::Active;
use crate::opened::Opened;
use crate::tunnel_io::TunnelIo;
use crate::{Client, ConnectFailure, OPENING, Upstream};

/// A stream on which a proxy that this node attached to begins HTTP/2, as the client.
#[derive(Debug)]
pub struct Joined {
    /// The stream; its description is that of the connection which carries it.
    pub stream: Stream,
    /// The endpoint that was attached to, as it is configured.
    pub endpoint: String,
    /// Left over when the stream is dropped.
    pub rest: Rest,
}

/// Why this node is not attached.
#[derive(Debug, thiserror::Error)]
pub enum NotJoined {
    /// No connection.
    #[error(transparent)]
    Unreached(#[from] ConnectFailure),
    /// The exchange broke.
    #[error("{0}")]
    Broken(#[from] StreamError),
    /// The proxy refused.
    #[error("{endpoint} answered {status}{reason}")]
    Refused {
        /// The endpoint.
        endpoint: String,
        /// Its answer.
        status: StatusCode,
        /// Its reason, where it gave one.
        reason: String,
    },
    /// No answer in time.
    #[error("no answer in time")]
    Late,
}

impl Client {
    /// Asks an endpoint of `upstream` to send this node exchanges as `name`. The request has `fields`.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn attach(
        &self,
        upstream: &Arc<Upstream>,
        name: &str,
        fields: Fields,
    ) -> Result<Joined, NotJoined> {
        let timeouts = upstream.timeouts();
        let until = Instant::now() + timeouts.connect + timeouts.header.unwrap_or(OPENING);
        let attempt = async {
            let checkout = self.checkout(upstream, timeouts).await?;
            let source = checkout.source();
            let endpoint = checkout.endpoint.clone();
            let mut fields = fields;
            upstream.add_fields(&mut fields, Receiver::Proxy);
            let head = head(upstream, &endpoint, name, fields);
            let opened = checkout.open(&head, Some(0), Receiver::Origin).await?;
            let (incoming, outgoing, active) = ask(opened).await?;
            let io = TunnelIo::new(incoming, outgoing).holding(active);
            let (lent, rest) = Rest::lend(io);

            Ok(Joined {
                stream: Stream::other(Box::new(lent), known(upstream, &source)),
                endpoint: endpoint.to_string(),
                rest,
            })
        };

        timeout_at(until, attempt)
            .await
            .unwrap_or(Err(NotJoined::Late))
    }
}

/// The properties of the other end. A name that was not verified counts as none.
fn known(upstream: &Upstream, source: &StreamInfo) -> StreamInfo {
    let mut known = source.clone();
    if let Some(tls) = known.tls.as_mut().filter(|_| !upstream.verifies()) {
        tls.certificate = None;
    }
    known
}

fn head(upstream: &Upstream, endpoint: &str, name: &str, mut fields: Fields) -> RequestHead {
    fields.insert(ptth::ALPN, ptth::H2);
    // A Unix socket has no authority; the name says only that it is the proxy itself.
    let authority =
        Authority::try_from(endpoint).unwrap_or_else(|_| Authority::from_static("localhost"));
    let path = PathAndQuery::try_from(ptth::path(name))
        .unwrap_or_else(|_| PathAndQuery::from_static(ptth::PREFIX));

    RequestHead {
        method: Method::CONNECT,
        scheme: Some(if upstream.is_tls() {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        }),
        authority: Some(authority),
        path: Some(path),
        protocol: Some(Protocol::Ptth),
        fields,
        version: Version::HTTP_11,
        origin_form: false,
    }
}

async fn ask(opened: Opened) -> Result<(Incoming, Outgoing, Active), NotJoined> {
    let Opened {
        mut outgoing,
        mut pending,
        active,
        endpoint,
        ..
    } = opened;

    outgoing.flush().await?;
    loop {
        match pending.event(Some(&mut outgoing)).await? {
            Event::Interim(_) => {}
            Event::Final(head, _) => {
                let reason = head
                    .fields
                    .get("proxy-status")
                    .and_then(|value| value.to_str().ok());
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                return Err(NotJoined::Refused {
                    endpoint: endpoint.to_string(),
                    status: head.status,
                    reason,
                });
            }
            Event::Tunnel(_, incoming) => return Ok((incoming, outgoing, active)),
        }
    }
}
