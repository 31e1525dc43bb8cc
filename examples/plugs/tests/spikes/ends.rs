//! Far ends that plugs open: a connector to a service without sockets, and a handler that takes tunnels.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_example_plugs::detour::Detour;
use hermes_example_plugs::echo::Echo;
use hermes_http::{Kind, Outgoing, pipe};
use hermes_plug::arrival::End;
use hermes_plug::{Connecting, Connector, Handler, HandlerRequest, Handling, Plugs, TunnelRequest};
use http::uri::Authority;
use http::{HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::node::{Node, hear, say};

/// A node whose routes to ECHO and NOWHERE end at the connector, and whose handler leads everything else there.
fn node() -> Node {
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes:\n  \
                - { match: { target: [ECHO, NOWHERE] }, terminate: { by: echo } }\n  \
                - { match: { target: ELSEWHERE }, handle: detour }\n";
    let detour = Detour {
        to: Authority::from_static("NOWHERE:7"),
        otherwise: Authority::from_static("ECHO:7"),
    };
    let plugs = Plugs::new()
        .connector("echo", Echo)
        .handler("detour", detour);
    Node::start("ends", yaml, plugs)
}

/// Asks for a tunnel, and reads the head of the answer.
async fn connect(node: &Node, target: &str) -> (TcpStream, String) {
    let mut client = node.connect().await;
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    say(&mut client, &request).await;
    let head = hear(&mut client, "\r\n\r\n").await;
    (client, head)
}

/// The tunnel sends back what it is sent, and ends when its client does.
async fn echoes(mut client: TcpStream) {
    say(&mut client, "hello").await;
    assert_eq!(hear(&mut client, "hello").await, "hello");
    client.shutdown().await.unwrap();
    assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_connector_gives_bytes_for_a_target() {
    let node = node();
    let (client, head) = connect(&node, "ECHO:7").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    echoes(client).await;
    node.end().await;
}

#[tokio::test]
async fn a_connector_gives_packets_for_a_target() {
    let node = node();
    let mut client = node.connect().await;
    say(
        &mut client,
        "GET /.well-known/masque/udp/ECHO/7/ HTTP/1.1\r\nHost: ECHO\r\nConnection: Upgrade\r\n\
         Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n",
    )
    .await;
    let head = hear(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // Two DATAGRAM capsules (RFC 9297, 3.5) of context 0.
    let capsules = b"\x00\x04\x00one\x00\x04\x00two";
    client.write_all(capsules).await.unwrap();
    let mut echoed = [0; 12];
    client.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, capsules);
    node.end().await;
}

#[tokio::test]
async fn the_refusal_of_a_connector_is_the_answer() {
    let node = node();
    let (mut client, head) = connect(&node, "NOWHERE:7").await;
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    assert!(
        head.contains("error=destination_not_found"),
        "the error is the connector's: {head}"
    );
    let rest = hear(&mut client, "nothing is at NOWHERE:7").await;
    assert!(!rest.is_empty());
    node.end().await;
}

#[tokio::test]
async fn a_request_does_not_reach_a_connector() {
    let node = node();
    let mut client = node.connect().await;
    say(
        &mut client,
        "GET http://ECHO/ HTTP/1.1\r\nHost: ECHO\r\n\r\n",
    )
    .await;
    let answer = hear(&mut client, "connections and datagrams").await;
    assert!(answer.starts_with("HTTP/1.1 501 "), "{answer}");
    node.end().await;
}

#[tokio::test]
async fn a_handler_takes_a_tunnel_and_opens_one() {
    let node = node();
    // Its first choice refuses; it joins the second.
    let (client, head) = connect(&node, "ELSEWHERE:80").await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    echoes(client).await;
    node.end().await;
}

const WEBSOCKET: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// The answer to that key (RFC 6455, 1.3).
const ACCEPTED: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

#[tokio::test]
async fn a_connector_that_takes_upgrades_gets_the_bytes_behind_the_handshake() {
    let node = node();
    let mut client = node.connect().await;
    let request = format!("GET http://ECHO/chat HTTP/1.1\r\nHost: ECHO\r\n{WEBSOCKET}");
    say(&mut client, &request).await;
    let head = hear(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains(ACCEPTED), "{head}");
    echoes(client).await;
    node.end().await;
}

#[tokio::test]
async fn a_handler_gets_the_upgrades_that_it_takes_and_no_others() {
    /// Answers with the path that was asked for.
    struct Bell(bool);

    impl Handler for Bell {
        fn handle(&self, _: HandlerRequest) -> Handling<'_> {
            Box::pin(std::future::pending())
        }

        fn takes(&self, kind: Kind) -> bool {
            self.0 && kind == Kind::Upgrade
        }

        fn tunnel(&self, request: TunnelRequest) -> Connecting<'_> {
            assert!(!request.carries_packets());
            Box::pin(async move {
                let (mut outgoing, incoming) = pipe(None);
                let path = Bytes::from(request.head.path().to_owned());
                request.opener.spawn(async move {
                    let _ = outgoing.data(path, true).await;
                    let _ = outgoing.finish(None).await;
                });
                Ok(End::Stream(incoming, Outgoing::Ended))
            })
        }
    }

    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes:\n  \
                - { match: { target: BELL }, handle: bell }\n  - { handle: deaf }\n";
    let plugs = Plugs::new()
        .handler("bell", Bell(true))
        .handler("deaf", Bell(false));
    let node = Node::start("bell", yaml, plugs);
    let ask = async |target: &str| {
        let mut client = node.connect().await;
        let request = format!("GET http://{target}/door HTTP/1.1\r\nHost: {target}\r\n{WEBSOCKET}");
        say(&mut client, &request).await;
        let head = hear(&mut client, "\r\n\r\n").await;
        (client, head)
    };

    let (mut client, head) = ask("BELL").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    if !head.ends_with("/door") {
        hear(&mut client, "/door").await;
    }
    let (_, head) = ask("OTHER").await;
    assert!(head.starts_with("HTTP/1.1 501 "), "{head}");
    // Nor does it get connections, which it takes by default.
    let (_, head) = connect(&node, "BELL:80").await;
    assert!(head.starts_with("HTTP/1.1 501 "), "{head}");
    node.end().await;
}

