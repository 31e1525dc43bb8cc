//! `--capture`: this process moves into a network of its own, gives a node the device that is the only way out, and becomes the program.
//!
//! The socket to the node stays open in the program and in those that it starts: it carries nothing, but the node sees by it when the last of
//! them has ended. So nothing watches the program, which has the terminal, the signals and the exit code of any other.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hermes_net::capture::{CapturedSpace, send_descriptor};
use hermes_observe::admin::client::connect_trusted;
use rustix::io::{FdFlags, fcntl_setfd};
use serde::Deserialize;
use serde_json::Value;

use crate::admin::{self, Which};
use crate::failure::Failure;

/// The variable that names the socket.
const VARIABLE: &str = "HERMES_CAPTURE";

/// How long the node may take for each of its lines.
const PATIENCE: Duration = Duration::from_secs(15);

/// A line of the node: the network that it wants, or that it carries the traffic now, or why it does not.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    addresses: Vec<IpAddr>,
    resolvers: Vec<IpAddr>,
    mtu: u32,
    captured: bool,
    error: Option<String>,
    remedy: Option<String>,
}

/// The socket of a `capture` listener: the one that is named, else that of the node.
///
/// # Errors
/// When no node runs that captures programs, or several do.
pub(super) async fn socket(named: Option<PathBuf>, which: &Which) -> Result<PathBuf, Failure> {
    if let Some(socket) = named {
        return Ok(socket);
    }
    if let Some(socket) = std::env::var_os(VARIABLE).filter(|_| !which.names_one()) {
        return Ok(PathBuf::from(socket));
    }

    let remedy = "start one whose configuration has `listeners: { programs: { capture: { exec: PATH } } }`, or name the socket of another \
                  user's node with --socket PATH";
    let admin = which.socket().map_err(|failure| failure.remedy(remedy))?;
    of_status(&admin::ask(&admin, "/status").await?)
        .ok_or_else(|| Failure::failed("the node captures no programs").remedy(remedy))
}

/// The socket in the status of a node.
fn of_status(status: &Value) -> Option<PathBuf> {
    let mut listeners = status["listeners"].as_array()?.iter();
    listeners.find_map(|listener| {
        let is_capture = listener["kind"] == "capture";
        let path = listener["address"].as_str()?.strip_prefix("unix:")?;
        is_capture.then(|| PathBuf::from(path))
    })
}

/// Moves this process into a network that leads to the node behind this socket. Returns the socket.
///
/// # Errors
/// The node does not take the program, or this machine allows it no network of its own.
pub(super) async fn enter(socket: &Path) -> Result<UnixStream, Failure> {
    let connected = connect_trusted(socket).await;
    let stream = connected.map_err(|error| Failure::unreachable(error.to_string()))?;
    let broken = |error: std::io::Error| {
        Failure::unreachable(format!("{}: {error}", socket.display()))
            .remedy("name the socket of a `capture` listener")
    };
    let stream = stream.into_std().map_err(broken)?;
    stream.set_nonblocking(false).map_err(broken)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;

    let mut lines = BufReader::new(stream.try_clone().map_err(broken)?);
    let wanted = line(&mut lines, socket)?;
    let space = CapturedSpace {
        addresses: wanted.addresses,
        resolvers: wanted.resolvers,
        mtu: wanted.mtu,
    };
    let device = space.enter().map_err(|error| {
        let failure = Failure::failed(format!("the program cannot be captured: {error}"));
        match error.remedy {
            Some(remedy) => failure.remedy(remedy),
            None => failure,
        }
    })?;

    send_descriptor(&stream, &device).map_err(broken)?;
    if !line(&mut lines, socket)?.captured {
        return Err(Failure::failed("the node has not taken the program"));
    }
    // The programs that this one starts keep the socket as well.
    fcntl_setfd(&stream, FdFlags::empty()).map_err(|error| broken(error.into()))?;
    Ok(stream)
}

/// The next line of the node.
fn line(lines: &mut BufReader<UnixStream>, socket: &Path) -> Result<Line, Failure> {
    let failed = |reason: String| {
        Failure::unreachable(format!("{}: {reason}", socket.display()))
            .remedy("name the socket of a `capture` listener")
    };
    let mut text = String::new();
    let read = lines.read_line(&mut text);
    read.map_err(|error| failed(error.to_string()))?;
    let line: Line = serde_json::from_str(&text)
        .map_err(|_| failed("it gives no answer that is one of a node".to_owned()))?;
    match line.error {
        None => Ok(line),
        Some(error) => {
            let failure = Failure::failed(error);
            Err(match line.remedy {
                Some(remedy) => failure.remedy(remedy),
                None => failure,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_socket_is_that_of_the_capture_listener() {
        let status = json!({"listeners": [
            {"name": "web", "kind": "http", "address": "unix:/run/web.sock"},
            {"name": "pod", "kind": "capture", "address": "/run/netns/pod"},
            {"name": "programs", "kind": "capture", "address": "unix:/run/programs.sock"},
        ]});
        assert_eq!(of_status(&status), Some("/run/programs.sock".into()));
        assert_eq!(of_status(&json!({"listeners": []})), None);
    }
}
