//! Floods, frame by frame: the connection that sends one is ended with the right error, and no one else notices.

use hermes_tests::capsules::UdpTunnel;
use hermes_tests::eventually::eventually_true;
use hermes_tests::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, HELLO, PING,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, farewell, field, frame, request,
};
use hermes_tests::h2c::Client;
use hermes_tests::raw::{End, Raw};
use hermes_tests::udp;
use hermes_tests::{Node, curl, origins};

/// A node for strangers: 50 streams at once, so that 100 resets are allowed.
fn node() -> Node {
    Node::start(
        "edge",
        r#"
        workers: 1
        listeners: { web: { http: 127.0.0.1:0, limits: { streams: 50 } } }
        routes: [ { match: { path: /here }, respond: { status: 200 } }, { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    )
}

/// Sends these bytes after the preface; the error that the connection ends with.
fn flood(node: &Node, frames: &[u8]) -> Option<u32> {
    let mut raw = Raw::connect(node.address("web"));
    raw.send(HELLO);
    raw.send_if_open(frames);
    let (answer, _) = raw.rest();
    let others = curl(&["-x", &node.url("web"), "http://a/here"]);
    assert_eq!(others.status, 200, "others are served: {others:?}");
    farewell(&answer)
}

/// Stream identifiers of a client's requests.
fn streams(count: u32) -> impl Iterator<Item = u32> {
    (0..count).map(|number| 2 * number + 1)
}

#[test]
fn rapid_reset_is_answered_with_calm() {
    let (node, origin) = (node(), origins::http());
    // CVE-2023-44487: each request reaches the origin, and is taken back.
    let head = request("GET", &origin.address().to_string(), "/hang");
    let frames: Vec<u8> = streams(2_000)
        .flat_map(|stream| {
            [
                frame(HEADERS, END_HEADERS | END_STREAM, stream, &head),
                frame(RST_STREAM, 0, stream, &[0, 0, 0, 8]),
            ]
        })
        .flatten()
        .collect();
    assert_eq!(flood(&node, &frames), Some(ENHANCE_YOUR_CALM));
    node.idle();
    assert!(
        origin.seen().len() < 300,
        "{} requests got through",
        origin.seen().len()
    );
}

#[test]
fn resets_that_the_client_made_us_send_are_counted_too() {
    let (node, origin) = (node(), origins::http());
    // CVE-2025-8671: a window above 2^31-1 is a stream error (RFC 9113, 6.9.1), which we answer with RST_STREAM.
    let head = request("GET", &origin.address().to_string(), "/hang");
    let frames: Vec<u8> = streams(2_000)
        .flat_map(|stream| {
            [
                frame(HEADERS, END_HEADERS | END_STREAM, stream, &head),
                frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff]),
            ]
        })
        .flatten()
        .collect();
    assert_eq!(flood(&node, &frames), Some(ENHANCE_YOUR_CALM));
    node.idle();
}

#[test]
fn a_head_without_end_is_answered_with_calm() {
    let node = node();
    let piece = field(b"x-padding", &[b'a'; 100]).repeat(100);
    let mut frames = frame(HEADERS, 0, 1, &request("GET", "a", "/here"));
    for _ in 0..1_000 {
        frames.extend(frame(CONTINUATION, 0, 1, &piece));
    }
    let error = flood(&node, &frames);
    assert!(error.is_some_and(|error| error != 0), "{error:?}");
    let mut empty = frame(HEADERS, 0, 1, &request("GET", "a", "/here"));
    empty.extend(frame(CONTINUATION, 0, 1, b"").repeat(1_000));
    assert_eq!(flood(&node, &empty), Some(ENHANCE_YOUR_CALM));
}

