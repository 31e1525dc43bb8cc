//! HTTP/1.1 connections are kept as long as they are of use.

use std::sync::Arc;

use hermes_config::model;
use hermes_upstream::Upstream;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::far::Far;
use crate::{Near, PATIENCE, finish, open};

#[tokio::test]
async fn one_connection_serves_one_exchange_after_the_other() {
    let (near, far) = (Near::new(), Far::start().await);
    let upstream = near.upstream("x", json!({ "endpoints": [far.address.to_string()] }));
    for round in 0..5 {
        let checkout = near.checkout(&upstream).await;
        assert_eq!(
            (checkout.reused, checkout.address),
            (round > 0, Some(far.address))
        );
        assert_eq!(finish(open(checkout).await).await, far.address.to_string());
    }
    assert_eq!(far.connections(), 1);
}

#[tokio::test]
async fn exchanges_at_once_have_connections_of_their_own() {
    let (near, far) = (Near::new(), Far::start().await);
    let upstream = near.upstream("x", json!({ "endpoints": [far.address.to_string()] }));
    let (one, two) = (
        near.checkout(&upstream).await,
        near.checkout(&upstream).await,
    );
    assert_eq!(upstream.status().endpoints[0].active, 2);
    finish(open(one).await).await;
    finish(open(two).await).await;
    assert_eq!(
        (far.connections(), upstream.status().endpoints[0].active),
        (2, 0)
    );
}

/// Answers one request on a connection that could serve more.
async fn answer_once(tcp: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        assert_ne!(tcp.read_buf(&mut request).await.unwrap(), 0);
    }
    tcp.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        .await
        .unwrap();
}

/// Waits until the other side closes.
async fn closed(tcp: &mut TcpStream) {
    let end = tokio::time::timeout(PATIENCE, tcp.read_u8()).await.unwrap();
    assert!(end.is_err());
}

#[tokio::test]
async fn a_kept_connection_that_the_peer_closed_is_let_go_and_not_used_again() {
    let near = Near::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [listener.local_addr().unwrap().to_string()] }),
    );
    let peer = async {
        let (mut tcp, _) = listener.accept().await.unwrap();
        answer_once(&mut tcp).await;
        tcp
    };
    let (content, mut tcp) = tokio::join!(near.get(&upstream), peer);
    assert_eq!(content, "ok");
    tcp.shutdown().await.unwrap();
    closed(&mut tcp).await;
    assert!(!near.checkout(&upstream).await.reused);
}

#[tokio::test]
async fn connections_of_an_upstream_that_is_gone_are_closed() {
    let near = Near::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [listener.local_addr().unwrap().to_string()] }),
    );
    let peer = async {
        let (mut tcp, _) = listener.accept().await.unwrap();
        answer_once(&mut tcp).await;
        tcp
    };
    let (_, mut tcp) = tokio::join!(near.get(&upstream), peer);
    near.upstreams.store(Arc::default());
    drop(upstream);
    closed(&mut tcp).await;
}

#[tokio::test]
async fn nothing_runs_after_close() {
    let (near, far) = (Near::new(), Far::start().await);
    let h1 = near.upstream("h1", json!({ "endpoints": [far.address.to_string()] }));
    let h2 = near.upstream(
        "h2",
        json!({ "endpoints": [far.address.to_string()], "http": 2 }),
    );
    near.get(&h1).await;
    near.get(&h2).await;
    near.client.close();
    near.tasks.close();
    tokio::time::timeout(PATIENCE, near.tasks.wait())
        .await
        .unwrap();
    far.deserted().await;
}

#[tokio::test]
async fn unix_sockets_are_endpoints() {
    let near = Near::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listener = UnixListener::bind(&path).unwrap();
    let upstream = near.upstream(
        "x",
        json!({ "endpoints": [format!("unix:{}", path.display())] }),
    );
    let peer = async { answer_once(&mut listener.accept().await.unwrap().0).await };
    let (content, ()) = tokio::join!(near.get(&upstream), peer);
    assert_eq!(content, "ok");
}

fn config(text: serde_json::Value) -> model::Upstream {
    serde_json::from_value(text).unwrap()
}

#[test]
fn an_unchanged_configuration_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let authority = crate::authority::Authority::new();
    let file = folder.path().join("ca.pem");
    std::fs::copy(authority.ca(), &file).unwrap();
    let text = json!({ "endpoints": ["a.example:1"], "tls": { "ca_file": file } });
    let upstream = Upstream::build("x", &config(text.clone())).unwrap();
    assert!(upstream.same(&config(text.clone())));
    assert!(!upstream.same(&config(
        json!({ "endpoints": ["b.example:1"], "tls": { "ca_file": file } })
    )));
    std::fs::copy(crate::authority::Authority::new().ca(), &file).unwrap();
    assert!(!upstream.same(&config(text)), "a renewed file is a change");
}

#[test]
fn the_token_is_sent_under_tls_or_to_local_endpoints() {
    let sends = |text| Upstream::build("x", &config(text)).unwrap().sends_token();
    assert!(sends(
        json!({ "endpoints": ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/s"] })
    ));
    assert!(!sends(
        json!({ "endpoints": ["127.0.0.1:1", "192.0.2.1:1"] })
    ));
    assert!(!sends(json!({ "endpoints": ["127.0.0.1:1"], "via": "y" })));
    assert!(!sends(
        json!({ "endpoints": ["127.0.0.1:1"], "send_token": false })
    ));
    assert!(sends(
        json!({ "endpoints": ["192.0.2.1:1"], "send_token": true })
    ));
    assert!(sends(
        json!({ "endpoints": ["192.0.2.1:1"], "tls": { "insecure_skip_verify": true } })
    ));
}

#[test]
fn build_errors_say_where() {
    let fails = |text| Upstream::build("x", &config(text)).unwrap_err().path;
    assert_eq!(fails(json!({ "endpoints": [] })), "upstreams.x.endpoints");
    assert_eq!(
        fails(json!({ "endpoints": ["unix:/s"], "via": "y" })),
        "upstreams.x.endpoints[0]"
    );
    assert_eq!(
        fails(json!({ "endpoints": ["a:1"], "tls": { "ca_file": "/nowhere" } })),
        "upstreams.x.tls.ca_file"
    );
}
