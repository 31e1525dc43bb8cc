//! One try of every way to every endpoint, for an operator who asks whether a configuration works:
//! by the same means as exchanges, and without a trace in the history of the endpoints.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hermes_config::model::{EndpointAddress, HttpVersion};
use hermes_http::RequestHead;
use hermes_http::h1::client::Receiver;
use hermes_net::{CertificateNames, RecvBatch, StreamInfo, UdpSocket};
use hermes_proto::fields::Fields;
use hermes_proto::proxy_protocol::Header;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, StatusCode, Version, header};
use tokio::time::{Instant, timeout, timeout_at};

use crate::check::probe;
use crate::client::Client;
use crate::connect::{self, Attempt, DialAddresses};
use crate::endpoint::Endpoint;
use crate::failure::{ConnectFailure, FailureKind};
use crate::reached::{Bounds, Reached, Transport};
use crate::upstream::Upstream;
use crate::worker::Worker;

/// The protocol that an endpoint is tried for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// HTTP: the endpoint is sent `OPTIONS *`, which has no effect (RFC 9110, 9.3.7), so that it
    /// has to accept or refuse our credentials.
    Http,
    /// Connections, and TLS if it is configured. The protocol above is not known.
    Bare,
}

/// An attempt to reach an endpoint in one way.
#[derive(Debug)]
pub struct Trial {
    /// The endpoint as it is configured.
    pub endpoint: Arc<str>,
    /// `TCP` or `QUIC`.
    pub way: &'static str,
    /// The result.
    pub outcome: Result<Found, ConnectFailure>,
}

/// The findings about an answering endpoint.
#[derive(Debug, Default)]
pub struct Found {
    /// The address that was reached; `None` for a Unix socket, or behind another proxy.
    pub address: Option<SocketAddr>,
    /// The names in its certificate; empty without TLS.
    pub names: Vec<String>,
    /// The negotiated HTTP version, and the status of the answer.
    pub answer: Option<(u8, StatusCode)>,
    /// Connections are refused, but datagrams are not.
    pub datagrams: bool,
}

/// How long the refusal of a datagram (ICMP) is waited for.
#[doc(alias = "bound")]
const REFUSAL: Duration = Duration::from_millis(500);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}")?,
            None => f.write_str("connected")?,
        }

        if !self.names.is_empty() {
            write!(f, ", certificate of {}", self.names.join(", "))?;
        }
        if self.datagrams {
            f.write_str(" refuses connections, and no datagrams: right if it is for UDP")?;
        }

        match self.answer {
            Some((version, status)) => write!(f, ", HTTP/{version}, answered {status}"),
            None => Ok(()),
        }
    }
}

impl Client {
    /// Tries every endpoint of an upstream, one after the other and each way no longer than `time`.
    pub async fn try_out(
        &self,
        upstream: &Arc<Upstream>,
        question: Question,
        time: Duration,
    ) -> Vec<Trial> {
        let mut trials = Vec::new();
        for endpoint in &upstream.endpoints {
            let trial = |way, outcome| Trial {
                endpoint: endpoint.text.clone(),
                way,
                outcome,
            };

            let bounds = Bounds {
                until: Instant::now() + time,
                depth: 0,
            };

            let addresses = within(
                endpoint,
                bounds,
                connect::dial_addresses(&self.worker, upstream, endpoint),
            )
            .await;

            let addresses = match addresses {
                Ok(addresses) => addresses,
                Err(failure) => {
                    trials.push(trial("TCP", Err(failure)));
                    continue;
                }
            };

            if upstream
                .versions
                .iter()
                .any(|version| *version != HttpVersion::H3)
            {
                let attempt = Attempt {
                    client: &self.worker,
                    upstream,
                    endpoint,
                    bounds,
                };
                trials.push(trial(
                    "TCP",
                    within(endpoint, bounds, over_tcp(attempt, &addresses, question)).await,
                ));
            }

            let bounds = Bounds {
                until: Instant::now() + time,
                depth: 0,
            };

            let attempt = Attempt {
                client: &self.worker,
                upstream,
                endpoint,
                bounds,
            };

            if attempt.quic_config().is_some() {
                trials.push(trial(
                    "QUIC",
                    within(endpoint, bounds, over_quic(attempt, &addresses)).await,
                ));
            }
        }

        trials
    }
}

