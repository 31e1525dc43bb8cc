//! The connection to a controller: TLS 1.3 that believes one authority, and HTTP/2 for gRPC.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hermes_api::Hash;
use hermes_net::tls::{JudgedServer, ServerJudge};
use http::Uri;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::client::Resumption;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::client::Grpc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::backoff::Backoff;

/// How long it may take to connect, handshakes included.
#[doc(alias = "bound")]
const CONNECT: Duration = Duration::from_secs(10);

/// How long a node that joins comes again to a controller that lets others in before it.
#[doc(alias = "bound")]
const PATIENCE: Duration = Duration::from_secs(120);

/// A silent controller is asked after so long, and is gone if it does not answer within [`SILENCE`].
#[doc(alias = "bound")]
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How long a controller may take to answer a ping.
#[doc(alias = "bound")]
const SILENCE: Duration = Duration::from_secs(10);

/// Bytes that a controller may send ahead of what the agent has read.
#[doc(alias = "bound")]
const WINDOW: u32 = 1024 * 1024;

/// Where a controller is: `https://HOST:PORT`; the port is 7443 unless it is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerUrl {
    /// A name or an address, that of IPv6 without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The port of controllers.
const PORT: u16 = 7443;

impl FromStr for ControllerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no address of a controller: write https://HOST:{PORT}");
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let is_plain = uri.path_and_query().is_none_or(|path| path == "/");
        let authority = uri
            .authority()
            .filter(|_| uri.scheme_str() == Some("https"));
        let authority = authority.filter(|_| is_plain).ok_or_else(bad)?;
        let host = authority.host();
        let host = host.strip_prefix('[').unwrap_or(host);
        Ok(Self {
            host: host.strip_suffix(']').unwrap_or(host).to_owned(),
            port: authority.port_u16().unwrap_or(PORT),
        })
    }
}

impl fmt::Display for ControllerUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(out, "https://[{}]:{}", self.host, self.port),
            false => write!(out, "https://{}:{}", self.host, self.port),
        }
    }
}

/// No connection to the controller.
#[derive(Debug, thiserror::Error)]
pub enum NotConnected {
    /// The network or TLS says no.
    #[error("{url}: {error}")]
    Io {
        /// The controller.
        url: ControllerUrl,
        /// The reason.
        error: io::Error,
    },
    /// The controller is there, and lets others in first: it says so by an alert before the handshake.
    #[error("{0}: many nodes come at once, and this one is let in later")]
    Crowded(ControllerUrl),
    /// Nothing happened.
    #[error("{0}: no answer within {CONNECT:?}")]
    Timeout(ControllerUrl),
    /// The node's own files.
    #[error("the node's identity: {0}")]
    Identity(String),
}

impl NotConnected {
    /// Whether a certificate's time is not now: the clock of this machine, or of the controller, may be wrong.
    pub fn is_of_time(&self) -> bool {
        let Self::Io { error, .. } = self else {
            return false;
        };
        let tls = error.get_ref().and_then(|error| error.downcast_ref());
        matches!(
            tls,
            Some(rustls::Error::InvalidCertificate(
                CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. }
            ))
        )
    }
}

/// The authority that a controller has to be certified by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Trusted {
    /// The one of a token, which the controller shows beside its own certificate.
    Pin(Hash),
    /// These certificates, as PEM.
    Authorities(String),
}

/// A node's certificates and key, as PEM.
#[derive(Clone, PartialEq)]
pub(crate) struct Identity {
    pub(crate) certificates: String,
    pub(crate) key: String,
}

/// The TLS of a member's connections. It is the same as long as the member and its authorities are: then the next connection goes on with
/// the session of the last one, and neither end sends its certificates again.
#[derive(Default)]
pub(crate) struct MemberTls(Option<MadeTls>);

struct MadeTls {
    trusted: Trusted,
    identity: Identity,
    config: Arc<ClientConfig>,
}

impl MemberTls {
    fn config(
        &mut self,
        trusted: Trusted,
        identity: Identity,
    ) -> Result<Arc<ClientConfig>, NotConnected> {
        let made = self.0.take();
        let made = made.filter(|made| made.trusted == trusted && made.identity == identity);
        let made = match made {
            Some(made) => made,
            None => MadeTls {
                config: Arc::new(tls(&trusted, Some(identity.clone()))?),
                trusted,
                identity,
            },
        };
        let config = made.config.clone();
        self.0 = Some(made);
        Ok(config)
    }
}

/// A connection that carries gRPC.
#[derive(Clone)]
pub(crate) struct Connection(SendRequest<tonic::body::Body>);

impl Connection {
    /// Connects as someone who is no member yet.
    ///
    /// # Errors
    /// The controller cannot be reached, or is another one.
    pub(crate) async fn open(url: &ControllerUrl, trusted: &Trusted) -> Result<Self, NotConnected> {
        let config = Arc::new(tls(trusted, None)?);
        let mut backoff = Backoff::default();
        let mut waited = Duration::ZERO;
        loop {
            let opened = Self::open_with(url, config.clone()).await;
            // Someone waits for the command: it comes again by itself as agents do.
            if !matches!(opened, Err(NotConnected::Crowded(_))) || waited >= PATIENCE {
                return opened;
            }
            let pause = backoff.later(fastrand::f64());
            waited += pause;
            tokio::time::sleep(pause).await;
        }
    }

    /// Connects as a member.
    ///
    /// # Errors
    /// The controller cannot be reached, is another one, or does not believe this node.
    pub(crate) async fn open_as(
        url: &ControllerUrl,
        trusted: Trusted,
        identity: Identity,
        tls: &mut MemberTls,
    ) -> Result<Self, NotConnected> {
        Self::open_with(url, tls.config(trusted, identity)?).await
    }

