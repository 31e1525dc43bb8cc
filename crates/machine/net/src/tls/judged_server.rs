//! Servers whose certificates are judged by other means than a list of authorities and a host name.

use std::fmt::Debug;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// Judges the certificates that a server shows.
pub trait ServerJudge: Debug + Send + Sync {
    /// Judges the server's own certificate, and those that it sent along.
    ///
    /// # Errors
    /// The server is not believed.
    fn judge(
        &self,
        own: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error>;
}

/// Leaves certificates to a judge. The handshake must still be signed with the key of the server's own certificate.
#[derive(Debug)]
pub struct JudgedServer<J> {
    judge: J,
    provider: Arc<CryptoProvider>,
}

impl<J: ServerJudge> JudgedServer<J> {
    /// A verifier with this judge, which verifies signatures by this provider.
    pub fn new(judge: J, provider: Arc<CryptoProvider>) -> Self {
        Self { judge, provider }
    }
}

/// Believes every server: for `insecure_skip_verify`, and where certificates are judged after the handshake.
#[derive(Debug)]
pub struct AnyServer;

impl ServerJudge for AnyServer {
    fn judge(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<(), Error> {
        Ok(())
    }
}

impl<J: ServerJudge> ServerCertVerifier for JudgedServer<J> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge.judge(end_entity, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
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
