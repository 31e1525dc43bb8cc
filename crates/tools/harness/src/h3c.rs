//! An HTTP/3 client that sends exactly the lines that a test wants, over aioquic.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Sends one request with these lines, pseudo-fields included, over a connection of its own. The result has `status`, `fields` and
/// `text`, or the code that the stream was `reset` with.
///
/// # Panics
/// When nothing comes of it.
pub fn ask(ca: &Path, address: SocketAddr, lines: &[(&str, &str)]) -> Value {
    let python = std::env::var_os("HERMES_PYTHON").expect("HERMES_PYTHON is set: ./test sets it");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/h3c.py");
    let lines = serde_json::to_string(lines).unwrap();

    let output = Command::new(python)
        .arg(script)
        .arg(ca)
        .args([&address.to_string(), &lines])
        .output()
        .unwrap();

    assert!(
        output.status.success(),
        "{lines}: {}",
        String::from_utf8_lossy(&output.stderr)
    );

    serde_json::from_slice(&output.stdout).unwrap()
}
