//! Sources of UDP that send one datagram and are never heard of again, as forged ones do; and questions from a new port each time.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use hermes_tests::eventually::eventually_true;
use hermes_tests::{Node, free, origins, udp};

/// Sessions that the listener takes.
const SESSIONS: usize = 200;

/// Sources that each send one datagram.
const SOURCES: usize = 2_000;

/// A service that answers nothing but `hello`; where it is.
fn reserved() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut room = [0; 2000];
        loop {
            // Someone's port was closed before the answer came.
            let Ok((length, from)) = socket.recv_from(&mut room) else {
                continue;
            };
            if room[..length].starts_with(b"hello") {
                drop(socket.send_to(&room[..length], from));
            }
        }
    });
    address
}

/// Each from a port of its own.
fn flood(to: SocketAddr) {
    for _ in 0..SOURCES {
        udp::Client::connect(to).send(b"flood");
    }
}

#[test]
fn sources_of_one_datagram_fill_no_listener_and_end_no_conversation() {
    let target = reserved();
    let node = Node::start(
        "entry",
        &format!(
            r#"
            workers: 1
            listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "{target}", limits: {{ connections: {SESSIONS} }} }} }}
            routes: [ {{ terminate: true, timeouts: {{ udp_unanswered: 1h }} }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#
        ),
    );
    let call = udp::Client::connect(node.address("voice"));
    for number in 0..3 {
        assert_eq!(
            call.ask(format!("hello {number}")),
            format!("hello {number}").as_bytes()
        );
    }
    let before = node.exchanges()[0]["id"].clone();
    flood(node.address("voice"));
    let new = udp::Client::connect(node.address("voice"));
    assert_eq!(
        new.ask(b"hello there"),
        b"hello there",
        "a newcomer has room"
    );
    assert_eq!(call.ask(b"hello again"), b"hello again");
    let open = node.exchanges();
    assert!(open.len() <= SESSIONS / 2 + 3, "{} sessions", open.len());
    assert!(
        open.iter().any(|one| one["id"] == before),
        "the conversation is the same session"
    );
    let log = node.log();
    let told: Vec<_> = log
        .lines()
        .filter(|line| line.contains("made room"))
        .collect();
    assert!(
        told.len() == 1 && told[0].contains("limits.connections is 200"),
        "{log}"
    );
    let record = node.record(|record| {
        record["reason"]
            .as_str()
            .is_some_and(|reason| reason.starts_with("evicted"))
    });
    assert_eq!(record["datagrams"]["target_to_client"], 0, "{record}");
}

/// Datagrams of one client that make its session a conversation, though its target has said nothing.
const STREAM: usize = 18;

#[test]
fn sources_that_stream_to_a_mute_target_keep_no_newcomer_out() {
    let target = reserved();
    let node = Node::start(
        "entry",
        &format!(
            r#"
            workers: 1
            listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "{target}", limits: {{ connections: {SESSIONS} }} }} }}
            routes: [ {{ terminate: true }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#
        ),
    );
    let call = udp::Client::connect(node.address("voice"));
    assert_eq!(call.ask(b"hello"), b"hello");
    assert_eq!(call.ask(b"hello again"), b"hello again");

    // A few at a time, so that none of the datagrams that make a stream is lost.
    eventually_true("the listener is full", || {
        for _ in 0..SESSIONS / 10 {
            let forged = udp::Client::connect(node.address("voice"));
            (0..STREAM).for_each(|_| forged.send(b"stream"));
        }
        node.log().contains("no room for a further UDP session")
    });

    let new = UdpSocket::bind("127.0.0.1:0").unwrap();
    new.connect(node.address("voice")).unwrap();
    new.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    eventually_true("a newcomer has room", || {
        new.send(b"hello there").unwrap();
        new.recv(&mut [0; 100]).is_ok()
    });
    assert_eq!(call.ask(b"hello still"), b"hello still");
}

#[test]
fn an_unanswered_session_ends_long_before_a_conversation() {
    let target = reserved();
    let node = Node::start(
        "entry",
        &format!(
            r#"
            workers: 1
            listeners: {{ voice: {{ udp: 127.0.0.1:0, target: "{target}" }} }}
            routes: [ {{ terminate: true, timeouts: {{ udp_unanswered: 200ms, udp_answered: 200ms }} }} ]
            egress: {{ allow: [127.0.0.0/8] }}
            "#
        ),
    );
    let call = udp::Client::connect(node.address("voice"));
    for _ in 0..2 {
        assert_eq!(call.ask(b"hello"), b"hello");
    }
    let question = udp::Client::connect(node.address("voice"));
    assert_eq!(question.ask(b"hello"), b"hello");
    flood(node.address("voice"));
    eventually_true("only the conversation is left", || {
        node.exchanges().len() == 1
    });
    assert_eq!(
        question.ask(b"hello again"),
        b"hello again",
        "its client may begin another"
    );
    assert_eq!(call.ask(b"hello again"), b"hello again");
}

#[test]
fn a_user_who_asks_from_ever_new_ports_ends_only_questions() {
    let (dns, video) = (
        origins::udp_echo(origins::V4),
        origins::udp_echo(origins::V4),
    );
    let end = Node::start(
        "end",
        r#"
        workers: 1
        listeners: { web: { http: 127.0.0.1:0, insecure_trust: [127.0.0.0/8], limits: { sessions_per_user: 20 } } }
        routes: [ { terminate: true } ]
        egress: { allow: [127.0.0.0/8] }
        "#,
    );
    let listen = free::udp();
    let entry = Node::start(
        "entry",
        &format!(
            r#"
            workers: 1
            identity: {{ user: alice }}
            listeners:
              dns: {{ udp: "{listen}", target: "{}" }}
              video: {{ udp: 127.0.0.1:0, target: "{}" }}
            routes: [ {{ to: end, timeouts: {{ udp_unanswered: 1h, udp_answered: 1h }} }} ]
            upstreams: {{ end: {{ endpoints: ["{}"], http: 2 }} }}
            "#,
            dns.address(),
            video.address(),
            end.address("web")
        ),
    );
    let call = udp::Client::connect(entry.address("video"));
    let mut asked = Vec::new();
    for number in 0..200 {
        let question = format!("question {number}");
        let client = udp::Client::connect(listen);
        client.send(&question);
        assert_eq!(client.receive(), question.as_bytes(), "none is lost");
        asked.push(client);
        if number % 20 == 0 {
            assert_eq!(call.ask(&question), question.as_bytes());
        }
    }
    let mut sockets: Vec<_> = video.seen().into_iter().map(|(from, _)| from).collect();
    sockets.dedup();
    assert_eq!(sockets.len(), 1, "the call was never opened again");
    assert!(
        end.exchanges().len() <= 20 + 2,
        "{} sessions",
        end.exchanges().len()
    );
    assert!(
        end.log().contains("limits.sessions_per_user is 20"),
        "{}",
        end.log()
    );
    // The entry let go of what the end did not want any more.
    eventually_true("the entry has no more than the end", || {
        entry.exchanges().len() <= 20 + 2
    });
    drop(asked);
}
