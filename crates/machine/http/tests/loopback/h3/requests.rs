//! Requests that break the connection, or only themselves (RFC 9114, 4.1 to 4.4, 7.1 and 7.2.8).

use hermes_http::{Cause, Offered};
use hermes_proto::fields::Fields;

use super::wire::{Wire, framed, get, headers};
use crate::bounded;
use crate::content::{Content, hello};
use crate::server::Server;

#[tokio::test]
async fn frames_that_must_not_come_end_the_connection_with_their_code() {
    let get = || get(&[]);
    let cases: Vec<(&str, Vec<u8>, u64)> = vec![
        ("DATA before HEADERS", framed(0, b"x"), 0x105),
        ("SETTINGS on a request stream", framed(4, &[]), 0x105),
        ("GOAWAY on a request stream", framed(7, &[0]), 0x105),
        (
            "PRIORITY_UPDATE on a request stream",
            framed(0xf_0700, b"\0u=1"),
            0x105,
        ),
        (
            "PRIORITY_UPDATE of a push after the head",
            [get(), framed(0xf_0701, b"\0u=1")].concat(),
            0x105,
        ),
        ("PRIORITY of HTTP/2", framed(2, &[0; 5]), 0x105),
        (
            "PING of HTTP/2",
            [get(), framed(6, &[0; 8])].concat(),
            0x105,
        ),
        (
            "a push of a client",
            [get(), framed(5, &[0, 0, 0])].concat(),
            0x105,
        ),
        (
            "HEADERS after trailers",
            [get(), framed(1, &[0, 0]), framed(1, &[0, 0])].concat(),
            0x105,
        ),
        (
            "DATA after trailers",
            [get(), framed(1, &[0, 0]), framed(0, b"x")].concat(),
            0x105,
        ),
        (
            "an end within a frame",
            [get(), framed(0, b"xyz")[..3].to_vec()].concat(),
            0x106,
        ),
        (
            "an end within a frame's head",
            [get(), vec![0x40]].concat(),
            0x106,
        ),
        ("a dynamic reference", framed(1, &[0, 0, 0x80]), 0x200),
        (
            "a required insert count",
            framed(1, &[3, 0x81, 0x10]),
            0x200,
        ),
        (
            "no entry of the static table",
            framed(1, &[0, 0, 0xff, 0x24]),
            0x200,
        ),
        (
            "a Huffman code that is none",
            framed(1, &[0, 0, 0x50, 0x84, 0xff, 0xff, 0xff, 0xff]),
            0x200,
        ),
        ("an empty section", framed(1, &[]), 0x200),
    ];
    for (name, bytes, code) in cases {
        eprintln!("case: {name}");
        bounded(async {
            let server = Server::start(patient).await;
            let wire = Wire::dial(server.address).await;
            let _exchange = wire.request(&bytes, true).await;
            assert_eq!(wire.closed().await, code, "{name}");
        })
        .await;
    }
}

/// Reads everything before it answers.
async fn patient(offered: Offered) {
    let (_, mut incoming, responder) = offered.message();
    if Content::receive(&mut incoming).await.is_ok() {
        let _ = responder
            .answer(crate::content::response(200, None), bytes::Bytes::new())
            .await;
    }
}

#[tokio::test]
async fn a_malformed_request_is_reset_and_the_connection_goes_on() {
    let p = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a"),
        (":path", "/"),
    ];
    let cases: Vec<(&str, Vec<u8>, u64)> = vec![
        ("a name in upper case", get(&[("X", "")]), 0x10e),
        ("a line break in a value", get(&[("x", "a\r\nb: c")]), 0x10e),
        ("a NUL in a value", get(&[("x", "a\0")]), 0x10e),
        (
            "a field of HTTP/1.1",
            get(&[("connection", "close")]),
            0x10e,
        ),
        (
            "transfer-encoding",
            get(&[("transfer-encoding", "chunked")]),
            0x10e,
        ),
        (
            "a pseudo-field twice",
            headers(&[&p[..], &p[..1]].concat()),
            0x10e,
        ),
        (
            "a pseudo-field after a field",
            headers(&[&p[1..], &[("x", "")], &p[..1]].concat()),
            0x10e,
        ),
        ("no method", headers(&p[1..]), 0x10e),
        ("no path", headers(&p[..3]), 0x10e),
        (":status in a request", get(&[(":status", "200")]), 0x10e),
        (
            "CONNECT with a path",
            headers(&[
                (":method", "CONNECT"),
                (":authority", "a:1"),
                (":path", "/"),
            ]),
            0x10e,
        ),
        (
            "CONNECT without a port",
            headers(&[(":method", "CONNECT"), (":authority", "a")]),
            0x10e,
        ),
        (
            ":protocol without CONNECT",
            get(&[(":protocol", "x")]),
            0x10e,
        ),
        (
            "two lengths",
            get(&[("content-length", "1"), ("content-length", "1")]),
            0x10e,
        ),
        (
            "more content than announced",
            [get(&[("content-length", "1")]), framed(0, b"xy")].concat(),
            0x10e,
        ),
        (
            "less content than announced",
            [get(&[("content-length", "3")]), framed(0, b"xy")].concat(),
            0x10e,
        ),
        (
            "a pseudo-field in trailers",
            [get(&[]), framed(0, b"x"), headers(&p[..1])].concat(),
            0x10e,
        ),
        ("no head at all", framed(0x21, b"x"), 0x10d),
    ];
    bounded(async {
        let server = Server::start(patient).await;
        let wire = Wire::dial(server.address).await;
        for (name, bytes, code) in cases {
            eprintln!("case: {name}");
            assert_eq!(
                wire.request(&bytes, true).await.code().await,
                code,
                "{name}"
            );
        }
        assert_eq!(wire.request(&get(&[]), true).await.status().await, 200);
    })
    .await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_told_so() {
    bounded(async {
        let server = Server::start(hello).await;
        let wire = Wire::dial(server.address).await;
        let many: Vec<_> = (0..200).map(|_| ("x", "y")).collect();
        assert_eq!(wire.request(&get(&many), true).await.status().await, 431);
        let long = "z".repeat(100_000);
        assert_eq!(
            wire.request(&get(&[("x", &long)]), true)
                .await
                .status()
                .await,
            431
        );
        // Few bytes that stand for many: the longest entry of the static table, 8000 times.
        let bomb = [&[0, 0][..], &[0xff, 0x16].repeat(8000)].concat();
        assert_eq!(
            wire.request(&framed(1, &bomb), true).await.status().await,
            431
        );
        assert_eq!(wire.request(&get(&[]), true).await.status().await, 200);
    })
    .await;
}

#[tokio::test]
async fn a_tunnel_takes_nothing_but_data() {
    bounded(async {
        let server = Server::start(async |offered: Offered| {
            let (mut incoming, _outgoing) = offered.accept(Fields::new()).await.unwrap();
            Content::expect(&mut incoming, "ab").await;
            let error = incoming.frame().await.unwrap().unwrap_err();
            assert!(matches!(error.cause, Cause::Protocol(_)), "{error}");
        })
        .await;
        let wire = Wire::dial(server.address).await;
        let connect = headers(&[(":method", "CONNECT"), (":authority", "a:1")]);
        let mut exchange = wire
            .request(
                &[
                    connect,
                    framed(0, b"a"),
                    framed(0x21, b"?"),
                    framed(0, b"b"),
                ]
                .concat(),
                false,
            )
            .await;
        assert_eq!(exchange.status().await, 200);
        super::wire::send(&mut exchange.send, &framed(1, &[0, 0])).await;
        assert_eq!(wire.closed().await, 0x105);
    })
    .await;
}
