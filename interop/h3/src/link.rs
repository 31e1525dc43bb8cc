//! QUIC for both sides, and numbers as it writes them.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, ServerConfig, TransportConfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Failure;

/// The largest packet before the path is measured, in bytes: datagrams of 1200 fit.
const PACKET: u16 = 1350;

fn transport(datagrams: bool) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.initial_mtu(PACKET);
    if !datagrams {
        config.datagram_receive_buffer_size(None);
    }
    Arc::new(config)
}

/// How connections are opened to servers that this authority vouches for.
pub fn client(ca: &str, datagrams: bool) -> Result<ClientConfig, Failure> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let mut tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.enable_early_data = true;
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(datagrams));
    Ok(config)
}

/// How connections are accepted.
pub fn server(cert: &str, key: &str, datagrams: bool) -> Result<ServerConfig, Failure> {
    let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let mut tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(datagrams));
    Ok(config)
}

/// A varint (RFC 9000, 16), and what follows.
pub fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let number = number[1..].iter().fold(u64::from(first & 0x3f), |number, byte| number << 8 | u64::from(*byte));
    Some((number, rest))
}

/// The same, from a number below 2^30.
pub fn encoded(number: u64) -> Vec<u8> {
    match number {
        0..64 => vec![number as u8],
        64..16_384 => vec![0x40 | (number >> 8) as u8, number as u8],
        _ => (0x8000_0000 | number as u32).to_be_bytes().to_vec(),
    }
}
