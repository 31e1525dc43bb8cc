//! HTTP/2 links are shared.

use std::sync::Arc;

use hermes_http::server::Options;
use hermes_upstream::FailureKind;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::far::{Far, Seen};
use crate::{Near, finish, open};

#[tokio::test]
async fn fifty_first_exchanges_make_one_link() {
    let (near, far) = (Near::new(), Far::start().await);
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [far.address.to_string()], "http": 2 }),
    );
    let mut exchanges = JoinSet::new();
    for _ in 0..50 {
        let (client, upstream) = (near.client.clone(), upstream.clone());
        exchanges.spawn(async move {
            let checkout = client
                .checkout(&upstream, upstream.timeouts())
                .await
                .unwrap();
            finish(open(checkout).await).await
        });
    }
    assert!(
        exchanges
            .join_all()
            .await
            .iter()
            .all(|content| *content == far.address.to_string())
    );
    assert_eq!(
        (far.connections(), upstream.status().endpoints[0].active),
        (1, 0)
    );
}

#[tokio::test]
async fn a_full_link_is_joined_by_another() {
    let gate = Arc::new(Semaphore::new(1));
    let seen = Seen {
        gate: Some(gate.clone()),
        ..Seen::default()
    };
    let far = Far::with(
        seen,
        Options {
            streams: 2,
            ..Options::default()
        },
        None,
    )
    .await;
    let near = Near::new();
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [far.address.to_string()], "http": 2 }),
    );
    // After one exchange the peer's limit is known.
    near.get(&upstream).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(open(near.checkout(&upstream).await).await);
    }
    gate.add_permits(3);
    for opened in waiting {
        finish(opened).await;
    }
    assert_eq!(far.connections(), 2);
}

#[tokio::test]
async fn those_who_wait_for_a_link_share_its_failure() {
    let near = Near::new();
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [crate::dead().to_string()], "http": 2 }),
    );
    let mut exchanges = JoinSet::new();
    for _ in 0..50 {
        let (client, upstream) = (near.client.clone(), upstream.clone());
        exchanges.spawn(async move {
            client
                .checkout(&upstream, upstream.timeouts())
                .await
                .unwrap_err()
                .kind
        });
    }
    assert!(
        exchanges
            .join_all()
            .await
            .iter()
            .all(|kind| *kind == FailureKind::Refused)
    );
}

#[tokio::test]
async fn a_link_that_ended_is_replaced() {
    let near = Near::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [listener.local_addr().unwrap().to_string()], "http": 2 }),
    );
    let (first, accepted) = tokio::join!(near.checkout(&upstream), listener.accept());
    assert!(!first.reused);
    drop((first, accepted));
    let next = async {
        while near.checkout(&upstream).await.reused {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, next).await.unwrap();
}

#[tokio::test]
async fn links_follow_each_other_while_pings_and_long_exchanges_go_on() {
    let gate = Arc::new(Semaphore::new(0));
    let far = Far::with(
        Seen {
            gate: Some(gate.clone()),
            ..Seen::default()
        },
        Options::default(),
        None,
    )
    .await;
    let near = Near::new();
    near.client.rotate_links_after(10);
    let keepalive = json!({ "every": "5ms", "timeout": "10s" });
    let config =
        json!({ "endpoints": [far.address.to_string()], "http": 2, "keepalive": keepalive });
    let upstream = near.upstream("x", config);
    let long = open(near.checkout(&upstream).await).await;
    for number in 2..=35 {
        let next = open(near.checkout(&upstream).await).await;
        // Two answers wait: that of the long exchange, which came first on its link, and this one.
        gate.add_permits(1);
        if number == 2 {
            gate.add_permits(1);
        }
        assert_eq!(finish(next).await, far.address.to_string());
    }
    assert_eq!(far.connections(), 4, "ten exchanges on each");
    assert_eq!(finish(long).await, far.address.to_string());
    let idle = async {
        while far.seen.open.load(std::sync::atomic::Ordering::Relaxed) > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(crate::PATIENCE, idle).await.unwrap();
}
