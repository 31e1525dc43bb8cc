//! TLS to endpoints, and the version that ALPN chooses.

use std::path::Path;
use std::sync::Arc;

use hermes_http::server::Options;
use hermes_net::tls::{self, TlsServerOptions};
use hermes_proto::proxy_protocol::Header;
use hermes_upstream::{Dial, FailureKind};
use rustls::ServerConfig;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::Near;
use crate::authority::Authority;
use crate::far::{Far, Seen};

pub fn serving(authority: &Authority, alpn: &[&[u8]]) -> Arc<ServerConfig> {
    let identity = authority.server();
    let options = TlsServerOptions {
        certificate: (&identity.cert).into(),
        key: (&identity.key).into(),
        client_authorities: None,
        client_domains: &[],
        client_revocation_lists: &[],
        client_required: false,
        alpn,
    };
    tls::server(options).unwrap()
}

async fn far(authority: &Authority, alpn: &[&[u8]]) -> Far {
    Far::with(
        Seen::default(),
        Options::default(),
        Some(serving(authority, alpn)),
    )
    .await
}

fn config(far: &Far, ca: &Path, http: Value) -> Value {
    let tls = json!({ "ca_file": ca, "server_name": "server.example" });
    json!({ "endpoints": [far.address.to_string()], "tls": tls, "http": http })
}

#[tokio::test]
async fn the_peer_chooses_the_version() {
    let (near, authority) = (Near::new(), Authority::new());
    for (alpn, connections) in [
        (&[b"h2" as &[u8], b"http/1.1"] as &[&[u8]], 1),
        (&[b"http/1.1"], 2),
        (&[], 2),
    ] {
        let far = far(&authority, alpn).await;
        let upstream = near.upstream("x", config(&far, &authority.ca(), json!([2, 1])));
        let (one, two) = (
            near.checkout(&upstream).await,
            near.checkout(&upstream).await,
        );
        crate::finish(crate::open(one).await).await;
        crate::finish(crate::open(two).await).await;
        assert_eq!(far.connections(), connections, "{alpn:?}");
    }
}

#[tokio::test]
async fn an_endpoint_may_have_a_name_of_its_own() {
    let (near, authority) = (Near::new(), Authority::new());
    let far = far(&authority, &[b"h2"]).await;
    for (of_all, own, is_right) in [
        ("other.example", "server.example", true),
        ("server.example", "other.example", false),
    ] {
        let endpoint = json!({ "address": far.address.to_string(), "server_name": own });
        let tls = json!({ "ca_file": authority.ca(), "server_name": of_all });
        let config = json!({ "endpoints": [endpoint], "tls": tls, "http": 2 });
        let upstream = near.upstream("x", config);
        let reached = near.client.checkout(&upstream, upstream.timeouts()).await;
        assert_eq!(reached.is_ok(), is_right, "{own}");
    }
}

#[tokio::test]
async fn a_peer_without_the_only_version_is_refused() {
    let (near, authority) = (Near::new(), Authority::new());
    let far = far(&authority, &[]).await;
    let upstream = near.upstream("x", config(&far, &authority.ca(), json!(2)));
    let failure = near
        .client
        .checkout(&upstream, upstream.timeouts())
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Alpn);
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_not_believed() {
    let (near, authority) = (Near::new(), Authority::new());
    let far = far(&authority, &[]).await;
    let upstream = near.upstream("x", config(&far, &Authority::new().ca(), json!(1)));
    let failure = near
        .client
        .checkout(&upstream, upstream.timeouts())
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Tls { certificate: true });
}

#[tokio::test]
async fn a_tunnel_to_an_upstream_speaks_its_tls() {
    let (near, authority) = (Near::new(), Authority::new());
    let far = far(&authority, &[]).await;
    let upstream = near.upstream("x", config(&far, &authority.ca(), json!([2, 1])));
    let dialled = near
        .client
        .dial_tcp(Dial::to(&upstream), Header::Unknown, upstream.timeouts())
        .await
        .unwrap();
    let mut stream = dialled.stream;
    assert_eq!(stream.info().tls.as_ref().unwrap().alpn, None);
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
