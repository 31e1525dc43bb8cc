//! Requests and responses, with contents of all kinds.

use std::sync::Arc;

use bytes::Bytes;
use hermes_http::Offered;
use hermes_http::h1::client::Receiver;
use hermes_http::server::{Options, serve};
use hermes_net::{Drain, Stream};
use http::header::CONTENT_LENGTH;
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use tokio::net::UnixStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::client::{last, open_h1};
use crate::content::{Content, echo, get, hello, post, request, response};
use crate::raw::Raw;
use crate::server::{Answer, Server};
use crate::{H2, H3, PATHS, bounded, each, reach};

#[tokio::test]
async fn content_and_trailers_cross_both_ways_as_they_were_framed() {
    each(PATHS, async |path| {
        let client = reach(path, echo).await;
        let contents = [
            Content::none(),
            Content::sized("a content of known length"),
            Content::streamed("a content of unknown length"),
            Content::streamed("a content with trailers").with_trailers(),
            Content::streamed(""),
            Content::streamed("").with_trailers(),
        ];
        for content in contents {
            let answered = client.exchange(post(), &content).await.unwrap();
            assert_eq!(answered.head.status, StatusCode::OK);
            let mut expected = content.clone();
            if path.contains(&H3) && content == Content::streamed("") {
                // The end may come with the head, which then says that there is no content.
                expected.length = answered.content.length;
            }
            assert_eq!(answered.content, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn pieces_that_others_share_cross_as_one_content() {
    each(PATHS, async |path| {
        let client = reach(path, |offered: Offered| async move {
            let (_, _, responder) = offered.message();
            let mut outgoing = responder.respond(response(200, None), None).await.unwrap();
            let shared = Bytes::from(vec![b'x'; 40_000]);
            let begin = Bytes::from_static(b"begin ");
            outgoing.pieces(Vec::new()).await.unwrap();
            let pieces = vec![Bytes::new(), begin, shared.clone(), Bytes::new(), shared];
            outgoing.pieces(pieces).await.unwrap();
            let end = Bytes::from_static(b" end");
            outgoing.pieces(vec![end]).await.unwrap();
            outgoing.finish(None).await.unwrap();
        })
        .await;
        let answered = client.exchange(get(), &Content::none()).await.unwrap();
        let bytes = &answered.content.bytes;
        assert_eq!(bytes.len(), "begin  end".len() + 80_000);
        assert!(bytes.starts_with(b"begin x") && bytes.ends_with(b"x end"));
    })
    .await;
}

#[tokio::test]
async fn the_head_arrives_as_it_was_sent() {
    each(PATHS, async |path| {
        let client = reach(path, echo).await;
        let answered = client.exchange(get(), &Content::none()).await.unwrap();
        let told = ["method", "authority", "path"].map(|name| {
            answered
                .head
                .fields
                .get(name)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        });
        assert_eq!(told, ["GET", "origin.example:8080", "/thing?x=1"]);
    })
    .await;
}

#[tokio::test]
async fn options_of_the_server_itself_keep_their_asterisk() {
    each(PATHS, async |path| {
        let client = reach(path, echo).await;
        let mut head = request(Method::OPTIONS, "/");
        head.path = Some(PathAndQuery::from_static("*"));
        let answered = client.exchange(head, &Content::none()).await.unwrap();
        assert_eq!(answered.head.fields.get("path").unwrap(), "*");
    })
    .await;
}

#[tokio::test]
async fn head_keeps_its_content_length_and_gets_no_content() {
    each(PATHS, async |path| {
        for length in [Some(0), Some(5), None] {
            let answer = move |offered: Offered| async move {
                let responder = offered.message().2;
                let mut outgoing = responder
                    .respond(response(200, Some(5)), length)
                    .await
                    .unwrap();
                outgoing.finish(None).await.unwrap();
            };
            let client = reach(path, answer).await;
            for _ in 0..2 {
                let answered = client
                    .exchange(request(Method::HEAD, "/"), &Content::none())
                    .await
                    .unwrap();
                assert_eq!(answered.head.fields.get(CONTENT_LENGTH).unwrap(), "5");
                assert!(answered.content.bytes.is_empty());
            }
            assert_eq!(client.dialled(), 1, "nothing was left on the connection");
        }
    })
    .await;
}

#[tokio::test]
async fn answering_head_tells_the_length_of_what_is_left_out() {
    each(PATHS, async |path| {
        let client = reach(path, hello).await;
        for _ in 0..2 {
            let answered = client
                .exchange(request(Method::HEAD, "/"), &Content::none())
                .await
                .unwrap();
            assert_eq!(answered.head.fields.get(CONTENT_LENGTH).unwrap(), "5");
            assert_eq!(answered.content, Content::none());
        }
        let answered = client.exchange(get(), &Content::none()).await.unwrap();
        assert_eq!(answered.content.bytes, "hello");
        assert_eq!(client.dialled(), 1);
    })
    .await;
}

#[tokio::test]
async fn statuses_without_content_have_none() {
    each(PATHS, async |path| {
        for (status, length) in [(204, None), (304, Some(7)), (304, None)] {
            let answer = move |offered: Offered| async move {
                let _ = offered
                    .refuse(response(status, length), Bytes::from_static(b"unwanted"))
                    .await;
            };
            let client = reach(path, answer).await;
            for _ in 0..2 {
                let answered = client.exchange(get(), &Content::none()).await.unwrap();
                assert_eq!(answered.head.status, status);
                let told = answered
                    .head
                    .fields
                    .get(CONTENT_LENGTH)
                    .map(|value| value.to_str().unwrap().to_owned());
                assert_eq!(told, length.map(|length| length.to_string()));
                assert_eq!(answered.content, Content::none());
            }
            assert_eq!(client.dialled(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn an_http_1_0_client_gets_content_until_the_close() {
    bounded(async {
        let server = Server::start(async |offered| {
            let mut outgoing = offered
                .message()
                .2
                .respond(response(200, None), None)
                .await
                .unwrap();
            Content::streamed("until the close")
                .send(&mut outgoing)
                .await
                .unwrap();
        })
        .await;
        let mut raw = server.raw().await;
        raw.send("GET http://a/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            .await;
        let head = raw.head().await;
        assert!(
            head.contains("connection: close\r\n") && !head.contains("transfer-encoding"),
            "{head}"
        );
        assert_eq!(raw.rest().await, "until the close");
    })
    .await;
}

#[tokio::test]
async fn a_proxy_gets_the_absolute_form_and_an_origin_its_path() {
    let forms = [
        (
            Receiver::Proxy,
            "GET http://origin.example:8080/thing?x=1 HTTP/1.1\r\nhost: origin.example:8080\r\n\r\n",
        ),
        (
            Receiver::Origin,
            "GET /thing?x=1 HTTP/1.1\r\nhost: origin.example:8080\r\n\r\n",
        ),
    ];
    for (receiver, expected) in forms {
        let (mut raw, tcp) = Raw::pair().await;
        let (mut outgoing, _pending, _home) = open_h1(tcp, &get(), Some(0), receiver);
        outgoing.finish(None).await.unwrap();
        assert_eq!(bounded(raw.head()).await, expected);
    }
}

#[tokio::test]
async fn an_exchange_crosses_a_unix_socket() {
    let (near, far) = UnixStream::pair().unwrap();
    let drain = Drain::new();
    let watch = drain.watch();
    tokio::spawn(async move {
        serve(Stream::unix(far), &Options::default(), Answer(echo), &watch).await
    });
    let content = Content::streamed("over a file").with_trailers();
    let (mut outgoing, mut pending, home) = open_h1(near, &post(), None, Receiver::Proxy);
    content.send(&mut outgoing).await.unwrap();
    drop(outgoing);
    let (_, mut incoming) = bounded(last(&mut pending)).await.unwrap();
    assert_eq!(Content::receive(&mut incoming).await.unwrap(), content);
    drop(incoming);
    assert!(home.await.unwrap().is_usable());
}

#[tokio::test]
async fn many_exchanges_run_at_once() {
    each(PATHS, async |path| {
        // All wait for the last one, so no exchange can finish before all are here.
        let count = if path == [H2] || path == [H3] {
            500
        } else {
            50
        };
        let all = Arc::new(Barrier::new(count));
        let client = reach(path, move |offered| {
            let all = all.clone();
            async move {
                all.wait().await;
                echo(offered).await;
            }
        })
        .await;
        let content = Content::streamed("one of many");
        let mut exchanges = JoinSet::new();
        for _ in 0..count {
            let (client, content) = (client.clone(), content.clone());
            exchanges
                .spawn(async move { client.exchange(post(), &content).await.unwrap().content });
        }
        assert_eq!(exchanges.join_all().await, vec![content; count]);
    })
    .await;
}

#[tokio::test]
async fn exchanges_above_the_stream_limit_wait_for_their_turn() {
    bounded(async {
        let server = Server::with(
            Options {
                streams: 10,
                ..Options::default()
            },
            echo,
        )
        .await;
        let client = server.client(H2).await;
        let content = Content::streamed("one of many");
        // The limit is known once the server has spoken.
        client.exchange(post(), &content).await.unwrap();
        let mut exchanges = JoinSet::new();
        for _ in 0..200 {
            let (client, content) = (client.clone(), content.clone());
            exchanges
                .spawn(async move { client.exchange(post(), &content).await.unwrap().content });
        }
        assert_eq!(exchanges.join_all().await, vec![content; 200]);
    })
    .await;
}
