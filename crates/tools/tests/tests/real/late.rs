//! Answers that come late, or bit by bit: long polls, slow servers, and server-sent events.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread;

use hermes_tests::{curl, origins};

use crate::four::{Four, VERSIONS};

/// A server of polls: `/after/N` is answered after N seconds.
const POLLS: &str = "
import http.server, time
class Polls(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(int(self.path.rsplit('/', 1)[1]))
        self.send_response(200)
        self.send_header('content-length', '5')
        self.end_headers()
        self.wfile.write(b'late\\n')
    do_POST = do_GET
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Polls)
print(server.server_port, flush=True)
server.serve_forever()
";

/// A program that says on its first line at which port of this machine it listens. Dropping it ends it.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
}

impl Server {
    /// Runs a script of Python.
    pub fn python(script: &str) -> Self {
        let python = std::env::var("HERMES_PYTHON")
            .expect("HERMES_PYTHON names Python: ./test real sets it");
        let started = Command::new(python)
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = started.unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port: u16 = line.trim().parse().unwrap();
        Self {
            process,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// 12 s are more than the 10 s that each node would once wait; a poll of 75 s differs in its number only.
#[test]
fn a_long_poll_is_answered_through_four_nodes_over_every_version() {
    let server = Server::python(POLLS);
    thread::scope(|scope| {
        for version in VERSIONS {
            let address = server.address;
            scope.spawn(move || {
                let four = Four::start(version, address, "timeouts: { header: 75s }");
                let url = four.entry().url("web");
                let got = curl(&["-x", &url, "-d", "question", "http://VIDEO/after/12"]);
                assert_eq!(
                    (got.status, got.text().as_str()),
                    (200, "late\n"),
                    "{version}: {got:?}"
                );
                for node in &four.nodes {
                    let record = node.record(|record| record["kind"] == "http");
                    assert_eq!(
                        (&record["reason"], &record["attempts"]),
                        (&"done".into(), &1.into()),
                        "{record}"
                    );
                }
            });
        }
    });
}

/// The hop nearest to the fault answers, and says which key of which node was decisive.
#[test]
fn a_server_that_is_too_slow_is_named_by_the_last_node() {
    let server = Server::python(POLLS);
    for version in VERSIONS {
        let four = Four::start(version, server.address, "timeouts: { header: 1s }");
        let got = curl(&["-x", &four.entry().url("web"), "http://VIDEO/after/60"]);
        assert_eq!(got.status, 504, "{version}: {got:?}");
        let said = got.field("proxy-status").unwrap();
        let key = "no response head within 1s (upstreams.server.timeouts.header on edge)";
        assert!(
            said.starts_with("edge; error=http_response_timeout;") && said.contains(key),
            "{version}: {said}"
        );
    }
}

#[test]
fn an_event_arrives_before_the_next_one_is_sent() {
    for version in VERSIONS {
        let origin = origins::http();
        let four = Four::start(version, origin.address(), "");
        let curl = std::env::var("HERMES_CURL").unwrap_or_else(|_| "curl".to_owned());
        let mut command = Command::new(curl);
        command.args([
            "-q",
            "-sS",
            "-N",
            "--max-time",
            "30",
            "-H",
            "accept: text/event-stream",
            "-x",
        ]);
        let started = command
            .args([&four.entry().url("web"), "http://EVENTS/slow"])
            .stdout(Stdio::piped())
            .spawn();
        let mut client = started.unwrap();
        let mut events = BufReader::new(client.stdout.take().unwrap());
        let mut first = String::new();
        events.read_line(&mut first).unwrap();
        assert_eq!(first, "first\n", "{version}");
        origin.release();
        let mut rest = String::new();
        events.read_to_string(&mut rest).unwrap();
        assert_eq!(
            (rest.as_str(), client.wait().unwrap().success()),
            ("last\n", true),
            "{version}"
        );
    }
}
