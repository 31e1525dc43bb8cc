//! Links that are open before anybody asks, and peers that fall silent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::far::Far;
use crate::{Near, PATIENCE, finish, open};

/// A TCP proxy on the way to a server, which can stop forwarding without a word.
struct Way {
    address: SocketAddr,
    open: watch::Sender<bool>,
}

impl Way {
    async fn to(far: &Far) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (open, is_open) = watch::channel(true);
        let target = far.address;
        tokio::spawn(async move {
            loop {
                let near = listener.accept().await.unwrap().0;
                let far = TcpStream::connect(target).await.unwrap();
                let ((near_in, near_out), (far_in, far_out)) =
                    (near.into_split(), far.into_split());
                tokio::spawn(forward(near_in, far_out, is_open.clone()));
                tokio::spawn(forward(far_in, near_out, is_open.clone()));
            }
        });
        Self { address, open }
    }
}

async fn forward(
    mut from: OwnedReadHalf,
    mut into: OwnedWriteHalf,
    mut is_open: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if is_open.wait_for(|open| *open).await.is_err()
            || into.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}

/// Two ways to one server each, PING every 20 ms.
async fn two_ways(near: &Near) -> ([Way; 2], [Far; 2], Arc<hermes_upstream::Upstream>) {
    let fars = [Far::start().await, Far::start().await];
    let ways = [Way::to(&fars[0]).await, Way::to(&fars[1]).await];
    let config = json!({
        "endpoints": [ways[0].address.to_string(), ways[1].address.to_string()],
        "http": 2,
        "keepalive": { "every": "20ms", "timeout": "200ms" },
    });
    let upstream = near.upstream("x", config);
    (ways, fars, upstream)
}

#[tokio::test]
async fn an_exchange_on_a_link_that_fell_silent_ends_and_the_next_goes_elsewhere() {
    let near = Near::new();
    let (ways, fars, upstream) = two_ways(&near).await;
    // Both links are there, and the next turn is that of the first.
    let mut served = [near.get(&upstream).await, near.get(&upstream).await];
    served.sort();
    let mut both = [fars[0].address.to_string(), fars[1].address.to_string()];
    both.sort();
    assert_eq!(served, both);
    ways[0].open.send_replace(false);
    let mut caught = open(near.checkout(&upstream).await).await;
    assert_eq!(*caught.endpoint, *ways[0].address.to_string());
    let broken = tokio::time::timeout(PATIENCE, caught.pending.event(None))
        .await
        .unwrap();
    let broken = broken.err().unwrap();
    assert!(
        matches!(broken.cause, hermes_http::Cause::Reset(_)),
        "{broken:?}"
    );
    // The caller decides about it; the link itself is gone.
    caught.active.failed();
    drop(caught);
    let next = near.checkout(&upstream).await;
    assert_eq!(finish(open(next).await).await, fars[1].address.to_string());
}

#[tokio::test]
async fn an_idle_link_that_fell_silent_is_not_used_again() {
    let near = Near::new();
    let (ways, fars, upstream) = two_ways(&near).await;
    near.get(&upstream).await;
    near.get(&upstream).await;
    ways[0].open.send_replace(false);
    // Only the PING tells. A new connection can be made over the same path, and is as silent.
    let noticed = async {
        while upstream.status().endpoints[0].failures == 0 {
            drop(near.checkout(&upstream).await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, noticed).await.unwrap();
    for _ in 0..10 {
        assert_eq!(near.get(&upstream).await, fars[1].address.to_string());
    }
}

#[tokio::test]
async fn a_slow_exchange_is_no_silence() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let seen = crate::far::Seen {
        gate: Some(gate.clone()),
        ..crate::far::Seen::default()
    };
    let (near, far) = (
        Near::new(),
        Far::with(seen, hermes_http::server::Options::default(), None).await,
    );
    let config = json!({
        "endpoints": [far.address.to_string()],
        "http": 2,
        "keepalive": { "every": "5ms", "timeout": "300ms" },
    });
    let upstream = near.upstream("x", config);
    let waiting = open(near.checkout(&upstream).await).await;
    // Twice the time-out.
    tokio::time::sleep(Duration::from_millis(600)).await;
    gate.add_permits(1);
    assert_eq!(finish(waiting).await, far.address.to_string());
}

#[tokio::test]
async fn warm_links_are_there_before_they_are_asked_for_and_come_back() {
    let (near, one, two) = (Near::new(), Far::start().await, Far::start().await);
    let endpoints = json!([one.address.to_string(), two.address.to_string()]);
    let upstream = near.upstream("x", json!({ "endpoints": endpoints, "http": 2, "warm": 1 }));
    near.client.keep_warm();
    let warm = async {
        while one.connections() + two.connections() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while !near.checkout(&upstream).await.reused {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, warm).await.unwrap();
    near.get(&upstream).await;
    near.get(&upstream).await;
    assert_eq!((one.connections(), two.connections()), (1, 1));
    near.client.close();
    near.tasks.close();
    tokio::time::timeout(PATIENCE, near.tasks.wait())
        .await
        .unwrap();
}
