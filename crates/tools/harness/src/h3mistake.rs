//! HTTP/3 servers that end a connection for an error, or make their client do it, by aioquic.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::pki::Issued;

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct MistakenServer {
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Starts one that answers the first request by the end of the connection: with `close` it closes it with words, with `mistake` it breaks a rule.
///
/// # Panics
/// When it cannot be started.
pub fn start(own: &Issued, how: &str) -> MistakenServer {
    let python = std::env::var_os("HERMES_PYTHON").expect("HERMES_PYTHON is set: ./test sets it");
    let mut process = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/src/h3mistake.py"))
        .arg(&own.cert)
        .arg(&own.key)
        .arg(how)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();

    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    MistakenServer {
        process,
        address: serde_json::from_str(&line).expect("it says where it listens"),
    }
}

impl Drop for MistakenServer {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
