//! A member that calls its controller without end, or breaks off all that it calls: the changes of other nodes go on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use hermes_tests::free;
use hermes_tests::overlay::{Hub, Joined};
use hermes_tests::resources::Resources;
use hermes_tests::runtime::block_on;
use http::{Method, Request};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Calls that one connection tries.
const CALLS: usize = 20_000;

/// The longest time of the change of another node.
const CHANGE: Duration = Duration::from_secs(5);

/// The certificate of a member, to connect with.
pub fn identity(member: &Joined) -> Arc<ClientConfig> {
    let folder = member.state();
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_file_iter(folder.join("authorities.pem")).unwrap() {
        roots.add(authority.unwrap()).unwrap();
    }
    let chain = CertificateDer::pem_file_iter(folder.join("node.pem")).unwrap();
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(folder.join("node.key")).unwrap();
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key);
    let mut config = config.unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// A connection to the controller; `None` if it takes none.
pub async fn connected_over_tls(
    to: SocketAddr,
    config: Arc<ClientConfig>,
) -> Option<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(to).await.ok()?;
    let name = ServerName::try_from("controller.hermes.hermes.internal").unwrap();
    let connecting = TlsConnector::from(config).connect(name, stream);
    connecting.await.ok()
}

async fn connected(to: SocketAddr, config: Arc<ClientConfig>) -> Option<SendRequest<Bytes>> {
    let stream = connected_over_tls(to, config).await?;
    let (sender, connection) = h2::client::handshake(stream).await.ok()?;
    tokio::spawn(connection);
    Some(sender)
}

/// Calls that the controller took before it ended the connection.
async fn flood(mut sender: SendRequest<Bytes>) -> usize {
    for number in 0..CALLS {
        let request = Request::builder()
            .method(Method::POST)
            .uri("https://controller/hermes.control.v1.Controller/Attend")
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let Ok(ready) = sender.ready().await else {
            return number;
        };
        sender = ready;
        // Dropped at once, so that each is a HEADERS and a RST_STREAM.
        let Ok(call) = sender.send_request(request, false) else {
            return number;
        };
        drop(call);
        tokio::task::yield_now().await;
    }
    CALLS
}

/// A resource at the node `yard`.
pub fn service(name: &str) -> String {
    let resources = Resources::new();
    resources.service(name, &[("yard", free::tcp())]).text()
}

/// Two nodes, the second of which attacks.
pub fn yard_and_evil(hub: &Hub) -> (Joined, Joined) {
    for name in ["yard", "evil"] {
        let node = Resources::new().node(name, free::tcp()).text();
        hub.apply(&node, &["--force"]);
    }
    let nodes = (hub.member("yard"), hub.member("evil"));
    hub.apply(&service("before"), &[]);
    nodes
}

#[test]
fn a_member_that_calls_without_end_is_closed_and_other_nodes_are_changed() {
    let hub = Hub::start();
    let (_yard, evil) = yard_and_evil(&hub);
    let config = identity(&evil);
    let agents = hub.agents();

    let attack = std::thread::spawn(move || {
        block_on(async move {
            let until = Instant::now() + Duration::from_secs(8);
            let (mut connections, mut most) = (0, 0);
            while Instant::now() < until {
                if let Some(sender) = connected(agents, config.clone()).await {
                    connections += 1;
                    most = most.max(flood(sender).await);
                } else {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            (connections, most)
        })
    });
    std::thread::sleep(Duration::from_secs(1));

    let mut slowest = Duration::ZERO;
    for number in 0..5 {
        let began = Instant::now();
        hub.apply(&service(&format!("during-{number}")), &[]);
        hub.await_step("yard");
        slowest = slowest.max(began.elapsed());
    }
    let (connections, most) = attack.join().unwrap();
    println!(
        "{connections} connections, the longest of {most} calls; the slowest of 5 changes took {slowest:?}"
    );
    assert!(most < CALLS, "a connection made all its calls");
    assert!(slowest < CHANGE, "{slowest:?}");
}
