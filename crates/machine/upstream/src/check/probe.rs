//! One check of one endpoint.

use std::sync::Arc;

use bytes::BytesMut;
use hermes_config::model::CheckKind;
use hermes_http::client::TcpLink;
use hermes_http::h1::client::Receiver;
use hermes_http::{Event, RequestHead, client, h1};
use hermes_net::{RecvBatch, UdpSocket};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_protocol::Header;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode, Version};
use tokio::time::Instant;

use super::plan::Plan;
use crate::connect::{self, Attempt};
use crate::endpoint::Endpoint;
use crate::reached::{Bounds, Reached, Transport};
use crate::upstream::Upstream;
use crate::worker::Worker;

/// Random bytes of a UDP check: as good as never the same twice.
const PAYLOAD: usize = 16;

/// Checks once; why it failed, in words.
pub(super) async fn probe(
    client: &Worker,
    upstream: &Arc<Upstream>,
    endpoint: &Endpoint,
    plan: &Plan<'_>,
) -> Result<(), String> {
    let bounds = Bounds {
        until: Instant::now() + plan.timeout,
        depth: 0,
    };
    match plan.health.kind {
        CheckKind::Tcp => Attempt {
            client,
            upstream,
            endpoint,
            bounds,
        }
        .bare(Header::Local)
        .await
        .map(drop)
        .map_err(words),
        CheckKind::Http => http(client, upstream, endpoint, bounds, plan).await,
        CheckKind::Udp => udp(client, upstream, endpoint, plan).await,
    }
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A GET on a connection of its own, so that the check includes connecting.
async fn http(
    client: &Worker,
    upstream: &Arc<Upstream>,
    endpoint: &Endpoint,
    bounds: Bounds,
    plan: &Plan<'_>,
) -> Result<(), String> {
    let head = head(upstream, endpoint, plan)?;
    let addresses = connect::dial_addresses(client, upstream, endpoint)
        .await
        .map_err(words)?;
    let Reached { transport, .. } = Attempt {
        client,
        upstream,
        endpoint,
        bounds,
    }
    .unbounded(&addresses)
    .await
    .map_err(words)?;

    let status = ask(client, transport, &head).await?;
    if plan.expects(status.as_u16()) {
        Ok(())
    } else {
        Err(format!("it answered {status}"))
    }
}

/// Sends a request without content on a fresh connection; the status of its final response.
///
/// # Errors
/// Why there is no answer, in words.
pub(crate) async fn ask(
    client: &Worker,
    transport: Transport,
    head: &RequestHead,
) -> Result<StatusCode, String> {
    let (mut outgoing, mut pending) = match transport {
        Transport::H1(stream) => {
            let connection = h1::Connection::new(stream, BytesMut::new());
            client::h1::open(connection, head, Some(0), Receiver::Origin, None).map_err(words)?
        }
        Transport::H2(stream) => {
            let link = TcpLink::connect(stream, None, &client.tasks)
                .await
                .map_err(words)?;
            link.open(head, Some(0)).await.map_err(words)?
        }
        Transport::H3(connection) => {
            let link = client::QuicLink::connect(connection, &client.tasks).map_err(words)?;
            link.open(head, Some(0)).await.map_err(words)?
        }
    };

    outgoing.finish(None).await.map_err(words)?;
    loop {
        match pending.event(None).await.map_err(words)? {
            Event::Interim(_) => {}
            Event::Final(head, _) | Event::Tunnel(head, _) => return Ok(head.status),
        }
    }
}

fn head(upstream: &Upstream, endpoint: &Endpoint, plan: &Plan<'_>) -> Result<RequestHead, String> {
    let host = plan.health.host.as_deref().unwrap_or(&endpoint.text);
    // A Unix socket has no authority; any name will do.
    let authority =
        Authority::try_from(host).unwrap_or_else(|_| Authority::from_static("localhost"));
    let path = plan.health.path.as_deref().unwrap_or("/");
    let mut fields = Fields::new();
    upstream.add_fields(&mut fields, Receiver::Origin);

    Ok(RequestHead {
        method: Method::GET,
        scheme: Some(if upstream.is_tls() {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        }),
        authority: Some(authority),
        path: Some(PathAndQuery::try_from(path).map_err(words)?),
        protocol: None,
        fields,
        version: Version::HTTP_11,
        origin_form: true,
    })
}

/// A datagram with its answer: the same bytes, or any if the operator chose the payload.
async fn udp(
    client: &Worker,
    upstream: &Upstream,
    endpoint: &Endpoint,
    plan: &Plan<'_>,
) -> Result<(), String> {
    let address = client.udp_of(upstream, endpoint).await.map_err(words)?;
    let socket = UdpSocket::connected_from(address, &upstream.links.from).await;
    let socket = socket.map_err(words)?;
    let sent = plan
        .health
        .send
        .as_ref()
        .map_or_else(random, |text| text.clone().into_bytes());
    socket
        .send_segments(None, &sent, None)
        .await
        .map_err(words)?;
    let mut batch = RecvBatch::with_slots(1);

    loop {
        socket.recv(&mut batch).await.map_err(words)?;
        // Answers to an earlier check come to another port, so a wrong answer is no stray one; a
        // right one may follow.
        if plan.health.send.is_some() || batch.runs().any(|run| run.data.starts_with(&sent)) {
            return Ok(());
        }
    }
}

fn random() -> Vec<u8> {
    (0..PAYLOAD).map(|_| fastrand::u8(..)).collect()
}
