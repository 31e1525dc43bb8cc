//! Open Policy Agent as a peer: a process with a policy of its own, on a Unix socket.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::eventually::{PATIENCE, eventually};

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
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("policy.rego");
        fs::write(&file, policy).unwrap();
        let create = |name| File::create(folder.path().join(name)).unwrap();

        let process = Command::new(program())
            .args([
                "run",
                "--server",
                "--disable-telemetry",
                "--log-level",
                "error",
                "--addr",
            ])
            .arg(format!(
                "unix://{}",
                folder.path().join("opa.sock").display()
            ))
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(create("stdout"))
            .stderr(create("stderr"))
            .spawn()
            .unwrap();

        let mut opa = Self { folder, process };
        eventually("OPA answers", || {
            let ended = opa.process.try_wait().unwrap();
            assert!(ended.is_none(), "OPA ended:\n{}", opa.log());
            healthy(&opa.socket())
        });

        opa
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
        .write_all(b"GET /health HTTP/1.1\r\nhost: opa\r\nconnection: close\r\n\r\n")
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;

    answer.starts_with("HTTP/1.1 200").then_some(())
}

/// The program: `HERMES_OPA`.
fn program() -> PathBuf {
    let path = std::env::var_os("HERMES_OPA").map(PathBuf::from);
    let path =
        path.expect("HERMES_OPA names no OPA; run `./test install` once, then `./test interop`");
    assert!(
        path.is_file(),
        "HERMES_OPA names {}, which is no file; run `./test install`",
        path.display()
    );

    path
}