    async fn open_with(
        url: &ControllerUrl,
        config: Arc<ClientConfig>,
    ) -> Result<Self, NotConnected> {
        let opened = tokio::time::timeout(CONNECT, handshakes(url, config)).await;
        let failed = |error| match is_told_later(&error) {
            true => NotConnected::Crowded(url.clone()),
            false => NotConnected::Io {
                url: url.clone(),
                error,
            },
        };
        opened
            .map_err(|_| NotConnected::Timeout(url.clone()))?
            .map_err(failed)
    }
}

impl Connection {
    /// Its methods. HTTP/2 wants an authority, which a controller does not look at.
    pub(crate) fn grpc(self) -> Grpc<Self> {
        Grpc::with_origin(self, Uri::from_static("https://controller"))
    }
}

/// Whether a controller has ended the handshake before it began. No one signs that: it only says when to come again.
fn is_told_later(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(
        tls,
        Some(rustls::Error::AlertReceived(AlertDescription::UserCanceled))
    )
}

async fn handshakes(url: &ControllerUrl, config: Arc<ClientConfig>) -> io::Result<Connection> {
    let stream = TcpStream::connect((url.host.as_str(), url.port)).await?;
    // Acknowledgements are small, and each waits for the one before.
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(url.host.clone()).map_err(io::Error::other)?;
    let stream = TlsConnector::from(config).connect(name, stream).await?;

    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(SILENCE)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    // It ends with the last handle of the sender, or when the controller is gone; the sender's users learn that.
    tokio::spawn(connection);
    Ok(Connection(sender))
}

fn tls(trusted: &Trusted, identity: Option<Identity>) -> Result<ClientConfig, NotConnected> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let broken = |error: &dyn fmt::Display| NotConnected::Identity(error.to_string());
    let judge = ControllerJudge {
        trusted: trusted.clone(),
        algorithms: provider.signature_verification_algorithms,
    };
    let verifier = JudgedServer::new(judge, provider.clone());
    let config = ClientConfig::builder_with_provider(provider)
        // Both ends are ours: no older version is needed.
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| broken(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));

    let mut config = match identity {
        None => config.with_no_client_auth(),
        Some(identity) => {
            let chain = CertificateDer::pem_slice_iter(identity.certificates.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| broken(&error))?;
            let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes())
                .map_err(|error| broken(&error))?;
            config
                .with_client_auth_cert(chain, key)
                .map_err(|error| broken(&error))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    // There is one controller.
    config.resumption = Resumption::in_memory_sessions(1);
    Ok(config)
}

/// Believes a controller of the overlay. Its host name is not looked at: a controller may be reached by any.
#[derive(Debug)]
struct ControllerJudge {
    trusted: Trusted,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ControllerJudge {
    fn roots(&self, shown: &[CertificateDer<'_>]) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        match &self.trusted {
            Trusted::Pin(pin) => {
                let pinned = shown.iter().filter(|shown| Hash::of(shown) == *pin);
                roots.add_parsable_certificates(pinned.map(|shown| shown.clone().into_owned()));
            }
            Trusted::Authorities(pem) => {
                let listed = CertificateDer::pem_slice_iter(pem.as_bytes()).flatten();
                roots.add_parsable_certificates(listed);
            }
        }
        roots
    }
}

impl ServerJudge for ControllerJudge {
    fn judge(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let parsed = ParsedCertificate::try_from(own)?;
        let roots = self.roots(others);
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &roots,
            others,
            now,
            self.algorithms.all,
        )?;
        // The same authority certifies nodes: one of them must not pass for the controller.
        if is_controller(own) {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }
}

/// Whether the only URI of a certificate is `spiffe://DOMAIN/controller`.
fn is_controller(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let Ok(Some(names)) = parsed.subject_alternative_name() else {
        return false;
    };
    let mut uris = names
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
    let path = |uri: &str| {
        uri.strip_prefix("spiffe://")?
            .split_once('/')
            .map(|parts| parts.1 == "controller")
    };
    let is_controller = uris.next().and_then(path) == Some(true);
    is_controller && uris.next().is_none()
}

impl tower_service::Service<http::Request<tonic::body::Body>> for Connection {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future =
        Pin<Box<dyn Future<Output = Result<http::Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn a_controller_that_lets_others_in_first_is_told_from_one_that_is_away() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let controller = async {
            for answer in [&[21, 3, 3, 0, 2, 2, 90][..], &[21, 3, 3, 0, 2, 2, 40], b""] {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.readable().await.unwrap();
                let _ = stream.try_read(&mut [0; 4096]);
                stream.write_all(answer).await.unwrap();
            }
        };
        let url = ControllerUrl {
            host: "127.0.0.1".to_owned(),
            port,
        };
        let config = Arc::new(tls(&Trusted::Authorities(String::new()), None).unwrap());
        let agent = async {
            for is_crowded in [true, false, false] {
                let opened = Connection::open_with(&url, config.clone()).await;
                let error = opened.err().unwrap();
                let told = matches!(error, NotConnected::Crowded(_));
                assert_eq!(told, is_crowded, "{error}");
            }
        };
        tokio::join!(controller, agent);
    }

    #[test]
    fn a_url_has_a_host_and_a_port() {
        for (text, host, port) in [
            ("https://hub:7000", "hub", 7000),
            ("https://hub/", "hub", 7443),
            ("https://[::1]:1", "::1", 1),
        ] {
            let url: ControllerUrl = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!(url.to_string().parse(), Ok(url));
        }
        for text in [
            "",
            "hub:7443",
            "http://hub:7443",
            "https://hub/x",
            "https://",
        ] {
            assert!(text.parse::<ControllerUrl>().is_err(), "{text}");
        }
    }
}
