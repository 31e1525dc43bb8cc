//! The accepting side.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ResolvesServerCert, WantsServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, ServerConfig};

use super::files::{
    TlsFileError, own_certificates, private_key, refused_pair, refused_verifier, roots,
};
use super::revocation::{ListedClients, Revocations, Usage};
use super::{kernel_carries, provider, words};

/// The inputs of an accepting configuration.
#[derive(Debug, Clone, Copy)]
pub struct TlsServerOptions<'a> {
    /// Our certificate, then those that issued it (PEM).
    pub cert_file: &'a Path,
    /// Its private key (PEM), readable for its owner only.
    pub key_file: &'a Path,
    /// The authorities for client certificates; without it clients are not asked for one.
    pub client_ca_file: Option<&'a Path>,
    /// Lists of client certificates that were revoked (PEM or DER), one at least of each authority; see [`Clients::read`]. They
    /// count as long as there are [`Clients`] of the same files: without them, no certificate is believed.
    pub client_crl_files: &'a [PathBuf],
    /// A client without a certificate is refused. Needs `client_ca_file`.
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
    let chain = own_certificates(options.cert_file)?;
    let key = private_key(options.key_file)?;
    let config = builder(&options)?
        .with_single_cert(chain, key)
        .map_err(|error| refused_pair(options.cert_file, options.key_file, &error))?;
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
pub fn certified_key(cert_file: &Path, key_file: &Path) -> Result<CertifiedKey, TlsFileError> {
    let chain = own_certificates(cert_file)?;
    let key = private_key(key_file)?;
    certified(chain, key).map_err(|error| refused_pair(cert_file, key_file, &error))
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
        .map_err(|error| TlsFileError::new(options.cert_file, error.to_string()))?
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
    /// Reads `client_ca_file` and the lists of revoked certificates. With any list, every certificate of a chain but the
    /// authority's own must be covered by one of its issuer (RFC 5280 section 5); one that has not been renewed in time counts on.
    ///
    /// # Errors
    /// The file at fault, and why.
    pub fn read(client_ca_file: &Path, crl_files: &[PathBuf]) -> Result<Self, TlsFileError> {
        let revocations = Revocations::read(crl_files)?;
        Ok(Self {
            verifier: authorities(client_ca_file, &revocations, false)?,
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

fn authorities(
    ca: &Path,
    revocations: &Revocations,
    is_optional: bool,
) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let roots = Arc::new(roots(ca)?);
    let builder = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider());
    let builder = match is_optional {
        true => builder.allow_unauthenticated(),
        false => builder,
    };

    let verifier = builder
        .build()
        .map_err(|error| refused_verifier(ca, &error))?;
    Ok(match revocations.check(roots, Usage::Client) {
        Some(check) => Arc::new(ListedClients { verifier, check }),
        None => verifier,
    })
}

fn client_verifier(
    options: &TlsServerOptions<'_>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsFileError> {
    let Some(file) = options.client_ca_file else {
        if options.client_required {
            let reason = "client certificates are required, but no authority is named for them";
            return Err(TlsFileError::new(options.cert_file, reason).remedy("set client_ca_file"));
        }
        return Ok(WebPkiClientVerifier::no_client_auth());
    };

    let revocations = Revocations::read(options.client_crl_files)?;
    authorities(file, &revocations, !options.client_required)
}
