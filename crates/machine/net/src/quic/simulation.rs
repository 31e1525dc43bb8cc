//! Connections of this process over simulated paths, whose clock only waiting moves.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig,
};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

use super::congestion::Congestion;
use super::transport::{BI_STREAMS, KEEP_ALIVE, Sizes, transport};
use super::{Carrier, Socket};

/// Both ends of a connection without sockets, the client's first, with their endpoints. `carry` is called for each direction, with where
/// its packets come from and go to.
pub(super) async fn pair(
    congestion: Congestion,
    mut carry: impl FnMut(Arc<Carrier>, Arc<Carrier>),
) -> [(Connection, Endpoint); 2] {
    let own = rcgen::generate_simple_self_signed(["server".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let client = client(own.cert.der(), congestion);
    let server = server(own.cert.der(), key, congestion);

    let (near, client_socket) = Carrier::new();
    let (far, server_socket) = Carrier::new();
    let near = Arc::new(near);
    let far = Arc::new(far);
    carry(near.clone(), far.clone());
    carry(far, near);

    let ends = [
        endpoint(None, client_socket),
        endpoint(Some(server), server_socket),
    ];
    let connecting = ends[0].connect_with(client, Socket::FAR, "server").unwrap();
    let accepting = async { ends[1].accept().await.unwrap().await };
    let (near, far) = tokio::join!(connecting, accepting);
    let [client, server] = ends;
    [(near.unwrap(), client), (far.unwrap(), server)]
}

/// Those of every connection, with this congestion control.
fn settings(congestion: Congestion) -> Arc<TransportConfig> {
    transport(None, BI_STREAMS, KEEP_ALIVE, Sizes::OWN, congestion)
}

fn client(authority: &CertificateDer<'static>, congestion: Congestion) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone()).unwrap();
    let tls = rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();

    let crypto = QuicClientConfig::try_from(tls).unwrap();
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(settings(congestion));
    config
}

fn server(
    certificate: &CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    congestion: Congestion,
) -> ServerConfig {
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .unwrap();

    let crypto = QuicServerConfig::try_from(tls).unwrap();
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(settings(congestion));
    config
}

fn endpoint(server: Option<ServerConfig>, socket: Socket) -> Endpoint {
    Endpoint::new_with_abstract_socket(
        EndpointConfig::default(),
        server,
        Arc::new(socket),
        Arc::new(TokioRuntime),
    )
    .unwrap()
}
