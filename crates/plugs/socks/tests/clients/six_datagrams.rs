//! UDP ASSOCIATE of SOCKS6, by hand: the codec that others of these tests use is left aside.

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};

use super::associations::{heard, server};
use super::node::{Node, OPEN, bytes};
use super::six::{KNOWN, SUCCEEDED, experimental, nowhere, option, request};

const ASSOCIATE: u8 = 3;

/// The control connection of an association, and its ID.
struct Association {
    control: TcpStream,
    id: [u8; 8],
}

impl Association {
    async fn begin(node: &Node) -> Self {
        let said = request(ASSOCIATE, nowhere(), &[]);
        let (mut control, answered) = node.answer(&said, 16).await;
        assert_eq!(answered, [&KNOWN[..], &SUCCEEDED].concat());
        let begun = bytes(&mut control, 12).await;
        assert_eq!(begun[..4], [6, 1, 0, 12]);
        let id = *begun.last_chunk().unwrap();
        Self { control, id }
    }

    async fn is_confirmed(&mut self) {
        let confirmed = [&[6, 2, 0, 12][..], &self.id].concat();
        assert_eq!(bytes(&mut self.control, 12).await, confirmed);
    }

    fn datagram(&self, target: SocketAddr, payload: &str) -> Vec<u8> {
        let SocketAddr::V4(target) = target else {
            panic!("{target} is no address of IPv4");
        };
        let mut said = vec![6, 3];
        said.extend(u16::try_from(20 + payload.len()).unwrap().to_be_bytes());
        said.extend(self.id);
        said.extend([1, 0]);
        said.extend(target.port().to_be_bytes());
        said.extend(target.ip().octets());
        said.extend(payload.as_bytes());
        said
    }

    /// Says something by the connection, and hears as much as this.
    async fn by_connection(&mut self, said: &[u8], wanted: &[u8]) {
        self.control.write_all(said).await.unwrap();
        assert_eq!(bytes(&mut self.control, wanted.len()).await, wanted);
    }
}

/// A socket of a client towards the node's port for datagrams.
async fn client(node: &Node) -> UdpSocket {
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.connect(node.address()).await.unwrap();
    client
}

#[tokio::test]
async fn datagrams_pass_by_the_connection_of_their_association() {
    let one = server("one ").await;
    let two = server("two ").await;
    let node = Node::start("six-udp-connection", &experimental(OPEN));
    let mut association = Association::begin(&node).await;
    // A name that no host has costs its datagram alone.
    let mut bad = vec![6, 3, 0, 20];
    bad.extend(association.id);
    bad.extend(b"\x03\0\0\x35\x03a b");
    let said = [&bad[..], &association.datagram(one, "who?")].concat();
    association.control.write_all(&said).await.unwrap();
    association.is_confirmed().await;
    let wanted = association.datagram(one, "one who?");
    assert_eq!(bytes(&mut association.control, wanted.len()).await, wanted);

    let (said, wanted) = (
        association.datagram(two, ""),
        association.datagram(two, "two "),
    );
    association.by_connection(&said, &wanted).await;
    // Byte by byte.
    let said = association.datagram(one, "slowly");
    let (last, first) = said.split_last().unwrap();
    for byte in first {
        association.control.write_all(&[*byte]).await.unwrap();
    }
    let wanted = association.datagram(one, "one slowly");
    association.by_connection(&[*last], &wanted).await;

    // Another path does not count any more.
    let other = client(&node).await;
    other
        .send(&association.datagram(one, "other"))
        .await
        .unwrap();
    let (said, wanted) = (
        association.datagram(two, "again"),
        association.datagram(two, "two again"),
    );
    association.by_connection(&said, &wanted).await;
    assert!(other.try_recv(&mut [0; 100]).is_err());
    node.end().await;
}

#[tokio::test]
async fn datagrams_of_all_associations_pass_by_the_port_of_the_listener() {
    let target = server("").await;
    let node = Node::start("six-udp-port", &experimental(OPEN));
    let mut first = Association::begin(&node).await;
    let mut second = Association::begin(&node).await;
    // One socket may serve several associations, and several sockets one each.
    let shared = client(&node).await;
    let own = client(&node).await;
    for (association, socket, text) in [
        (&mut first, &shared, "of the first"),
        (&mut second, &own, "of the second"),
    ] {
        // Bytes behind a message are padding.
        let said = association.datagram(target, text);
        socket
            .send(&[&said[..], b"padding"].concat())
            .await
            .unwrap();
        association.is_confirmed().await;
        assert_eq!(heard(socket).await, said);
    }
    // The one that reads for both goes, and the other one reads on.
    let gone = first.datagram(target, "too late");
    drop(first);
    let said = second.datagram(target, "alone");
    own.send(&said).await.unwrap();
    assert_eq!(heard(&own).await, said);
    shared.send(&gone).await.unwrap();

    let third = Association::begin(&node).await;
    let said = third.datagram(target, "of the third");
    shared.send(&said).await.unwrap();
    assert_eq!(heard(&shared).await, said, "and nothing before it");
    node.end().await;
}

