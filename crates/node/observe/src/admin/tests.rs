//! The administrator's interface over real sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hermes_config::{Problem, Problems};
use hermes_net::DescriptorTable;
use hermes_net::drain::{Drain, Ended};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::{AccessSink, Begin};

/// A node that remembers the commands it received.
#[derive(Default)]
struct Node {
    broken: bool,
    filter: Mutex<String>,
}

impl Control for Node {
    type Status = Value;
    type Missing = Value;
    type Document = Value;
    type Comparison = Value;
    type Report = Value;
    type Account = Value;
    type RefusalLine = Value;

    fn status(&self) -> Value {
        json!({ "node": "alice" })
    }

    fn readiness(&self) -> Result<(), Value> {
        Ok(())
    }

    fn document(&self) -> Result<Value, AdminRefusal> {
        Ok(json!({ "text": "version: 1\n" }))
    }

    fn compare(&self, text: &str) -> Result<Value, AdminRefusal> {
        match text {
            "version: 1\n" => Ok(json!({ "same": true })),
            _ => Err(mistake(text).into()),
        }
    }

    fn reload(&self, confirm: Option<Duration>) -> Result<Value, AdminRefusal> {
        if self.broken {
            Err(AdminRefusal::NotInForce {
                problems: mistake("no"),
                valid: false,
            })
        } else {
            Ok(json!({ "changed": confirm.map_or(1, |time| time.as_secs()) }))
        }
    }

    fn why(&self, id: &str) -> Option<Value> {
        (id == "bcdfghjklmnp").then(|| json!({ "refused": "no" }))
    }

    fn refusals(&self) -> Vec<Value> {
        Vec::new()
    }

    fn suppose(&self, question: &str) -> Result<Value, AdminRefusal> {
        Err(AdminRefusal::other(question))
    }

    fn ask_plug(&self, name: &str, question: &Value) -> Result<Value, AdminRefusal> {
        match name {
            "cache" => Ok(json!({ "asked": question })),
            _ => Err(AdminRefusal::other(format!("no plug {name}"))),
        }
    }

    fn confirm(&self) -> Result<Confirmation, AdminRefusal> {
        Ok(Confirmation {
            revision: 2,
            confirmed: true,
        })
    }

    fn roll_back(&self) -> Result<Value, AdminRefusal> {
        Err(AdminRefusal::other("there is none"))
    }

    fn log_level(&self, filter: &str) -> Result<(), String> {
        if filter == "loud" {
            return Err("no such level: loud".to_owned());
        }
        filter.clone_into(&mut self.filter.lock());
        Ok(())
    }
}

fn mistake(reason: &str) -> Problems {
    Problems(vec![Problem {
        place: None,
        path: String::new(),
        reason: reason.to_owned(),
        remedy: None,
    }])
}

struct Running {
    _folder: TempDir,
    socket: PathBuf,
    node: Arc<Node>,
    telemetry: Arc<Telemetry>,
    drain: Drain,
}

fn run(node: Node) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("alice.sock");
    let listener = bind(&socket, &DescriptorTable::default()).unwrap();
    let node = Arc::new(node);
    let telemetry = Telemetry::new("alice", AccessSink::off());
    let drain = Drain::new();

    let served = serve_unix(
        listener,
        Arc::clone(&node),
        Arc::clone(&telemetry),
        drain.watch(),
    );

    drain.watch().spawn(async move { served.await.unwrap() });
    Running {
        _folder: folder,
        socket,
        node,
        telemetry,
        drain,
    }
}

async fn ask(socket: &Path, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
    let (status, content) = call(socket, method, path, Bytes::from(body.to_owned()))
        .await
        .unwrap();
    let value = serde_json::from_slice(&content);
    (
        status,
        value.unwrap_or_else(|_| String::from_utf8_lossy(&content).into_owned().into()),
    )
}

