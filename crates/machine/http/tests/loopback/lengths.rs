//! Content that is shorter or longer than announced, or differs otherwise.

use std::sync::Arc;

use bytes::Bytes;
use hermes_http::h1::client::Receiver;
use hermes_http::{Cause, Offered, Outgoing, Reset};
use tokio::sync::Notify;

use crate::client::{last, open_h1};
use crate::content::{Content, get, post, response};
use crate::raw::Raw;
use crate::{H1, H2, H3, PATHS, VERSIONS, bounded, each, reach};

async fn begin(offered: Offered, length: Option<u64>) -> Outgoing {
    offered
        .message()
        .2
        .respond(response(200, length), length)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_response_shorter_than_announced_is_an_error_to_the_client() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let mut outgoing = begin(offered, Some(10)).await;
            outgoing
                .data(Bytes::from_static(b"four"), false)
                .await
                .unwrap();
            let _ = outgoing.finish(None).await;
        };
        reach(path, answer)
            .await
            .exchange(get(), &Content::none())
            .await
            .unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn a_response_that_its_handler_drops_is_an_error_to_the_client() {
    each(PATHS, async |path| {
        let seen = Arc::new(Notify::new());
        let wait = seen.clone();
        let answer = move |offered: Offered| {
            let wait = wait.clone();
            async move {
                let mut outgoing = begin(offered, None).await;
                outgoing
                    .data(Bytes::from_static(b"not all"), false)
                    .await
                    .unwrap();
                outgoing.flush().await.unwrap();
                wait.notified().await;
            }
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&get(), Some(0)).await.unwrap();
        outgoing.finish(None).await.unwrap();
        let (_, mut incoming) = last(&mut pending).await.unwrap();
        Content::expect(&mut incoming, "not all").await;
        seen.notify_one();
        assert!(incoming.frame().await.unwrap().is_err());
    })
    .await;
}

#[tokio::test]
async fn a_response_longer_than_announced_is_an_error_to_the_client_or_its_sender() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let mut outgoing = begin(offered, Some(4)).await;
            outgoing
                .data(Bytes::from_static(b"fou"), false)
                .await
                .unwrap();
            let _ = outgoing.data(Bytes::from_static(b"r and more"), true).await;
        };
        reach(path, answer)
            .await
            .exchange(get(), &Content::none())
            .await
            .unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn a_request_shorter_than_announced_is_an_error_to_the_handler() {
    each(PATHS, async |path| {
        let (told, mut tell) = tokio::sync::mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let (_, mut incoming, _responder) = offered.message();
                Content::expect(&mut incoming, "four").await;
                told.send(false).unwrap();
                let result = Content::receive(&mut incoming).await;
                told.send(result.is_err()).unwrap();
            }
        };
        let client = reach(path, answer).await;
        let mut head = post();
        head.fields
            .insert("content-length", http::HeaderValue::from(10));
        let (mut outgoing, pending) = client.open(&head, Some(10)).await.unwrap();
        outgoing
            .data(Bytes::from_static(b"four"), false)
            .await
            .unwrap();
        outgoing.flush().await.unwrap();
        tell.recv().await.unwrap();
        let _ = outgoing.finish(None).await;
        drop((outgoing, pending));
        assert!(tell.recv().await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn nothing_leaves_after_the_end() {
    each(VERSIONS, async |version| {
        let path: crate::Path = match version {
            H1 => &[H1],
            H2 => &[H2],
            H3 => &[H3],
        };
        let client = reach(path, crate::content::echo).await;
        let (mut outgoing, mut pending) = client.open(&post(), None).await.unwrap();
        outgoing
            .data(Bytes::from_static(b"all"), true)
            .await
            .unwrap();
        let error = outgoing
            .data(Bytes::from_static(b"more"), false)
            .await
            .unwrap_err();
        assert!(matches!(error.cause, Cause::Invalid(_)), "{error}");
        let (_, mut incoming) = last(&mut pending).await.unwrap();
        assert_eq!(Content::receive(&mut incoming).await.unwrap().bytes, "all");
    })
    .await;
}

#[tokio::test]
async fn a_no_error_reset_is_not_a_clean_end_of_content() {
    bounded(async {
        let answer = async |offered: Offered| {
            let mut outgoing = begin(offered, None).await;
            outgoing
                .data(Bytes::from_static(b"not all"), false)
                .await
                .unwrap();
            outgoing.reset(Reset::Unneeded);
        };
        let error = reach(&[H2], answer)
            .await
            .exchange(get(), &Content::none())
            .await
            .unwrap_err();
        assert!(
            matches!(error.cause, Cause::Reset(Reset::Unneeded)),
            "{error}"
        );
    })
    .await;
}

/// A client's result for `text` followed by the end of the connection.
async fn receive(text: &str) -> Result<Content, Cause> {
    let (mut raw, tcp) = Raw::pair().await;
    let (mut outgoing, mut pending, _home) = open_h1(tcp, &get(), Some(0), Receiver::Proxy);
    outgoing.finish(None).await.unwrap();
    raw.head().await;
    raw.send(text).await;
    raw.finish().await;
    let (_, mut incoming) = last(&mut pending).await.map_err(|error| error.cause)?;
    Content::receive(&mut incoming)
        .await
        .map_err(|error| error.cause)
}

#[tokio::test]
async fn only_content_without_framing_may_end_with_the_connection() {
    let answers = [
        "",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n",
    ];
    for answer in answers {
        assert!(
            matches!(bounded(receive(answer)).await, Err(Cause::Incomplete)),
            "{answer}"
        );
    }
    let content = bounded(receive("HTTP/1.1 200 OK\r\n\r\nuntil the close"))
        .await
        .unwrap();
    assert_eq!(content, Content::streamed("until the close"));
}

#[tokio::test]
async fn content_that_breaks_its_framing_is_a_broken_protocol() {
    let answers = [
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour!!",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n1",
        "ICY 200 OK\r\n\r\n",
    ];
    for answer in answers {
        assert!(
            matches!(bounded(receive(answer)).await, Err(Cause::Protocol(_))),
            "{answer}"
        );
    }
}
