//! Connections to the metrics, and to the admin socket, that ask for nothing: Prometheus and the administrator are answered beside them.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use hermes_tests::{Node, free};

/// Connections that ask for nothing: with 64 places of 10 s each, those who wait behind them would wait for a minute, and as long if
/// each gave way by itself after a fifth of a second.
const IDLE: usize = 400;

/// How long the bystander waits for each answer.
const PATIENCE: Duration = Duration::from_secs(15);

fn node(metrics: SocketAddr) -> Node {
    Node::start(
        "edge",
        &format!(
            r#"
            admin: {{ socket: admin.sock, metrics: "{metrics}" }}
            listeners: {{ web: {{ http: 127.0.0.1:0 }} }}
            routes: [ {{ respond: {{ status: 200 }} }} ]
            "#
        ),
    )
}

/// What stands at the beginning of the answer to a request for the metrics.
fn asked(mut stream: impl Read + Write) -> String {
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn idle_connections_do_not_keep_prometheus_out() {
    let metrics = free::tcp();
    let node = node(metrics);
    let mut idle: Vec<TcpStream> = Vec::new();
    for number in 0..IDLE {
        let mut stream = TcpStream::connect(metrics).unwrap();
        // Some begin, and say no more.
        if number % 2 == 0 {
            drop(stream.write_all(b"GET /metrics HTTP/1.1\r\n"));
        }
        idle.push(stream);
    }

    let bystander = TcpStream::connect(metrics).unwrap();
    bystander.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(asked(bystander), "HTTP/1.1 200");
    drop(node);
}

#[test]
fn idle_connections_do_not_keep_the_administrator_out() {
    let node = node(free::tcp());
    let socket = node.socket();
    let idle: Vec<_> = (0..IDLE)
        .map(|_| UnixStream::connect(&socket).unwrap())
        .collect();

    let bystander = UnixStream::connect(&socket).unwrap();
    bystander.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(asked(bystander), "HTTP/1.1 200");
    drop(idle);
}

/// Threads that connect, the pause of each, and connections that it keeps open: a thousand in a second to either, each for two.
const FLOOD: usize = 4;
const PAUSE: Duration = Duration::from_millis(2);
const KEPT: usize = 1000;

/// Answers that the bystander gets within a flood, and the time for all of them: were each of the flood heard for a fifth of a second,
/// it would be over a minute.
const ANSWERS: usize = 20;
const ALL: Duration = Duration::from_secs(30);

/// Tries for each: a client of the same source as the flood that does not ask at once may have to give way with it.
const TRIES: usize = 4;

/// Connects until no one holds the other end of `is_over`.
fn flood(is_over: &Receiver<()>, connect: impl Fn() -> io::Result<OwnedFd>) {
    let mut kept = VecDeque::new();
    while is_over.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        kept.extend(connect());
        kept.drain(..kept.len().saturating_sub(KEPT));
    }
}

#[test]
fn a_flood_of_connections_does_not_keep_prometheus_or_the_administrator_out() {
    let metrics = free::tcp();
    let node = node(metrics);
    let socket = node.socket();
    let began = Instant::now();
    let answers = thread::scope(|scope| {
        let mut running = Vec::new();
        for _ in 0..FLOOD / 2 {
            let (over, is_over) = mpsc::channel();
            running.push(over);
            scope.spawn(move || {
                flood(&is_over, || {
                    TcpStream::connect_timeout(&metrics, PATIENCE).map(OwnedFd::from)
                });
            });
            let (over, is_over) = mpsc::channel();
            running.push(over);
            let socket = &socket;
            scope.spawn(move || {
                flood(&is_over, || UnixStream::connect(socket).map(OwnedFd::from));
            });
        }

        let mut answers = Vec::new();
        while answers.len() < ANSWERS && began.elapsed() < ALL {
            let mut tries = (0..TRIES).map(|_| bystander(metrics, &socket));
            answers.push(tries.find_map(|answer| answer));
        }
        drop(running);
        answers
    });
    let good = answers.iter().filter(|answer| answer.is_some()).count();
    assert_eq!(good, ANSWERS, "{answers:?}");
}

/// What the bystander is told over both: `None` if not in time.
fn bystander(metrics: SocketAddr, socket: &std::path::Path) -> Option<()> {
    let tcp = TcpStream::connect_timeout(&metrics, PATIENCE).ok()?;
    tcp.set_read_timeout(Some(PATIENCE)).ok()?;
    let unix = UnixStream::connect(socket).ok()?;
    unix.set_read_timeout(Some(PATIENCE)).ok()?;
    let is_good = try_ask(tcp)? == "HTTP/1.1 200" && try_ask(unix)? == "HTTP/1.1 200";
    is_good.then_some(())
}

fn try_ask(mut stream: impl Read + Write) -> Option<String> {
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).ok()?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}
