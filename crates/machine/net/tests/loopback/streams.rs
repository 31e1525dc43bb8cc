use std::io::{ErrorKind, IoSlice};

use bytes::Bytes;
use hermes_net::{PeerAddress, Stream, StreamInfo};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::authority::tls_pair;
use crate::{tcp_pair, unix_pair};

/// More than the buffers of a loopback connection hold.
const LARGE: usize = 8 << 20;

fn in_memory_pair() -> (Stream, Stream) {
    let info = StreamInfo {
        peer: PeerAddress::Unix { uid: None },
        local: None,
        tls: None,
        origin: None,
    };
    let (near, far) = tokio::io::duplex(64 << 10);
    (
        Stream::other(Box::new(near), info.clone()),
        Stream::other(Box::new(far), info),
    )
}

/// One side ends its direction; the other then still sends, and both see a clean end.
async fn half_closes(pair: (Stream, Stream)) {
    let (mut read, mut write) = pair.0.split();
    let (mut far_read, mut far_write) = pair.1.split();
    write.write_all(b"question").await.unwrap();
    write.shutdown().await.unwrap();
    let mut question = Vec::new();
    far_read.read_to_end(&mut question).await.unwrap();
    assert_eq!(question, b"question");

    let sent: Vec<u8> = (0..LARGE).map(|index| (index % 251) as u8).collect();
    let send = async {
        far_write.write_all(&sent).await.unwrap();
        far_write.shutdown().await.unwrap();
    };
    let mut answer = Vec::new();
    let (read, ()) = tokio::join!(read.read_to_end(&mut answer), send);
    read.unwrap();
    assert!(answer == sent, "the answer differs");
}

/// Half-closes from the connecting and from the accepting side.
async fn half_closes_both_ways(one: (Stream, Stream), two: (Stream, Stream)) {
    half_closes(one).await;
    half_closes((two.1, two.0)).await;
}

#[tokio::test]
async fn tcp_half_closes_both_ways() {
    half_closes_both_ways(tcp_pair().await, tcp_pair().await).await;
}

#[tokio::test]
async fn unix_half_closes_both_ways() {
    half_closes_both_ways(unix_pair().await, unix_pair().await).await;
}

#[tokio::test]
async fn tls_over_tcp_half_closes_both_ways() {
    let (one, two) = (
        tls_pair(tcp_pair().await).await,
        tls_pair(tcp_pair().await).await,
    );
    half_closes_both_ways(one, two).await;
}

#[tokio::test]
async fn tls_over_unix_half_closes_both_ways() {
    let (one, two) = (
        tls_pair(unix_pair().await).await,
        tls_pair(unix_pair().await).await,
    );
    half_closes_both_ways(one, two).await;
}

#[tokio::test]
async fn tls_in_tls_half_closes_both_ways() {
    let outer = tls_pair(tcp_pair().await).await;
    half_closes(tls_pair(outer).await).await;
}

#[tokio::test]
async fn tls_over_another_transport_half_closes() {
    half_closes(tls_pair(in_memory_pair()).await).await;
}

