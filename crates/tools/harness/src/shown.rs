//! Results of tests with a peer: one line each in the folder that `HERMES_SHOWN` names, from which
//! `cargo xtask matrix` makes the table in `docs/interop.md`.

use std::fs;
use std::path::PathBuf;

use crate::HttpPeer;

/// The role of the peer.
#[derive(Debug, Clone, Copy)]
pub enum Role {
    /// It sent to Hermes.
    Client,
    /// Hermes sent to it.
    Server,
}

/// Writes down that a peer did this over HTTP/3, unless no one asked for it.
///
/// # Panics
/// When it cannot be written.
pub fn shown(peer: HttpPeer, role: Role, payload: &str) {
    shown_of(peer.name(), || peer.version(), role, payload);
}

/// The same of a peer that is no [`HttpPeer`].
///
/// # Panics
/// When it cannot be written.
pub fn shown_of(name: &str, version: impl FnOnce() -> String, role: Role, payload: &str) {
    let Some(folder) = std::env::var_os("HERMES_SHOWN").map(PathBuf::from) else {
        return;
    };
    let role = format!("{role:?}").to_lowercase();
    let line = format!("{name}\t{}\t{role}\t{payload}\n", version());
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join(format!("{name}.{role}.{payload}").replace(' ', "-")),
        line,
    )
    .unwrap();
}
