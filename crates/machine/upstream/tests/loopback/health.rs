//! Endpoints that are checked, ejected and taken back; exchanges that stay together.

use std::net::SocketAddr;
use std::sync::Arc;

use hermes_net::Drain;
use hermes_upstream::{Affinity, Checks, Dial, FailureKind, Timeouts, Upstream};
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};

use crate::far::Far;
use crate::{Near, PATIENCE, finish, open};

/// Waits until the endpoint's health is as wanted; its reason.
async fn health(upstream: &Arc<Upstream>, endpoint: usize, wanted: &str) -> Option<String> {
    let reached = async {
        loop {
            let status = upstream.status().endpoints.swap_remove(endpoint);
            if status.health == wanted {
                return status.reason;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let reached = tokio::time::timeout(PATIENCE, reached).await;
    reached.unwrap_or_else(|_| panic!("not {wanted}: {:?}", upstream.status()))
}

/// Checks of these upstreams, until the drain is dropped or started.
fn checks(near: &Near, upstream: &Arc<Upstream>) -> (Checks, Drain) {
    let drain = Drain::new();
    let checks = Checks::new(near.client.clone(), drain.watch());
    checks.follow([upstream].into_iter());
    (checks, drain)
}

async fn port() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn a_port_that_closes_is_unhealthy_until_it_opens_again() {
    let (near, far, (listener, address)) = (Near::new(), Far::start().await, port().await);
    let config = json!({
        "endpoints": [address.to_string(), far.address.to_string()],
        "health": { "kind": "tcp", "interval": "20ms", "unhealthy": 2 },
    });
    let upstream = near.upstream("x", config);
    let (_checks, drain) = checks(&near, &upstream);
    health(&upstream, 0, "healthy").await;
    drop(listener);
    let reason = health(&upstream, 0, "unhealthy").await.unwrap();
    assert!(
        reason.starts_with("check: ") && reason.contains("refused"),
        "{reason}"
    );
    for _ in 0..10 {
        assert_eq!(near.get(&upstream).await, far.address.to_string());
    }
    assert_eq!(
        upstream.status().endpoints[0].failures,
        0,
        "no exchange tried it"
    );
    let _listener = TcpListener::bind(address).await.unwrap();
    health(&upstream, 0, "healthy").await;
    assert_eq!(
        drain.drain(PATIENCE).await,
        hermes_net::drain::Ended::Gracefully
    );
}

#[tokio::test]
async fn http_checks_look_at_the_status_in_both_versions() {
    for http in [1, 2] {
        let (near, far) = (Near::new(), Far::start().await);
        let endpoints = json!([far.address.to_string()]);
        let health_of = |expect| json!({ "kind": "http", "path": "/healthz", "interval": "20ms", "expect": expect });
        let good = json!({ "endpoints": endpoints, "http": http, "health": health_of(json!(["200-299"])) });
        let bad =
            json!({ "endpoints": endpoints, "http": http, "health": health_of(json!([204])) });
        let (good, bad) = (near.upstream("good", good), near.upstream("bad", bad));
        let checks = Checks::new(near.client.clone(), Drain::new().watch());
        checks.follow([&good, &bad].into_iter());
        assert_eq!(
            health(&bad, 0, "unhealthy").await.unwrap(),
            "check: it answered 200 OK"
        );
        assert_eq!(good.status().endpoints[0].health, "healthy");
        assert_eq!(
            near.get(&bad).await,
            far.address.to_string(),
            "the only endpoint is used all the same"
        );
    }
}

#[tokio::test]
async fn udp_checks_want_their_bytes_back_or_any_answer() {
    let (near, server) = (Near::new(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
    let address = server.local_addr().unwrap().to_string();
    let config = |health| json!({ "endpoints": [address], "health": health });
    let echo = near.upstream(
        "echo",
        config(json!({ "kind": "udp", "interval": "20ms", "timeout": "20ms" })),
    );
    let any = near.upstream(
        "any",
        config(json!({ "kind": "udp", "interval": "20ms", "send": "ping" })),
    );
    let checks = Checks::new(near.client.clone(), Drain::new().watch());
    checks.follow([&echo].into_iter());
    assert_eq!(
        health(&echo, 0, "unhealthy").await.unwrap(),
        "check: no answer within 20ms"
    );
    let answering = tokio::spawn(async move {
        let mut buffer = [0; 100];
        loop {
            let (length, from) = server.recv_from(&mut buffer).await.unwrap();
            let answer = if &buffer[..length] == b"ping" {
                b"pong"
            } else {
                &buffer[..length]
            };
            server.send_to(answer, from).await.unwrap();
        }
    });
    health(&echo, 0, "healthy").await;
    checks.follow([&echo, &any].into_iter());
    health(&any, 0, "healthy").await;
    answering.abort();
}

#[tokio::test]
async fn what_is_no_longer_followed_is_no_longer_checked() {
    let (near, (listener, address)) = (Near::new(), port().await);
    let health = json!({ "kind": "tcp", "interval": "10ms" });
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [address.to_string()], "health": health }),
    );
    let (checks, drain) = checks(&near, &upstream);
    drop(listener.accept().await.unwrap());
    checks.follow(std::iter::empty());
    // The drain ends at once only if no check is left.
    assert_eq!(
        drain.drain(PATIENCE).await,
        hermes_net::drain::Ended::Gracefully
    );
}

#[tokio::test]
async fn failures_in_a_row_eject_an_endpoint_and_time_brings_it_back() {
    let (near, far, other) = (Near::new(), Far::start().await, Far::start().await);
    let config = json!({
        "endpoints": [far.address.to_string(), other.address.to_string()],
        "eject": { "consecutive": 3, "for": "100ms" },
    });
    let upstream = near.upstream("x", config);
    let mut failed = 0;
    while failed < 3 {
        let opened = open(near.checkout(&upstream).await).await;
        match *opened.endpoint == *far.address.to_string() {
            true => opened.active.answered_badly(503),
            false => opened.active.served(),
        }
        failed += usize::from(*opened.endpoint == *far.address.to_string());
        finish(opened).await;
    }
    let status = upstream.status().endpoints.swap_remove(0);
    assert_eq!(status.health, "ejected");
    assert!(
        status
            .reason
            .unwrap()
            .starts_with("3 failures in a row, the last: status 503; back in")
    );
    // The endpoint is used again, and has still to show that it works.
    health(&upstream, 0, "failing").await;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4 {
        seen.insert(near.get(&upstream).await);
    }
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn connections_that_fail_eject_too_and_at_most_a_share() {
    let (near, far) = (Near::new(), Far::start().await);
    let endpoints = json!([
        crate::dead().to_string(),
        crate::dead().to_string(),
        far.address.to_string()
    ]);
    let eject = json!({ "consecutive": 1, "for": "1h" });
    let upstream = near.upstream("x", json!({ "endpoints": endpoints, "eject": eject }));
    for _ in 0..6 {
        assert_eq!(near.get(&upstream).await, far.address.to_string());
    }
    let healths: Vec<_> = upstream
        .status()
        .endpoints
        .iter()
        .map(|endpoint| endpoint.health)
        .collect();
    assert_eq!(
        healths
            .iter()
            .filter(|health| **health == "ejected")
            .count(),
        1,
        "half of three is one: {healths:?}"
    );
}

#[tokio::test]
async fn exchanges_of_one_affinity_stay_together() {
    let (near, one, two) = (Near::new(), Far::start().await, Far::start().await);
    let endpoints = json!([one.address.to_string(), two.address.to_string()]);
    let config =
        json!({ "endpoints": endpoints, "balance": "ring_hash", "hash": { "user": true } });
    let upstream = near.upstream("x", config);
    let mut owners = std::collections::HashSet::new();
    for user in 0..16 {
        let affinity = Some(Affinity::of(format!("user-{user}").as_bytes()));
        let mut places = std::collections::HashSet::new();
        for _ in 0..5 {
            let checkout = near
                .client
                .checkout_for(&upstream, upstream.timeouts(), affinity, &[])
                .await
                .unwrap();
            places.insert(finish(open(checkout).await).await.to_string());
            let dial = Dial::Upstream {
                upstream: &upstream,
                affinity,
                avoid: &[],
            };
            places.insert(
                near.client
                    .dial_udp(dial, &Timeouts::default())
                    .await
                    .unwrap()
                    .endpoint
                    .to_string(),
            );
        }
        assert_eq!(places.len(), 1, "{user}");
        owners.extend(places);
    }
    assert_eq!(owners.len(), 2);
}

#[tokio::test]
async fn the_own_zone_comes_first() {
    let (near, home, away) = (Near::new(), Far::start().await, Far::start().await);
    let config = json!({ "endpoints": [
        { "address": away.address.to_string(), "zone": "b" },
        { "address": home.address.to_string(), "zone": "a" },
    ] });
    let config = serde_json::from_value(config).unwrap();
    let upstream = Upstream::build_in(Some("a"), "x", &config).unwrap();
    for _ in 0..10 {
        assert_eq!(near.get(&upstream).await, home.address.to_string());
    }
    assert!(upstream.same_in(Some("a"), &config) && !upstream.same_in(Some("b"), &config));
    let nowhere = Upstream::build_in(Some("c"), "x", &config).unwrap();
    let mut seen = std::collections::HashSet::new();
    for _ in 0..4 {
        seen.insert(near.get(&nowhere).await);
    }
    assert_eq!(seen.len(), 2);
}

#[tokio::test]
async fn exchanges_above_a_limit_wait_for_room_or_are_refused() {
    let (near, far) = (Near::new(), Far::start().await);
    let config = json!({
        "endpoints": [far.address.to_string()],
        "limits": { "streams": 1, "pending": 1 },
    });
    let upstream = near.upstream("x", config);
    let held = open(near.checkout(&upstream).await).await;
    let (client, waiting) = (near.client.clone(), upstream.clone());
    let waiter = tokio::spawn(async move {
        client
            .checkout(&waiting, waiting.timeouts())
            .await
            .map(drop)
    });
    while upstream.status().waiting == 0 {
        tokio::task::yield_now().await;
    }
    let refused = near
        .client
        .checkout(&upstream, upstream.timeouts())
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind, refused.proxy_error().token()),
        (FailureKind::Limit, "connection_limit_reached")
    );
    finish(held).await;
    waiter.await.unwrap().unwrap();
    let status = upstream.status();
    assert_eq!(
        (status.waiting, status.refused, status.endpoints[0].failures),
        (0, 1, 0)
    );
}

#[tokio::test]
async fn an_idle_connection_makes_room_for_one_that_is_waited_for() {
    let (one, two, far) = (Near::new(), Near::new(), Far::start().await);
    let config = json!({ "endpoints": [far.address.to_string()], "limits": { "connections": 1 } });
    let upstream = one.upstream("x", config);
    one.get(&upstream).await;
    // Another worker has connections of its own.
    let checkout = two.checkout(&upstream).await;
    assert!(!checkout.reused);
    finish(open(checkout).await).await;
    assert_eq!(far.connections(), 2);
}

#[tokio::test]
async fn room_that_does_not_come_in_time_is_refused() {
    let (near, far) = (Near::new(), Far::start().await);
    let config = json!({
        "endpoints": [far.address.to_string()],
        "limits": { "connections": 1 },
        "timeouts": { "connect": "50ms" },
    });
    let upstream = near.upstream("x", config);
    let _held = near.checkout(&upstream).await;
    let refused = near
        .client
        .checkout(&upstream, upstream.timeouts())
        .await
        .unwrap_err();
    assert_eq!(
        (refused.kind, upstream.status().endpoints[0].failures),
        (FailureKind::Limit, 0)
    );
}
