//! Responses that come before the request's content is complete (RFC 9112, 9.5; RFC 9113, 8.1).

use bytes::Bytes;
use hermes_http::{Event, Offered, Reset};
use http::StatusCode;

use crate::client::last;
use crate::content::{Content, get, post, response};
use crate::server::Server;
use crate::{H1, H2, PATHS, bounded, each, reach};

/// Answers without a look at the content.
async fn too_large(offered: Offered) {
    offered
        .refuse(response(413, None), Bytes::from_static(b"too large"))
        .await
        .unwrap();
}

#[tokio::test]
async fn an_early_response_arrives_whole() {
    each(PATHS, async |path| {
        let client = reach(path, too_large).await;
        let (mut outgoing, mut pending) = client.open(&post(), None).await.unwrap();
        outgoing
            .data(Bytes::from_static(b"begun but"), false)
            .await
            .unwrap();
        let (head, mut incoming) = last(&mut pending).await.unwrap();
        assert_eq!(head.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(
            Content::receive(&mut incoming).await.unwrap().bytes,
            "too large"
        );
    })
    .await;
}

#[tokio::test]
async fn the_connection_closes_after_an_early_response() {
    bounded(async {
        let mut raw = Server::start(too_large).await.raw().await;
        raw.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(raw.head().await.starts_with("HTTP/1.1 413 "));
        assert_eq!(raw.rest().await, "too large");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_gives_up_its_upload_does_not_use_the_connection_again() {
    bounded(async {
        let client = reach(&[H1], too_large).await;
        let (mut outgoing, mut pending) = client.open(&post(), None).await.unwrap();
        outgoing
            .data(Bytes::from_static(b"begun but"), false)
            .await
            .unwrap();
        let (_, mut incoming) = last(&mut pending).await.unwrap();
        drop(outgoing);
        Content::receive(&mut incoming).await.unwrap();
        drop((incoming, pending));
        assert!(client.kept().is_none());
    })
    .await;
}

#[tokio::test]
async fn the_stream_of_an_early_response_is_reset_without_an_error() {
    bounded(async {
        let client = reach(&[H2], too_large).await;
        let (mut outgoing, mut pending) = client.open(&post(), None).await.unwrap();
        outgoing
            .data(Bytes::from_static(b"begun but"), false)
            .await
            .unwrap();
        assert_eq!(outgoing.broken().await, Reset::Unneeded);
        // The response must not be lost to the reset (RFC 9113, 8.1).
        let (_, mut incoming) = last(&mut pending).await.unwrap();
        assert_eq!(
            Content::receive(&mut incoming).await.unwrap().bytes,
            "too large"
        );
        drop((outgoing, pending, incoming));
        client.exchange(get(), &Content::none()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_refused_expectation_ends_the_connection_before_the_content() {
    bounded(async {
        let mut raw = Server::start(too_large).await.raw().await;
        raw.send(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n",
        )
        .await;
        assert!(raw.head().await.starts_with("HTTP/1.1 413 "));
        assert_eq!(raw.rest().await, "too large");
    })
    .await;
}

#[tokio::test]
async fn the_upload_goes_on_while_the_response_arrives() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let (_, mut incoming, responder) = offered.message();
            let mut outgoing = responder.respond(response(200, None), None).await.unwrap();
            while let Some(Ok(hermes_http::Frame::Data(data))) = incoming.frame().await {
                outgoing.data(data, false).await.unwrap();
            }
            outgoing.finish(None).await.unwrap();
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&post(), None).await.unwrap();
        outgoing
            .data(Bytes::from_static(b"first"), false)
            .await
            .unwrap();
        let Event::Final(_, mut incoming) = pending.event(None).await.unwrap() else {
            panic!("no final response")
        };
        Content::expect(&mut incoming, "first").await;
        outgoing
            .data(Bytes::from_static(b"second"), true)
            .await
            .unwrap();
        Content::expect(&mut incoming, "second").await;
        assert!(incoming.frame().await.is_none());
    })
    .await;
}
