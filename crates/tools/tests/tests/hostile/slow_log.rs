//! Whatever takes the lines of the log stands still: nothing else does.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use hermes_tests::eventually::PATIENCE;
use hermes_tests::{Node, eventually, program};

/// Requests that fill the pipe and the queue before it.
const REQUESTS: usize = 20_000;

/// A node whose standard error is a pipe, and the pipe, which the test holds open and does not read.
struct Stalled {
    node: Node,
    pipe: File,
}

impl Stalled {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("pipe");
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();

        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 2>\"$PIPE\""])
            .arg(program::path())
            .env("PIPE", &path);
        let node = Node::start_in_by(
            folder,
            command,
            "alice",
            r#"
            listeners: { web: { http: 127.0.0.1:0 } }
            routes: [ { terminate: true } ]
            egress: { allow: [127.0.0.0/8] }
            log: { level: trace, access: off }
            "#,
        );
        Self { node, pipe }
    }

    /// Lines that were lost so far.
    fn lost(&self) -> u64 {
        let metrics = self.node.metrics();
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("hermes_log_lines_lost "));
        line.unwrap().parse::<f64>().unwrap() as u64
    }

    /// Asks until lines are lost.
    fn fill(&self) {
        let web = self.node.address("web");
        for request in 0..REQUESTS {
            refused(web);
            if request % 100 == 99 && self.lost() > 0 {
                return;
            }
        }
        panic!("no line was lost");
    }
}

/// A request for a port on which no one listens is answered.
fn refused(web: SocketAddr) {
    let mut stream = TcpStream::connect(web).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request =
        "GET http://127.0.0.1:1/ HTTP/1.1\r\nhost: 127.0.0.1:1\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[test]
fn a_pipe_that_no_one_reads_stops_neither_traffic_nor_the_end() {
    let mut stalled = Stalled::start();
    stalled.fill();
    for _ in 0..100 {
        refused(stalled.node.address("web"));
    }
    assert_eq!(stalled.node.ask("GET", "/healthz", "").0, 200);
    assert!(stalled.node.stop().success());
}

#[test]
fn lines_that_were_lost_are_told_where_they_are_missing() {
    let Stalled { node, mut pipe } = {
        let stalled = Stalled::start();
        stalled.fill();
        stalled
    };

    let mut said = String::new();
    let mut piece = [0; 65_536];
    eventually("the lines that were lost", || {
        refused(node.address("web"));
        let length = pipe.read(&mut piece).unwrap();
        said.push_str(&String::from_utf8_lossy(&piece[..length]));
        said.contains(" lines of the log were lost here")
            .then_some(())
    });
}
