//! Nodes that do not let go.

use hermes_http::h1;
use hermes_net::StreamInfo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

use super::*;
use crate::attached::Attached;

/// A frame that needs no answer: WINDOW_UPDATE of the connection by one byte (RFC 9113, 6.9).
const DRIP: [u8; 13] = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// SETTINGS that say nothing.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// A tunnel with so much room, and the node at its other end.
fn tunnel(room: usize) -> ((Incoming, Outgoing), Carried, DuplexStream) {
    let (near, node) = tokio::io::duplex(room);
    let source = StreamInfo {
        peer: PeerAddress::Unix { uid: None },
        local: None,
        tls: None,
        origin: None,
    };

    let (read, write) = Stream::other(Box::new(near), source.clone()).split();
    let halves = (
        Incoming::H1(h1::BodyReceiver::bytes(read)),
        Outgoing::H1(h1::BodySender::bytes(write)),
    );
    let carried = Carried {
        source: Arc::new(source),
        version: "h1",
        user: None,
        count: Box::new(|_, _| {}),
    };

    (halves, carried, node)
}

fn place() -> Place {
    Arc::new(Attached::default())
        .reserve("alice", None)
        .unwrap()
}

/// Sends a little for as long as there is someone to send to.
async fn drip(mut node: DuplexStream) {
    while node.write_all(&DRIP).await.is_ok() {
        sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_speaks_and_never_answers_has_not_begun_and_is_let_go() {
    let (halves, carried, mut node) = tunnel(1 << 20);
    node.write_all(&SETTINGS).await.unwrap();
    let node = tokio::spawn(drip(node));
    let served = place()
        .serve(halves, carried, std::future::pending::<()>())
        .await;
    assert_eq!(served, Detached::NeverBegan);
    node.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_dismissed_before_it_began_goes_at_once() {
    let (halves, carried, mut node) = tunnel(1 << 20);
    node.write_all(&SETTINGS).await.unwrap();
    let node = tokio::spawn(drip(node));
    let began = tokio::time::Instant::now();
    let served = place()
        .serve(halves, carried, sleep(Duration::from_secs(1)))
        .await;
    assert_eq!(served, Detached::Dismissed(()));
    assert!(began.elapsed() < BEGINNING);
    node.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_is_dismissed_and_does_not_read_cannot_stay() {
    // No room for a farewell.
    let (halves, carried, node) = tunnel(16);
    let place = place();
    let dismissed = CancellationToken::new();
    let attached = place.attached.clone();
    let dismiss = dismissed.clone();

    let node = tokio::spawn(async move {
        let (mut read, mut write) = tokio::io::split(node);
        read.read_exact(&mut [0; 24]).await.unwrap();
        write.write_all(&SETTINGS).await.unwrap();

        loop {
            let mut header = [0; 9];
            read.read_exact(&mut header).await.unwrap();
            let mut payload = vec![0; usize::from(header[2])];
            read.read_exact(&mut payload).await.unwrap();

            // The answer to the first PING (6.7).
            if header[3] == 6 {
                write
                    .write_all(&[&[0, 0, 8, 6, 1, 0, 0, 0, 0][..], &payload].concat())
                    .await
                    .unwrap();
                break;
            }
        }

        while attached.views(1).is_empty() {
            tokio::task::yield_now().await;
        }
        dismiss.cancel();
        while write.write_all(&DRIP).await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    });

    let served = place.serve(halves, carried, dismissed.cancelled()).await;
    assert_eq!(served, Detached::Dismissed(()));
    node.await.unwrap();
}