#[test]
fn control_frames_without_end_are_answered_with_calm() {
    let node = node();
    // Without a stream, the first GOAWAY would be the end.
    let hang = origins::http();
    let open = frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        1,
        &request("GET", &hang.address().to_string(), "/hang"),
    );
    let floods = [
        ("SETTINGS", frame(SETTINGS, 0, 0, b"")),
        ("PING", frame(PING, 0, 0, &[0; 8])),
        ("PRIORITY", frame(0x2, 0, 1, &[0, 0, 0, 0, 1])),
        ("an unknown type", frame(0x77, 0, 0, b"")),
        ("an answer to no SETTINGS", frame(SETTINGS, 1, 0, b"")),
        ("an answer to no PING", frame(PING, 1, 0, &[0; 8])),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 8])),
    ];
    for (kind, one) in floods {
        assert_eq!(
            flood(&node, &[&open[..], &one.repeat(1_000)].concat()),
            Some(ENHANCE_YOUR_CALM),
            "{kind}"
        );
    }
}

#[test]
fn empty_data_frames_end_a_connection_in_an_orderly_way_first() {
    let (node, origin) = (node(), origins::http());
    let mut frames = frame(
        HEADERS,
        END_HEADERS,
        1,
        &request("POST", &origin.address().to_string(), "/post"),
    );
    frames.extend(frame(DATA, 0, 1, b"").repeat(80));
    frames.extend(frame(DATA, END_STREAM, 1, b"body"));
    let mut raw = Raw::connect(node.address("web"));
    raw.send(HELLO);
    raw.send(&frames);
    // The request that is under way is answered; then the connection ends without an error.
    let (answer, end) = raw.rest();
    assert_eq!((farewell(&answer), end), (Some(0), End::Closed));
    assert_eq!(
        node.record(|record| record["method"] == "POST")["status"],
        200
    );
    let mut frames = frame(
        HEADERS,
        END_HEADERS,
        1,
        &request("POST", &origin.address().to_string(), "/post"),
    );
    frames.extend(frame(DATA, 0, 1, b"").repeat(1_000));
    assert_eq!(flood(&node, &frames), Some(ENHANCE_YOUR_CALM));
    node.idle();
}

#[test]
fn one_source_does_not_use_up_a_listener() {
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0, limits: { per_source: 3 } } }
        routes: [ { respond: { status: 200 } } ]
        "#,
    );
    let ask = |raw: &mut Raw| {
        raw.send("GET http://a/here HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(raw.head().status(), 200);
    };
    // The bound is for all workers together.
    let mut held: Vec<_> = (0..3).map(|_| Raw::connect(node.address("web"))).collect();
    held.iter_mut().for_each(ask);
    assert_eq!(
        Raw::connect(node.address("web")).rest(),
        (Vec::new(), End::Reset)
    );
    let other = curl(&[
        "--interface",
        "127.0.0.2",
        "-x",
        &node.url("web"),
        "http://a/here",
    ]);
    assert_eq!(other.status, 200, "another source is served: {other:?}");
    held.clear();
    eventually_true("there is room again", || {
        curl(&["-x", &node.url("web"), "http://a/here"]).status == 200
    });
}

#[test]
fn one_source_has_so_many_udp_sessions() {
    let origin = origins::udp_echo(origins::V4);
    let node = Node::start(
        "edge",
        &format!(
            r#"
            listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "{}", limits: {{ per_source: 2 }} }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#,
            origin.address()
        ),
    );
    let clients: Vec<_> = (0..2)
        .map(|_| udp::Client::connect(node.address("voice")))
        .collect();
    for client in &clients {
        assert_eq!(client.ask(b"hello"), b"hello");
    }
    let above = udp::Client::connect(node.address("voice"));
    above.send(b"not heard");
    eventually_true("the datagram is counted as dropped", || {
        node.metrics()
            .lines()
            .any(|line| line.contains("session_limit") && !line.ends_with(" 0"))
    });
    assert_eq!(node.exchanges().len(), 2);
}

#[test]
fn one_user_has_so_many_exchanges_at_once() {
    let origin = origins::tcp_echo();
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0, accepts: [user], limits: { per_user: 2 } } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let open = |user: &str| {
        Raw::tunnel(
            node.address("web"),
            &origin.address().to_string(),
            &format!("user: {user}\r\n"),
        )
    };
    let mut held = vec![open("alice").unwrap(), open("alice").unwrap()];
    assert_eq!(open("alice").unwrap_err().status(), 429);
    held.push(open("bob").unwrap());
    for tunnel in &mut held {
        tunnel.send("still here");
        assert_eq!(tunnel.exactly(10), b"still here");
    }
    drop(held);
    eventually_true("there is room again", || open("alice").is_ok());
}