#[tokio::test]
async fn every_path_answers() {
    let running = run(Node::default());
    let begin = Begin {
        kind: "http",
        listener: "web".into(),
        source: hermes_net::PeerAddress::Unix { uid: None },
        protocol: "h1",
    };

    let _exchange = running.telemetry.begin(begin);
    let cases = [
        (
            Method::GET,
            "/healthz",
            "",
            StatusCode::OK,
            json!({ "healthy": true }),
        ),
        (
            Method::GET,
            "/status",
            "",
            StatusCode::OK,
            json!({ "node": "alice" }),
        ),
        (
            Method::GET,
            "/status?x",
            "",
            StatusCode::OK,
            json!({ "node": "alice" }),
        ),
        (Method::HEAD, "/status", "", StatusCode::OK, json!("")),
        (
            Method::GET,
            "/config",
            "",
            StatusCode::OK,
            json!({ "text": "version: 1\n" }),
        ),
        (
            Method::POST,
            "/diff",
            "version: 1\n",
            StatusCode::OK,
            json!({ "same": true }),
        ),
        (
            Method::POST,
            "/diff",
            "no",
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({ "problems": mistake("no") }),
        ),
        (
            Method::POST,
            "/reload",
            "",
            StatusCode::OK,
            json!({ "changed": 1 }),
        ),
        (
            Method::POST,
            "/reload",
            "1m\n",
            StatusCode::OK,
            json!({ "changed": 60 }),
        ),
        (
            Method::POST,
            "/reload",
            "0s",
            StatusCode::BAD_REQUEST,
            json!({ "error": "`0s` is not from 1s to 24h; write it like 60s" }),
        ),
        (
            Method::POST,
            "/confirm",
            "",
            StatusCode::OK,
            json!({ "revision": 2, "confirmed": true }),
        ),
        (
            Method::POST,
            "/rollback",
            "",
            StatusCode::CONFLICT,
            json!({ "error": "there is none" }),
        ),
        (
            Method::PUT,
            "/log",
            " debug\n",
            StatusCode::NO_CONTENT,
            json!(""),
        ),
        (
            Method::PUT,
            "/log",
            "loud",
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({ "error": "no such level: loud" }),
        ),
        (
            Method::GET,
            "/none",
            "",
            StatusCode::NOT_FOUND,
            json!({ "error": "there is no /none" }),
        ),
        (
            Method::GET,
            "/reload",
            "",
            StatusCode::METHOD_NOT_ALLOWED,
            json!({ "error": "ask /reload with POST" }),
        ),
        (
            Method::POST,
            "/status",
            "",
            StatusCode::METHOD_NOT_ALLOWED,
            json!({ "error": "ask /status with GET" }),
        ),
    ];

    for (method, path, body, status, expected) in cases {
        assert_eq!(
            ask(&running.socket, method, path, body).await,
            (status, expected),
            "{path}"
        );
    }

    assert_eq!(*running.node.filter.lock(), "debug");
    let (_, exchanges) = ask(&running.socket, Method::GET, "/exchanges", "").await;
    assert_eq!(
        (&exchanges["live"], &exchanges["exchanges"][0]["listener"]),
        (&json!(1), &json!("web"))
    );
    let (_, metrics) = ask(&running.socket, Method::GET, "/metrics", "").await;
    assert!(
        metrics
            .as_str()
            .unwrap()
            .contains("hermes_exchanges_active{listener=\"web\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_refused_reload_says_what_is_wrong() {
    let running = run(Node {
        broken: true,
        ..Node::default()
    });
    let (status, problems) = ask(&running.socket, Method::POST, "/reload", "").await;
    assert_eq!(
        (status, problems),
        (
            StatusCode::UNPROCESSABLE_ENTITY,
            json!({ "problems": mistake("no"), "valid": false })
        )
    );
}

#[tokio::test]
async fn a_large_body_is_refused() {
    let running = run(Node::default());
    let (status, _) = ask(
        &running.socket,
        Method::PUT,
        "/log",
        &"x".repeat(64 * 1024 + 1),
    )
    .await;

    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(*running.node.filter.lock(), "");
}

#[tokio::test]
async fn connections_that_say_nothing_give_way_to_one_that_asks() {
    let running = run(Node::default());
    let mut idle = Vec::new();
    for _ in 0..64 {
        idle.push(
            tokio::net::UnixStream::connect(&running.socket)
                .await
                .unwrap(),
        );
    }

    let (status, _) = ask(&running.socket, Method::GET, "/healthz", "").await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn the_end_removes_the_socket_and_the_client_says_so() {
    let running = run(Node::default());
    assert_eq!(
        ask(&running.socket, Method::GET, "/healthz", "").await.0,
        StatusCode::OK
    );
    assert_eq!(
        running.drain.drain(Duration::from_secs(60)).await,
        Ended::Gracefully
    );
    assert!(!running.socket.exists());
    let other = running.socket.with_file_name("other.sock");
    let _other = bind(&other, &DescriptorTable::default()).unwrap();
    let error = call(&running.socket, Method::GET, "/status", Bytes::new())
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, AdminError::NoSocket { .. }), "{error:?}");
    assert!(
        text.contains("is `hermes run` running?") && text.contains(other.to_str().unwrap()),
        "{text}"
    );
}

#[tokio::test]
async fn a_socket_that_no_one_serves_is_told_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("alice.sock");
    drop(bind(&socket, &DescriptorTable::default()).unwrap());
    let error = call(&socket, Method::GET, "/status", Bytes::new())
        .await
        .unwrap_err();
    assert!(matches!(error, AdminError::Gone { .. }), "{error:?}");
    assert!(
        bind(&socket, &DescriptorTable::default()).is_ok(),
        "a stale socket is replaced"
    );
}

/// The status line and content of one request over TCP.
async fn get(address: std::net::SocketAddr, path: &str, host: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn over_tcp_there_are_metrics_and_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let drain = Drain::new();
    let served = serve_metrics(
        listener,
        Telemetry::new("alice", AccessSink::off()),
        drain.watch(),
    );
    drain.watch().spawn(async move { served.await.unwrap() });
    let local = address.to_string();

    let cases = [
        ("/metrics", local.as_str(), "HTTP/1.1 200 "),
        ("/metrics", "localhost", "HTTP/1.1 200 "),
        ("/metrics", "rebound.example", "HTTP/1.1 403 "),
        ("/metrics", "", "HTTP/1.1 403 "),
        ("/status", &local, "HTTP/1.1 404 "),
        ("/exchanges", &local, "HTTP/1.1 404 "),
    ];

    for (path, host, expected) in cases {
        let answer = get(address, path, host).await;
        assert!(answer.starts_with(expected), "{path} {host}: {answer}");
    }

    let answer = get(address, "/metrics", &local).await;
    assert!(
        answer.contains("text/plain; version=0.0.4") && !answer.contains("# EOF"),
        "{answer}"
    );
}
