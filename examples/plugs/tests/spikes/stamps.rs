//! A transform of datagrams: at a socket, on the way to another proxy, and from the clients of a `udp` listener.

use hermes_example_plugs::stamps::Stamps;
use hermes_plug::Plugs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::node::{Node, hear, say};

/// A server that sends back what it is sent, and tells.
async fn echo() -> (String, UnboundedReceiver<String>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let (told, heard) = unbounded_channel();
    tokio::spawn(async move {
        let mut room = [0; 2000];
        loop {
            let (length, peer) = socket.recv_from(&mut room).await.unwrap();
            socket.send_to(&room[..length], peer).await.unwrap();
            let text = String::from_utf8_lossy(&room[..length]).into_owned();
            if told.send(text).is_err() {
                return;
            }
        }
    });
    (address.to_string(), heard)
}

/// A node whose routes do this.
fn node(name: &str, listener: &str, routes: &str) -> Node {
    let yaml = format!("listeners: {{ in: {{ {listener} }} }}\n{routes}\n");
    Node::start(name, &yaml, Plugs::new().transform("stamps", Stamps))
}

/// A tunnel of datagrams.
async fn tunnel(node: &Node) -> TcpStream {
    let mut client = node.connect().await;
    say(
        &mut client,
        "GET /.well-known/masque/udp/DB/7/ HTTP/1.1\r\nHost: DB\r\nConnection: Upgrade\r\n\
         Upgrade: connect-udp\r\nCapsule-Protocol: ?1\r\n\r\n",
    )
    .await;
    let head = hear(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    client
}

/// A DATAGRAM capsule (RFC 9297, 3.5) of context 0.
fn capsule(payload: &str) -> Vec<u8> {
    let mut capsule = vec![0, payload.len() as u8 + 1, 0];
    capsule.extend(payload.as_bytes());
    capsule
}

/// What passes, what is dropped, and what ends the tunnel.
async fn is_stamped(node: &Node, server: &mut UnboundedReceiver<String>) {
    let mut client = tunnel(node).await;
    let all = [capsule("one"), capsule("#no"), capsule(""), capsule("two")].concat();
    client.write_all(&all).await.unwrap();
    for wanted in ["anyone:one", "anyone:", "anyone:two"] {
        assert_eq!(server.recv().await.as_deref(), Some(wanted));
    }
    let wanted = [capsule("one"), capsule(""), capsule("two")].concat();
    let mut echoed = vec![0; wanted.len()];
    client.read_exact(&mut echoed).await.unwrap();
    assert_eq!(echoed, wanted);

    client.write_all(&capsule("!")).await.unwrap();
    let rest = client.read(&mut [0]).await;
    assert!(matches!(rest, Ok(0) | Err(_)), "{rest:?}");
}

#[tokio::test]
async fn datagrams_are_changed_and_dropped_at_a_socket() {
    let (server, mut heard) = echo().await;
    let routes = format!("routes: [ {{ terminate: \"{server}\", through: [stamps] }} ]");
    let node = node("stamps", "http: 127.0.0.1:0", &routes);
    is_stamped(&node, &mut heard).await;
    node.end().await;
}

#[tokio::test]
async fn datagrams_are_changed_and_dropped_on_the_way_to_a_proxy() {
    for version in [1, 2] {
        let (server, mut heard) = echo().await;
        let routes = format!("routes: [ {{ terminate: \"{server}\" }} ]");
        let end = node("end", "http: 127.0.0.1:0", &routes);
        let routes = format!(
            "routes: [ {{ to: next, through: [stamps] }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{}\"], http: {version} }} }}",
            end.address()
        );
        let first = node("first", "http: 127.0.0.1:0", &routes);
        is_stamped(&first, &mut heard).await;
        first.end().await;
        end.end().await;
    }
}

#[tokio::test]
async fn no_datagram_of_a_udp_client_leaves_unchanged() {
    let (server, mut heard) = echo().await;
    let routes = format!("routes: [ {{ terminate: \"{server}\" }} ]");
    let end = node("end", "http: 127.0.0.1:0", &routes);
    let routes = format!(
        "routes: [ {{ to: next, through: [stamps] }} ]\n\
         upstreams: {{ next: {{ endpoints: [\"{}\"], http: 2 }} }}",
        end.address()
    );
    let first = node("first", "udp: 127.0.0.1:0, target: \"DB:7\"", &routes);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(first.address()).await.unwrap();
    // The first could leave with the request.
    for text in ["one", "two"] {
        client.send(text.as_bytes()).await.unwrap();
        assert_eq!(heard.recv().await, Some(format!("anyone:{text}")));
        let mut room = [0; 100];
        let length = client.recv(&mut room).await.unwrap();
        assert_eq!(&room[..length], text.as_bytes());
    }
    first.end().await;
    end.end().await;
}
