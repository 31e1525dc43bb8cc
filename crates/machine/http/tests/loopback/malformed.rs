//! Input that is not HTTP: answered with a telling status, closed, and never offered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_http::server::Options;
use hermes_http::{Cause, Offered};
use http::{HeaderValue, Request, StatusCode};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::bounded;
use crate::content::{Content, hello};
use crate::server::{SOON, Server};

/// A server that counts the exchanges offered to it.
async fn counting(options: Options) -> (Server, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let answer = move |offered: Offered| {
        counted.fetch_add(1, Ordering::Relaxed);
        hello(offered)
    };
    (Server::with(options, answer).await, count)
}

#[tokio::test]
async fn a_malformed_head_is_answered_then_closed_and_not_offered() {
    let long = "x".repeat(70_000);
    let cases = [
        (400, "GET / HTTP/1.1\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1\nHost: a\n\n".to_owned()),
        (400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n".to_owned()),
        (400, "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n".to_owned()),
        (400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (
            400,
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        ),
        (400, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx".to_owned()),
        (400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
        (400, "CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n".to_owned()),
        (400, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 4\r\n\r\nfour".to_owned()),
        (400, "\u{16}\u{3}\u{1} this is TLS".to_owned()),
        (501, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".to_owned()),
        (505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n".to_owned()),
        (414, format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n")),
        (431, format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n")),
        (431, format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "x: y\r\n".repeat(200))),
    ];
    let (server, offered) = counting(Options::default()).await;
    for (status, request) in cases {
        bounded(async {
            let mut raw = server.raw().await;
            raw.send(&request).await;
            let shown: String = request.chars().take(80).collect();
            let head = raw.head().await;
            assert!(
                head.starts_with(&format!("HTTP/1.1 {status} ")),
                "{shown:?}: {head}"
            );
            assert!(
                head.contains("connection: close\r\n") && head.contains("reason: "),
                "{shown:?}: {head}"
            );
            assert_eq!(raw.rest().await, "", "{shown:?}");
        })
        .await;
    }
    assert_eq!(offered.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn nothing_after_a_malformed_head_is_read_as_a_request() {
    bounded(async {
        let (server, offered) = counting(Options::default()).await;
        let mut raw = server.raw().await;
        let good = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        raw.send(&format!("{good}GET / HTTP/1.1\r\n\r\n{good}"))
            .await;
        assert!(raw.head().await.starts_with("HTTP/1.1 200 "));
        assert_eq!(raw.exactly(5).await, "hello");
        assert!(raw.head().await.starts_with("HTTP/1.1 400 "));
        assert_eq!(raw.rest().await, "");
        assert_eq!(offered.load(Ordering::Relaxed), 1);
    })
    .await;
}

#[tokio::test]
async fn a_head_that_takes_too_long_is_timed_out() {
    let (server, offered) = counting(Options {
        head_time: SOON,
        ..Options::default()
    })
    .await;
    for begun in ["G", "GET / HTTP/1.1\r\nHost: a\r\n"] {
        bounded(async {
            let mut raw = server.raw().await;
            raw.send(begun).await;
            let head = raw.head().await;
            assert!(
                head.starts_with("HTTP/1.1 408 ") && head.contains("connection: close\r\n"),
                "{head}"
            );
            assert_eq!(raw.rest().await, "");
        })
        .await;
    }
    assert_eq!(offered.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_head_that_ends_half_way_gets_no_answer() {
    for begun in ["PRI * HTTP/2", "GET / HT", "GET / HTTP/1.1\r\nHost: a\r\n"] {
        bounded(async {
            let mut raw = counting(Options::default()).await.0.raw().await;
            raw.send(begun).await;
            raw.finish().await;
            assert_eq!(raw.rest().await, "");
        })
        .await;
    }
}

#[tokio::test]
async fn content_that_breaks_its_framing_is_an_error_to_the_handler_and_the_end() {
    bounded(async {
        let (told, mut tell) = mpsc::unbounded_channel();
        let answer = move |offered: Offered| {
            let told = told.clone();
            async move {
                let (_, mut incoming, responder) = offered.message();
                told.send(Content::receive(&mut incoming).await.unwrap_err().cause)
                    .unwrap();
                let _ = responder
                    .answer(crate::content::response(400, None), "bad".into())
                    .await;
            }
        };
        let mut raw = Server::start(answer).await.raw().await;
        let content = "4\r\nfour!!GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        raw.send(&format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{content}"
        ))
        .await;
        assert!(matches!(tell.recv().await.unwrap(), Cause::Protocol(_)));
        assert!(raw.head().await.starts_with("HTTP/1.1 400 "));
        assert_eq!(raw.rest().await, "bad");
        assert!(tell.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_host_that_contradicts_the_authority_is_refused_and_the_link_goes_on() {
    bounded(async {
        let (server, offered) = counting(Options::default()).await;
        let tcp = TcpStream::connect(server.address).await.unwrap();
        let (mut send, connection) = h2::client::handshake(tcp).await.unwrap();
        tokio::spawn(connection);
        let hosts: [(&[&str], StatusCode); 5] = [
            (&["origin.example"], StatusCode::OK),
            (&[], StatusCode::OK),
            (&["other.example"], StatusCode::BAD_REQUEST),
            (
                &["origin.example", "origin.example"],
                StatusCode::BAD_REQUEST,
            ),
            (&["a b"], StatusCode::BAD_REQUEST),
        ];
        for (hosts, status) in hosts {
            let mut request = Request::get("http://origin.example/").body(()).unwrap();
            for host in hosts {
                request
                    .headers_mut()
                    .append("host", HeaderValue::from_static(host));
            }
            let answered = send.send_request(request, true).unwrap().0.await.unwrap();
            assert_eq!(answered.status(), status, "{hosts:?}");
        }
        assert_eq!(offered.load(Ordering::Relaxed), 2);
    })
    .await;
}
