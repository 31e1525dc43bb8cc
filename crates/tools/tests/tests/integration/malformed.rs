//! Malformed input of every kind ends its own stream or connection with the right error, and nothing else: others go on all the
//! while.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use hermes_tests::capsules::{DATAGRAM, UdpTunnel, varint};
use hermes_tests::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, HELLO, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, farewell, field, frame, parse, request,
};
use hermes_tests::h2c::Client;
use hermes_tests::raw::{End, Raw};
use hermes_tests::{Node, origins};

/// Good exchanges that must succeed while the rest comes.
const GOOD: usize = 100;

/// Error codes (RFC 9113, 7).
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;

fn node() -> Node {
    Node::start(
        "edge",
        r#"
        workers: 1
        listeners: { web: { http: 127.0.0.1:0 } }
        routes: [ { match: { path: /here }, respond: { status: 200 } }, { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    )
}

/// Malformed requests of HTTP/1.1, and their answers.
fn requests() -> Vec<(Vec<u8>, u16)> {
    let text = |text: &str, status| (text.as_bytes().to_vec(), status);
    vec![
        text("GET http://a/here HTTP/1.1\nHost: a\n\n", 400),
        text("GET http://a/here HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        text(
            "GET http://a/here HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            400,
        ),
        text(
            "GET http://a/here HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
            400,
        ),
        text(
            "GET http://a/here HTTP/1.1\r\nHost: a\r\nx: \0\r\n\r\n",
            400,
        ),
        text(
            "POST http://a/here HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        text(
            "POST http://a/here HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            400,
        ),
        text(
            "POST http://a/here HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello",
            400,
        ),
        text(
            "POST http://a/here HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
            501,
        ),
        text("CONNECT a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        text("CONNECT a:0 HTTP/1.1\r\nHost: a:0\r\n\r\n", 400),
        text("G E T http://a/here HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        text(
            &format!(
                "GET http://a/here HTTP/1.1\r\nHost: a\r\n{}\r\n",
                "x: y\r\n".repeat(200)
            ),
            431,
        ),
        text(
            &format!(
                "GET http://a/here HTTP/1.1\r\nHost: a\r\nx: {}\r\n\r\n",
                "y".repeat(70_000)
            ),
            431,
        ),
        // A TLS client that found a port without TLS.
        (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(),
            400,
        ),
    ]
}

/// Frames that end a connection, and with which error.
fn connection_errors() -> Vec<(Vec<u8>, u32)> {
    let head = request("GET", "a", "/here");
    vec![
        (frame(DATA, 0, 0, b"x"), PROTOCOL_ERROR),
        (
            frame(HEADERS, END_HEADERS | END_STREAM, 2, &head),
            PROTOCOL_ERROR,
        ),
        (frame(WINDOW_UPDATE, 0, 0, &[0; 4]), PROTOCOL_ERROR),
        (
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(2),
            FLOW_CONTROL_ERROR,
        ),
        (frame(CONTINUATION, END_HEADERS, 1, &head), PROTOCOL_ERROR),
        (
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &[0x80]),
            COMPRESSION_ERROR,
        ),
        (frame(SETTINGS, 0, 0, b"12345"), FRAME_SIZE_ERROR),
        (frame(PING, 0, 0, b"1234567"), FRAME_SIZE_ERROR),
        (frame(RST_STREAM, 0, 1, b"123"), FRAME_SIZE_ERROR),
        (frame(RST_STREAM, 0, 9, &[0, 0, 0, 8]), PROTOCOL_ERROR),
        (frame(DATA, 0, 1, &[0; 20_000]), FRAME_SIZE_ERROR),
        (
            frame(0x5, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]),
            PROTOCOL_ERROR,
        ),
    ]
}

/// Frames of stream 3 that end it, and with which error. A head that breaks a rule of HTTP may be answered with 400 instead.
fn stream_errors() -> Vec<(Vec<u8>, u32)> {
    let head = |more: &[u8]| [&request("POST", "a", "/here"), more].concat();
    let whole = |fields: &[u8]| frame(HEADERS, END_HEADERS | END_STREAM, 3, fields);
    let begun =
        |fields: &[u8], more: Vec<u8>| [frame(HEADERS, END_HEADERS, 3, fields), more].concat();
    vec![
        (
            whole(&head(&field(b"connection", b"close"))),
            PROTOCOL_ERROR,
        ),
        (whole(&head(&field(b":path", b"/again"))), PROTOCOL_ERROR),
        (whole(&head(&field(b"Upper", b"x"))), PROTOCOL_ERROR),
        (whole(&head(&field(b"x", b"a\r\nb: c"))), PROTOCOL_ERROR),
        (whole(&field(b":method", b"GET")), PROTOCOL_ERROR),
        (
            begun(
                &head(&field(b"content-length", b"1")),
                frame(DATA, END_STREAM, 3, b"too long"),
            ),
            PROTOCOL_ERROR,
        ),
        (
            begun(
                &head(b""),
                frame(WINDOW_UPDATE, 0, 3, &[0x7f, 0xff, 0xff, 0xff]),
            ),
            FLOW_CONTROL_ERROR,
        ),
        (
            begun(&head(b""), frame(WINDOW_UPDATE, 0, 3, &[0; 4])),
            PROTOCOL_ERROR,
        ),
    ]
}

/// What is no capsule, or no datagram.
fn capsules() -> Vec<Vec<u8>> {
    vec![
        [varint(DATAGRAM), varint((1 << 62) - 1), vec![0; 100]].concat(),
        [varint(DATAGRAM), varint(0)].concat(),
        [varint(DATAGRAM), varint(1), vec![0x40]].concat(),
        [varint(1), varint(1 << 40)].concat(),
    ]
}

fn throw_requests(address: SocketAddr) {
    for (bytes, status) in requests() {
        let mut raw = Raw::connect(address);
        raw.send_if_open(&bytes);
        let said = String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned();
        let (head, _) = raw.response();
        assert_eq!(
            (head.status(), head.field("connection").as_deref()),
            (status, Some("close")),
            "{said:?}: {head:?}"
        );
    }
}

fn throw_frames(address: SocketAddr) {
    for (bytes, error) in connection_errors() {
        let mut raw = Raw::connect(address);
        raw.send(HELLO);
        raw.send_if_open(&bytes);
        let (answer, _) = raw.rest();
        assert_eq!(
            farewell(&answer),
            Some(error),
            "{:?}",
            &bytes[..bytes.len().min(40)]
        );
    }
}

/// On a connection whose other streams go on.
fn throw_streams(address: SocketAddr) {
    let good = |stream| {
        frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &request("GET", "a", "/here"),
        )
    };
    for (bytes, error) in stream_errors() {
        let mut raw = Raw::connect(address);
        raw.send(HELLO);
        raw.send([good(1), bytes.clone(), good(5)].concat());
        let answered = |heard: &[u8], wanted: u32| {
            parse(heard).iter().any(|(kind, _, stream, fields)| {
                *kind == HEADERS && *stream == wanted && fields.first() == Some(&0x88)
            })
        };
        let ended = |heard: &[u8]| {
            parse(heard)
                .iter()
                .find_map(|(kind, _, stream, payload)| match (*kind, *stream) {
                    (RST_STREAM, 3) => Some(u32::from_be_bytes(payload[..4].try_into().unwrap())),
                    // `:status: 400` (RFC 7541, appendix A).
                    (HEADERS, 3) if payload.first() == Some(&0x8c) => Some(PROTOCOL_ERROR),
                    _ => None,
                })
        };
        let heard =
            raw.until(|heard| answered(heard, 1) && answered(heard, 5) && ended(heard).is_some());
        assert_eq!(
            ended(&heard),
            Some(error),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
        assert!(answered(&heard, 1) && answered(&heard, 5));
        assert_eq!(farewell(&heard), None, "the connection goes on");
    }
}

fn throw_capsules(address: SocketAddr, client: &Client, port: u16) {
    for bytes in capsules() {
        let tunnels = [
            UdpTunnel::h1(address, "127.0.0.1", port, "").unwrap(),
            UdpTunnel::h2(client, address, "127.0.0.1", port, &[]).unwrap(),
        ];
        for mut tunnel in tunnels {
            tunnel.send_bytes(&bytes);
            assert_eq!(tunnel.rest(), None, "{bytes:?}");
        }
    }
}

#[test]
fn malformed_input_harms_no_one_else() {
    let (node, http, tcp, udp) = (
        node(),
        origins::http(),
        origins::tcp_echo(),
        origins::udp_echo(origins::V4),
    );
    let (address, authority) = (node.address("web"), tcp.address().to_string());
    let client = Client::connect(address);
    let mut stream = client.tunnel(&authority, &[]).unwrap();
    let mut tunnel = Raw::tunnel(address, &authority, "").unwrap();
    let mut session = UdpTunnel::h2(&client, address, "127.0.0.1", udp.port(), &[]).unwrap();
    let mut kept = Raw::connect(address);
    let (origin, good) = (http.address(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..GOOD {
                let request = http::Request::post(format!("http://{origin}/post"))
                    .body(())
                    .unwrap();
                let answer = client.send(request, b"good").unwrap();
                assert_eq!(answer.status, 200, "{answer:?}");
                kept.send(format!(
                    "GET http://{origin}/a HTTP/1.1\r\nHost: {origin}\r\n\r\n"
                ));
                assert_eq!(kept.response().0.status(), 200);
                stream.send("good");
                assert_eq!(stream.exactly(4), b"good");
                tunnel.send("good");
                assert_eq!(tunnel.exactly(4), b"good");
                session.send("good");
                assert_eq!(session.receive(), b"good");
                good.fetch_add(1, Ordering::Relaxed);
            }
        });
        loop {
            throw_requests(address);
            throw_frames(address);
            throw_streams(address);
            throw_capsules(address, &client, udp.port());
            if good.load(Ordering::Relaxed) == GOOD {
                break;
            }
        }
    });
    drop((client, stream, tunnel, session, kept));
    node.idle();
}

#[test]
fn what_a_stranger_says_last_is_read_to_its_end_before_the_answer_is_lost() {
    let node = node();
    let mut raw = Raw::connect(node.address("web"));
    raw.send("GET http://a/here HTTP/1.1\r\nHost : a\r\n\r\n");
    raw.send_if_open(vec![b'x'; 1_000_000]);
    assert_eq!(raw.response().0.status(), 400);
    raw.finish();
    assert_eq!(raw.rest(), (Vec::new(), End::Closed));
}
