//! Whether a request may have had an effect (RFC 9110, 9.2.2; RFC 9113, 8.7).

use std::sync::Arc;

use hermes_http::h1::client::Receiver;
use hermes_http::{Cause, Processed, RequestHead, Reset, StreamError};
use http::HeaderValue;

use crate::client::{link, open_h1};
use crate::content::{Content, get, hello};
use crate::raw::Raw;
use crate::server::Server;
use crate::{H2, bounded};

/// The result of a request over HTTP/2 at a server that does `then` to it.
async fn outcome(
    then: impl FnOnce(
        &mut h2::server::Connection<tokio::net::TcpStream, bytes::Bytes>,
        h2::server::SendResponse<bytes::Bytes>,
    ) + Send
    + 'static,
) -> StreamError {
    let (near, far) = Raw::pair().await;
    tokio::spawn(async move {
        let mut connection = h2::server::handshake(far).await.unwrap();
        let (_, respond) = connection.accept().await.unwrap().unwrap();
        then(&mut connection, respond);
        while let Some(Ok(_)) = connection.accept().await {}
    });
    let link = link(near.0).await;
    let (_outgoing, mut pending) = link.open(&get(), Some(0)).await.unwrap();
    pending.event(None).await.unwrap_err()
}

#[tokio::test]
async fn a_refused_stream_was_not_processed() {
    let error = bounded(outcome(|_, mut respond| {
        respond.send_reset(h2::Reason::REFUSED_STREAM)
    }))
    .await;
    assert_eq!(error.processed, Processed::No);
    assert!(
        matches!(error.cause, Cause::Reset(Reset::Refused)),
        "{error}"
    );
}

#[tokio::test]
async fn a_stream_that_was_reset_otherwise_may_have_been_processed() {
    for reason in [
        h2::Reason::INTERNAL_ERROR,
        h2::Reason::CANCEL,
        h2::Reason::NO_ERROR,
    ] {
        let error = bounded(outcome(move |_, mut respond| respond.send_reset(reason))).await;
        assert_eq!(error.processed, Processed::Maybe);
        assert!(
            matches!(error.cause, Cause::Reset(reset) if reset == Reset::from(hermes_proto::h2::Reason::from(u32::from(reason)))),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_stream_that_a_goaway_includes_may_have_been_processed() {
    for reason in [h2::Reason::INTERNAL_ERROR, h2::Reason::NO_ERROR] {
        let error = bounded(outcome(move |connection, _respond| {
            connection.abrupt_shutdown(reason)
        }))
        .await;
        assert_eq!(error.processed, Processed::Maybe, "{error}");
    }
}

#[tokio::test]
async fn a_connection_that_dies_before_the_response_may_have_processed_the_request() {
    bounded(async {
        let (raw, tcp) = Raw::pair().await;
        let (mut outgoing, mut pending, _home) = open_h1(tcp, &get(), Some(0), Receiver::Proxy);
        outgoing.finish(None).await.unwrap();
        raw.reset();
        let error = pending.event(None).await.unwrap_err();
        assert_eq!(error.processed, Processed::Maybe);
    })
    .await;
}

#[tokio::test]
async fn a_head_that_cannot_be_written_was_not_processed() {
    bounded(async {
        let (_raw, tcp) = Raw::pair().await;
        let connection = hermes_http::h1::Connection::new(tcp.into(), bytes::BytesMut::new());
        let head = RequestHead {
            authority: None,
            ..get()
        };
        let home = Arc::new(|_| panic!("nothing was sent"));
        let error =
            hermes_http::client::h1::open(connection, &head, Some(0), Receiver::Proxy, Some(home))
                .unwrap_err();
        assert_eq!(error.processed, Processed::No);
        assert!(matches!(error.cause, Cause::Invalid(_)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_head_that_http2_cannot_carry_was_not_processed_and_harms_no_link() {
    bounded(async {
        let client = Server::start(hello).await.client(H2).await;
        let mut head = get();
        head.fields
            .insert("connection", HeaderValue::from_static("close"));
        let error = client.open(&head, Some(0)).await.unwrap_err();
        assert_eq!(error.processed, Processed::No);
        assert!(matches!(error.cause, Cause::Invalid(_)), "{error}");
        assert!(client.link.as_ref().unwrap().is_alive());
        client.exchange(get(), &Content::none()).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_stream_above_a_goaway_was_not_processed() {
    bounded(async {
        let (near, far) = Raw::pair().await;
        let mut far = Raw(far);
        // SETTINGS without a setting, then GOAWAY with last stream 0 and no error.
        far.send("\0\0\0\x04\0\0\0\0\0").await;
        let link = link(near.0).await;
        let (_outgoing, mut pending) = link.open(&get(), Some(0)).await.unwrap();
        far.send("\0\0\x08\x07\0\0\0\0\0\0\0\0\0\0\0\0\0").await;
        let error = pending.event(None).await.unwrap_err();
        assert_eq!(error.processed, Processed::No, "{error}");
        assert_eq!(
            link.open(&get(), Some(0)).await.unwrap_err().processed,
            Processed::No
        );
        assert!(!link.is_alive());
    })
    .await;
}

#[tokio::test]
async fn a_link_is_dead_when_its_peer_closed_and_opens_nothing() {
    bounded(async {
        let (near, far) = Raw::pair().await;
        let server = tokio::spawn(async move { h2::server::handshake::<_>(far).await.unwrap() });
        let link = link(near.0).await;
        assert!(link.is_alive());
        drop(server.await.unwrap());
        while link.is_alive() {
            tokio::task::yield_now().await;
        }
        let error = link.open(&get(), Some(0)).await.unwrap_err();
        assert_eq!(error.processed, Processed::No);
    })
    .await;
}