async fn within<T>(
    endpoint: &Endpoint,
    bounds: Bounds,
    attempt: impl Future<Output = Result<T, ConnectFailure>>,
) -> Result<T, ConnectFailure> {
    let late = |_| Err(ConnectFailure::timeout(&*endpoint.text));
    timeout_at(bounds.until, attempt).await.unwrap_or_else(late)
}

async fn over_tcp(
    attempt: Attempt<'_>,
    addresses: &DialAddresses,
    question: Question,
) -> Result<Found, ConnectFailure> {
    match question {
        Question::Http => {
            answered(
                attempt,
                attempt
                    .over_tcp(addresses, &attempt.upstream.versions)
                    .await?,
            )
            .await
        }
        Question::Bare => match attempt.bare(Header::Local).await {
            Ok((stream, address)) => Ok(Found {
                address,
                names: names(stream.info()),
                ..Found::default()
            }),
            Err(failure) if failure.kind == FailureKind::Refused => {
                datagrams(attempt).await.ok_or(failure)
            }
            Err(failure) => Err(failure),
        },
    }
}

/// The endpoint may serve UDP alone: then a datagram is not refused. It has one byte, which no
/// protocol takes for a request.
async fn datagrams(attempt: Attempt<'_>) -> Option<Found> {
    let address = attempt
        .client
        .udp_of(attempt.upstream, attempt.endpoint)
        .await
        .ok()?;
    let from = &attempt.upstream.links.from;
    let socket = UdpSocket::connected_from(address, from).await.ok()?;
    socket.send_segments(None, &[0], None).await.ok()?;
    let mut batch = RecvBatch::with_slots(1);
    let refused = matches!(timeout(REFUSAL, socket.recv(&mut batch)).await, Ok(Err(_)));

    (!refused).then(|| Found {
        address: Some(address),
        datagrams: true,
        ..Found::default()
    })
}

async fn over_quic(
    attempt: Attempt<'_>,
    addresses: &DialAddresses,
) -> Result<Found, ConnectFailure> {
    let Some(config) = attempt.quic_config() else {
        return Ok(Found::default());
    };
    answered(attempt, attempt.over_quic(config, addresses).await?).await
}

/// Lets the endpoint answer: only then it is known that it takes our certificate (RFC 8446, 4.4.2.4).
async fn answered(attempt: Attempt<'_>, reached: Reached) -> Result<Found, ConnectFailure> {
    let Attempt {
        client,
        upstream,
        endpoint,
        ..
    } = attempt;

    let (version, names) = match &reached.transport {
        Transport::H1(stream) => (1, names(stream.info())),
        Transport::H2(stream) => (2, names(stream.info())),
        Transport::H3(connection) => (3, names(connection.info())),
    };

    let answer = ask(client, upstream, endpoint, reached.transport).await;
    let status = answer
        .map_err(|reason| ConnectFailure::new(FailureKind::Protocol, &*endpoint.text, reason))?;
    Ok(Found {
        address: reached.address,
        names,
        answer: Some((version, status)),
        datagrams: false,
    })
}

async fn ask(
    client: &Worker,
    upstream: &Upstream,
    endpoint: &Endpoint,
    transport: Transport,
) -> Result<StatusCode, String> {
    let host = match &endpoint.address {
        EndpointAddress::Tcp(place) => place.to_string(),
        EndpointAddress::Unix(_) => "localhost".to_owned(),
    };

    let mut fields = Fields::new();
    // A proxy answers for itself (RFC 9110, 7.6.2).
    fields.insert(header::MAX_FORWARDS, HeaderValue::from_static("0"));
    // Whether it is a proxy or an origin is said by routes.
    upstream.add_fields(&mut fields, Receiver::Proxy);
    upstream.add_fields(&mut fields, Receiver::Origin);
    let head = RequestHead {
        method: Method::OPTIONS,
        scheme: Some(if upstream.is_tls() {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        }),
        authority: Authority::try_from(host).ok(),
        path: Some(PathAndQuery::from_static("*")),
        protocol: None,
        fields,
        version: Version::HTTP_11,
        origin_form: true,
    };

    probe::ask(client, transport, &head).await
}

fn names(info: &StreamInfo) -> Vec<String> {
    let certificate = info.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
    let mut names: Vec<String> = certificate
        .into_iter()
        .flat_map(CertificateNames::all)
        .map(str::to_owned)
        .collect();
    names.dedup();

    names
}
