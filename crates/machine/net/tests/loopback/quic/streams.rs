use bytes::Bytes;
use hermes_net::quic::{ConnectionError, ReadError, Stopped, WriteError};

use super::{Trust, patiently, read_all, write};

#[tokio::test]
async fn a_large_transfer_arrives_whole_in_both_directions() {
    const LENGTH: usize = 32 << 20;
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    let block: Bytes = (0..251_u8).cycle().take(LENGTH).collect::<Vec<_>>().into();
    let expected = block.clone();
    let serving = async {
        let (send, recv) = far.accept_bi().await.unwrap();
        super::echo(send, recv).await;
    };
    let asking = async {
        let (mut send, mut recv) = near.open_bi().await.unwrap();
        let writing = async {
            write(&mut send, block).await.unwrap();
            send.finish().unwrap();
        };
        let ((), read) = tokio::join!(writing, read_all(&mut recv));
        read.unwrap()
    };
    let ((), read) = patiently(async { tokio::join!(serving, asking) }).await;
    assert_eq!(read.len(), LENGTH);
    assert!(read == expected);
}

#[tokio::test]
async fn reset_and_stop_carry_their_codes() {
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    let (mut send, mut recv) = near.open_bi().await.unwrap();
    write(&mut send, Bytes::from_static(b"hello"))
        .await
        .unwrap();
    let (mut far_send, mut far_recv) = far.accept_bi().await.unwrap();
    assert_eq!(far_recv.read(9).await.unwrap().unwrap(), "hello");

    let (id, far_id) = (send.id(), far_recv.id());
    assert_eq!((id, recv.id(), far_send.id(), far_id), (0, 0, 0, 0));

    send.reset(0x102);
    assert!(matches!(
        far_recv.read(9).await,
        Err(ReadError::Reset(0x102))
    ));

    let stopped = far_send.stopped();
    recv.stop(0x10c);
    assert!(matches!(patiently(stopped).await, Stopped::Code(0x10c)));
    let refused = far_send.write(&mut [Bytes::from_static(b"more")]).await;
    assert!(matches!(refused, Err(WriteError::Stopped(0x10c))));
}

#[tokio::test]
async fn a_stream_dropped_unfinished_is_reset_and_never_looks_complete() {
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    let mut send = near.open_uni().await.unwrap();
    write(&mut send, Bytes::from_static(b"half")).await.unwrap();
    let mut recv = far.accept_uni().await.unwrap();
    assert_eq!(recv.read(9).await.unwrap().unwrap(), "half");
    drop(send);
    assert!(matches!(
        patiently(recv.read(9)).await,
        Err(ReadError::Reset(0x10c))
    ));
}

#[tokio::test]
async fn a_finished_stream_is_acknowledged() {
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    let mut send = near.open_uni().await.unwrap();
    write(&mut send, Bytes::from_static(b"all")).await.unwrap();
    send.finish().unwrap();
    assert!(matches!(send.finish(), Err(WriteError::Closed)));
    let stopped = send.stopped();
    let mut recv = far.accept_uni().await.unwrap();
    assert_eq!(read_all(&mut recv).await.unwrap(), b"all");
    assert!(matches!(patiently(stopped).await, Stopped::Acked));
}

#[tokio::test]
async fn the_peer_opens_no_more_streams_than_it_may() {
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    far.set_max_bi_streams(300);
    let mut open = Vec::new();
    // 100 from the start, and 200 when the news has come.
    patiently(async {
        while open.len() < 300 {
            let (mut send, recv) = near.open_bi().await.unwrap();
            write(&mut send, Bytes::from_static(b"x")).await.unwrap();
            open.push((send, recv));
        }
    })
    .await;
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let more = std::pin::pin!(near.open_bi());
    assert!(Future::poll(more, &mut cx).is_pending());
}

#[tokio::test]
async fn closing_tells_code_and_words() {
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    assert!(near.closed_reason().is_none());
    near.close(0x100, b"enough");
    let told = patiently(far.closed()).await;
    assert!(
        matches!(&told, ConnectionError::Application { code: 0x100, reason } if reason == "enough"),
        "{told:?}"
    );
    assert!(matches!(near.closed_reason(), Some(ConnectionError::Local)));
}
