//! Connections to the metrics, and to the admin socket, that ask for nothing: Prometheus and the administrator are answered beside them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

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
