//! QUIC between a client and a server of a test.

use std::net::SocketAddr;
use std::sync::LazyLock;

use hermes_net::quic::{ClientConfig, Connection, Endpoint, Keys, Record, ServerOptions};
use hermes_net::{listen, tls};
use rcgen::{CertificateParams, KeyPair};

/// The name in the certificate.
const NAME: &str = "origin.example";

/// A certificate that no one vouches for, made once; and clients that believe any.
static SERVER: LazyLock<ServerOptions> = LazyLock::new(server);

/// Options of a server that knows no ticket of another.
fn server() -> ServerOptions {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    let pair = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    std::fs::write(&cert, params.self_signed(&pair).unwrap().pem()).unwrap();
    std::fs::write(&key, pair.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let options = tls::TlsServerOptions {
        certificate: (&cert).into(),
        key: (&key).into(),
        client_authorities: None,
        client_domains: &[],
        client_revocation_lists: &[],
        client_required: false,
        alpn: &[],
    };
    let options = ServerOptions::new(tls::server(options).unwrap(), Keys::derive(b"secret"));
    ServerOptions {
        early_data: true,
        ..options
    }
}

static CLIENT: LazyLock<ClientConfig> = LazyLock::new(|| client(false));

/// A configuration that believes any server; with `early`, one that sends early data to those it knows.
pub fn client(early: bool) -> ClientConfig {
    let options = tls::ClientOptions {
        insecure_skip_verify: true,
        ..tls::ClientOptions::default()
    };
    ClientConfig::new(&tls::client(options).unwrap(), early, Record::default()).unwrap()
}

/// Accepts as a server that has forgotten all clients.
pub fn listen_anew() -> Endpoint {
    Endpoint::server(
        listen::udp("127.0.0.1:0".parse().unwrap()).unwrap(),
        0,
        &server(),
    )
    .unwrap()
}

/// Accepts on `address`.
pub fn listen(address: SocketAddr) -> std::io::Result<Endpoint> {
    listen_for(100, address)
}

/// Accepts connections with this many requests at once.
pub fn listen_for(streams: u32, address: SocketAddr) -> std::io::Result<Endpoint> {
    Endpoint::server(
        listen::udp(address)?,
        0,
        &ServerOptions {
            streams,
            ..SERVER.clone()
        },
    )
}

/// A connection, and the endpoint that must live as long.
pub async fn connect(address: SocketAddr) -> (Connection, Endpoint) {
    connect_as(&CLIENT, address).await
}

/// As [`connect`], with a configuration of its own.
pub async fn connect_as(client: &ClientConfig, address: SocketAddr) -> (Connection, Endpoint) {
    let endpoint = Endpoint::client(address).unwrap();
    (
        endpoint.connect(address, NAME, client).await.unwrap(),
        endpoint,
    )
}
