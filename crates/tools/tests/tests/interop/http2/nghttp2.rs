//! nghttp2's own programs: `nghttp` and `h2load` as clients of gateways, `nghttpd` as an origin.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use hermes_tests::eventually::eventually;
use hermes_tests::{Node, Pki, curl, free, origins};
use tempfile::TempDir;

use super::before;

/// Requests of one run of `h2load`.
const REQUESTS: usize = 2_000;

/// One of nghttp2's programs.
fn program(name: &str) -> Command {
    let variable = format!("HERMES_{}", name.to_uppercase());
    Command::new(std::env::var_os(variable).unwrap_or_else(|| name.into()))
}

/// What a run of one of them printed.
fn run(name: &str, arguments: &[&str]) -> String {
    let output = program(name)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}; run `./test install`"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {said}");
    said
}

/// A server of files. Dropping it ends the process.
struct Nghttpd {
    process: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Nghttpd {
    /// Without TLS, with these further words, and a file `a` of so many bytes.
    fn start(length: usize, words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), vec![b'a'; length]).unwrap();
        let address = free::tcp();
        let process = program("nghttpd")
            .args(["--no-tls", "-a", &address.ip().to_string(), "-d"])
            .arg(folder.path())
            .args(words)
            .arg(address.port().to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("nghttpd: {error}; run `./test install`"));
        eventually("nghttpd listens", || TcpStream::connect(address).ok());
        Self {
            process,
            address,
            _folder: folder,
        }
    }

    /// A node before it.
    fn node(&self) -> Node {
        before(&Pki::new(), self.address, ", http: 2")
    }
}

impl Drop for Nghttpd {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A request whose head fills CONTINUATION frames, with padding, a priority, a table of fields that shrinks to nothing and grows
/// again, and trailers.
#[test]
fn nghttp_sends_a_request_with_all_that_it_can() {
    let origin = origins::http();
    let node = before(&Pki::new(), origin.address(), "");
    let content = tempfile::NamedTempFile::new().unwrap();
    fs::write(content.path(), vec![b'x'; 200_000]).unwrap();

    let said = run(
        "nghttp",
        &[
            "--continuation",
            "--padding=200",
            "--weight=200",
            "--header-table-size=0",
            "--header-table-size=4096",
            "--trailer=x-checksum: 42",
            "--no-content-length",
            "--data",
            content.path().to_str().unwrap(),
            &format!("{}/post", node.url("gate")),
        ],
    );

    let got: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!(got["bytes"], 200_000, "{got}");
    assert_eq!(got["trailers"]["x-checksum"], "42", "{got}");
}

/// The same request many times at once, within windows of 1 KiB.
#[test]
fn nghttp_takes_many_answers_through_small_windows() {
    let origin = origins::http();
    let node = before(&Pki::new(), origin.address(), "");
    let said = run(
        "nghttp",
        &[
            "--multiply=30",
            "--window-bits=10",
            "--connection-window-bits=16",
            &format!("{}/bytes/20000", node.url("gate")),
        ],
    );
    assert_eq!(said.len(), 30 * 20_000);
}

/// `h2load` at this URL, with these words: every request is answered with 200.
fn loads(url: &str, words: &[&str]) {
    let count = REQUESTS.to_string();
    let said = run("h2load", &[&["-n", &count, url][..], words].concat());
    let expected = format!(
        "{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout\nstatus codes: {REQUESTS} 2xx"
    );
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn h2load_gets_every_answer_in_clear() {
    let origin = origins::http();
    let node = before(&Pki::new(), origin.address(), "");
    loads(
        &format!("{}/bytes/3000", node.url("gate")),
        &["-c", "5", "-m", "50"],
    );
}

#[test]
fn h2load_gets_every_answer_under_tls_through_small_windows() {
    let origin = origins::http();
    let node = before(&Pki::new(), origin.address(), "");
    let url = format!("https://{}/bytes/3000", node.address("secure_gate"));
    loads(&url, &["-c", "3", "-m", "20", "-w", "10", "-W", "16"]);
}

/// Three streams at once, padding, no table of fields, and trailers behind a file.
#[test]
fn nghttpd_answers_through_the_little_that_it_allows() {
    let server = Nghttpd::start(
        100_000,
        &[
            "--max-concurrent-streams=3",
            "--padding=200",
            "--header-table-size=0",
            "--trailer=x-checksum: 42",
        ],
    );
    let node = server.node();
    let url = format!("{}/a", node.url("gate"));
    let said = run("nghttp", &["--multiply=20", &url]);
    assert_eq!(said.len(), 20 * 100_000);

    let said = run("nghttp", &["--verbose", "--null-out", &url]);
    assert!(said.contains("x-checksum: 42"), "{said}");
}

/// A server that would push is told not to, and content comes back as it went, within windows of 1 KiB.
#[test]
fn nghttpd_pushes_nothing_and_sends_content_back() {
    let server = Nghttpd::start(
        10,
        &[
            "--push=/a=/b",
            "--echo-upload",
            "--window-bits=10",
            "--connection-window-bits=16",
        ],
    );
    let node = server.node();
    let got = curl(&[&format!("{}/a", node.url("gate"))]);
    assert_eq!((got.exit, got.status, got.body.len()), (0, 200, 10));

    let content = "x".repeat(100_000);
    let got = curl(&["-d", &content, &format!("{}/a", node.url("gate"))]);
    assert_eq!((got.exit, got.status, got.text()), (0, 200, content));
}
