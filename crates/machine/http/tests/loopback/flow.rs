//! A slow consumer slows its producer, and no one else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use hermes_http::server::Options;
use hermes_http::{Event, Frame, Incoming, Offered, Outgoing};
use hermes_proto::fields::Fields;
use tokio::sync::mpsc;

use crate::content::{Content, connect, echo, get, post, response};
use crate::server::Server;
use crate::{H2, PATHS, bounded, each, reach};

const BLOCK: usize = 64 * 1024;
const TOTAL: usize = 48 * 1024 * 1024;

/// More than the windows and the kernel's buffers of a hop hold, and far less than `TOTAL`.
const IN_FLIGHT: usize = 16 * 1024 * 1024;

/// Sends `TOTAL` bytes and counts those that were taken.
async fn produce(mut outgoing: Outgoing, sent: Arc<AtomicUsize>) {
    for _ in 0..TOTAL / BLOCK {
        outgoing
            .data(Bytes::from_static(&[7; BLOCK]), false)
            .await
            .unwrap();
        sent.fetch_add(BLOCK, Ordering::Relaxed);
    }
    outgoing.finish(None).await.unwrap();
}

async fn consume(mut incoming: Incoming) -> usize {
    let mut length = 0;
    while let Some(Ok(Frame::Data(data))) = incoming.frame().await {
        length += data.len();
    }
    assert!(incoming.is_end());
    length
}

/// Waits until the producer has got no further for many turns of the runtime.
pub async fn stalled(sent: &AtomicUsize) -> usize {
    let (mut last, mut turns) = (0, 0);
    while turns < 2000 {
        tokio::task::yield_now().await;
        let now = sent.load(Ordering::Relaxed);
        turns = if now == last { turns + 1 } else { 0 };
        last = now;
    }
    last
}

#[tokio::test]
async fn a_client_cannot_send_more_than_is_taken() {
    each(PATHS, async |path| {
        let (taken, mut take) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let taken = taken.clone();
            async move {
                taken
                    .send(offered.accept(Fields::new()).await.unwrap())
                    .unwrap()
            }
        };
        let client = reach(path, answer).await;
        let (_, _incoming, outgoing) = client.tunnel(&connect()).await;
        let (incoming, _outgoing) = take.recv().await.unwrap();
        let sent = Arc::new(AtomicUsize::new(0));
        let producer = tokio::spawn(produce(outgoing, sent.clone()));
        let in_flight = stalled(&sent).await;
        assert!(
            in_flight <= IN_FLIGHT * path.len(),
            "{in_flight} bytes in flight"
        );
        assert_eq!(consume(incoming).await, TOTAL);
        producer.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_server_cannot_send_more_than_is_taken() {
    each(PATHS, async |path| {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let answer = move |offered: Offered| {
            let sent = counted.clone();
            async move {
                produce(
                    offered
                        .message()
                        .2
                        .respond(response(200, None), None)
                        .await
                        .unwrap(),
                    sent,
                )
                .await
            }
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&get(), Some(0)).await.unwrap();
        outgoing.finish(None).await.unwrap();
        let Event::Final(_, incoming) = pending.event(None).await.unwrap() else {
            panic!("no final response")
        };
        let in_flight = stalled(&sent).await;
        assert!(
            in_flight <= IN_FLIGHT * path.len(),
            "{in_flight} bytes in flight"
        );
        assert_eq!(consume(incoming).await, TOTAL);
    })
    .await;
}

/// Exchanges with content that no one reads, then others that must not be affected.
async fn stall(options: Options, stalled_streams: usize) {
    let (taken, mut take) = mpsc::unbounded_channel();
    let answer = move |offered: Offered| {
        let taken = taken.clone();
        async move {
            if offered.kind() == hermes_http::Kind::Message {
                return echo(offered).await;
            }
            let (incoming, outgoing) = offered.accept(Fields::new()).await.unwrap();
            tokio::spawn(produce(outgoing, Arc::default()));
            taken.send(incoming).unwrap();
        }
    };
    let client = Server::with(options, answer).await.client(H2).await;
    let mut kept = Vec::new();
    for _ in 0..stalled_streams {
        let (_, incoming, outgoing) = client.tunnel(&connect()).await;
        let sent = Arc::new(AtomicUsize::new(0));
        tokio::spawn(produce(outgoing, sent.clone()));
        stalled(&sent).await;
        kept.push((incoming, take.recv().await.unwrap()));
    }
    let content = Content::streamed("not stalled");
    for _ in 0..20 {
        assert_eq!(
            client.exchange(post(), &content).await.unwrap().content,
            content
        );
    }
}

#[tokio::test]
async fn a_stalled_stream_does_not_stall_the_others() {
    bounded(stall(Options::default(), 2)).await;
}

#[tokio::test]
async fn many_stalled_streams_do_not_stall_the_others_of_a_link() {
    bounded(stall(
        Options {
            link: true,
            ..Options::default()
        },
        24,
    ))
    .await;
}
