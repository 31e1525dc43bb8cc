//! UDP ASSOCIATE.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpStream, UdpSocket};

use super::node::{ASKED, Node, OPEN, address, request, request_of};

const ASSOCIATE: u8 = 3;

/// A server that answers with its name before what it was asked.
pub async fn server(name: &str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let name = name.to_owned();
    tokio::spawn(async move {
        let mut room = [0; 2000];
        while let Ok((length, peer)) = socket.recv_from(&mut room).await {
            let answer = [name.as_bytes(), &room[..length]].concat();
            let _ = socket.send_to(&answer, peer).await;
        }
    });
    address
}

pub fn datagram(target: SocketAddr, payload: &str) -> Vec<u8> {
    let mut bytes = vec![0; 3];
    bytes.extend(address(target));
    bytes.extend(payload.as_bytes());
    bytes
}

/// The relay's address in the last bytes of an answer.
fn relay(answered: &[u8]) -> SocketAddr {
    let [kind, a, b, c, d, high, low] = *answered.last_chunk().unwrap();
    assert_eq!(kind, 1);
    SocketAddr::from(([a, b, c, d], u16::from_be_bytes([high, low])))
}

/// The control connection of an association, and a socket that speaks with it.
pub async fn associate(node: &Node) -> (TcpStream, UdpSocket) {
    let said = request(ASSOCIATE, &address(([0, 0, 0, 0], 0).into()));
    let (control, answered) = node.answer(&said, 12).await;
    assert_eq!(answered[..4], [5, 0, 5, 0]);
    let relay = relay(&answered);
    assert_eq!(relay.ip(), node.address().ip());
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(relay).await.unwrap();
    (control, client)
}

pub async fn heard(client: &UdpSocket) -> Vec<u8> {
    let mut room = [0; 2000];
    let received = tokio::time::timeout(Duration::from_secs(20), client.recv(&mut room)).await;
    let length = received.expect("an answer in time").unwrap();
    room[..length].to_vec()
}

#[tokio::test]
async fn one_client_of_an_association_speaks_with_several_destinations() {
    let one = server("one ").await;
    let two = server("two ").await;
    let node = Node::start("socks-several", OPEN);
    let (_control, client) = associate(&node).await;
    for (target, name) in [(one, "one"), (two, "two"), (one, "one")] {
        client.send(&datagram(target, "who?")).await.unwrap();
        let wanted = datagram(target, &format!("{name} who?"));
        assert_eq!(heard(&client).await, wanted, "it says whose answer it is");
    }
    node.end().await;
}

#[tokio::test]
async fn fragments_and_broken_headers_are_dropped() {
    let target = server("").await;
    let node = Node::start("socks-fragments", OPEN);
    let (_control, client) = associate(&node).await;
    let mut fragment = datagram(target, "fragment");
    fragment[2] = 1;
    let nowhere = datagram(([127, 0, 0, 1], 0).into(), "to port 0");
    let whole = datagram(target, "whole");
    let broken = [&fragment[..], &whole[..7], &[0, 0, 0, 2, 1], &[], &nowhere];
    for dropped in broken {
        client.send(dropped).await.unwrap();
    }
    client.send(&whole).await.unwrap();
    assert_eq!(heard(&client).await, whole, "and nothing before it");
    node.end().await;
}

#[tokio::test]
async fn the_first_datagram_says_the_port_and_others_are_dropped() {
    let target = server("").await;
    let node = Node::start("socks-pinned", OPEN);
    let (_control, client) = associate(&node).await;
    let first = datagram(target, "first");
    client.send(&first).await.unwrap();
    assert_eq!(heard(&client).await, first);

    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    other.connect(client.peer_addr().unwrap()).await.unwrap();
    other.send(&datagram(target, "other")).await.unwrap();
    let second = datagram(target, "second");
    client.send(&second).await.unwrap();
    assert_eq!(heard(&client).await, second);
    let error = other.try_recv(&mut [0; 100]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    node.end().await;
}

#[tokio::test]
async fn an_association_ends_with_its_connection() {
    let target = server("").await;
    let node = Node::start("socks-ended", OPEN);
    let (control, client) = associate(&node).await;
    let said = datagram(target, "said");
    client.send(&said).await.unwrap();
    assert_eq!(heard(&client).await, said);

    drop(control);
    // The socket is gone once the system refuses datagrams to it.
    let gone = async {
        loop {
            let sent = client.send(&said).await;
            if sent.is_err() || client.try_recv(&mut [0; 100]).is_err_and(is_refusal) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(20), gone).await;
    gone.expect("an end in time");
    node.end().await;
}

fn is_refusal(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::ConnectionRefused
}

#[tokio::test]
async fn tunnels_of_an_association_end_when_their_user_goes() {
    let one = server("").await;
    let node = Node::start("socks-association-user", ASKED);
    let any = address(([0, 0, 0, 0], 0).into());
    let said = request_of("alice", "of alice", ASSOCIATE, &any);
    let (_control, answered) = node.answer(&said, 14).await;
    assert_eq!(answered[..6], [5, 2, 1, 0, 5, 0]);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(relay(&answered)).await.unwrap();
    let hello = datagram(one, "hello");
    client.send(&hello).await.unwrap();
    assert_eq!(heard(&client).await, hello);

    let report = node.has_users(&["carol"]);
    assert_eq!(report.tunnels.ended, 1);
    // The next destination is refused: the proof of that time counts no more.
    let two = server("").await;
    for target in [one, two] {
        client.send(&datagram(target, "again")).await.unwrap();
    }
    let nothing = tokio::time::timeout(Duration::from_secs(1), client.recv(&mut [0; 100])).await;
    assert!(nothing.is_err(), "{nothing:?}");
    node.end().await;
}

#[tokio::test]
async fn a_flood_of_destinations_leaves_room_for_other_clients() {
    let target = server("").await;
    let node = Node::start("socks-flood", OPEN);
    let (_control, flood) = associate(&node).await;
    for port in 20_000..22_000 {
        let said = datagram(([127, 0, 0, 1], port).into(), "flood");
        flood.send(&said).await.unwrap();
    }
    let (_other, client) = associate(&node).await;
    let said = datagram(target, "said");
    client.send(&said).await.unwrap();
    assert_eq!(heard(&client).await, said);
    node.end().await;
}