/// Asks for a tunnel of IP packets, sends one, and gets it back.
async fn ip_packets_come_back(node: &Node) {
    let mut client = node.connect().await;
    say(
        &mut client,
        "GET http://NODE/.well-known/masque/ip/*/*/ HTTP/1.1\r\nHost: NODE\r\n\
         Connection: Upgrade\r\nUpgrade: connect-ip\r\nCapsule-Protocol: ?1\r\n\r\n",
    )
    .await;
    let head = hear(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    // A DATAGRAM capsule (RFC 9297, 3.5) of context 0 (RFC 9484, 6): an IPv4 packet without content.
    let mut capsule = vec![0, 21, 0];
    capsule.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 64, 59, 0, 0]);
    capsule.extend([192, 0, 2, 1, 192, 0, 2, 2]);
    client.write_all(&capsule).await.unwrap();
    let mut echoed = vec![0; capsule.len()];
    client.read_exact(&mut echoed).await.unwrap();
    assert_eq!(echoed, capsule);
}

#[tokio::test]
async fn a_connector_gives_ip_packets() {
    let yaml =
        "listeners: { web: { http: 127.0.0.1:0 } }\nroutes: [ { terminate: { by: echo } } ]\n";
    let node = Node::start("ip", yaml, Plugs::new().connector("echo", Echo));
    ip_packets_come_back(&node).await;
    node.end().await;
}

#[tokio::test]
async fn a_handler_opens_upgrades_and_tunnels_of_ip() {
    /// Opens each tunnel again, with another field.
    struct Hop;

    impl Handler for Hop {
        fn handle(&self, _: HandlerRequest) -> Handling<'_> {
            Box::pin(std::future::pending())
        }

        fn takes(&self, kind: Kind) -> bool {
            kind != Kind::Message
        }

        fn tunnel(&self, request: TunnelRequest) -> Connecting<'_> {
            Box::pin(async move {
                let TunnelRequest {
                    mut head, opener, ..
                } = request;
                let name = HeaderName::from_static("x-hop");
                head.fields.insert(name, HeaderValue::from_static("1"));
                let opened = opener.tunnel(head).await?;
                Ok(End::Stream(opened.incoming, opened.outgoing))
            })
        }
    }

    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes:\n  \
                - { match: { fields: { x-hop: \"1\" } }, terminate: { by: echo } }\n  \
                - { handle: hop }\n";
    let plugs = Plugs::new().connector("echo", Echo).handler("hop", Hop);
    let node = Node::start("hop", yaml, plugs);
    ip_packets_come_back(&node).await;

    let mut client = node.connect().await;
    let request = format!("GET http://ECHO/chat HTTP/1.1\r\nHost: ECHO\r\n{WEBSOCKET}");
    say(&mut client, &request).await;
    let head = hear(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains(ACCEPTED), "{head}");
    echoes(client).await;
    node.end().await;
}

/// Opens nothing, and knows how many wait for it.
struct Never {
    waiting: Arc<Semaphore>,
    dropped: Arc<Semaphore>,
}

/// Says when it is dropped.
struct Dropped(Arc<Semaphore>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

impl Connector for Never {
    fn connect(&self, request: TunnelRequest) -> Connecting<'_> {
        let dropped = Dropped(self.dropped.clone());
        self.waiting.add_permits(1);
        Box::pin(async move {
            let _held = (request, dropped);
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn a_connector_is_dropped_when_the_client_goes_and_when_its_time_is_over() {
    let never = Never {
        waiting: Arc::new(Semaphore::new(0)),
        dropped: Arc::new(Semaphore::new(0)),
    };
    let waiting = never.waiting.clone();
    let dropped = never.dropped.clone();
    let yaml = "listeners: { web: { http: 127.0.0.1:0 } }\nroutes:\n  \
                - { match: { target: SOON }, terminate: { by: never }, timeouts: { connect: 50ms } }\n  \
                - { terminate: { by: never }, timeouts: { connect: 1h } }\n";
    let node = Node::start("never", yaml, Plugs::new().connector("never", never));

    let mut client = node.connect().await;
    say(
        &mut client,
        "CONNECT LATE:7 HTTP/1.1\r\nHost: LATE:7\r\n\r\n",
    )
    .await;
    waiting.acquire().await.unwrap().forget();
    client.set_zero_linger().unwrap();
    drop(client);
    let gone = dropped.acquire();
    let gone = tokio::time::timeout(Duration::from_secs(30), gone).await;
    gone.expect("the client is gone").unwrap().forget();

    let (_, head) = connect(&node, "SOON:7").await;
    assert!(head.starts_with("HTTP/1.1 504 "), "{head}");
    dropped.acquire().await.unwrap().forget();
    node.end().await;
}
