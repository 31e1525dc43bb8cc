//! Chromium without a window, as Debian has it.

use std::ffi::OsString;
use std::process::Command;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PublicKeyData as _};

use crate::pki::Issued;

/// Loads a page until its scripts and timers have ended, and returns the document.
///
/// The certificate is taken for good, though no one in the world knows its authority. `force` names an origin, as HOST:PORT,
/// that is asked over HTTP/3 from the first request on. Of its host alone, whatever the port, Chromium uses HTTP/3 with
/// such a certificate at all.
///
/// # Panics
/// When Chromium cannot be run, or fails.
pub fn load(url: &str, certificate: &Issued, force: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    let key = KeyPair::from_pem(&std::fs::read_to_string(&certificate.key).unwrap()).unwrap();
    let known = STANDARD.encode(digest(&SHA256, &key.subject_public_key_info()));
    let mut command = program();

    // No sandbox: it needs a user other than root. Time as the page sees it stands still while something is under way.
    command
        .args([
            "--no-sandbox",
            "--disable-gpu",
            "--no-proxy-server",
            "--virtual-time-budget=10000",
            "--timeout=60000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--ignore-certificate-errors-spki-list={known}"))
        .arg(format!("--origin-to-force-quic-on={force}"))
        .args(["--dump-dom", url]);

    let output = command
        .output()
        .expect("Chromium runs; ./test install brings it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let document = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!document.is_empty(), "{said}");

    document
}

/// Loads a page over TCP, by a command that runs Chromium somewhere else; returns the document once its scripts have ended.
///
/// # Panics
/// When Chromium cannot be run, or fails.
pub fn load_by(mut command: Command, url: &str) -> String {
    let profile = tempfile::tempdir().unwrap();
    command
        .args(["--no-sandbox", "--disable-gpu", "--no-proxy-server"])
        .args(["--virtual-time-budget=10000", "--timeout=60000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--dump-dom", url]);

    let output = command.output();
    let output = output.expect("Chromium runs; ./test install brings it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Its version, e.g. `156.0.8078.79`.
///
/// # Panics
/// When it has none.
pub fn version() -> String {
    let output = program()
        .arg("--version")
        .output()
        .expect("Chromium runs; ./test install brings it");
    let said = String::from_utf8(output.stdout).unwrap();
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());

    said.split_whitespace()
        .find(is_version)
        .expect("a version")
        .to_owned()
}

/// The program.
pub fn path() -> OsString {
    let named = std::env::var_os("HERMES_CHROMIUM_HEADLESS_SHELL");
    named.unwrap_or_else(|| "chromium-headless-shell".into())
}

fn program() -> Command {
    Command::new(path())
}
