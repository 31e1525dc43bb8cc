//! Envoy as a peer: a process on a bootstrap of its own.
//!
//! The parts of a bootstrap are in [`bootstrap`], those of HTTP/3 in [`http3`].

pub mod bootstrap;
pub mod http3;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually};

/// A running Envoy. Dropping it ends the process; if the test has failed, its log is shown.
#[derive(Debug)]
pub struct Envoy {
    name: String,
    folder: TempDir,
    process: Child,
    admin: SocketAddr,
}

impl Envoy {
    /// Starts Envoy with these listeners and clusters, and waits until it is ready.
    ///
    /// # Panics
    /// When `HERMES_ENVOY` names no program, or with Envoy's log when it does not start.
    pub fn start(name: &str, listeners: Vec<Value>, clusters: Vec<Value>) -> Self {
        let bootstrap = json!({
            "admin": { "address": bootstrap::socket(SocketAddr::from(([127, 0, 0, 1], 0)), "TCP") },
            "static_resources": { "listeners": listeners, "clusters": clusters },
        });
        Self::start_file(name, "envoy.json", &format!("{bootstrap:#}"))
    }

    /// Starts Envoy with a user's bootstrap, a file that ends with `.yaml` or `.json`. Its `admin` should ask for port 0.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub fn start_file(name: &str, file: &str, bootstrap: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(file);
        fs::write(&file, bootstrap).unwrap();
        let admin = folder.path().join("admin");
        let log = folder.path().join("log");

        let mut process = Command::new(program())
            // Several run at once, in other tests and other checkouts.
            .args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "warning", "--log-path"])
            .arg(&log)
            .arg("--admin-address-path")
            .arg(&admin)
            .arg("-c")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();

        let said = |name| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        let admin = eventually("Envoy is ready", || {
            let ended = process.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "Envoy {name} ended:\n{}{}\n{bootstrap}",
                said("stderr"),
                said("log")
            );

            let admin = said("admin").trim().parse().ok()?;
            ask(admin, "/ready")
                .filter(|(status, _)| *status == 200)
                .map(|_| admin)
        });

        Self {
            name: name.to_owned(),
            folder,
            process,
            admin,
        }
    }

    /// Where the listener is bound.
    ///
    /// # Panics
    /// When there is no such listener.
    pub fn address(&self, listener: &str) -> SocketAddr {
        let (_, body) = ask(self.admin, "/listeners?format=json").expect("Envoy's admin answers");
        let all: Value = serde_json::from_str(&body).unwrap();
        let mut views = all["listener_statuses"].as_array().into_iter().flatten();
        let found = views
            .find(|view| view["name"] == listener)
            .map(|view| &view["local_address"]["socket_address"]);

        let address = found.and_then(|address| {
            let port = u16::try_from(address["port_value"].as_u64()?).ok()?;
            Some(SocketAddr::new(
                address["address"].as_str()?.parse().ok()?,
                port,
            ))
        });

        address.unwrap_or_else(|| panic!("no listener {listener} in {all:#}"))
    }

    /// `http://ADDRESS` of the listener, for `curl -x`.
    pub fn url(&self, listener: &str) -> String {
        format!("http://{}", self.address(listener))
    }

    /// Its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// A counter or gauge, e.g. `cluster.hermes.upstream_cx_http2_total`.
    ///
    /// # Panics
    /// When Envoy has no such figure.
    pub fn figure(&self, name: &str) -> u64 {
        let (_, body) = ask(self.admin, "/stats").expect("Envoy's admin answers");
        let line = body
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|figure| figure.parse().ok())
            .unwrap_or_else(|| panic!("no figure {name} in\n{body}"))
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().rev().take(20).collect();
            eprintln!(
                "--- Envoy {}: end of its log\n{}\n---",
                self.name,
                lines.into_iter().rev().collect::<Vec<_>>().join("\n")
            );
        }
    }
}

/// Its version, e.g. `1.40.0`.
///
/// # Panics
/// As [`Envoy::start`].
pub fn version() -> String {
    let output = Command::new(program()).arg("--version").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let version = said
        .rsplit("version: ")
        .next()
        .and_then(|build| build.split('/').nth(1));
    version.expect("version: COMMIT/VERSION/..").to_owned()
}

/// The program: `HERMES_ENVOY`.
fn program() -> PathBuf {
    let path = std::env::var_os("HERMES_ENVOY").map(PathBuf::from);
    let path = path
        .expect("HERMES_ENVOY names no Envoy; run `./test install` once, then `./test interop`");
    assert!(
        path.is_file(),
        "HERMES_ENVOY names {}, which is no file; run `./test install`",
        path.display()
    );

    path
}

/// Asks the admin interface: status and body.
fn ask(admin: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(admin).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream
        .write_all(
            format!("GET {path} HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n").as_bytes(),
        )
        .ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");

    Some((
        status,
        if chunked {
            joined(body)
        } else {
            body.to_owned()
        },
    ))
}

/// The content of chunks.
fn joined(mut chunks: &str) -> String {
    let mut content = String::new();
    while let Some((size, rest)) = chunks.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        content.push_str(rest.get(..size).unwrap_or_default());
        chunks = rest.get(size + 2..).unwrap_or_default();
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        assert_eq!(
            joined("5\r\nhello\r\n6\r\n, all!\r\n0\r\n\r\n"),
            "hello, all!"
        );
    }
}
