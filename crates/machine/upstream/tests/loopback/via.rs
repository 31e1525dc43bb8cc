//! Endpoints behind other proxies.

use hermes_http::server::Options;
use hermes_proto::proxy_protocol::Header;
use hermes_upstream::{Dial, FailureKind};
use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::authority::Authority;
use crate::far::{Far, Seen};
use crate::{Near, finish, open};

#[tokio::test]
async fn exchanges_pass_through_two_proxies_in_every_version() {
    for (outer, inner, last) in [(1, 1, 1), (2, 1, 2), (1, 2, 1), (2, 2, 2)] {
        let near = Near::new();
        let (first, second, origin) = (Far::start().await, Far::start().await, Far::start().await);
        near.upstream(
            "first",
            json!({ "endpoints": [first.address.to_string()], "http": outer }),
        );
        let config =
            json!({ "endpoints": [second.address.to_string()], "http": inner, "via": "first" });
        near.upstream("second", config);
        let config =
            json!({ "endpoints": [origin.address.to_string()], "http": last, "via": "second" });
        let upstream = near.upstream("last", config);
        for round in 0..3 {
            let checkout = near.checkout(&upstream).await;
            assert_eq!((checkout.reused, checkout.address), (round > 0, None));
            assert_eq!(
                finish(open(checkout).await).await,
                origin.address.to_string()
            );
        }
        assert_eq!(*first.seen.targets.lock(), [second.address.to_string()]);
        assert_eq!(*second.seen.targets.lock(), [origin.address.to_string()]);
    }
}

#[tokio::test]
async fn tls_runs_through_the_tunnel() {
    let (near, proxy, authority) = (Near::new(), Far::start().await, Authority::new());
    let tls = crate::tls::serving(&authority, &[b"h2"]);
    let origin = Far::with(Seen::default(), Options::default(), Some(tls)).await;
    near.upstream("proxy", json!({ "endpoints": [proxy.address.to_string()] }));
    let tls = json!({ "ca_file": authority.ca(), "server_name": "server.example" });
    let config = json!({ "endpoints": [origin.address.to_string()], "tls": tls, "via": "proxy" });
    let upstream = near.upstream("x", config);
    assert_eq!(near.get(&upstream).await, origin.address.to_string());
}

#[tokio::test]
async fn much_data_and_half_close_pass_in_both_directions() {
    for http in [1, 2] {
        let (near, proxy) = (Near::new(), Far::start().await);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        near.upstream(
            "proxy",
            json!({ "endpoints": [proxy.address.to_string()], "http": http }),
        );
        let endpoint = listener.local_addr().unwrap().to_string();
        let upstream = near.upstream("x", json!({ "endpoints": [endpoint], "via": "proxy" }));
        let sent: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
        let echo = async {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut all = Vec::new();
            tcp.read_to_end(&mut all).await.unwrap();
            tcp.write_all(&all).await.unwrap();
        };
        let client = async {
            let dialled = near
                .client
                .dial_tcp(Dial::to(&upstream), Header::Unknown, upstream.timeouts())
                .await
                .unwrap();
            let mut stream = dialled.stream;
            stream.write_all(&sent).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await.unwrap();
            got
        };
        let (got, ()) = tokio::join!(client, echo);
        assert!(got == sent, "HTTP/{http}: {} bytes came back", got.len());
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_with_its_status() {
    let seen = Seen {
        refusal: Some(StatusCode::FORBIDDEN),
        ..Seen::default()
    };
    let (near, proxy) = (Near::new(), Far::with(seen, Options::default(), None).await);
    near.upstream("proxy", json!({ "endpoints": [proxy.address.to_string()] }));
    let upstream = near.upstream("x", json!({ "endpoints": ["a.example:1"], "via": "proxy" }));
    let failure = near
        .client
        .checkout(&upstream, upstream.timeouts())
        .await
        .unwrap_err();
    assert_eq!(
        failure.kind,
        FailureKind::Via {
            status: Some(StatusCode::FORBIDDEN)
        }
    );
    assert!(
        failure.reason.contains(&proxy.address.to_string()),
        "{failure}"
    );
}

#[tokio::test]
async fn going_through_oneself_ends() {
    let near = Near::new();
    let upstream = near.upstream("x", json!({ "endpoints": ["a.example:1"], "via": "x" }));
    let failure = near
        .client
        .checkout(&upstream, upstream.timeouts())
        .await
        .unwrap_err();
    assert_eq!(failure.kind, FailureKind::Via { status: None });
    assert!(failure.reason.contains("more than 4 proxies"), "{failure}");
}
