use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::slice;

use hermes_net::{Acceptor, Listener, connect, listen};
use socket2::SockRef;

use crate::{PATIENCE, loopback};

#[test]
fn several_workers_share_one_port() {
    let first = listen::tcp(loopback()).unwrap();
    assert!(listen::tcp(first.local_addr().unwrap()).is_ok());
    let first = listen::udp(loopback()).unwrap();
    assert!(listen::udp(first.local_addr().unwrap()).is_ok());
}

#[tokio::test]
async fn the_unspecified_ipv6_address_accepts_ipv4_and_shows_it_as_such() {
    let listener = Listener::from(listen::tcp("[::]:0".parse().unwrap()).unwrap());
    let port = listener.local_addr().unwrap().port();
    let acceptor = Acceptor::new(listener).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let (near, far) = tokio::join!(
        connect::tcp(slice::from_ref(&address), PATIENCE),
        acceptor.accept()
    );
    assert_eq!(far.info().peer.socket(), near.unwrap().local_addr().ok());
    assert_eq!(far.info().local, Some(address));
}

#[tokio::test]
async fn a_stream_knows_the_address_that_it_came_to() {
    for (bound, to) in [
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::1]:0", "[::1]:0"),
        ("0.0.0.0:0", "127.0.0.2:0"),
    ] {
        let listener = listen::tcp(bound.parse().unwrap()).unwrap();
        let mut address: SocketAddr = to.parse().unwrap();
        address.set_port(listener.local_addr().unwrap().port());
        let acceptor = Acceptor::new(listener.into()).unwrap();
        let (_near, far) = tokio::join!(
            connect::tcp(slice::from_ref(&address), PATIENCE),
            acceptor.accept()
        );
        assert_eq!(far.info().local, Some(address), "{bound}");
    }
}

#[tokio::test]
async fn accepted_streams_have_no_delay_and_keep_alive() {
    let (_near, far) = crate::tcp_pair().await;
    let hermes_net::Transport::Tcp(tcp) = far.transport() else {
        panic!("not TCP")
    };
    assert!(tcp.nodelay().unwrap());
    assert!(SockRef::from(tcp).keepalive().unwrap());
}

#[tokio::test]
async fn a_second_descriptor_accepts_from_the_same_queue() {
    let listener = Listener::from(listen::tcp(loopback()).unwrap());
    let (address, second) = (
        listener.local_addr().unwrap(),
        listener.try_clone().unwrap(),
    );
    drop(listener);
    let acceptor = Acceptor::new(second).unwrap();
    let (near, far) = tokio::join!(
        connect::tcp(slice::from_ref(&address), PATIENCE),
        acceptor.accept()
    );
    assert_eq!(far.info().peer.socket(), near.unwrap().local_addr().ok());
}

#[test]
fn a_unix_socket_has_the_mode_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let _listener = listen::unix(&path, 0o600).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn a_stale_unix_socket_is_replaced_and_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    drop(listen::unix(&path, 0o600).unwrap());
    assert!(path.exists());
    let _live = listen::unix(&path, 0o600).unwrap();
    let error = listen::unix(&path, 0o600).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    assert!(path.exists());
}

#[test]
fn a_file_that_is_not_a_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("precious");
    fs::write(&path, "data").unwrap();
    let error = listen::unix(&path, 0o600).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "data");
}