#[tokio::test]
async fn what_is_not_of_the_association_or_its_path_is_dropped() {
    let target = server("").await;
    let node = Node::start("six-udp-dropped", &experimental(OPEN));
    let mut association = Association::begin(&node).await;
    let socket = client(&node).await;
    let said = association.datagram(target, "said");
    let mut guessed = said.clone();
    guessed[4] ^= 1;
    let mut longer = said.clone();
    longer[3] += 1;
    let mut error = said.clone();
    error[1] = 4;
    for dropped in [&guessed[..], &longer, &error, &said[..19], b"", b"\x05"] {
        socket.send(dropped).await.unwrap();
    }
    // A stranger with the right ID, from another address.
    let stranger = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    stranger.send_to(&said, node.address()).await.unwrap();
    socket.send(&said).await.unwrap();
    assert_eq!(heard(&socket).await, said, "and nothing before it");
    association.is_confirmed().await;

    let other = client(&node).await;
    other.send(&said).await.unwrap();
    association.control.write_all(&said).await.unwrap();
    socket.send(&said).await.unwrap();
    assert_eq!(heard(&socket).await, said);
    assert!(other.try_recv(&mut [0; 100]).is_err());
    assert!(association.control.try_read(&mut [0; 100]).is_err());
    node.end().await;
}

#[tokio::test]
async fn an_empty_datagram_to_nowhere_is_confirmed_and_goes_nowhere() {
    let node = Node::start("six-udp-probe", &experimental(OPEN));
    let mut association = Association::begin(&node).await;
    let socket = client(&node).await;
    let probe = association.datagram(nowhere(), "");
    socket.send(&probe).await.unwrap();
    association.is_confirmed().await;
    socket.send(&probe).await.unwrap();
    let target = server("").await;
    let said = association.datagram(target, "said");
    socket.send(&said).await.unwrap();
    assert_eq!(heard(&socket).await, said);
    node.end().await;
}

#[tokio::test]
async fn broken_messages_end_the_association_that_sends_them() {
    let node = Node::start("six-udp-broken", &experimental(OPEN));
    for broken in [&b"\x05"[..], b"\x06\x03\0\x0b", b"\x06\x09\0\x0c12345678"] {
        let mut association = Association::begin(&node).await;
        association.control.write_all(broken).await.unwrap();
        assert_eq!(bytes(&mut association.control, 1).await, b"", "{broken:?}");
    }
    node.end().await;
}

#[tokio::test]
async fn a_client_hears_whether_it_will_be_told_of_errors() {
    let node = Node::start("six-udp-errors", &experimental(OPEN));
    for availability in [1, 2] {
        let wanted = option(1, &[0x85, 1, availability, 0]);
        let said = request(ASSOCIATE, nowhere(), &[&wanted]);
        let (_, answered) = node.answer(&said, 24).await;
        let served = [&[6, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0][..], &wanted].concat();
        assert_eq!(answered, [&KNOWN[..], &served].concat());
    }
    node.end().await;
}

#[tokio::test]
async fn where_the_port_is_taken_datagrams_pass_by_the_connection_alone() {
    let target = server("").await;
    let node = Node::start("six-udp-taken", &experimental(OPEN));
    let taken = UdpSocket::bind(node.address()).await.unwrap();
    let mut association = Association::begin(&node).await;
    let said = association.datagram(target, "said");
    let socket = client(&node).await;
    socket.send(&said).await.unwrap();
    assert_eq!(
        heard(&taken).await,
        said,
        "the node takes no others' datagrams"
    );

    association.control.write_all(&said).await.unwrap();
    association.is_confirmed().await;
    assert_eq!(bytes(&mut association.control, said.len()).await, said);
    node.end().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_delays_no_other() {
    let target = server(&"x".repeat(1000)).await;
    let of_other = server("").await;
    let node = Node::start("six-udp-stalled", &experimental(OPEN));
    let mut stalled = Association::begin(&node).await;
    // More answers than its buffers hold; it is the one that reads the port for both.
    let said = stalled.datagram(target, "more").repeat(100);
    for _ in 0..200 {
        stalled.control.write_all(&said).await.unwrap();
    }
    let other = Association::begin(&node).await;
    let socket = client(&node).await;
    let said = other.datagram(of_other, "?");
    socket.send(&said).await.unwrap();
    assert_eq!(heard(&socket).await, said);
    node.end().await;
}
