//! The program under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The binary of [`choose`].
static CHOSEN: OnceLock<PathBuf> = OnceLock::new();

/// Takes this binary from now on; the first choice of a process holds.
pub fn choose(path: PathBuf) {
    // A second choice changes nothing.
    drop(CHOSEN.set(path));
}

/// The `hermes` binary: the chosen one, else `HERMES_BIN`, else the one beside the running test's folder.
///
/// # Panics
/// When there is none.
pub fn path() -> PathBuf {
    let built = || {
        let test = std::env::current_exe().unwrap();
        test.parent().and_then(Path::parent).unwrap().join("hermes")
    };

    let named = || std::env::var_os("HERMES_BIN").map(PathBuf::from);
    let path = CHOSEN.get().cloned().or_else(named).unwrap_or_else(built);
    assert!(
        path.is_file(),
        "there is no {}; build it with `cargo build -p hermes` or set HERMES_BIN",
        path.display()
    );

    path
}

/// Copies the program to a place where others may run it.
///
/// Another process copies: what this one has open for writing, a child that another test starts meanwhile has open as well for a moment,
/// and a program that anyone writes to cannot be run (`ETXTBSY`).
///
/// # Panics
/// When it cannot be copied.
pub fn copy(to: &Path) {
    let status = Command::new("cp").arg(path()).arg(to).status().unwrap();
    assert!(status.success(), "cp to {}", to.display());
}

/// A command that runs the program, without the proxy settings of the user who runs the tests.
pub fn command() -> Command {
    let mut command = Command::new(path());
    for name in [
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "no_proxy",
        "NO_PROXY",
    ] {
        command.env_remove(name);
    }

    command
}

/// The output of a finished command.
#[derive(Debug)]
pub struct Said {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs the program to its end, e.g. `run(&["check", "node.yaml"])`.
pub fn run(arguments: &[&str]) -> Said {
    let Output {
        status,
        stdout,
        stderr,
    } = command().args(arguments).output().unwrap();
    Said {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}
