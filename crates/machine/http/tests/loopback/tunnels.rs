//! CONNECT: bytes in both directions, each with its own end (RFC 9110, 9.3.6; RFC 9113, 8.5).

use bytes::Bytes;
use hermes_http::{Cause, Event, Frame, Incoming, Offered, Outgoing, Reset};
use hermes_proto::fields::Fields;
use http::StatusCode;
use tokio::sync::mpsc;

use crate::client::Client;
use crate::content::{Content, connect, response};
use crate::server::Server;
use crate::{PATHS, Path, bounded, each, reach};

/// Both ends of a tunnel over `path`: the client's, then the target's.
async fn tunnel(path: Path) -> (Client, [(Incoming, Outgoing); 2]) {
    let (accepted, mut halves) = mpsc::unbounded_channel();
    let answer = move |offered: Offered| {
        let accepted = accepted.clone();
        async move {
            accepted
                .send(offered.accept(Fields::new()).await.unwrap())
                .unwrap()
        }
    };
    let client = reach(path, answer).await;
    let (head, incoming, outgoing) = client.tunnel(&connect()).await;
    assert_eq!(head.status, StatusCode::OK);
    (client, [(incoming, outgoing), halves.recv().await.unwrap()])
}

async fn end(incoming: &mut Incoming) {
    assert!(incoming.frame().await.is_none());
}

#[tokio::test]
async fn bytes_cross_both_ways() {
    each(PATHS, async |path| {
        let (_client, [mut near, mut far]) = tunnel(path).await;
        for text in ["one", "two", "three"] {
            near.1.data(Bytes::from(text), false).await.unwrap();
            Content::expect(&mut far.0, text).await;
            far.1.data(Bytes::from(text), false).await.unwrap();
            Content::expect(&mut near.0, text).await;
        }
    })
    .await;
}

#[tokio::test]
async fn each_direction_ends_on_its_own() {
    each(PATHS, async |path| {
        for client_first in [true, false] {
            let (_client, [near, far]) = tunnel(path).await;
            let (mut first, mut second) = if client_first {
                (near, far)
            } else {
                (far, near)
            };
            first.1.data(Bytes::from("last words"), true).await.unwrap();
            Content::expect(&mut second.0, "last words").await;
            end(&mut second.0).await;
            second
                .1
                .data(Bytes::from("still here"), false)
                .await
                .unwrap();
            Content::expect(&mut first.0, "still here").await;
            second.1.finish(None).await.unwrap();
            end(&mut first.0).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_reset_is_no_end() {
    each(PATHS, async |path| {
        for client_first in [true, false] {
            let (_client, [near, far]) = tunnel(path).await;
            let (mut first, mut second) = if client_first {
                (near, far)
            } else {
                (far, near)
            };
            first.1.data(Bytes::from("cut"), false).await.unwrap();
            Content::expect(&mut second.0, "cut").await;
            first.1.reset(Reset::Connect);
            drop(first);
            let error = second.0.frame().await.unwrap().unwrap_err();
            assert!(
                matches!(error.cause, Cause::Reset(Reset::Connect)),
                "{error}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn a_tunnel_that_is_dropped_is_reset() {
    each(PATHS, async |path| {
        for client_first in [true, false] {
            let (_client, [near, far]) = tunnel(path).await;
            let (first, mut second) = if client_first {
                (near, far)
            } else {
                (far, near)
            };
            drop(first);
            let error = second.0.frame().await.unwrap().unwrap_err();
            assert!(matches!(error.cause, Cause::Reset(_)), "{error}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_reset_is_noticed_by_a_side_that_only_waits_to_send() {
    each(PATHS, async |path| {
        for client_first in [true, false] {
            let (_client, [near, far]) = tunnel(path).await;
            let (mut first, mut second) = if client_first {
                (near, far)
            } else {
                (far, near)
            };
            first.1.finish(None).await.unwrap();
            end(&mut second.0).await;
            tokio::select! {
                biased;
                reset = second.1.broken() => panic!("an end is no reset: {reset:?}"),
                () = tokio::task::yield_now() => {}
            }
            second
                .1
                .data(Bytes::from("half open"), false)
                .await
                .unwrap();
            Content::expect(&mut first.0, "half open").await;
            first.1.reset(Reset::Connect);
            drop(first);
            assert_eq!(second.1.broken().await, Reset::Connect);
        }
    })
    .await;
}

#[tokio::test]
async fn a_large_tunnel_loses_nothing() {
    each(PATHS, async |path| {
        let (_client, [mut near, mut far]) = tunnel(path).await;
        let block: Bytes = (0..100_000u32).flat_map(u32::to_be_bytes).collect();
        let send = async {
            for _ in 0..10 {
                near.1.data(block.clone(), false).await.unwrap();
            }
            near.1.finish(None).await.unwrap();
        };
        let receive = async {
            let mut left = block.repeat(10).into_iter();
            while let Some(frame) = far.0.frame().await {
                let Frame::Data(data) = frame.unwrap() else {
                    panic!("a tunnel has no trailers")
                };
                assert!(
                    data.iter()
                        .eq(left.by_ref().take(data.len()).collect::<Vec<_>>().iter())
                );
            }
            assert!(left.next().is_none());
        };
        tokio::join!(send, receive);
    })
    .await;
}

#[tokio::test]
async fn a_refused_connect_is_answered_like_a_message() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let _ = offered
                .refuse(response(403, None), Bytes::from("not there"))
                .await;
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&connect(), None).await.unwrap();
        outgoing.flush().await.unwrap();
        let Event::Final(head, mut incoming) = pending.event(Some(&mut outgoing)).await.unwrap()
        else {
            panic!("the tunnel was accepted")
        };
        assert_eq!(head.status, StatusCode::FORBIDDEN);
        assert_eq!(
            Content::receive(&mut incoming).await.unwrap().bytes,
            "not there"
        );
        drop((outgoing, pending, incoming));
        assert!(client.kept().is_none());
    })
    .await;
}

#[tokio::test]
async fn what_follows_a_refused_connect_is_no_request() {
    bounded(async {
        // RFC 9931: the bytes may be meant for the target.
        let answer = async |offered: Offered| {
            offered
                .refuse(response(403, None), Bytes::from("no"))
                .await
                .unwrap()
        };
        let mut raw = Server::start(answer).await.raw().await;
        let head = "CONNECT db.example:5432 HTTP/1.1\r\nHost: db.example:5432\r\n\r\n";
        raw.send(&format!("{head}GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"))
            .await;
        let head = raw.head().await;
        assert!(
            head.starts_with("HTTP/1.1 403 ") && head.contains("connection: close\r\n"),
            "{head}"
        );
        assert_eq!(raw.rest().await, "no");
    })
    .await;
}

#[tokio::test]
async fn bytes_sent_with_an_accepted_connect_belong_to_the_tunnel() {
    bounded(async {
        let answer = async |offered: Offered| {
            let (mut incoming, mut outgoing) = offered.accept(Fields::new()).await.unwrap();
            Content::expect(&mut incoming, "GET / HTTP/1.1\r\n\r\n").await;
            outgoing.data(Bytes::from("seen"), true).await.unwrap();
        };
        let mut raw = Server::start(answer).await.raw().await;
        raw.send("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
            .await;
        assert_eq!(raw.head().await, "HTTP/1.1 200 OK\r\n\r\n");
        assert_eq!(raw.rest().await, "seen");
    })
    .await;
}
