//! Futures that are dropped half-way, and peers that go away.

use bytes::Bytes;
use hermes_http::h1::client::Receiver;
use hermes_http::{Cause, Event, Frame, Incoming, Offered, Pending};
use http::{HeaderMap, StatusCode};
use tokio::sync::mpsc;

use crate::client::open_h1;
use crate::content::{Content, connect, get, hello, post, response};
use crate::raw::Raw;
use crate::server::Server;
use crate::{H1, H2, PATHS, Path, bounded, each, reach};

/// The paths of one hop.
const HOPS: &[Path] = &[&[H1], &[H2]];

/// The next event, asked for many times by futures that are dropped.
async fn event(pending: &mut Pending) -> Event {
    loop {
        tokio::select! {
            biased;
            event = pending.event(None) => return event.unwrap(),
            () = tokio::task::yield_now() => {}
        }
    }
}

/// The next frame, asked for in the same way.
async fn frame(incoming: &mut Incoming) -> Option<Frame> {
    loop {
        tokio::select! {
            biased;
            frame = incoming.frame() => return frame.transpose().unwrap(),
            () = tokio::task::yield_now() => {}
        }
    }
}

#[tokio::test]
async fn dropping_the_wait_for_a_response_loses_nothing() {
    each(PATHS, async |path| {
        let answer = async |offered: Offered| {
            let (_, mut incoming, mut responder) = offered.message();
            for status in [102, 103] {
                Content::expect(&mut incoming, "go").await;
                responder.interim(&response(status, None)).await.unwrap();
            }
            Content::expect(&mut incoming, "go").await;
            responder.answer(response(200, None), Bytes::from("done")).await.unwrap();
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&post(), None).await.unwrap();
        for expected in [102, 103] {
            outgoing.data(Bytes::from("go"), false).await.unwrap();
            let Event::Interim(head) = event(&mut pending).await else { panic!("final too early") };
            assert_eq!(head.status, expected);
        }
        outgoing.data(Bytes::from("go"), false).await.unwrap();
        let Event::Final(head, mut incoming) = event(&mut pending).await else { panic!("no final response") };
        assert_eq!(head.status, StatusCode::OK);
        let Some(Frame::Data(data)) = frame(&mut incoming).await else { panic!("no content") };
        assert_eq!(data, "done");
        assert!(frame(&mut incoming).await.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_head_that_trickles_in_survives_dropped_waits() {
    bounded(async {
        let (mut raw, tcp) = Raw::pair().await;
        let (mut outgoing, mut pending, _home) = open_h1(tcp, &get(), Some(0), Receiver::Proxy);
        outgoing.finish(None).await.unwrap();
        raw.head().await;
        let text = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nb: c\r\n\r\n";
        let (mut seen, mut content) = (Vec::new(), None);
        for piece in text.as_bytes().chunks(1) {
            raw.send(std::str::from_utf8(piece).unwrap()).await;
            raw.0.writable().await.unwrap();
            tokio::select! {
                biased;
                event = pending.event(None), if content.is_none() => match event.unwrap() {
                    Event::Interim(head) => seen.push(head.status.as_u16()),
                    Event::Final(head, incoming) => {
                        seen.push(head.status.as_u16());
                        content = Some(incoming);
                    }
                    Event::Tunnel(..) => panic!("nobody asked for a tunnel"),
                },
                () = tokio::task::yield_now() => {}
            }
        }
        let mut content = match content {
            Some(content) => content,
            None => loop {
                match event(&mut pending).await {
                    Event::Final(head, content) => {
                        seen.push(head.status.as_u16());
                        break content;
                    }
                    other => assert!(matches!(other, Event::Interim(head) if { seen.push(head.status.as_u16()); true })),
                }
            },
        };
        assert_eq!(seen, [103, 200]);
        assert!(matches!(frame(&mut content).await, Some(Frame::Data(data)) if data == "a"));
        assert!(matches!(frame(&mut content).await, Some(Frame::Trailers(fields)) if fields["b"] == "c"));
        assert!(frame(&mut content).await.is_none());
    })
    .await;
}

#[tokio::test]
async fn an_exchange_that_the_client_drops_is_an_error_to_the_handler() {
    each(PATHS, async |path| {
        let (told, mut tell) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let mut incoming = offered.message().1;
                Content::expect(&mut incoming, "begun").await;
                told.send(None).unwrap();
                told.send(incoming.frame().await).unwrap();
            }
        };
        let client = reach(path, answer).await;
        let (mut outgoing, pending) = client.open(&post(), None).await.unwrap();
        outgoing.data(Bytes::from("begun"), false).await.unwrap();
        tell.recv().await.unwrap();
        drop((outgoing, pending));
        let error = tell.recv().await.unwrap().unwrap().unwrap_err();
        assert!(matches!(error.cause, Cause::Reset(_)), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_handler_that_only_waits_learns_that_the_client_is_gone() {
    each(HOPS, async |path| {
        let (told, mut tell) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let (_, _incoming, mut responder) = offered.message();
                told.send(()).unwrap();
                responder.gone().await;
                told.send(()).unwrap();
            }
        };
        let client = reach(path, answer).await;
        let (mut outgoing, pending) = client.open(&post(), None).await.unwrap();
        outgoing.flush().await.unwrap();
        tell.recv().await.unwrap();
        drop((outgoing, pending));
        tell.recv().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_client_that_half_closes_is_not_gone() {
    bounded(async {
        let answer = async |offered: Offered| {
            let (_, _incoming, mut responder) = offered.message();
            for _ in 0..100 {
                tokio::select! {
                    biased;
                    () = responder.gone() => return,
                    () = tokio::task::yield_now() => {}
                }
            }
            responder.answer(response(200, None), Bytes::from("still here")).await.unwrap();
        };
        let mut raw = Server::start(answer).await.raw().await;
        raw.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        raw.finish().await;
        assert!(raw.rest().await.ends_with("\r\n\r\nstill here"));
    })
    .await;
}

#[tokio::test]
async fn a_reset_by_a_bare_peer_reaches_the_idle_side_of_a_tunnel() {
    bounded(async {
        let (accepted, mut tunnels) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let accepted = accepted.clone();
            async move { accepted.send(offered.accept(HeaderMap::new()).await.unwrap()).unwrap() }
        };
        let mut raw = Server::start(answer).await.raw().await;
        raw.send("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").await;
        raw.head().await;
        let (_incoming, mut outgoing) = tunnels.recv().await.unwrap();
        raw.reset();
        outgoing.broken().await;
    })
    .await;
}

#[tokio::test]
async fn a_dropped_exchange_leaves_the_link_to_others() {
    bounded(async {
        let client = reach(&[H2], hello).await;
        for _ in 0..50 {
            drop(client.open(&connect(), None).await.unwrap());
            drop(client.open(&post(), None).await.unwrap());
            let answered = client.exchange(get(), &Content::none()).await.unwrap();
            assert_eq!(answered.content.bytes, "hello");
        }
    })
    .await;
}
