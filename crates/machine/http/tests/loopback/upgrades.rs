//! Upgrade and extended CONNECT, which are the same (RFC 9110, 7.8; RFC 8441; RFC 9298).

use bytes::Bytes;
use hermes_http::h1::client::Receiver;
use hermes_http::{Cause, Event, Kind, Offered, Processed};
use hermes_proto::fields::Fields;
use hermes_proto::upgrade::Protocol;
use http::StatusCode;

use crate::client::{link, open_h1};
use crate::content::{Content, connect, get, hello, response, upgrade};
use crate::raw::Raw;
use crate::server::Server;
use crate::{H1, PATHS, bounded, each, reach};

/// Sends back the first five bytes.
async fn parrot(offered: Offered) {
    assert_eq!(
        (
            offered.kind(),
            offered.head.protocol.as_ref().map(Protocol::as_str)
        ),
        (Kind::Upgrade, Some("chat"))
    );
    let (mut incoming, mut outgoing) = offered.accept(Fields::new()).await.unwrap();
    Content::expect(&mut incoming, "hello").await;
    outgoing.data(Bytes::from("hello"), true).await.unwrap();
}

#[tokio::test]
async fn an_upgrade_is_an_extended_connect_on_the_other_version() {
    each(PATHS, async |path| {
        let (head, mut incoming, mut outgoing) =
            reach(path, parrot).await.tunnel(&upgrade("chat")).await;
        let opened = if path[0] == H1 {
            StatusCode::SWITCHING_PROTOCOLS
        } else {
            StatusCode::OK
        };
        assert_eq!(head.status, opened);
        outgoing.data(Bytes::from("hello"), false).await.unwrap();
        assert_eq!(
            Content::receive(&mut incoming).await.unwrap().bytes,
            "hello"
        );
    })
    .await;
}

#[tokio::test]
async fn a_refused_upgrade_is_answered_like_a_message() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let _ = offered
                .refuse(response(404, None), Bytes::from("no chat"))
                .await;
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&upgrade("chat"), None).await.unwrap();
        outgoing.flush().await.unwrap();
        let Event::Final(head, mut incoming) = pending.event(Some(&mut outgoing)).await.unwrap()
        else {
            panic!("the tunnel was accepted")
        };
        assert_eq!(head.status, StatusCode::NOT_FOUND);
        assert_eq!(
            Content::receive(&mut incoming).await.unwrap().bytes,
            "no chat"
        );
        drop((outgoing, pending, incoming));
        assert!(client.kept().is_none());
    })
    .await;
}

#[tokio::test]
async fn switching_names_the_protocol() {
    bounded(async {
        let mut raw = Server::start(parrot).await.raw().await;
        raw.send(
            "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\nhello",
        )
        .await;
        let expected =
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: chat\r\n\r\n";
        assert_eq!(raw.head().await, expected);
        assert_eq!(raw.rest().await, "hello");
    })
    .await;
}

#[tokio::test]
async fn an_upgrade_of_the_connection_itself_is_ignored() {
    bounded(async {
        let mut raw = Server::start(hello).await.raw().await;
        for token in ["h2c", "TLS/1.0"] {
            raw.send(&format!(
                "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {token}\r\n\r\n"
            ))
            .await;
            assert!(raw.head().await.starts_with("HTTP/1.1 200 "));
            assert_eq!(raw.exactly(5).await, "hello");
        }
    })
    .await;
}

#[tokio::test]
async fn a_switch_to_something_else_is_no_tunnel() {
    bounded(async {
        for said in [
            "upgrade: h2c\r\n",
            "",
            "upgrade: chat\r\nupgrade: h2c\r\n",
            "upgrade: chat, h2c\r\n",
        ] {
            let (mut raw, tcp) = Raw::pair().await;
            let (mut outgoing, mut pending, _home) =
                open_h1(tcp, &upgrade("chat"), None, Receiver::Origin);
            outgoing.flush().await.unwrap();
            raw.head().await;
            raw.send(&format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n{said}\r\n"
            ))
            .await;
            let error = pending.event(Some(&mut outgoing)).await.unwrap_err();
            assert!(
                matches!(&error.cause, Cause::Protocol(reason) if reason.contains("101")),
                "{said}: {error}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn connect_udp_names_the_proxy_as_its_origin() {
    bounded(async {
        let (mut raw, tcp) = Raw::pair().await;
        let (mut outgoing, _pending, _home) =
            open_h1(tcp, &upgrade("connect-udp"), None, Receiver::Proxy);
        outgoing.flush().await.unwrap();
        let head = raw.head().await;
        assert!(
            head.starts_with("GET /chat HTTP/1.1\r\nhost: origin.example:8080\r\n"),
            "{head}"
        );
        assert!(
            head.contains("connection: upgrade\r\n") && head.contains("upgrade: connect-udp\r\n"),
            "{head}"
        );
    })
    .await;
}

#[tokio::test]
async fn extended_connect_waits_for_a_peer_that_offers_it() {
    bounded(async {
        let (near, far) = Raw::pair().await;
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(far).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond
                    .send_response(http::Response::new(()), true)
                    .unwrap();
            }
        });
        let link = link(near.0).await;
        for protocol in ["chat", "connect-udp"] {
            let error = link.open(&upgrade(protocol), None).await.unwrap_err();
            assert!(matches!(error.cause, Cause::Unsupported(_)), "{error}");
            assert_eq!(error.processed, Processed::No);
        }
        // An exchange that does not need it goes on.
        assert!(matches!(
            link.open(&connect(), None)
                .await
                .unwrap()
                .1
                .event(None)
                .await,
            Ok(Event::Tunnel(..))
        ));
        assert!(matches!(
            link.open(&get(), Some(0))
                .await
                .unwrap()
                .1
                .event(None)
                .await,
            Ok(Event::Final(..))
        ));
    })
    .await;
}
