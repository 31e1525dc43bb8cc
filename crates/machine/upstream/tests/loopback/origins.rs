//! Targets that a request names: checked on the address dialled.

use std::net::SocketAddr;

use hermes_proto::proxy_protocol::Header;
use hermes_upstream::{Allow, Asking, Dial, FailureKind, Origin, Timeouts, UdpDialled, UdpPath};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::far::Far;
use crate::{Near, finish, open};

fn anything(_: SocketAddr) -> Result<(), String> {
    Ok(())
}

fn no_loopback(address: SocketAddr) -> Result<(), String> {
    if address.ip().is_loopback() {
        Err(format!("{address} is loopback"))
    } else {
        Ok(())
    }
}

fn asking(allow: Allow<'_>) -> Asking<'_> {
    Asking {
        allow,
        asker: hermes_net::Asker::of("alice"),
    }
}

fn origin(address: SocketAddr) -> Origin {
    Origin {
        tls: false,
        host: address.ip().to_string(),
        port: address.port(),
    }
}

#[tokio::test]
async fn origins_are_reached_and_their_connections_kept() {
    let (near, far) = (Near::new(), Far::start().await);
    for reused in [false, true] {
        let checkout = near
            .client
            .checkout_origin(
                &origin(far.address),
                asking(&anything),
                &Timeouts::default(),
            )
            .await
            .unwrap();
        assert_eq!(
            (checkout.reused, checkout.address),
            (reused, Some(far.address))
        );
        assert_eq!(finish(open(checkout).await).await, far.address.to_string());
    }
    assert_eq!(far.connections(), 1);
}

#[tokio::test]
async fn a_prohibited_address_is_not_dialled_nor_reused() {
    let (near, far) = (Near::new(), Far::start().await);
    let (origin, timeouts) = (origin(far.address), Timeouts::default());
    let failure = near
        .client
        .checkout_origin(&origin, asking(&no_loopback), &timeouts)
        .await
        .unwrap_err();
    assert_eq!(
        (failure.kind, far.connections()),
        (FailureKind::Prohibited, 0)
    );
    let allowed = near
        .client
        .checkout_origin(&origin, asking(&anything), &timeouts)
        .await
        .unwrap();
    finish(open(allowed).await).await;
    let failure = near
        .client
        .checkout_origin(&origin, asking(&no_loopback), &timeouts)
        .await
        .unwrap_err();
    assert_eq!(failure.reason, format!("{} is loopback", far.address));
}

#[tokio::test]
async fn names_without_a_dot_reach_no_resolver() {
    let near = Near::new();
    let origin = Origin {
        tls: false,
        host: "VIDEO".to_owned(),
        port: 80,
    };
    let failure = near
        .client
        .checkout_origin(&origin, asking(&anything), &Timeouts::default())
        .await
        .unwrap_err();
    assert_eq!(
        (failure.kind, failure.endpoint.as_str()),
        (FailureKind::Dotless, "VIDEO:80")
    );
}

#[tokio::test]
async fn tunnels_end_at_allowed_targets_only() {
    let near = Near::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let timeouts = Timeouts::default();
    let dial = Dial::Target {
        host: "127.0.0.1",
        port,
        asking: asking(&anything),
        first: None,
        multipath: false,
    };
    let (dialled, accepted) = tokio::join!(
        near.client.dial_tcp(dial, Header::Unknown, &timeouts),
        listener.accept()
    );
    let (mut near_side, mut far_side) = (dialled.unwrap().stream, accepted.unwrap().0);
    near_side.write_all(b"hi").await.unwrap();
    let mut got = [0; 2];
    far_side.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hi");
    let dial = Dial::Target {
        host: "127.0.0.1",
        port,
        asking: asking(&no_loopback),
        first: None,
        multipath: false,
    };
    assert_eq!(
        near.client
            .dial_tcp(dial, Header::Unknown, &timeouts)
            .await
            .unwrap_err()
            .kind,
        FailureKind::Prohibited
    );
    assert_eq!(
        near.client
            .dial_udp(dial, &timeouts)
            .await
            .unwrap_err()
            .kind,
        FailureKind::Prohibited
    );
}

#[tokio::test]
async fn nothing_is_left_of_origins_that_failed() {
    let near = Near::new();
    for _ in 0..10 {
        let failure = near
            .client
            .checkout_origin(
                &origin(crate::dead()),
                asking(&anything),
                &Timeouts::default(),
            )
            .await;
        assert_eq!(failure.unwrap_err().kind, FailureKind::Refused);
    }
    near.tasks.close();
    tokio::time::timeout(crate::PATIENCE, near.tasks.wait())
        .await
        .unwrap();
}

#[tokio::test]
async fn localhost_has_an_address_for_udp() {
    let near = Near::new();
    let dial = Dial::Target {
        host: "localhost",
        port: 5004,
        asking: asking(&anything),
        first: None,
        multipath: false,
    };
    let UdpDialled { path, endpoint, .. } = near
        .client
        .dial_udp(dial, &Timeouts::default())
        .await
        .unwrap();
    let UdpPath::Address(address) = path else {
        panic!("it is reached directly")
    };
    assert!(address.ip().is_loopback());
    assert_eq!(&*endpoint, "localhost:5004");
}
