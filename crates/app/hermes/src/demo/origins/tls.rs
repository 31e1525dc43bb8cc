//! The same HTTP server under TLS, with a certificate and a key that no proxy has.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::super::certificates::Certificates;
use super::super::says::Says;
use super::http;

/// The acceptor of TLS connections for SECURE.
pub fn acceptor(certificates: &Certificates) -> Result<TlsAcceptor, String> {
    let secure = &certificates.secure;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .says("TLS of SECURE")?
        .with_no_client_auth()
        .with_single_cert(vec![secure.certificate.clone()], secure.key())
        .says("TLS of SECURE")?;

    Ok(Arc::new(config).into())
}

/// Serves one connection; a failed handshake is for the client to report.
pub async fn serve(stream: TcpStream, acceptor: TlsAcceptor) {
    if let Ok(stream) = acceptor.accept(stream).await {
        http::serve(stream, "SECURE").await;
    }
}
