//! Wrapping a stream in TLS.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, CommonState, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::names::certificate_names;
use super::words::{self, Fault};
use crate::peer::{StreamInfo, TlsPeer};
use crate::shown_chain::ShownChain;
use crate::stream::{Stream, Transport};

/// How long a refused client is listened to, so that it can read why.
#[doc(alias = "bound")]
const FAREWELL: Duration = Duration::from_secs(1);

/// Reads of 1 KiB for the same reason.
#[doc(alias = "bound")]
const FAREWELL_READS: usize = 64;

/// A handshake that failed.
#[derive(Debug, Clone)]
pub struct TlsError {
    /// The kind of failure.
    pub kind: TlsErrorKind,
    /// The error text of rustls or the system.
    pub detail: String,
    /// The kind as metrics have it: more exact about certificates.
    pub fault: Fault,
}

/// The kind of a [`TlsError`]; RFC 9209 has an error type for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TlsErrorKind {
    /// The peer's certificate is missing or not accepted (`tls_certificate_error`).
    Certificate,
    /// The peer ended the handshake with this alert (`tls_alert_received`). The text of an alert about
    /// certificates means ours.
    Alert {
        /// Its number (RFC 8446 section 6).
        id: u8,
    },
    /// The peer does not speak TLS, or not a version of it that we do (`tls_protocol_error`).
    Protocol,
    /// The name to check the certificate against is not a host name or address.
    BadName,
    /// No end of the handshake in time.
    Timeout,
    /// The peer closed during the handshake.
    Eof,
    /// The connection failed during the handshake.
    Io,
}

/// Runs the accepting side of a handshake on `stream`.
///
/// # Errors
/// See [`TlsErrorKind`]. An alert was sent where TLS has one; the stream is closed.
pub async fn accept(
    stream: Stream,
    config: Arc<ServerConfig>,
    timeout: Duration,
) -> Result<Stream, TlsError> {
    let below = stream.info().clone();
    let stream = stream.below_tls(config.enable_secret_extraction);
    let handshake = async {
        match TlsAcceptor::from(config)
            .accept(stream)
            // The stream comes back with the error, for the farewell below.
            .into_fallible()
            .await
        {
            Ok(tls) => Ok(tls),
            Err((error, stream)) => {
                let error = TlsError::from_io(&error);
                say_farewell(stream).await;
                Err(error)
            }
        }
    };

    let mut tls = time::timeout(timeout, handshake)
        .await
        .unwrap_or_else(|_| Err(timed_out(timeout)))?;
    tls.get_mut().0.delivered();
    let session = tls.get_ref().1;
    let server_name = session.server_name().map(str::to_owned);
    let chain = session
        .peer_certificates()
        .map(|chain| chain.iter().map(|one| one.clone().into_owned()).collect());
    let chain = chain.map(|chain| Arc::new(ShownChain::new(chain)));
    let peer = TlsPeer {
        server_name,
        chain,
        ..peer_of(session)
    };

    Ok(wrap(&below, peer, Transport::TlsServer(Box::new(tls))))
}

/// Runs the connecting side of a handshake on `stream`; `server_name` (a host name or an IP address) is asked for
/// and must be in the certificate.
///
/// # Errors
/// See [`TlsErrorKind`]. An alert was sent where TLS has one; the stream is closed.
pub async fn connect(
    stream: Stream,
    config: impl Into<Arc<ClientConfig>>,
    server_name: &str,
    timeout: Duration,
) -> Result<Stream, TlsError> {
    let bare = server_name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));

    // RFC 6066 section 3: the name is sent without its trailing dot.
    let name = bare.unwrap_or(server_name).trim_end_matches('.').to_owned();
    let name = ServerName::try_from(name).map_err(|error| {
        TlsError::new(TlsErrorKind::BadName, format!("{server_name:?}: {error}"))
    })?;
    let below = stream.info().clone();
    let config = config.into();
    let stream = stream.below_tls(config.enable_secret_extraction);
    let mut tls = within(timeout, TlsConnector::from(config).connect(name, stream)).await?;
    tls.get_mut().0.delivered();
    let peer = peer_of(tls.get_ref().1);

    Ok(wrap(&below, peer, Transport::TlsClient(Box::new(tls))))
}