/// Aborts one end of `pair` by each of the two halves; the other end must see a reset, not an end.
async fn reset_is_seen(pair: (Stream, Stream), by_reader: bool) {
    let (read, write) = pair.0.split();
    if by_reader {
        read.set_abort()
    } else {
        write.set_abort()
    };
    drop(write);
    drop(read);
    let (mut read, _write) = pair.1.split();
    let error = read.read_u8().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn tcp_abort_by_either_half_is_a_reset() {
    reset_is_seen(tcp_pair().await, true).await;
    reset_is_seen(tcp_pair().await, false).await;
}

#[tokio::test]
async fn tls_abort_by_either_half_is_a_reset() {
    reset_is_seen(tls_pair(tcp_pair().await).await, true).await;
    reset_is_seen(tls_pair(tcp_pair().await).await, false).await;
}

#[tokio::test]
async fn abort_of_a_whole_stream_is_a_reset() {
    let (near, mut far) = tcp_pair().await;
    near.abort();
    assert_eq!(
        far.read_u8().await.unwrap_err().kind(),
        ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn a_dropped_write_half_is_not_an_end() {
    for (near, far) in [tcp_pair().await, unix_pair().await] {
        let (read, write) = near.split();
        drop(write);
        let (mut far_read, mut far_write) = far.split();
        let mut read = read;
        far_write.write_all(b"x").await.unwrap();
        assert_eq!(read.read_u8().await.unwrap(), b'x');
        let mut byte = [0];
        let end = std::pin::pin!(far_read.read(&mut byte));
        let mut end = still_pending(end).await;
        drop(read);
        assert_eq!(end.as_mut().await.unwrap(), 0);
    }
}

/// Asserts that `future` is not ready after one poll, and hands it back.
async fn still_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::pin::Pin<&mut F> {
    std::future::poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        std::task::Poll::Ready(())
    })
    .await;
    future
}

#[tokio::test]
async fn tls_cut_without_close_notify_is_not_a_clean_end() {
    // The accepting side is cut: the other would reset because of session tickets that it has not read.
    let (mut near, far) = tls_pair(tcp_pair().await).await;
    drop(far);
    assert_eq!(
        near.read_u8().await.unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
    let (mut near, far) = tls_pair(tcp_pair().await).await;
    drop(far.split());
    let mut rest = Vec::new();
    assert_eq!(
        near.read_to_end(&mut rest).await.unwrap_err().kind(),
        ErrorKind::UnexpectedEof
    );
}

#[tokio::test]
async fn unread_bytes_come_first_through_the_stream_and_its_half() {
    let (mut near, mut far) = tcp_pair().await;
    far.write_all(b"-later").await.unwrap();
    far.shutdown().await.unwrap();
    near.unread(Bytes::from_static(b"cond"));
    near.unread(Bytes::from_static(b"first-se"));
    let mut start = [0; 2];
    near.read_exact(&mut start).await.unwrap();
    let (mut read, _write) = near.split();
    let mut rest = Vec::new();
    read.read_to_end(&mut rest).await.unwrap();
    assert_eq!(
        (&start, rest.as_slice()),
        (b"fi", b"rst-second-later".as_slice())
    );
}

#[tokio::test]
async fn vectored_writes_reach_the_transport() {
    for (near, mut far) in [
        tcp_pair().await,
        unix_pair().await,
        tls_pair(tcp_pair().await).await,
    ] {
        let (_read, mut write) = near.split();
        assert!(write.is_write_vectored());
        let parts = [IoSlice::new(b"one "), IoSlice::new(b"write")];
        assert_eq!(write.write_vectored(&parts).await.unwrap(), 9);
        write.shutdown().await.unwrap();
        let mut all = String::new();
        far.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "one write");
    }
}

#[tokio::test]
async fn tcp_info_names_both_addresses() {
    let (near, far) = tcp_pair().await;
    let (near, far) = (near.info(), far.info());
    assert_eq!(near.peer.socket(), far.local);
    assert_eq!(far.peer.socket(), near.local);
    assert_eq!(near.tls, None);
}

#[tokio::test]
async fn unix_info_names_the_user() {
    let (near, far) = unix_pair().await;
    let PeerAddress::Unix { uid: Some(uid) } = near.info().peer else {
        panic!("no user")
    };
    assert_eq!(far.info().peer, PeerAddress::Unix { uid: Some(uid) });
}

#[test]
fn streams_and_halves_are_send() {
    fn is_send<T: Send + 'static>() {}
    is_send::<Stream>();
    is_send::<hermes_net::ReadHalf>();
    is_send::<hermes_net::WriteHalf>();
}

/// Checked by compiling: a worker's tasks may hold any of these across an await.
#[tokio::test]
async fn every_future_is_send() {
    fn is_send(_: impl Send) {}
    let (near, _far) = tcp_pair().await;
    let config = hermes_net::tls::client(Default::default());
    if let Ok(config) = config {
        is_send(hermes_net::tls::connect(
            near,
            config,
            "a.example",
            crate::PATIENCE,
        ));
    }
    is_send(hermes_net::connect::tcp(&[], crate::PATIENCE));
    is_send(hermes_net::connect::unix(std::path::Path::new("s")));
    let resolver = hermes_net::Resolver::with_server(crate::loopback()).unwrap();
    is_send(resolver.lookup_target("a.example", hermes_net::Asker::of("alice")));
    let socket = hermes_net::listen::udp(crate::loopback()).unwrap();
    let socket = hermes_net::UdpSocket::bound(socket).unwrap();
    let mut batch = hermes_net::RecvBatch::new();
    is_send(socket.recv(&mut batch));
    is_send(socket.send_segments(None, &[], None));
    let listener = hermes_net::listen::tcp(crate::loopback()).unwrap();
    let acceptor = hermes_net::Acceptor::new(listener.into()).unwrap();
    is_send(acceptor.accept());
    let drain = hermes_net::Drain::new();
    is_send(drain.drain(crate::PATIENCE));
}
