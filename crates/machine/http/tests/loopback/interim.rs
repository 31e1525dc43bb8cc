//! Interim responses (RFC 9110, 15.2) and the expectation of one.

use bytes::Bytes;
use hermes_http::{Cause, Event, Offered};
use hermes_proto::fields::Fields;
use http::header::EXPECT;
use http::{HeaderValue, StatusCode};

use crate::client::{last, link};
use crate::content::{Content, echo, get, post, response};
use crate::raw::Raw;
use crate::server::Server;
use crate::{PATHS, bounded, each, reach};

/// Sends two early hints, then the answer.
async fn hint(offered: Offered) {
    let (_, _, mut responder) = offered.message();
    for link in ["</a>", "</b>"] {
        let mut hints = response(103, None);
        hints.fields.insert("link", HeaderValue::from_static(link));
        responder.interim(&hints).await.unwrap();
    }
    responder
        .answer(response(200, None), Bytes::from_static(b"final"))
        .await
        .unwrap();
}

#[tokio::test]
async fn every_interim_response_comes_before_the_final_one() {
    each(PATHS, async |path| {
        let client = reach(path, hint).await;
        for _ in 0..2 {
            let (mut outgoing, mut pending) = client.open(&get(), Some(0)).await.unwrap();
            outgoing.finish(None).await.unwrap();
            drop(outgoing);
            for link in ["</a>", "</b>"] {
                let Event::Interim(head) = pending.event(None).await.unwrap() else {
                    panic!("final too early")
                };
                assert_eq!(
                    (head.status, head.fields.get("link").unwrap().as_bytes()),
                    (StatusCode::EARLY_HINTS, link.as_bytes())
                );
            }
            let (head, mut incoming) = last(&mut pending).await.unwrap();
            assert_eq!(head.status, StatusCode::OK);
            assert_eq!(
                Content::receive(&mut incoming).await.unwrap().bytes,
                "final"
            );
        }
        assert_eq!(client.dialled(), 1);
    })
    .await;
}

#[tokio::test]
async fn an_http_1_0_client_gets_only_the_final_response() {
    bounded(async {
        let mut raw = Server::start(hint).await.raw().await;
        raw.send("GET http://a/ HTTP/1.0\r\n\r\n").await;
        assert!(raw.head().await.starts_with("HTTP/1.1 200 "));
    })
    .await;
}

#[tokio::test]
async fn content_that_waits_for_100_follows_it() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let (head, mut incoming, mut responder) = offered.message();
            assert_eq!(head.fields.get(EXPECT).unwrap(), "100-continue");
            responder.interim(&response(100, None)).await.unwrap();
            let content = Content::receive(&mut incoming).await.unwrap();
            responder
                .answer(response(200, None), content.bytes)
                .await
                .unwrap();
        };
        let client = reach(path, answer).await;
        let mut head = post();
        head.fields
            .insert(EXPECT, HeaderValue::from_static("100-continue"));
        let (mut outgoing, mut pending) = client.open(&head, None).await.unwrap();
        outgoing.flush().await.unwrap();
        let Event::Interim(head) = pending.event(None).await.unwrap() else {
            panic!("final too early")
        };
        assert_eq!(head.status, StatusCode::CONTINUE);
        outgoing
            .data(Bytes::from_static(b"at last"), true)
            .await
            .unwrap();
        let (_, mut incoming) = last(&mut pending).await.unwrap();
        assert_eq!(
            Content::receive(&mut incoming).await.unwrap().bytes,
            "at last"
        );
    })
    .await;
}

#[tokio::test]
async fn no_100_is_sent_that_the_handler_did_not_send() {
    bounded(async {
        let mut raw = Server::start(echo).await.raw().await;
        raw.send(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi",
        )
        .await;
        assert!(raw.head().await.starts_with("HTTP/1.1 200 "));
    })
    .await;
}

#[tokio::test]
async fn switching_protocols_is_never_sent_as_an_interim_response() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let (_, _, mut responder) = offered.message();
            responder.interim(&response(101, None)).await.unwrap();
            responder.answer(response(200, None), Bytes::new()).await.unwrap();
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&get(), Some(0)).await.unwrap();
        outgoing.finish(None).await.unwrap();
        assert!(matches!(pending.event(None).await.unwrap(), Event::Final(head, _) if head.status == StatusCode::OK));
    })
    .await;
}

#[tokio::test]
async fn switching_protocols_over_http2_breaks_the_protocol() {
    bounded(async {
        let (near, far) = Raw::pair().await;
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(far).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            respond
                .send_informational(http::Response::builder().status(101).body(()).unwrap())
                .unwrap();
            while connection.accept().await.is_some() {}
        });
        let (_outgoing, mut pending) = link(near.0).await.open(&get(), Some(0)).await.unwrap();
        let error = pending.event(None).await.unwrap_err();
        assert!(matches!(error.cause, Cause::Protocol(_)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn switching_protocols_without_an_upgrade_breaks_the_protocol() {
    for head in [get(), crate::content::connect()] {
        bounded(async {
            let (mut raw, tcp) = Raw::pair().await;
            let (mut outgoing, mut pending, _home) = crate::client::open_h1(
                tcp,
                &head,
                Some(0),
                hermes_http::h1::client::Receiver::Proxy,
            );
            outgoing.flush().await.unwrap();
            raw.head().await;
            raw.send(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: chat\r\n\r\n",
            )
            .await;
            let error = pending.event(Some(&mut outgoing)).await.unwrap_err();
            assert!(matches!(error.cause, Cause::Protocol(_)), "{error}");
        })
        .await;
    }
}

#[tokio::test]
async fn no_field_of_an_interim_response_gets_into_the_final_one() {
    each(PATHS, async |path| {
        let answered = reach(path, hint)
            .await
            .exchange(get(), &Content::none())
            .await
            .unwrap();
        let mut fields: Fields = answered.head.fields;
        assert!(!fields.remove("link"));
    })
    .await;
}
