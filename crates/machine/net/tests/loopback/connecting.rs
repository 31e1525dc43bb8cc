use std::net::SocketAddr;
use std::time::Duration;

use hermes_net::connect::{self, Remote};
#[cfg(target_os = "linux")]
use hermes_net::os::set_congestion;
use hermes_net::{Acceptor, ConnectErrorKind, Listener, listen};
use socket2::{Domain, SockRef, Socket, Type};

use crate::{PATIENCE, loopback};

/// An address that refuses: the port is taken, so that no one else gets it, and nothing listens.
fn refusing(address: SocketAddr) -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    socket.bind(&address.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, address)
}

/// A listener with a full queue, so that a further connection is not answered.
async fn silent() -> (Socket, Vec<tokio::net::TcpStream>, SocketAddr) {
    let (socket, address) = refusing(loopback());
    socket.listen(0).unwrap();
    let mut waiting = Vec::new();
    // Linux queues one more than the backlog; the rest stay unanswered.
    while let Ok(Ok(tcp)) = tokio::time::timeout(
        Duration::from_millis(50),
        tokio::net::TcpStream::connect(address),
    )
    .await
    {
        waiting.push(tcp);
    }
    (socket, waiting, address)
}

#[tokio::test]
async fn a_dead_address_does_not_hide_a_live_one() {
    let (_dead, refused) = refusing("[::1]:0".parse().unwrap());
    let listener = Listener::from(listen::tcp(loopback()).unwrap());
    let live = listener.local_addr().unwrap();
    for addresses in [[refused, live], [live, refused]] {
        let tcp = connect::tcp(&addresses, PATIENCE).await.unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), live);
        assert!(tcp.nodelay().unwrap());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_gets_the_congestion_control_that_it_is_to_have() {
    let listener = Listener::from(listen::tcp(loopback()).unwrap());
    let address = listener.local_addr().unwrap();
    let tcp = connect::tcp(&[address], PATIENCE).await.unwrap();
    // Every kernel has this one.
    set_congestion(&tcp, "reno").unwrap();
    let mut name = SockRef::from(&tcp).tcp_congestion().unwrap();
    name.retain(|byte| *byte != 0);
    assert_eq!(name, b"reno");
    assert!(set_congestion(&tcp, "no-such").is_err());
}

#[tokio::test]
async fn a_silent_address_is_overtaken_by_the_next() {
    let (_socket, _waiting, silent) = silent().await;
    let listener = Listener::from(listen::tcp(loopback()).unwrap());
    let live = listener.local_addr().unwrap();
    let tcp = connect::tcp(&[silent, live], PATIENCE).await.unwrap();
    assert_eq!(tcp.peer_addr().unwrap(), live);
}

#[tokio::test]
async fn losers_are_closed_when_one_has_won() {
    let listeners = [
        listen::tcp(loopback()).unwrap(),
        listen::tcp("[::1]:0".parse().unwrap()).unwrap(),
    ];
    let addresses = listeners
        .each_ref()
        .map(|listener| listener.local_addr().unwrap());
    let tcp = connect::tcp(&addresses, PATIENCE).await.unwrap();
    assert_eq!(tcp.peer_addr().unwrap(), addresses[0]);
    let [_, second] = listeners;
    assert!(
        second.accept().is_err(),
        "the second address must not have been tried"
    );
}

#[tokio::test]
async fn a_refusal_everywhere_is_a_refusal() {
    let (_one, first) = refusing(loopback());
    let (_two, second) = refusing("[::1]:0".parse().unwrap());
    let error = connect::tcp(&[first, second], PATIENCE).await.unwrap_err();
    assert_eq!(error.kind, ConnectErrorKind::Refused);
    assert_eq!(error.address, Remote::Ip(first));
    assert_eq!(error.to_string(), format!("{first}: connection refused"));
}

#[tokio::test]
async fn no_answer_in_time_is_a_timeout() {
    let (_socket, _waiting, silent) = silent().await;
    let error = connect::tcp(&[silent], Duration::from_millis(20))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ConnectErrorKind::Timeout);
    assert_eq!(error.address, Remote::Ip(silent));
}

#[tokio::test]
async fn a_unix_socket_that_is_missing_or_dead_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let error = connect::unix(&path).await.unwrap_err();
    assert_eq!(error.kind, ConnectErrorKind::Unreachable);
    drop(Acceptor::new(listen::unix(&path, 0o600).unwrap().into()).unwrap());
    let error = connect::unix(&path).await.unwrap_err();
    assert_eq!(error.kind, ConnectErrorKind::Refused);
    assert_eq!(error.address, Remote::Unix(path));
}
