//! TLS of a controller: TLS 1.3 alone. Members and other controllers show certificates; those who join have none yet.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

/// Makes the configuration of a controller with this identity.
///
/// # Errors
/// The certificates or the key cannot be used.
pub(super) fn server_config(certificates: &str, key: &str) -> Result<Arc<ServerConfig>, String> {
    let identity = identity(certificates, key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyMember {
        provider: provider.clone(),
    });

    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain, identity.key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    // A member's certificate is judged anew at each connection: no session goes on from an earlier one.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Makes the configuration by which a controller with this identity speaks to another one. Who that is has to be judged by its
/// certificates before anything is sent.
///
/// # Errors
/// As for [`server_config`].
pub(super) fn client_config(certificates: &str, key: &str) -> Result<Arc<ClientConfig>, String> {
    let identity = identity(certificates, key)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyMember {
        provider: provider.clone(),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(identity.chain, identity.key);
    let mut config = config.map_err(|error| error.to_string())?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Certificates and their key.
struct ParsedIdentity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

fn identity(certificates: &str, key: &str) -> Result<ParsedIdentity, String> {
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
    Ok(ParsedIdentity {
        chain: chain.map_err(|error| error.to_string())?,
        key: PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| error.to_string())?,
    })
}

/// Takes any certificate whose key signs the handshake. The authority judges it afterwards, since it alone knows whom it has
/// revoked, and that a member whose certificate has expired may still renew it.
#[derive(Debug)]
struct AnyMember {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyMember {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientCertVerifier::verify_tls12_signature(self, message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientCertVerifier::verify_tls13_signature(self, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ClientCertVerifier::supported_verify_schemes(self)
    }
}

impl ClientCertVerifier for AnyMember {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
