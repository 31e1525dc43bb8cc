//! The connecting side.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::{ClientConfig, RootCertStore};

use super::files::{TlsFileError, own_certificates, private_key, refused_pair, revocations, roots};
use super::provider;
use super::verify::AcceptAnyServer;

/// What a connecting configuration is made of.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClientOptions<'a> {
    /// The authorities to believe (PEM); without it those that the system trusts.
    pub ca_file: Option<&'a Path>,
    /// Lists of server certificates that were revoked (PEM or DER); with any, every certificate of a chain but the authority's own
    /// must be covered by one of its issuer.
    pub crl_files: &'a [PathBuf],
    /// Our own certificate, then those that issued it (PEM), for servers that ask.
    pub cert_file: Option<&'a Path>,
    /// Its private key (PEM), readable for its owner only.
    pub key_file: Option<&'a Path>,
    /// Believe any certificate. For tests: whoever is on the path can read and change everything.
    pub insecure_skip_verify: bool,
    /// Application protocols, the preferred first (RFC 7301).
    pub alpn: &'a [&'a [u8]],
}

/// Makes a connecting configuration.
///
/// # Errors
/// The file at fault, and why.
pub fn client(options: ClientOptions<'_>) -> Result<Arc<ClientConfig>, TlsFileError> {
    let provider = provider();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsFileError::new(Path::new("tls"), error.to_string()))?;
    let builder = if options.insecure_skip_verify {
        let anything = Arc::new(AcceptAnyServer::new(provider));
        builder.dangerous().with_custom_certificate_verifier(anything)
    } else {
        let trusted = match options.ca_file {
            Some(file) => roots(file)?,
            None => system_roots()?,
        };
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(trusted), provider)
            .with_crls(revocations(options.crl_files)?)
            .build()
            .map_err(|error| TlsFileError::new(options.ca_file.unwrap_or(Path::new("tls")), error.to_string()))?;
        builder.with_webpki_verifier(verifier)
    };
    let mut config = match (options.cert_file, options.key_file) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(own_certificates(cert)?, private_key(key)?)
            .map_err(|error| refused_pair(cert, key, &error))?,
        (Some(lonely), None) | (None, Some(lonely)) => {
            return Err(TlsFileError::new(lonely, "a certificate and its key belong together")
                .remedy("set both cert_file and key_file"));
        }
        (None, None) => builder.with_no_client_auth(),
    };
    config.alpn_protocols = options.alpn.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

/// The authorities that the system trusts; single ones that rustls cannot use are left out.
fn system_roots() -> Result<RootCertStore, TlsFileError> {
    let mut found = rustls_native_certs::load_native_certs();
    let mut trusted = RootCertStore::empty();
    trusted.add_parsable_certificates(std::mem::take(&mut found.certs));
    if trusted.is_empty() {
        let why = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        let reason = format!("the system's trusted certificates cannot be loaded: {why}");
        return Err(TlsFileError::new(Path::new("/etc/ssl/certs"), reason)
            .remedy("install the package ca-certificates, or set ca_file"));
    }
    Ok(trusted)
}
