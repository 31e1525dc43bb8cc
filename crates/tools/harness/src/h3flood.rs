//! Hostile clients over HTTP/3, by aioquic: they ask for much and stand still, break off what they ask for, or send datagrams without end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// One of them. Dropping it ends the process, of which no one hears.
#[derive(Debug)]
pub struct Flood {
    process: Child,
    /// Its output.
    pub said: Value,
}

/// Starts clients that do `how` (`stop`, `reset`, `heads`, `empty`, `unfinished`, `datagrams`, `frames`, `groups` or `disorder`) with this many connections and streams of each, and waits until they have.
///
/// # Panics
/// When they cannot.
pub fn start(
    ca: &Path,
    proxy: SocketAddr,
    authority: &str,
    how: &str,
    connections: u32,
    streams: u32,
) -> Flood {
    let python = std::env::var_os("HERMES_PYTHON").expect("HERMES_PYTHON is set: ./test sets it");
    let mut process = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/h3flood.py"))
        .arg(ca)
        .args([
            &proxy.to_string(),
            authority,
            how,
            &connections.to_string(),
            &streams.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    Flood {
        process,
        said: serde_json::from_str(&line).expect("the clients do what they should"),
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