#[test]
fn some_users_have_bounds_of_their_own() {
    let origin = origins::tcp_echo();
    let node = Node::start(
        "edge",
        r#"
        groups: { gold: [alice, "*@gold.example"] }
        listeners:
          web:
            http: 127.0.0.1:0
            accepts: [user]
            limits:
              per_user: 1
              users: [ { user: group:gold, per_user: 3 }, { user: [alice, eve], per_user: 100, sessions_per_user: 1 } ]
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let open = |user: &str| {
        Raw::tunnel(
            node.address("web"),
            &origin.address().to_string(),
            &format!("user: {user}\r\n"),
        )
    };

    for (user, most) in [("bob", 1), ("alice", 3), ("carol@gold.example", 3)] {
        let held: Vec<_> = (0..most).map(|_| open(user).unwrap()).collect();
        assert_eq!(open(user).unwrap_err().status(), 429, "{user}");
        drop(held);
    }
    let held: Vec<_> = (0..10).map(|_| open("eve").unwrap()).collect();
    assert_eq!(held.len(), 10);
}

#[test]
fn one_user_has_so_many_sessions_at_once() {
    let (origin, echo) = (origins::udp_echo(origins::V4), origins::tcp_echo());
    let node = Node::start(
        "edge",
        r#"
        listeners: { web: { http: 127.0.0.1:0, accepts: [user], limits: { sessions_per_user: 2 } } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let client = Client::connect(node.address("web"));
    let open = |user: &str| {
        UdpTunnel::h2(
            &client,
            node.address("web"),
            "127.0.0.1",
            origin.port(),
            &[("user", user)],
        )
    };
    // A question would make room: these go on speaking.
    let converse = |mut tunnel: UdpTunnel| {
        for word in ["one", "two"] {
            tunnel.send(word);
            assert_eq!(tunnel.receive(), word.as_bytes());
        }
        tunnel
    };
    let mut held = vec![
        converse(open("alice").unwrap()),
        converse(open("alice").unwrap()),
    ];
    let refused = open("alice").unwrap_err();
    assert_eq!(refused.status, 429);
    let status = refused
        .fields
        .get("proxy-status")
        .unwrap()
        .to_str()
        .unwrap();
    assert!(
        status.contains("error=http_request_denied")
            && status.contains("limits.sessions_per_user is 2"),
        "{status}"
    );
    assert!(open("alice").is_err());
    assert_eq!(
        node.log().matches("WARN").count(),
        1,
        "said once, however many are refused: {}",
        node.log()
    );
    held.push(open("bob").unwrap());
    for tunnel in &mut held {
        tunnel.send("still here");
        assert_eq!(tunnel.receive(), b"still here");
    }
    Raw::tunnel(
        node.address("web"),
        &echo.address().to_string(),
        "user: alice\r\n",
    )
    .expect("other tunnels are no sessions");
    drop(held);
    eventually_true("there is room again", || open("alice").is_ok());
}

#[test]
fn pipelined_requests_wait_for_the_one_before() {
    let (node, origin) = (node(), origins::http());
    let authority = origin.address();
    let mut raw = Raw::connect(node.address("web"));
    let request =
        |path: &str| format!("GET http://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    raw.send(request("/hang") + &request("/next").repeat(1_000));
    eventually_true("the first is under way", || !origin.seen().is_empty());
    let others = curl(&["-x", &node.url("web"), &format!("http://{authority}/other")]);
    assert_eq!(others.status, 200);
    let seen: Vec<String> = origin
        .seen()
        .into_iter()
        .map(|request| request.path)
        .collect();
    assert_eq!(
        seen,
        ["/hang", "/other"],
        "nothing that was pipelined has gone on"
    );
    origin.release();
    for _ in 0..1_001 {
        assert_eq!(raw.response().0.status(), 200);
    }
}
