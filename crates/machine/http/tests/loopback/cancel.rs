//! Futures that are dropped half-way, and peers that go away.

use std::time::Duration;

use bytes::Bytes;
use hermes_http::h1::client::Receiver;
use hermes_http::server::Options;
use hermes_http::{Cause, Event, Frame, Incoming, Offered, Pending, Reset};
use hermes_proto::fields::Fields;
use http::StatusCode;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::client::open_h1;
use crate::content::{Content, connect, get, hello, post, response};
use crate::raw::Raw;
use crate::server::Server;
use crate::{H1, H2, H3, PATHS, PATIENCE, Path, bounded, each, reach};

/// The paths of one hop.
const HOPS: &[Path] = &[&[H1], &[H2], &[H3]];

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
            responder
                .answer(response(200, None), Bytes::from("done"))
                .await
                .unwrap();
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&post(), None).await.unwrap();
        for expected in [102, 103] {
            outgoing.data(Bytes::from("go"), false).await.unwrap();
            let Event::Interim(head) = event(&mut pending).await else {
                panic!("final too early")
            };
            assert_eq!(head.status, expected);
        }
        outgoing.data(Bytes::from("go"), false).await.unwrap();
        let Event::Final(head, mut incoming) = event(&mut pending).await else {
            panic!("no final response")
        };
        assert_eq!(head.status, StatusCode::OK);
        let Some(Frame::Data(data)) = frame(&mut incoming).await else {
            panic!("no content")
        };
        assert_eq!(data, "done");
        assert!(frame(&mut incoming).await.is_none());
    })
    .await;
}

#[tokio::test]
async fn a_response_that_trickles_in_survives_dropped_waits() {
    bounded(async {
        let (mut raw, tcp) = Raw::pair().await;
        let (mut outgoing, mut pending, _home) = open_h1(tcp, &get(), Some(0), Receiver::Proxy);
        outgoing.finish(None).await.unwrap();
        raw.head().await;
        let trickle = tokio::spawn(async move {
            let heads = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            for byte in format!("{heads}1\r\na\r\n0\r\nb: c\r\n\r\n").chars() {
                raw.send(&byte.to_string()).await;
                tokio::task::yield_now().await;
            }
            raw
        });
        assert!(matches!(event(&mut pending).await, Event::Interim(head) if head.status == StatusCode::EARLY_HINTS));
        let Event::Final(_, mut content) = event(&mut pending).await else { panic!("no final response") };
        assert!(matches!(frame(&mut content).await, Some(Frame::Data(data)) if data == "a"));
        assert!(matches!(frame(&mut content).await, Some(Frame::Trailers(fields)) if fields.get("b").unwrap() == "c"));
        assert!(frame(&mut content).await.is_none());
        trickle.await.unwrap();
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
                let (_, mut incoming, _responder) = offered.message();
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
async fn a_whole_request_whose_response_no_one_awaits_ends_at_the_server() {
    each(HOPS, async |path| {
        let (told, mut tell) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let (_, mut incoming, mut responder) = offered.message();
                while incoming.frame().await.is_some() {}
                told.send("asked").unwrap();
                responder.gone().await;
                told.send("gone").unwrap();
            }
        };
        let client = reach(path, answer).await;
        let (mut outgoing, pending) = client.open(&get(), Some(0)).await.unwrap();
        outgoing.finish(None).await.unwrap();
        drop(outgoing);
        assert_eq!(tell.recv().await, Some("asked"));
        drop(pending);
        assert_eq!(tell.recv().await, Some("gone"));
    })
    .await;
}

#[tokio::test]
async fn a_response_that_is_not_read_on_ends_at_the_server() {
    each(HOPS, async |path| {
        let (told, mut tell) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let mut outgoing = offered
                    .message()
                    .2
                    .respond(response(200, None), None)
                    .await
                    .unwrap();
                outgoing.data(Bytes::from("begun"), false).await.unwrap();
                outgoing.broken().await;
                told.send(()).unwrap();
            }
        };
        let client = reach(path, answer).await;
        let (mut outgoing, mut pending) = client.open(&get(), Some(0)).await.unwrap();
        outgoing.finish(None).await.unwrap();
        drop(outgoing);
        let Event::Final(_, mut incoming) = event(&mut pending).await else {
            panic!("no final response")
        };
        assert!(matches!(frame(&mut incoming).await, Some(Frame::Data(data)) if data == "begun"));
        drop((incoming, pending));
        // Over HTTP/1.1 it comes home, and is of no use.
        drop(client.kept());
        tell.recv().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_client_that_half_closes_is_not_gone_where_that_is_expected() {
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
            responder
                .answer(response(200, None), Bytes::from("still here"))
                .await
                .unwrap();
        };
        let options = Options {
            half_close: true,
            ..Options::default()
        };
        let mut raw = Server::with(options, answer).await.raw().await;
        raw.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        raw.finish().await;
        assert!(raw.rest().await.ends_with("\r\n\r\nstill here"));
    })
    .await;
}

