//! A socket that another user put where a node's own would be: commands neither believe it nor tell it anything.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use hermes_tests::program;
use tempfile::TempDir;

/// Who runs the commands.
const USER: u32 = 12_345;

/// Who would like to be asked.
const OTHER: u32 = 12_346;

/// A folder of all users, as /tmp is, with the program and a configuration that has a secret.
fn place() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), Permissions::from_mode(0o1777)).unwrap();
    // Where the program lies, this user may not look.
    program::copy(&place.path().join("program"));
    let file = place.path().join("sap.yaml");
    fs::write(
        &file,
        "version: 1\nlisteners: { web: { http: 127.0.0.1:0, set: { x-key: secret } } }\nroutes: [ { respond: { status: 200 } } ]\n",
    )
    .unwrap();
    chown(&file, Some(USER), Some(USER)).unwrap();
    place
}

/// Counts the bytes that come to a socket; it answers nothing.
fn serve(socket: &Path) -> Arc<AtomicUsize> {
    let listener = UnixListener::bind(socket).unwrap();
    fs::set_permissions(socket, Permissions::from_mode(0o666)).unwrap();
    chown(socket, Some(OTHER), Some(OTHER)).unwrap();

    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut bytes = [0; 4096];
            let length = connection.unwrap().read(&mut bytes).unwrap_or_default();
            counted.fetch_add(length, Ordering::Relaxed);
        }
    });
    told
}

fn run(place: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(place.join("program"));
    command
        .args(arguments)
        .current_dir(place)
        .env("XDG_RUNTIME_DIR", place)
        .uid(USER)
        .gid(USER);
    command.output().unwrap()
}

#[test]
fn commands_tell_a_socket_of_another_user_nothing() {
    let place = place();
    let folder = place.path().join("hermes");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(OTHER), Some(OTHER)).unwrap();
    let told = serve(&folder.join("sap.sock"));

    let node = ["--node", "sap"];
    for words in [
        &["status"][..],
        &["diff", "sap.yaml"],
        &["config"],
        &["exchanges"],
        &["reload"],
        &["confirm"],
        &["rollback"],
        &["log", "debug"],
        &["why", "kqsfdjhbnlcm"],
        &["env"],
    ] {
        let said = run(place.path(), &[words, &node[..]].concat());
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(!said.status.success(), "{words:?}: {said:?}");
        assert!(text.contains("is not trusted"), "{words:?}: {text}");
    }
    assert_eq!(told.load(Ordering::Relaxed), 0);

    // Nor does a node put its socket there.
    let said = run(place.path(), &["run", "sap.yaml"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(
        !said.status.success() && text.contains("other users"),
        "{text}"
    );
}

#[test]
fn a_link_of_another_user_leads_nowhere() {
    let place = place();
    let real = tempfile::tempdir().unwrap();
    fs::set_permissions(real.path(), Permissions::from_mode(0o755)).unwrap();
    chown(real.path(), Some(OTHER), Some(OTHER)).unwrap();
    let told = serve(&real.path().join("sap.sock"));
    let link = place.path().join("hermes");
    symlink(real.path(), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(OTHER), Some(OTHER)).unwrap();

    let said = run(place.path(), &["status", "--node", "sap"]);
    let text = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(text.contains("is not trusted"), "{text}");
    assert_eq!(told.load(Ordering::Relaxed), 0);
}
