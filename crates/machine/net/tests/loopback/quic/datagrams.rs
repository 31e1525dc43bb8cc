use bytes::Bytes;
use hermes_net::quic::{DatagramCounts, SentDatagrams};

use super::{Trust, ask, patiently, spawn_echo};
use crate::quic::NAME;
use hermes_net::Drain;
use hermes_net::quic::Endpoint;

#[tokio::test]
async fn datagrams_arrive_in_batches_whole_and_in_order() {
    const COUNT: usize = 500;
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    let datagrams = (0..COUNT).map(|n| Bytes::from(format!("{n:>1000}")));
    assert_eq!(
        near.send_datagrams(datagrams),
        SentDatagrams {
            sent: COUNT,
            too_large: 0,
            dropped: 0
        }
    );
    let mut received = Vec::new();
    let mut batches = 0;
    patiently(async {
        while received.len() < COUNT {
            far.recv_datagrams(&mut received, 64).await.unwrap();
            batches += 1;
        }
    })
    .await;
    assert!(
        received
            .iter()
            .enumerate()
            .all(|(n, datagram)| *datagram == format!("{n:>1000}"))
    );
    assert!(batches < COUNT, "every datagram came alone");
    let counted = DatagramCounts {
        received: COUNT as u64,
        ..DatagramCounts::default()
    };
    assert_eq!(far.datagram_counts(), counted);
    assert_eq!(near.datagram_counts().sent, COUNT as u64);
}

#[tokio::test]
async fn what_does_not_fit_is_dropped_here_and_counted() {
    let [(near, _client), (_far, _server)] = Trust::new().pair().await;
    let largest = near.max_datagram_size().unwrap();
    let too_large = [
        Bytes::from(vec![0; largest + 1]),
        Bytes::from(vec![0; largest]),
    ];
    assert_eq!(
        near.send_datagrams(too_large),
        SentDatagrams {
            sent: 1,
            too_large: 1,
            dropped: 0
        }
    );

    let room = near.datagram_room();
    // The buffer of 1 MiB runs full, as nothing is sent before we yield.
    let batch = near.send_datagrams((0..5000).map(|_| Bytes::from(vec![0; 1000])));
    assert_eq!(batch.sent, room / 1032);
    assert_eq!(batch.sent + batch.dropped, 5000);
    let counts = near.datagram_counts();
    assert_eq!(
        (counts.sent, counts.too_large, counts.dropped),
        (batch.sent as u64 + 1, 1, batch.dropped as u64)
    );

    // As soon as there is room, the next one goes.
    assert!(
        patiently(near.send_datagram_wait(Bytes::from_static(b"late")))
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn the_oldest_that_no_one_takes_are_dropped_and_counted() {
    const COUNT: u64 = 4000;
    let [(near, _client), (far, _server)] = Trust::new().pair().await;
    patiently(async {
        for _ in 0..COUNT {
            near.send_datagram_wait(Bytes::from(vec![0; 1000]))
                .await
                .unwrap();
        }
        while far.datagram_counts().not_taken < COUNT {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut received = Vec::new();
    far.recv_datagrams(&mut received, usize::MAX).await.unwrap();
    // 2 MiB of 1032 bytes each.
    assert_eq!(received.len(), (2 << 20) / 1032);
    assert_eq!(
        far.datagram_counts().not_taken,
        COUNT - received.len() as u64
    );
}

#[tokio::test]
async fn a_packet_of_an_inner_connection_fits_at_once_and_the_path_is_measured_upwards() {
    let trust = Trust::new();
    let drain = Drain::new();
    let (server, address) = trust.serve();
    spawn_echo(server, &drain);
    let client = Endpoint::client(address).unwrap();
    let near = client.connect(address, NAME, &trust.client).await.unwrap();
    // RFC 9000 section 14: 1200 bytes, with context ID and quarter stream ID in front.
    assert!(near.max_datagram_size().unwrap() >= 1200 + 1 + 8);
    patiently(async {
        while near.max_datagram_size().unwrap() < 1400 {
            ask(&near, "ping").await.unwrap();
        }
    })
    .await;
}
