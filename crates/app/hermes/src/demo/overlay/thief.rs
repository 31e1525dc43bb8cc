//! Someone who has copied a device's key and certificate.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::origins::GREETING;
use super::super::says::{Says, expect};

/// Bytes of a response's head that are read at most.
const HEAD: usize = 4096;

/// A tunnel to the server DB that was opened with a copied key.
pub struct StolenTunnel(TlsStream<TcpStream>);

impl StolenTunnel {
    /// Opens it at the node `hub`, with the keys in this folder; the server greets on it.
    pub async fn open(hub: SocketAddr, keys: &Path) -> Result<Self, String> {
        let stream = TcpStream::connect(hub).await.says(hub)?;
        let name = ServerName::try_from("hub.hermes.hermes.internal").says("the hub's name")?;
        let connector = TlsConnector::from(Arc::new(config(keys)?));
        let mut tls = connector
            .connect(name, stream)
            .await
            .says("TLS to the hub")?;
        tls.write_all(b"CONNECT DB:80 HTTP/1.1\r\nHost: DB:80\r\nUser: alice\r\n\r\n")
            .await
            .says("CONNECT")?;
        let mut read = Vec::new();
        // The greeting may come with the head, or after it.
        while !String::from_utf8_lossy(&read).contains(GREETING) {
            let mut piece = [0; 512];
            let count = tls.read(&mut piece).await.says("the answer to CONNECT")?;
            expect(count > 0 && read.len() < HEAD, || {
                format!("no tunnel: {}", String::from_utf8_lossy(&read))
            })?;
            read.extend_from_slice(&piece[..count]);
        }
        Ok(Self(tls))
    }

    /// Waits until the tunnel ends.
    pub async fn ended(mut self) {
        let mut rest = [0; 512];
        while self.0.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    }
}

fn config(keys: &Path) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    let authorities = CertificateDer::pem_file_iter(keys.join("authorities.pem"))
        .says("the overlay's authorities")?;
    for authority in authorities {
        let authority = authority.says("the overlay's authorities")?;
        roots.add(authority).says("the overlay's authorities")?;
    }
    let chain: Vec<_> = CertificateDer::pem_file_iter(keys.join("node.pem"))
        .says("the certificate")?
        .collect::<Result<_, _>>()
        .says("the certificate")?;
    let key = PrivateKeyDer::from_pem_file(keys.join("node.key")).says("the key")?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .says("TLS")?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .says("the copied key")
}
