//! Open Policy Agent as a peer: a process with a policy of its own, on a Unix socket; and its plugin for Envoy.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually};
use crate::free;

/// A running OPA. Dropping it ends the process; if the test has failed, its log is shown.
#[derive(Debug)]
pub struct Opa {
    folder: TempDir,
    process: Child,
}

impl Opa {
    /// Starts OPA with a policy in Rego, and waits until it answers.
    ///
    /// # Panics
    /// When `HERMES_OPA` names no program, or with OPA's log when it does not start.
    pub fn start(policy: &str) -> Self {
        run(&program("HERMES_OPA"), policy, &[])
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("opa.sock")
    }

    fn log(&self) -> String {
        let said = |name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        format!("{}{}", said("stdout"), said("stderr"))
    }
}

/// OPA with its plugin for Envoy, which answers `Check` of `ext_authz`. Dropping it ends the process.
#[derive(Debug)]
pub struct OpaEnvoy {
    _opa: Opa,
    address: SocketAddr,
}

/// The language of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// That before OPA 1.0.
    V0,
    /// That of OPA 1.0.
    V1,
}

impl OpaEnvoy {
    /// Starts it with a policy whose `data.envoy.authz.allow` decides, and waits until it answers.
    ///
    /// # Panics
    /// When `HERMES_PEERS` names no folder, or with OPA's log when it does not start.
    pub fn start(policy: &str, language: Language) -> Self {
        let peers = std::env::var_os("HERMES_PEERS").map(PathBuf::from);
        let peers = peers.expect("HERMES_PEERS names no folder; run `./test interop`");
        let address = free::tcp();

        let listens = format!("plugins.envoy_ext_authz_grpc.addr={address}");
        let mut arguments = vec![
            "--set",
            &listens,
            "--set",
            "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow",
        ];
        if language == Language::V0 {
            arguments.push("--v0-compatible");
        }
        Self {
            _opa: run(&peers.join("opa-envoy"), policy, &arguments),
            address,
        }
    }

    /// Where it takes calls.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Runs a program that is OPA.
fn run(program: &Path, policy: &str, arguments: &[&str]) -> Opa {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.rego");
    fs::write(&file, policy).unwrap();
    let create = |name| File::create(folder.path().join(name)).unwrap();
    let socket = folder.path().join("opa.sock");

    let process = Command::new(program)
        .args(["run", "--server", "--disable-telemetry"])
        .args(["--log-level", "error", "--addr"])
        .arg(format!("unix://{}", socket.display()))
        .args(arguments)
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(create("stdout"))
        .stderr(create("stderr"))
        .spawn()
        .unwrap();

    let mut opa = Opa { folder, process };
    eventually("OPA answers", || {
        let ended = opa.process.try_wait().unwrap();
        assert!(ended.is_none(), "OPA ended:\n{}", opa.log());
        healthy(&opa.socket())
    });

    opa
}

impl Drop for Opa {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
        if std::thread::panicking() {
            eprintln!("--- OPA: its log\n{}---", self.log());
        }
    }
}

fn healthy(socket: &Path) -> Option<()> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream
        .write_all(b"GET /health?plugins HTTP/1.1\r\nhost: opa\r\nconnection: close\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;

    answer.starts_with("HTTP/1.1 200").then_some(())
}

/// The program that a variable names.
fn program(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    let path = path.unwrap_or_else(|| {
        panic!("{variable} names no OPA; run `./test install` once, then `./test interop`")
    });
    assert!(
        path.is_file(),
        "{variable} names {}, which is no file; run `./test install`",
        path.display()
    );

    path
}
