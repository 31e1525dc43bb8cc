//! A socket of another user where commands look for that of their node.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{Attack, Effort, Party, Place, Stage};
use crate::program;

/// Who runs the commands.
const USER: u32 = 12_345;

/// Who would like to be asked.
const OTHER: u32 = 12_346;

/// The commands; each of them speaks to a node.
const COMMANDS: [&[&str]; 6] = [
    &["status"],
    &["diff", "sap.yaml"],
    &["config"],
    &["exchanges"],
    &["reload"],
    &["log", "debug"],
];

/// A folder that someone else made before the node did.
pub(super) const BELIEVED: Attack = Attack {
    name: "foreign-admin-socket",
    by: Party::LocalUser,
    place: Place::Devices,
    summary: "a socket of another user in the place of a node's own, and six commands that look for it",
    prepare,
    run,
};

fn prepare() -> Stage {
    Stage::start(
        "web: { http: 127.0.0.1:0 }",
        "{ respond: { status: 204 } }",
        "",
    )
}

fn run(_: &Stage) -> Effort {
    let place = tempfile::tempdir().unwrap();
    let told = lie_in_wait(place.path());
    let mut effort = Effort::default();
    for words in COMMANDS {
        let before = told.load(Ordering::Relaxed);
        let believed = command(place.path(), words).status().unwrap().success();
        let is_told = told.load(Ordering::Relaxed) > before;
        effort.attempts += 1;
        effort.passed += u64::from(believed || is_told);
    }
    effort
}

/// Makes the folder and the socket of another user, in one that all users share; counts the bytes that come to it.
fn lie_in_wait(place: &Path) -> Arc<AtomicU64> {
    fs::set_permissions(place, Permissions::from_mode(0o1777)).unwrap();
    // Where the program lies, this user may not look.
    program::copy(&place.join("program"));
    let file = place.join("sap.yaml");
    let yaml = "version: 1\nlisteners: { web: { http: 127.0.0.1:0, set: { x-key: secret } } }\nroutes: [ { respond: { status: 200 } } ]\n";
    fs::write(&file, yaml).unwrap();
    chown(&file, Some(USER), Some(USER)).unwrap();

    let folder = place.join("hermes");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(OTHER), Some(OTHER)).unwrap();
    let socket = folder.join("sap.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
    chown(&socket, Some(OTHER), Some(OTHER)).unwrap();

    let told = Arc::new(AtomicU64::new(0));
    let counted = told.clone();
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let mut connection = connection;
            let mut bytes = [0; 4096];
            let length = connection.read(&mut bytes).unwrap_or_default();
            counted.fetch_add(length as u64, Ordering::Relaxed);
        }
    });
    told
}

fn command(place: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(place.join("program"));
    command
        .args(words)
        .args(["--node", "sap"])
        .current_dir(place)
        .env("XDG_RUNTIME_DIR", place)
        .uid(USER)
        .gid(USER)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    command
}
