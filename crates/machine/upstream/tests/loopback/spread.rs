//! Exchanges are spread over the endpoints, and around those that fail.

use std::collections::HashMap;
use std::net::SocketAddr;

use hermes_upstream::{Dial, FailureKind, Timeouts, UdpDialled, UdpPath};
use serde_json::json;

use crate::far::Far;
use crate::{Near, dead};

#[tokio::test]
async fn weights_are_respected() {
    let (near, heavy, light) = (Near::new(), Far::start().await, Far::start().await);
    let endpoints =
        json!([{ "address": heavy.address.to_string(), "weight": 3 }, light.address.to_string()]);
    let upstream = near.upstream("x", json!({ "endpoints": endpoints }));
    let mut counts: HashMap<String, usize> = HashMap::new();
    for _ in 0..40 {
        *counts.entry(near.get(&upstream).await).or_default() += 1;
    }
    assert_eq!(counts[&heavy.address.to_string()], 30);
    assert_eq!(counts[&light.address.to_string()], 10);
}

#[tokio::test]
async fn a_dead_endpoint_is_skipped() {
    for balance in ["round_robin", "least_request"] {
        let (near, far, dead) = (Near::new(), Far::start().await, dead());
        let endpoints = json!([dead.to_string(), far.address.to_string()]);
        let upstream = near.upstream("x", json!({ "endpoints": endpoints, "balance": balance }));
        for _ in 0..20 {
            assert_eq!(near.get(&upstream).await, far.address.to_string());
        }
        let status = upstream.status();
        // The endpoint rests after each failure, so most exchanges do not even try it.
        assert!(
            status.endpoints[0].failures < 20,
            "{:?}",
            status.endpoints[0]
        );
        assert_eq!(status.endpoints[1].failures, 0);
    }
}

#[tokio::test]
async fn a_failing_upstream_says_why() {
    let (near, dead) = (Near::new(), dead());
    let upstream = near.upstream("x", json!({ "endpoints": [dead.to_string()] }));
    let failure = near
        .client
        .checkout(&upstream, upstream.timeouts())
        .await
        .unwrap_err();
    assert_eq!(
        (failure.kind, failure.endpoint),
        (FailureKind::Refused, dead.to_string())
    );
    assert!(
        upstream.status().endpoints[0]
            .last_error
            .as_ref()
            .unwrap()
            .contains("refused")
    );
    assert!(
        serde_json::to_string(&upstream.status())
            .unwrap()
            .contains("\"failures\":1")
    );
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_leaves_time_for_the_next() {
    let near = Near::new();
    // Accepts connections and never says a word, so that TLS never begins.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = crate::authority::Authority::new();
    let tls = crate::tls::serving(&authority, &[b"http/1.1"]);
    let live = Far::with(
        crate::far::Seen::default(),
        hermes_http::server::Options::default(),
        Some(tls),
    )
    .await;
    let config = json!({
        "endpoints": [silent.local_addr().unwrap().to_string(), live.address.to_string()],
        "tls": { "ca_file": authority.ca(), "server_name": "server.example" },
        "timeouts": { "connect": "2s" },
    });
    let upstream = near.upstream("x", config);
    assert_eq!(near.get(&upstream).await, live.address.to_string());
}

#[tokio::test]
async fn udp_has_an_address_and_is_counted() {
    let near = Near::new();
    let upstream = near.upstream("x", json!({ "endpoints": ["127.0.0.1:5004"] }));
    let dial = Dial::to(&upstream);
    let UdpDialled {
        path,
        endpoint,
        active,
        ..
    } = near
        .client
        .dial_udp(dial, &Timeouts::default())
        .await
        .unwrap();
    let UdpPath::Address(address) = path else {
        panic!("it is reached directly")
    };
    assert_eq!(
        (address, &*endpoint),
        (SocketAddr::from(([127, 0, 0, 1], 5004)), "127.0.0.1:5004")
    );
    assert_eq!(upstream.status().endpoints[0].active, 1);
    drop(active);
    assert_eq!(upstream.status().endpoints[0].active, 0);
}

#[tokio::test]
async fn a_further_attempt_at_a_tunnel_goes_elsewhere() {
    let near = Near::new();
    let endpoints = ["127.0.0.1:5001", "127.0.0.1:5002", "127.0.0.1:5003"].map(str::to_owned);
    let config =
        json!({ "endpoints": endpoints, "balance": "ring_hash", "hash": { "source": true } });
    let upstream = near.upstream("x", config);
    for user in 0..16_u8 {
        let affinity = Some(hermes_upstream::Affinity::of(&[user]));
        let mut tried = Vec::new();
        for _ in 0..3 {
            let dial = Dial::Upstream {
                upstream: &upstream,
                affinity,
                avoid: &tried,
            };
            let UdpDialled { endpoint, .. } = near
                .client
                .dial_udp(dial, &Timeouts::default())
                .await
                .unwrap();
            assert!(
                !tried.contains(&endpoint),
                "{endpoint} again, after {tried:?}"
            );
            tried.push(endpoint);
        }
        let dial = Dial::Upstream {
            upstream: &upstream,
            affinity,
            avoid: &tried,
        };
        assert!(
            near.client
                .dial_udp(dial, &Timeouts::default())
                .await
                .is_ok(),
            "where all were tried, one is tried again"
        );
    }
}