#[tokio::test]
async fn a_client_that_ends_its_side_is_gone_and_one_that_asks_more_is_not() {
    bounded(async {
        let (told, mut tell) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let (head, mut incoming, mut responder) = offered.message();
                Content::receive(&mut incoming).await.unwrap();
                let path = head.path().to_owned();
                told.send(path.clone()).unwrap();
                if path == "/last" {
                    responder.gone().await;
                    told.send("gone".to_owned()).unwrap();
                    return;
                }
                for _ in 0..100 {
                    tokio::select! {
                        biased;
                        () = responder.gone() => return,
                        () = tokio::task::yield_now() => {}
                    }
                }
                responder
                    .answer(response(200, None), Bytes::new())
                    .await
                    .unwrap();
            }
        };
        for content in [
            "\r\n",
            "Content-Length: 2\r\n\r\nab",
            "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            let mut raw = Server::start(answer.clone()).await.raw().await;
            let requests = ["first", "last"]
                .map(|path| format!("POST /{path} HTTP/1.1\r\nHost: a\r\n{content}"));
            raw.send(&requests.concat()).await;
            for expected in ["/first", "/last"] {
                assert_eq!(tell.recv().await.unwrap(), expected);
            }
            raw.finish().await;
            assert_eq!(tell.recv().await.unwrap(), "gone");
        }
    })
    .await;
}

#[tokio::test]
async fn a_reset_by_a_bare_peer_reaches_the_idle_side_of_a_tunnel() {
    bounded(async {
        let (accepted, mut tunnels) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let accepted = accepted.clone();
            async move {
                accepted
                    .send(offered.accept(Fields::new()).await.unwrap())
                    .unwrap()
            }
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

#[tokio::test]
async fn finishing_what_the_peer_reset_tells_of_the_reset() {
    bounded(async {
        let (told, mut tell) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let (mut incoming, mut outgoing) = offered.accept(Fields::new()).await.unwrap();
                assert!(incoming.frame().await.unwrap().is_err());
                told.send(
                    outgoing
                        .data(Bytes::from("late"), false)
                        .await
                        .unwrap_err()
                        .cause,
                )
                .unwrap();
                told.send(outgoing.finish(None).await.unwrap_err().cause)
                    .unwrap();
            }
        };
        let client = reach(&[H2], answer).await;
        drop(client.tunnel(&connect()).await);
        for _ in 0..2 {
            let cause = tell.recv().await.unwrap();
            assert!(matches!(cause, Cause::Reset(Reset::Cancel)), "{cause:?}");
        }
    })
    .await;
}

/// SETTINGS with the largest window for streams, and as much for the connection (RFC 9113, 6.5 and 6.9).
const WIDE: &[u8] =
    b"\0\0\x06\x04\0\0\0\0\0\0\x04\x7f\xff\xff\xff\0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";

/// RST_STREAM of the first stream.
const RESET: &[u8] = b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\0";

/// A PING, which wakes who has a full socket.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0anything";

/// Fills the socket of a peer that reads nothing and ends the stream, and needs the connection no more.
async fn leave_with_a_full_socket() {
    let (mut raw, near) = Raw::pair().await;
    raw.0.write_all(WIDE).await.unwrap();
    let link = crate::client::link(near).await;
    let (mut outgoing, mut pending) = link.open(&post(), None).await.unwrap();
    let piece = Bytes::from(vec![7; 64 << 10]);
    // It is full once nothing has left for a while.
    let moment = Duration::from_millis(200);
    while let Ok(sent) = timeout(moment, outgoing.data(piece.clone(), false)).await {
        sent.unwrap();
    }

    raw.0.write_all(RESET).await.unwrap();
    assert!(pending.event(None).await.is_err());
    drop((outgoing, pending));
    drop(link);
    raw.0.write_all(PING).await.unwrap();
    // The driver has its turns in this runtime, and gives it back each time.
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(raw);
}

#[test]
fn a_connection_that_is_left_with_a_full_socket_gives_its_thread_back() {
    let (tell, told) = std::sync::mpsc::channel();
    // Beside the test: a thread that is never given back cannot look at a clock.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(leave_with_a_full_socket());
        tell.send(()).unwrap();
    });
    assert_eq!(told.recv_timeout(PATIENCE), Ok(()));
}
