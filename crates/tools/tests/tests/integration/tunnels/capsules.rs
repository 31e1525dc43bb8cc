//! What is no datagram: forwarders pass it on, the end passes over it, and nonsense breaks its own tunnel only.

use std::io::{Read, Write};
use std::net::SocketAddr;

use bytes::Bytes;
use hermes_tests::capsules::{DATAGRAM, UdpTunnel, varint};
use hermes_tests::h2c::Client;
use hermes_tests::{origins, runtime};

use crate::tunnels::datagrams::{capsule, datagram, open};
use crate::tunnels::overlay::{self, Overlay, forwarder};
use crate::tunnels::peer::Target;
use crate::tunnels::pipe::WAYS;

#[test]
fn a_forwarder_passes_every_capsule_on_unchanged() {
    let odd = [
        capsule(0x2f3a, b"unknown"),
        capsule(DATAGRAM, b"\x05context five"),
        capsule(0x3fff_ffff, b""),
    ]
    .concat();
    for version in [1, 2] {
        let next = if version == 1 {
            h1_mirror()
        } else {
            h2_mirror()
        };
        let node = forwarder("forwarder", next, &version.to_string());
        let address = node.address("web");
        let client = Client::connect(address);
        let tunnels = [
            UdpTunnel::h1(address, "ANYWHERE", 53, "").unwrap(),
            UdpTunnel::h2(&client, address, "ANYWHERE", 53, &[]).unwrap(),
        ];
        for mut tunnel in tunnels {
            tunnel.send_bytes(&odd);
            assert_eq!(tunnel.capsule(), (0x2f3a, b"unknown".to_vec()));
            assert_eq!(tunnel.capsule(), (DATAGRAM, b"\x05context five".to_vec()));
            assert_eq!(tunnel.capsule(), (0x3fff_ffff, Vec::new()));
        }
    }
}

/// A next proxy over HTTP/1.1 that accepts one tunnel after the other and sends back its bytes.
fn h1_mirror() -> SocketAddr {
    let target = Target::bind();
    let address = target.address();
    std::thread::spawn(move || {
        for _ in WAYS {
            let mut stream = target.accept().0;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            stream
                .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: connect-udp\r\n\r\n")
                .unwrap();
            std::thread::spawn(move || {
                std::io::copy(&mut stream.try_clone().unwrap(), &mut stream)
            });
        }
    });
    address
}

/// The same over HTTP/2.
fn h2_mirror() -> SocketAddr {
    let listener = runtime::block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime::handle().spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut builder = h2::server::Builder::new();
        let mut connection = builder
            .enable_connect_protocol()
            .handshake::<_, Bytes>(stream)
            .await
            .unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            tokio::spawn(async move {
                let mut sender = respond
                    .send_response(http::Response::new(()), false)
                    .unwrap();
                let mut content = request.into_body();
                while let Some(Ok(data)) = content.data().await {
                    sender.send_data(data, false).unwrap();
                }
            });
        }
    });
    address
}

#[test]
fn the_end_passes_over_unknown_capsules_and_contexts() {
    let origin = origins::udp_echo(origins::V4);
    for overlay in overlay::all() {
        for way in WAYS {
            let (mut tunnel, _client) = open(way, &overlay, origin.port());
            tunnel.send_capsule(0x2f3a, &[9; 200_000]);
            tunnel.send_capsule(DATAGRAM, b"\x04context four");
            tunnel.send_capsule(DATAGRAM, b"\x40\x00zero, written long");
            tunnel.send("plain");
            assert_eq!(tunnel.receive(), b"zero, written long");
            assert_eq!(tunnel.receive(), b"plain");
        }
        overlay.idle();
    }
}

#[test]
fn a_header_that_announces_too_much_breaks_its_own_tunnel_only() {
    let origin = origins::udp_echo(origins::V4);
    for links in [&[][..], &[1], &[2]] {
        let overlay = Overlay::start(links);
        let (address, port) = (overlay.address(), origin.port());
        let client = Client::connect(address);
        let mut good = UdpTunnel::h2(&client, address, "127.0.0.1", port, &[]).unwrap();
        let mut bad = UdpTunnel::h2(&client, address, "127.0.0.1", port, &[]).unwrap();
        let mut bad_h1 = UdpTunnel::h1(address, "127.0.0.1", port, "").unwrap();
        let bomb = [varint(DATAGRAM), varint((1 << 62) - 1), vec![0; 100]].concat();
        bad.send_bytes(&bomb);
        bad_h1.send_bytes(&bomb);
        assert_eq!(bad.rest(), None, "links {links:?}");
        assert_eq!(bad_h1.rest(), None, "links {links:?}");
        good.send("still here");
        assert_eq!(good.receive(), b"still here");
    }
}

#[test]
fn an_unknown_capsule_of_any_length_costs_nothing() {
    let origin = origins::udp_echo(origins::V4);
    let overlay = Overlay::start(&[]);
    let (mut tunnel, _client) = open(WAYS[1], &overlay, origin.port());
    tunnel.send_bytes(&[varint(0x2f3a), varint(3_000_000)].concat());
    (0..30).for_each(|_| tunnel.send_bytes(&[0; 100_000]));
    tunnel.send("after it");
    assert_eq!(tunnel.receive(), b"after it");
}

#[test]
fn an_end_inside_a_capsule_is_answered_with_a_reset() {
    let origin = origins::udp_echo(origins::V4);
    let whole = datagram(b"never complete");
    for overlay in overlay::all() {
        for way in WAYS {
            for cut in [1, 2, whole.len() - 1] {
                let (mut tunnel, _client) = open(way, &overlay, origin.port());
                tunnel.send_bytes(&whole[..cut]);
                tunnel.finish();
                assert_eq!(tunnel.rest(), None, "{way:?}, cut at {cut}");
            }
        }
        overlay.idle();
    }
}
