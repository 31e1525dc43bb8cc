//! The accepting side.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ResolvesServerCert, WantsServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, ServerConfig};

use super::file_error::{TlsFileError, TlsPart};
use super::files::{own_certificates, private_key, refused_pair, refused_verifier, roots};
use super::revocation::{ListedClients, Revocations, Usage};
use super::source::TlsSource;
use super::trust_domains::{ClientsByDomain, TrustDomain};
use super::{kernel_carries, provider, words};

/// The inputs of an accepting configuration.
#[derive(Debug, Clone, Copy)]
pub struct TlsServerOptions<'a> {
    /// Our certificate, then those that issued it (PEM).
    pub certificate: TlsSource<'a>,
    /// Its private key (PEM); a file is readable for its owner only.
    pub key: TlsSource<'a>,
    /// The authorities for client certificates; without it clients are not asked for one.
    pub client_authorities: Option<TlsSource<'a>>,
    /// Other trust domains, whose clients come from authorities of their own; no list is about these.
    pub client_domains: &'a [TrustDomain<'a>],
    /// Lists of client certificates that were revoked (PEM or DER), one at least of each authority; see [`Clients::read`]. They
    /// count as long as there are [`Clients`] of the same lists: without them, no certificate is believed.
    pub client_revocation_lists: &'a [TlsSource<'a>],
    /// A client without a certificate is refused. Needs `client_authorities`.
    pub client_required: bool,
    /// Application protocols, the preferred first (RFC 7301), e.g. `h2`, `http/1.1`.
    pub alpn: &'a [&'a [u8]],
}

/// Makes an accepting configuration.
///
/// Sessions can be resumed, with the certificate that a client showed before: those who rely on it must verify it again, as
/// [`Clients::believe`] does.
///
/// # Errors
/// The file at fault, and why.
pub fn server(options: TlsServerOptions<'_>) -> Result<Arc<ServerConfig>, TlsFileError> {
    let chain = own_certificates(options.certificate)?;
    let key = private_key(options.key)?;
    let config = builder(&options)?
        .with_single_cert(chain, key)
        .map_err(|error| refused_pair(options.certificate, options.key, &error))?;
    Ok(finished(config, options.alpn))
}

/// Makes an accepting configuration; `resolver` chooses the certificate of each handshake, and the
/// files of `options` are not read.
///
/// # Errors
/// As for [`server`].
pub fn server_by(
    resolver: Arc<dyn ResolvesServerCert>,
    options: TlsServerOptions<'_>,
) -> Result<Arc<ServerConfig>, TlsFileError> {
    let config = builder(&options)?.with_cert_resolver(resolver);
    Ok(finished(config, options.alpn))
}

/// Reads a certificate and its key, to be shown by a resolver.
///
/// # Errors
/// The file at fault, and why.
pub fn certified_key(
    certificate: TlsSource<'_>,
    key: TlsSource<'_>,
) -> Result<CertifiedKey, TlsFileError> {
    let chain = own_certificates(certificate)?;
    let read = private_key(key)?;
    certified(chain, read).map_err(|error| refused_pair(certificate, key, &error))
}

/// The same of a certificate that stands in no file.
///
/// # Errors
/// The key is not supported, or belongs to another certificate.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    CertifiedKey::from_der(chain, key, &provider())
}

/// The same of one that was made for `key`, which is not looked at: it may have extensions that only its reader knows.
///
/// # Errors
/// The key is not supported.
pub fn certified_as_is(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    let key = provider().key_provider.load_private_key(key)?;
    Ok(CertifiedKey::new(vec![certificate], key))
}

fn builder(
    options: &TlsServerOptions<'_>,
) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, TlsFileError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsFileError::elsewhere("tls", error.to_string()))?
        .with_client_cert_verifier(client_verifier(options)?);
    Ok(builder)
}

fn finished(mut config: ServerConfig, alpn: &[&[u8]]) -> Arc<ServerConfig> {
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    config.enable_secret_extraction = kernel_carries();
    Arc::new(config)
}

/// The authorities for client certificates, to verify certificates again that were shown before.
#[derive(Debug, Clone)]
pub struct Clients {
    verifier: Arc<dyn ClientCertVerifier>,
    /// In force for handshakes, too.
    _revocations: Revocations,
}

impl Clients {
    /// Reads the authorities, those of other trust domains, and the lists of revoked certificates. With any list, every certificate of a chain but the
    /// authority's own must be covered by one of its issuer (RFC 5280 section 5); one that has not been renewed in time counts on.
    ///
    /// # Errors
    /// The file at fault, and why.
    pub fn read(
        authorities: TlsSource<'_>,
        domains: &[TrustDomain<'_>],
        revocation_lists: &[TlsSource<'_>],
    ) -> Result<Self, TlsFileError> {
        let revocations = Revocations::read(revocation_lists)?;
        Ok(Self {
            verifier: by_domain(verifier(authorities, &revocations, false)?, domains)?,
            _revocations: revocations,
        })
    }

    /// Whether a certificate, which stands first in `chain`, would be believed at `now`, Unix time in seconds.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn believe(&self, chain: &[CertificateDer<'_>], now: u64) -> Result<(), String> {
        let (own, others) = chain.split_first().ok_or("no certificate was shown")?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        self.verifier
            .verify_client_cert(own, others, now)
            .map(drop)
            .map_err(|error| words::of(&error))
    }
}

fn verifier(
    authorities: TlsSource<'_>,
    revocations: &Revocations,
    is_optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let roots = Arc::new(roots(authorities)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
    let builder = match is_optional {
        true => builder.allow_unauthenticated(),
        false => builder,
    };

    let verifier = builder
        .build()
        .map_err(|error| refused_verifier(authorities, &error))?;
    Ok(match revocations.check(roots, Usage::Client) {
        Some(check) => Arc::new(ListedClients { verifier, check }),
        None => verifier,
    })
}

fn client_verifier(
    options: &TlsServerOptions<'_>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let Some(authorities) = options.client_authorities else {
        if options.client_required {
            let reason = "client certificates are required, but no authority is named for them";
            let error = options.certificate.wrong(TlsPart::Certificate, reason);
            return Err(error.remedy("set client_ca_file"));
        }
        return Ok(WebPkiClientVerifier::no_client_auth());
    };

    let revocations = Revocations::read(options.client_revocation_lists)?;
    let own = verifier(authorities, &revocations, !options.client_required)?;
    by_domain(own, options.client_domains)
}

fn by_domain(
    own: Arc<dyn ClientCertVerifier>,
    domains: &[TrustDomain<'_>],
) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    if domains.is_empty() {
        return Ok(own);
    }
    Ok(Arc::new(ClientsByDomain::read(own, domains)?))
}
