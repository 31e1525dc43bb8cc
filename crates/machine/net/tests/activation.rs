//! Passed sockets are owned once, kept from children, and the variables are taken away. This
//! program starts itself with a socket, because only a process with one thread may change its
//! environment.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says so"
)]

use std::env;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Command;

use hermes_net::activation::passed_sockets;

/// Where the passed socket is bound; it is there in the process that has one.
const PASSED: &str = "HERMES_PASSED";

/// Passes standard input on as descriptor 3, as sd_listen_fds(3) describes it.
const PASS: &str = "LISTEN_PID=$$ LISTEN_FDS=${1} LISTEN_FDNAMES=web exec \"$0\" 3<&0 </dev/null";

fn main() {
    match env::var(PASSED) {
        Ok(address) => passed(&address),
        Err(_) => pass(),
    }
}

fn pass() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", PASS])
        .arg(env::current_exe().unwrap())
        .arg("1");
    command
        .env(PASSED, address.to_string())
        .stdin(OwnedFd::from(listener));
    assert!(command.status().unwrap().success());

    // The variables claim two sockets, with one name.
    let mut command = Command::new("sh");
    command
        .args(["-c", PASS])
        .arg(env::current_exe().unwrap())
        .arg("2")
        .env(PASSED, "");
    assert!(command.status().unwrap().success());
    println!("test result: ok. 2 passed; 0 failed; 0 ignored");
}

fn passed(address: &str) {
    let has = |name: &str| env::var_os(name).is_some();
    let variables = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];
    assert!(variables.into_iter().all(has));
    let sockets = passed_sockets();
    assert!(
        !variables.into_iter().any(has),
        "they are taken away, whatever they say"
    );

    if address.is_empty() {
        assert_eq!(
            sockets.unwrap_err().to_string(),
            "LISTEN_FDNAMES has 1 names for 2 sockets"
        );
        return;
    }
    let shown: Vec<String> = sockets
        .as_ref()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(shown, [format!("descriptor 3 (\"web\", TCP at {address})")]);
    let child = Command::new("sh")
        .args(["-c", "[ ! -e /proc/self/fd/3 ]"])
        .status()
        .unwrap();
    assert!(child.success(), "a child has the descriptor");
    assert_eq!(passed_sockets().unwrap().len(), 0, "each is owned once");
}
