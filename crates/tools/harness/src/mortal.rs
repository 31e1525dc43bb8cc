//! An origin that is a process of its own, so that it can be killed: HTTP, TCP and UDP, in Python.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::free::{tcp, udp};

/// A running origin; dropping it ends the process.
///
/// HTTP answers every GET, PUT and POST with the content of the request, and first writes method and `x-id` into a file. TCP and
/// UDP echo.
#[derive(Debug)]
pub struct Mortal {
    folder: TempDir,
    /// HTTP, TCP, UDP.
    addresses: [SocketAddr; 3],
    process: Child,
}

impl Default for Mortal {
    fn default() -> Self {
        Self::new()
    }
}

impl Mortal {
    /// Starts one.
    ///
    /// # Panics
    /// When it does not start.
    pub fn new() -> Self {
        let (folder, addresses) = (tempfile::tempdir().unwrap(), [tcp(), tcp(), udp()]);
        let process = spawn(&log(&folder), addresses);
        Self {
            folder,
            addresses,
            process,
        }
    }

    /// Where it speaks HTTP, TCP and UDP.
    pub fn addresses(&self) -> [SocketAddr; 3] {
        self.addresses
    }

    /// Kills it (SIGKILL).
    ///
    /// # Panics
    /// When it has ended already.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again, at the same addresses.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.process = spawn(&log(&self.folder), self.addresses);
    }

    /// How often each request was processed, as `POST 17`.
    pub fn processed(&self) -> BTreeMap<String, usize> {
        let text = fs::read_to_string(log(&self.folder)).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in text.lines() {
            *counts.entry(line.to_owned()).or_insert(0) += 1;
        }
        counts
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn log(folder: &TempDir) -> PathBuf {
    folder.path().join("processed")
}

fn spawn(log: &PathBuf, addresses: [SocketAddr; 3]) -> Child {
    let python = std::env::var_os("HERMES_PYTHON").unwrap_or_else(|| "python3".into());
    let mut process = Command::new(python)
        .args(["-c", include_str!("mortal.py")])
        .args(addresses.map(|address| address.to_string()))
        .arg(log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let mut said = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "ready\n", "the origin did not start");

    process
}
