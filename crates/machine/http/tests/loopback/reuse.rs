//! Which connections serve again, and which do not (RFC 9112, 9).

use bytes::Bytes;
use hermes_http::h1::client::Receiver;
use hermes_http::server::Options;
use hermes_http::{Frame, Offered, h1};
use http::StatusCode;

use crate::client::{last, open_h1};
use crate::content::{Content, echo, get, hello, post, response};
use crate::raw::Raw;
use crate::server::{SOON, Server};
use crate::{VERSIONS, bounded, each};

#[tokio::test]
async fn one_connection_serves_exchange_after_exchange() {
    each(VERSIONS, async |version| {
        let client = Server::start(echo).await.client(version).await;
        for content in [
            Content::none(),
            Content::sized("sized"),
            Content::streamed("chunked").with_trailers(),
        ] {
            assert_eq!(
                client.exchange(post(), &content).await.unwrap().content,
                content
            );
        }
        assert_eq!(client.dialled(), 1);
    })
    .await;
}

#[tokio::test]
async fn requests_that_arrive_together_are_answered_in_order() {
    bounded(async {
        let mut raw = Server::start(echo).await.raw().await;
        let requests = ["one", "two", "six"].map(|text| {
            format!("POST /{text} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{text}\r\n0\r\n\r\n")
        });
        raw.send(&requests.concat()).await;
        for text in ["one", "two", "six"] {
            assert!(raw.head().await.contains(&format!("path: /{text}\r\n")));
            let content: String = text.chars().map(|letter| format!("1\r\n{letter}\r\n")).collect();
            assert_eq!(raw.exactly(content.len() + 5).await, content + "0\r\n\r\n");
        }
    })
    .await;
}

/// A connection after an exchange that `answer` answered and whose content was taken; `None` if it
/// was not returned.
async fn after(answer: &str) -> (Raw, Option<h1::Connection>) {
    let (mut raw, tcp) = Raw::pair().await;
    let (mut outgoing, mut pending, home) = open_h1(tcp, &get(), Some(0), Receiver::Proxy);
    outgoing.finish(None).await.unwrap();
    raw.head().await;
    raw.send(answer).await;
    if answer.contains("HTTP/1.0") || !answer.contains("Content-Length") {
        raw.finish().await;
    }
    let (_, mut incoming) = last(&mut pending).await.unwrap();
    Content::receive(&mut incoming).await.unwrap();
    drop((outgoing, pending, incoming));
    (raw, home.await.ok())
}

#[tokio::test]
async fn a_complete_response_makes_the_connection_usable() {
    bounded(async {
        let (_raw, home) = after("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
        assert!(home.unwrap().is_usable());
    })
    .await;
}

#[tokio::test]
async fn a_response_that_says_so_is_the_last() {
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
        "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        "HTTP/1.1 200 OK\r\n\r\nuntil the close",
        // Bytes that no one asked for.
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n",
    ];
    for answer in answers {
        let (_raw, home) = bounded(after(answer)).await;
        assert!(
            home.is_none_or(|mut connection| !connection.is_usable()),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn content_that_was_not_read_spoils_the_connection() {
    bounded(async {
        let (mut raw, tcp) = Raw::pair().await;
        let (mut outgoing, mut pending, home) = open_h1(tcp, &get(), Some(0), Receiver::Proxy);
        outgoing.finish(None).await.unwrap();
        raw.head().await;
        raw.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour")
            .await;
        let (_, mut incoming) = last(&mut pending).await.unwrap();
        assert!(matches!(incoming.frame().await, Some(Ok(Frame::Data(data))) if data == "four"));
        drop((outgoing, pending, incoming));
        assert!(
            home.await
                .is_ok_and(|mut connection| !connection.is_usable())
        );
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_is_spoilt_when_its_peer_closes_or_speaks() {
    for last_words in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        bounded(async {
            let (mut raw, home) = after("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
            let mut home = home.unwrap();
            assert!(home.is_usable());
            tokio::select! {
                biased;
                () = home.spoilt() => panic!("spoilt without a reason"),
                () = tokio::task::yield_now() => {}
            }
            raw.send(last_words).await;
            if last_words.is_empty() {
                raw.finish().await;
            }
            home.spoilt().await;
            assert!(!home.is_usable());
        })
        .await;
    }
}

#[tokio::test]
async fn a_request_that_says_so_is_the_last() {
    bounded(async {
        let mut raw = Server::start(hello).await.raw().await;
        raw.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(raw.head().await.contains("connection: close\r\n"));
        assert_eq!(raw.rest().await, "hello");
    })
    .await;
}

#[tokio::test]
async fn content_that_the_handler_did_not_read_is_no_request() {
    bounded(async {
        let answer = async |offered: Offered| {
            let (_, mut incoming, responder) = offered.message();
            Content::expect(&mut incoming, "GET").await;
            responder
                .answer(response(200, None), Bytes::from("enough"))
                .await
                .unwrap();
        };
        let mut raw = Server::start(answer).await.raw().await;
        raw.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nGET\r\n")
            .await;
        raw.head().await;
        raw.send("e\r\n / HTTP/1.1\r\n\r\n\r\n0\r\n\r\n").await;
        assert_eq!(raw.rest().await, "enough");
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_stays_idle_ends_in_silence() {
    each(VERSIONS, async |version| {
        let server = Server::with(
            Options {
                idle_time: SOON,
                ..Options::default()
            },
            hello,
        )
        .await;
        let client = server.client(version).await;
        let answered = client.exchange(get(), &Content::none()).await.unwrap();
        assert_eq!(answered.head.status, StatusCode::OK);
        match &client.link {
            Some(link) => {
                while link.is_alive() {
                    tokio::task::yield_now().await;
                }
            }
            None => {
                let mut kept = client.kept().unwrap();
                kept.spoilt().await;
                assert!(!kept.is_usable());
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_never_says_anything_ends_in_silence() {
    bounded(async {
        let server = Server::with(
            Options {
                idle_time: SOON,
                ..Options::default()
            },
            hello,
        )
        .await;
        assert_eq!(server.raw().await.rest().await, "");
    })
    .await;
}

#[tokio::test]
async fn an_exchange_may_last_longer_than_a_connection_may_be_idle() {
    each(VERSIONS, async |version| {
        let options = Options {
            idle_time: SOON,
            head_time: SOON * 100,
            ..Options::default()
        };
        let answer = async |offered: Offered| {
            tokio::time::sleep(SOON * 4).await;
            echo(offered).await;
        };
        let client = Server::with(options, answer).await.client(version).await;
        assert!(client.exchange(get(), &Content::none()).await.is_ok());
    })
    .await;
}
