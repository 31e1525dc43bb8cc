//! An HTTP/3 client and server in Python, over aioquic: `HERMES_PYTHON` has it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Pki;

/// A server that answers requests, and sends back the bytes and datagrams of tunnels. Dropping it ends the process.
#[derive(Debug)]
pub struct Http3Server {
    process: Child,
    address: SocketAddr,
}

impl Http3Server {
    /// Starts one, with a certificate for 127.0.0.1.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(pki: &Pki) -> Self {
        let issued = pki.issue(&["127.0.0.1"]);
        let mut process = python()
            .arg("server")
            .args([&issued.cert, &issued.key])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let port: u16 = said.trim().parse().expect("the server starts");
        Self { process, address: SocketAddr::from(([127, 0, 0, 1], port)) }
    }

    /// Where it listens, on UDP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Http3Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Lets the client do one thing over a connection of its own; what came of it.
///
/// # Panics
/// When it fails.
pub fn http3_client(ca: &Path, address: SocketAddr, action: &[&str]) -> Value {
    let output = python().arg("client").arg(ca).arg(address.to_string()).args(action).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{action:?} failed:\n{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn python() -> Command {
    let mut command =
        Command::new(std::env::var_os("HERMES_PYTHON").expect("HERMES_PYTHON is set: ./test interop sets it"));
    command.args(["-c", include_str!("http3_peer.py")]);
    command
}
