//! How tunnels end: in one direction, in both, and badly.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use hermes_tests::capsules::{UdpTunnel, varint};
use hermes_tests::h2c::Client;
use hermes_tests::raw::Raw;
use hermes_tests::{Node, origins};

use super::{DATA, END, FINAL_DATA, forwarder, path, read, tunnel};

/// A target that the test plays itself.
struct Target(TcpListener);

impl Target {
    fn bind() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn accept(&self) -> TcpStream {
        self.0.accept().unwrap().0
    }
}

/// What came to the end, and whether the end was one.
fn rest(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => (bytes, true),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset);
            (bytes, false)
        }
    }
}

/// The end, and nodes before it that pass capsules on, or make CONNECT of them and capsules again.
fn rows() -> Vec<Vec<Node>> {
    let row = |forms: &[(u8, &str)]| {
        let mut nodes = vec![Node::start("end", END)];
        for (version, form) in forms {
            nodes.push(forwarder(
                nodes[nodes.len() - 1].address("web"),
                *version,
                form,
            ));
        }
        nodes
    };
    vec![
        row(&[]),
        row(&[(1, "")]),
        row(&[(2, "")]),
        row(&[(2, "tunnel: connect")]),
        row(&[(2, "tunnel: connect-tcp"), (1, "tunnel: connect")]),
        row(&[(2, "tunnel: post")]),
    ]
}

fn each(mut check: impl FnMut(SocketAddr)) {
    for row in rows() {
        check(row[row.len() - 1].address("web"));
        row.iter().for_each(Node::idle);
    }
}

#[test]
fn a_client_that_has_ended_still_hears() {
    each(|proxy| {
        let target = Target::bind();
        let mut tunnel = tunnel(proxy, target.address());
        let mut peer = target.accept();
        tunnel.send_capsule(FINAL_DATA, b"question");
        assert_eq!(rest(&mut peer), (b"question".to_vec(), true));
        peer.write_all(b"answer").unwrap();
        drop(peer);
        assert_eq!(read(&mut tunnel), (b"answer".to_vec(), vec![]));
    });
}

#[test]
fn a_target_that_has_ended_still_hears() {
    each(|proxy| {
        let target = Target::bind();
        let mut tunnel = tunnel(proxy, target.address());
        let mut peer = target.accept();
        peer.write_all(b"that is all").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read(&mut tunnel), (b"that is all".to_vec(), vec![]));
        tunnel.send_capsule(DATA, b"but ");
        tunnel.send_capsule(FINAL_DATA, b"I go on");
        assert_eq!(rest(&mut peer), (b"but I go on".to_vec(), true));
    });
}

#[test]
fn a_stream_that_ends_without_final_data_resets_the_target() {
    each(|proxy| {
        let target = Target::bind();
        let mut tunnel = tunnel(proxy, target.address());
        let mut peer = target.accept();
        tunnel.send_capsule(DATA, b"cut");
        let mut three = [0; 3];
        peer.read_exact(&mut three).unwrap();
        tunnel.finish();
        assert!(!rest(&mut peer).1, "a reset");
        assert_eq!(tunnel.rest(), None);
    });
}

#[test]
fn a_target_that_resets_breaks_the_stream_off() {
    each(|proxy| {
        let target = Target::bind();
        let mut tunnel = tunnel(proxy, target.address());
        let peer = target.accept();
        socket2::SockRef::from(&peer)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        drop(peer);
        assert_eq!(tunnel.rest(), None);
    });
}

#[test]
fn a_client_that_resets_resets_the_target() {
    each(|proxy| {
        let target = Target::bind();
        let tunnel = tunnel(proxy, target.address());
        let mut peer = target.accept();
        tunnel.reset();
        assert!(!rest(&mut peer).1, "a reset");
    });
}

#[test]
fn data_after_the_end_and_cut_capsules_break_their_own_tunnel_only() {
    let (end, target) = (Node::start("end", END), Target::bind());
    let address = end.address("web");
    let client = Client::connect(address);
    let uri = format!("http://{address}{}", path(target.address()));
    let mut good = UdpTunnel::h2_for(&client, "connect-tcp", &uri).unwrap();
    let mut good_peer = target.accept();
    for bytes in [
        // A capsule that is announced and never comes whole.
        [varint(DATA), varint((1 << 62) - 1), b"abc".to_vec()].concat(),
        varint(FINAL_DATA)[..2].to_vec(),
        [varint(0x99), varint(5), b"abc".to_vec()].concat(),
    ] {
        let mut bad = UdpTunnel::h2_for(&client, "connect-tcp", &uri).unwrap();
        let mut peer = target.accept();
        bad.send_bytes(&bytes);
        bad.finish();
        assert!(!rest(&mut peer).1, "{bytes:?}");
        assert_eq!(bad.rest(), None);
    }
    good.send_capsule(FINAL_DATA, b"still here");
    assert_eq!(rest(&mut good_peer), (b"still here".to_vec(), true));
}

#[test]
fn classic_connect_through_capsules_sees_the_same_ends() {
    let end = Node::start("end", END);
    for version in [1, 2] {
        let node = forwarder(end.address("web"), version, "tunnel: connect-tcp");
        let origin = origins::tcp_speaks_first();
        let mut raw = Raw::tunnel(node.address("web"), &origin.address().to_string(), "").unwrap();
        assert_eq!(
            raw.exactly(origins::GREETING.len()),
            origins::GREETING.as_bytes()
        );
        raw.send("I am");
        assert_eq!(raw.exactly(4), b"I am");
        raw.finish();
        assert_eq!(raw.rest().0, origins::farewell(4).into_bytes());

        let target = Target::bind();
        let mut raw = Raw::tunnel(node.address("web"), &target.address().to_string(), "").unwrap();
        let peer = target.accept();
        socket2::SockRef::from(&peer)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
        drop(peer);
        assert_eq!(raw.rest().1, hermes_tests::raw::End::Reset);
        node.idle();
    }
    end.idle();
}
