//! Datagrams arrive, whatever their size and however their capsules are cut.

use h2::ext::Protocol;
use hermes_tests::capsules::{self, DATAGRAM, UdpTunnel, varint};
use hermes_tests::h2c::Client;
use hermes_tests::{origins, runtime};

use crate::tunnels::overlay::{self, Overlay};
use crate::tunnels::pipe::{WAYS, Way};

/// A tunnel and, over HTTP/2, the connection that it needs.
pub fn open(way: Way, overlay: &Overlay, port: u16) -> (UdpTunnel, Option<Client>) {
    let proxy = overlay.address();
    match way {
        Way::H1 => (UdpTunnel::h1(proxy, "127.0.0.1", port, "").unwrap(), None),
        Way::H2 => {
            let client = Client::connect(proxy);
            (
                UdpTunnel::h2(&client, proxy, "127.0.0.1", port, &[]).unwrap(),
                Some(client),
            )
        }
    }
}

/// A capsule as it is on the wire.
pub fn capsule(kind: u64, value: &[u8]) -> Vec<u8> {
    [varint(kind), varint(value.len() as u64), value.to_vec()].concat()
}

/// A capsule with a datagram of context 0.
pub fn datagram(payload: &[u8]) -> Vec<u8> {
    capsule(DATAGRAM, &[&[0], payload].concat())
}

#[test]
fn datagrams_of_every_size_come_back() {
    let origin = origins::udp_echo(origins::V4);
    for overlay in overlay::all() {
        for way in WAYS {
            let (mut tunnel, _client) = open(way, &overlay, origin.port());
            for length in [0, 1, 1200, 9000, 1200, 17] {
                let payload = vec![u8::try_from(length % 251).unwrap(); length];
                tunnel.send(&payload);
                assert!(tunnel.receive() == payload, "{way:?}: {length} bytes");
            }
        }
    }
}

#[test]
fn datagrams_go_to_ipv6_targets() {
    let origin = origins::udp_echo(origins::V6);
    let overlay = Overlay::start(&[2]);
    let mut tunnel = UdpTunnel::h1(overlay.address(), "::1", origin.port(), "").unwrap();
    tunnel.send("over IPv6");
    assert_eq!(tunnel.receive(), b"over IPv6");
}

#[test]
fn a_capsule_may_be_cut_at_every_byte() {
    let origin = origins::udp_echo(origins::V4);
    let overlay = Overlay::start(&[2]);
    let whole = [
        datagram(b"first"),
        capsule(0x1234, b"unknown"),
        datagram(b"second"),
    ]
    .concat();
    for way in WAYS {
        let (mut tunnel, _client) = open(way, &overlay, origin.port());
        for cut in 0..=whole.len() {
            tunnel.send_bytes(&whole[..cut]);
            tunnel.send_bytes(&whole[cut..]);
            assert_eq!(
                (tunnel.receive(), tunnel.receive()),
                (b"first".to_vec(), b"second".to_vec()),
                "cut at {cut}"
            );
        }
        whole.iter().for_each(|byte| tunnel.send_bytes(&[*byte]));
        assert_eq!(
            (tunnel.receive(), tunnel.receive()),
            (b"first".to_vec(), b"second".to_vec())
        );
    }
}

#[test]
fn datagrams_sent_before_the_answer_are_kept_over_h2() {
    let origin = origins::udp_echo(origins::V4);
    for links in [&[][..], &[1], &[2], &[2, 2]] {
        let overlay = Overlay::start(links);
        let uri = format!(
            "http://{}{}",
            overlay.address(),
            capsules::path("127.0.0.1", origin.port())
        );
        let answered = early(
            overlay.address(),
            &uri,
            [datagram(b"one"), datagram(b"two")].concat(),
        );
        assert_eq!(
            answered,
            [datagram(b"one"), datagram(b"two")].concat(),
            "links {links:?}"
        );
    }
}

/// Opens a tunnel, sends at once, and reads as much as was sent.
fn early(proxy: std::net::SocketAddr, uri: &str, bytes: Vec<u8>) -> Vec<u8> {
    let wanted = bytes.len();
    let settled = Client::connect(proxy);
    assert!(settled.extended_connect());
    runtime::block_on(async {
        let stream = tokio::net::TcpStream::connect(proxy).await.unwrap();
        let (requests, mut connection) = h2::client::handshake(stream).await.unwrap();
        let mut pings = connection.ping_pong().unwrap();
        runtime::handle().spawn(connection);
        pings.ping(h2::Ping::opaque()).await.unwrap();
        let request = http::Request::builder()
            .method(http::Method::CONNECT)
            .uri(uri);
        let request = request
            .extension(Protocol::from_static("connect-udp"))
            .body(())
            .unwrap();
        let (response, mut sender) = requests
            .ready()
            .await
            .unwrap()
            .send_request(request, false)
            .unwrap();
        sender.send_data(bytes.into(), false).unwrap();
        let mut content = response.await.unwrap().into_body();
        let mut received = Vec::new();
        while received.len() < wanted {
            received.extend_from_slice(&content.data().await.unwrap().unwrap());
        }
        received
    })
}

#[test]
fn the_clients_end_ends_the_tunnel() {
    let origin = origins::udp_echo(origins::V4);
    for overlay in overlay::all() {
        for way in WAYS {
            let (mut tunnel, _client) = open(way, &overlay, origin.port());
            tunnel.send("last");
            assert_eq!(tunnel.receive(), b"last");
            tunnel.finish();
            assert_eq!(tunnel.rest(), Some(Vec::new()), "{way:?}");
        }
        overlay.idle();
    }
}
