//! The connecting side.

use std::ops::Deref;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};

use super::file_error::{TlsFileError, TlsPart};
use super::files::{own_certificates, private_key, refused_pair, refused_verifier, roots};
use super::judged_server::{AnyServer, JudgedServer};
use super::revocation::{RevocationCheck, Revocations, Usage};
use super::sessions::{NotingVerifier, Verified};
use super::source::TlsSource;
use super::system::system_roots;
use super::{kernel_carries, provider};

/// Servers with which TLS sessions are kept to be resumed.
#[doc(alias = "bound")]
const SERVERS: usize = 256;

/// The inputs of a connecting configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientOptions<'a> {
    /// The authorities to believe (PEM); without it those that the system trusts.
    pub authorities: Option<TlsSource<'a>>,
    /// Lists of server certificates that were revoked (PEM or DER); with any, every certificate of a chain but the authority's own
    /// must be covered by one of its issuer.
    pub revocation_lists: &'a [TlsSource<'a>],
    /// Our own certificate, then those that issued it (PEM), for servers that ask.
    pub certificate: Option<TlsSource<'a>>,
    /// Its private key (PEM); a file is readable for its owner only.
    pub key: Option<TlsSource<'a>>,
    /// Believe any certificate. For tests: anyone on the path can read and change everything.
    pub insecure_skip_verify: bool,
    /// Application protocols, the preferred first (RFC 7301).
    pub alpn: &'a [&'a [u8]],
}

/// A connecting configuration. Its sessions are not resumed once a certificate has ended by which the server was believed.
#[derive(Debug, Clone)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
    /// `None` if any server is accepted.
    verified: Option<Verified>,
    revocations: Revocations,
    check: Option<Arc<RevocationCheck>>,
}

/// Keeps the revocation lists of a [`TlsClient`] loaded. Its connections do not.
#[derive(Debug)]
pub struct RevocationsInForce(#[expect(dead_code, reason = "held for its drop")] Revocations);

impl TlsClient {
    /// Keeps the revocation lists in force for configurations that were made of this one.
    #[must_use]
    pub fn revocations(&self) -> RevocationsInForce {
        RevocationsInForce(self.revocations.clone())
    }

    /// The configuration alone. The caller keeps [`TlsClient::revocations`] for as long as handshakes begin with it.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// A copy with TLS sessions of its own, for this many servers.
    pub(crate) fn apart(&self, servers: usize) -> ClientConfig {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = sessions(self.verified.as_ref(), servers);
        config
    }
}

impl Deref for TlsClient {
    type Target = ClientConfig;

    fn deref(&self) -> &ClientConfig {
        &self.config
    }
}

/// A configuration that keeps the lists of revoked certificates by itself.
impl From<TlsClient> for Arc<ClientConfig> {
    fn from(client: TlsClient) -> Self {
        if let Some(check) = client.check {
            check.keep(client.revocations);
        }
        client.config
    }
}

fn sessions(verified: Option<&Verified>, servers: usize) -> Resumption {
    verified.map_or_else(
        || Resumption::in_memory_sessions(servers),
        |verified| verified.sessions(servers),
    )
}

/// Makes a connecting configuration.
///
/// # Errors
/// The file at fault, and why.
pub fn client(options: ClientOptions<'_>) -> Result<TlsClient, TlsFileError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsFileError::elsewhere("tls", error.to_string()))?;
    let verified = (!options.insecure_skip_verify).then(Verified::default);
    let revocations = Revocations::read(options.revocation_lists)?;
    let mut check = None;

    let builder = if options.insecure_skip_verify {
        let anything = Arc::new(JudgedServer::new(AnyServer, provider));
        builder
            .dangerous()
            .with_custom_certificate_verifier(anything)
    } else {
        let trusted = match options.authorities {
            Some(source) => Arc::new(roots(source)?),
            None => system_roots()?,
        };

        let verifier = WebPkiServerVerifier::builder_with_provider(trusted.clone(), provider)
            .build()
            .map_err(|error| match options.authorities {
                Some(authorities) => refused_verifier(authorities, &error),
                None => TlsFileError::elsewhere("tls", error.to_string()),
            })?;

        check = revocations.check(trusted, Usage::Server).map(Arc::new);
        let verified = verified.clone().unwrap_or_default();
        let noting = NotingVerifier::new(verifier, check.clone(), verified);
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(noting))
    };

    let mut config = match (options.certificate, options.key) {
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(own_certificates(certificate)?, private_key(key)?)
            .map_err(|error| refused_pair(certificate, key, &error))?,
        (Some(certificate), None) => return Err(lonely(certificate, TlsPart::Certificate)),
        (None, Some(key)) => return Err(lonely(key, TlsPart::Key)),
        (None, None) => builder.with_no_client_auth(),
    };

    config.alpn_protocols = options
        .alpn
        .iter()
        .map(|protocol| protocol.to_vec())
        .collect();
    config.resumption = sessions(verified.as_ref(), SERVERS);
    config.enable_secret_extraction = kernel_carries();
    Ok(TlsClient {
        config: Arc::new(config),
        verified,
        revocations,
        check,
    })
}

fn lonely(source: TlsSource<'_>, part: TlsPart) -> TlsFileError {
    source
        .wrong(part, "a certificate and its key belong together")
        .remedy("set both cert_file and key_file")
}