/// Closes so that the alert arrives: a socket closed with unread input sends a reset, which
/// overtakes written bytes.
async fn say_farewell(mut stream: Stream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let mut unread = [0; 1024];
        for _ in 0..FAREWELL_READS {
            if !matches!(stream.read(&mut unread).await, Ok(1..)) {
                return;
            }
        }
    };

    let _ = time::timeout(FAREWELL, drain).await;
}

fn timed_out(timeout: Duration) -> TlsError {
    TlsError::new(
        TlsErrorKind::Timeout,
        format!("handshake not finished after {timeout:?}"),
    )
}

async fn within<T>(
    timeout: Duration,
    handshake: impl Future<Output = io::Result<T>>,
) -> Result<T, TlsError> {
    match time::timeout(timeout, handshake).await {
        Ok(done) => done.map_err(|error| TlsError::from_io(&error)),
        Err(_) => Err(timed_out(timeout)),
    }
}

fn peer_of(session: &CommonState) -> TlsPeer {
    let own = session
        .peer_certificates()
        .and_then(<[CertificateDer<'_>]>::first);
    TlsPeer {
        alpn: session.alpn_protocol().map(<[u8]>::to_vec),
        server_name: None,
        certificate: own.map(|der| certificate_names(der)),
        chain: None,
    }
}

fn wrap(below: &StreamInfo, peer: TlsPeer, transport: Transport) -> Stream {
    Stream::new(
        transport,
        StreamInfo {
            tls: Some(Box::new(peer)),
            ..below.clone()
        },
    )
}

impl TlsError {
    /// An error whose fault follows from its kind.
    pub(crate) fn new(kind: TlsErrorKind, detail: String) -> Self {
        let fault = match kind {
            TlsErrorKind::Certificate | TlsErrorKind::BadName => Fault::BadCertificate,
            TlsErrorKind::Alert { .. } => Fault::RefusedByPeer,
            TlsErrorKind::Protocol => Fault::Protocol,
            TlsErrorKind::Timeout => Fault::Timeout,
            TlsErrorKind::Eof | TlsErrorKind::Io => Fault::Closed,
        };
        Self {
            kind,
            detail,
            fault,
        }
    }

    /// The fault in an error of a TLS stream, which is one of rustls within one of the system.
    #[must_use]
    pub fn from_io(error: &io::Error) -> Self {
        let inner = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let kind = match (inner, error.kind()) {
            (Some(inner), _) => kind_of(inner),
            (None, io::ErrorKind::UnexpectedEof) => TlsErrorKind::Eof,
            (None, _) => TlsErrorKind::Io,
        };

        let fault = inner.map(Fault::of);
        let detail = inner.map_or_else(|| error.to_string(), |inner| detail_of(inner, error));
        let plain = Self::new(kind, detail);

        Self {
            fault: fault.unwrap_or(plain.fault),
            ..plain
        }
    }
}

/// The words of rustls, but where ours say more.
fn detail_of(inner: &rustls::Error, error: &io::Error) -> String {
    match inner {
        rustls::Error::InvalidCertificate(
            CertificateError::Other(_) | CertificateError::UnknownRevocationStatus,
        ) => words::of(inner),
        _ => error.to_string(),
    }
}

fn kind_of(error: &rustls::Error) -> TlsErrorKind {
    use rustls::Error;
    match error {
        Error::InvalidCertificate(_)
        | Error::NoCertificatesPresented
        | Error::UnsupportedNameType
        | Error::InvalidCertRevocationList(_) => TlsErrorKind::Certificate,
        Error::AlertReceived(alert) => TlsErrorKind::Alert {
            id: alert_number(*alert),
        },
        _ => TlsErrorKind::Protocol,
    }
}

fn alert_number(alert: AlertDescription) -> u8 {
    alert.into()
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            TlsErrorKind::Certificate => "certificate refused",
            TlsErrorKind::Alert { .. } => "the peer refused",
            TlsErrorKind::Protocol => "not a valid handshake",
            TlsErrorKind::BadName => "bad server name",
            TlsErrorKind::Timeout => "no handshake in time",
            TlsErrorKind::Eof => "closed during the handshake",
            TlsErrorKind::Io => "connection failed during the handshake",
        };
        write!(f, "TLS: {what}: {}", self.detail)
    }
}

impl std::error::Error for TlsError {}
