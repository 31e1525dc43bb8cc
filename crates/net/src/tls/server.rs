//! The accepting side.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientCertVerifierBuilder, ResolvesServerCert, WantsServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{ConfigBuilder, ServerConfig};

use super::files::{
    TlsFileError, own_certificates, private_key, refused_pair, refused_verifier, revocations, roots,
};
use super::{kernel_carries, provider, words};

/// What an accepting configuration is made of.
#[derive(Debug, Clone, Copy)]
pub struct TlsServerOptions<'a> {
    /// Our certificate, then those that issued it (PEM).
    pub cert_file: &'a Path,
    /// Its private key (PEM), readable for its owner only.
    pub key_file: &'a Path,
    /// The authorities whose client certificates are believed; without it clients are not asked for one.
    pub client_ca_file: Option<&'a Path>,
    /// Lists of client certificates that were revoked (PEM or DER), one at least of each authority; see [`Clients::read`].
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

/// Makes an accepting configuration whose certificate `resolver` chooses for each handshake; the files of `options` are not read.
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
/// The key is none of ours, or of another certificate.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, rustls::Error> {
    CertifiedKey::from_der(chain, key, &provider())
}

/// The same of one that was made for `key`, which is not looked at: it may have extensions that only its reader knows.
///
/// # Errors
/// The key is none of ours.
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

/// The authorities whose client certificates are believed, to judge certificates again that were shown before.
#[derive(Debug, Clone)]
pub struct Clients(Arc<dyn ClientCertVerifier>);

impl Clients {
    /// Reads `client_ca_file` and the lists of revoked certificates. With any list, every certificate of a chain but the
    /// authority's own must be covered by one of its issuer (RFC 5280 section 5); one that has not been renewed in time counts on.
    ///
    /// # Errors
    /// The file at fault, and why.
    pub fn read(client_ca_file: &Path, crl_files: &[PathBuf]) -> Result<Self, TlsFileError> {
        let verifier = authorities(client_ca_file, crl_files)?.build();
        Ok(Self(verifier.map_err(|error| {
            refused_verifier(client_ca_file, crl_files, &error)
        })?))
    }

    /// Whether a certificate, which stands first in `chain`, would be believed at `now`, Unix time in seconds.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn believe(&self, chain: &[CertificateDer<'_>], now: u64) -> Result<(), String> {
        let (own, others) = chain.split_first().ok_or("no certificate was shown")?;
        let now = UnixTime::since_unix_epoch(Duration::from_secs(now));
        self.0
            .verify_client_cert(own, others, now)
            .map(drop)
            .map_err(|error| words::of(&error))
    }
}

fn authorities(
    ca: &Path,
    crl_files: &[PathBuf],
) -> Result<ClientCertVerifierBuilder, TlsFileError> {
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(ca)?), provider());
    Ok(builder.with_crls(revocations(crl_files)?))
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

    let builder = authorities(file, options.client_crl_files)?;
    let builder = if options.client_required {
        builder
    } else {
        builder.allow_unauthenticated()
    };

    let verifier = builder
        .build()
        .map_err(|error| refused_verifier(file, options.client_crl_files, &error))?;
    Ok(verifier)
}
