//! Asking a running node over its admin socket.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use hermes_observe::admin::default_socket;
use http::Method;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::failure::Failure;

/// After so long without an answer a command says that it waits.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which running node is meant.
#[derive(Debug, Clone, Default, Args)]
pub struct Which {
    /// Admin socket of the node.
    #[arg(long, value_name = "PATH", conflicts_with = "node")]
    pub admin: Option<PathBuf>,
    /// Name of the node; its socket is looked for in the run-time folder.
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
}

/// Which running node is meant, by its name alone if that is enough.
#[derive(Debug, Clone, Default, Args)]
pub struct Named {
    /// Name of the node, as --node.
    #[arg(value_name = "NODE", conflicts_with_all = ["admin", "node"])]
    name: Option<String>,
    #[command(flatten)]
    which: Which,
}

impl Named {
    /// The socket of that node; see [`Which::socket`].
    ///
    /// # Errors
    /// When no node runs, or several do.
    pub fn socket(&self) -> Result<PathBuf, Failure> {
        match &self.name {
            Some(name) => Ok(default_socket(name)),
            None => self.which.socket(),
        }
    }
}

impl Which {
    /// Whether a node is named.
    pub fn names_one(&self) -> bool {
        self.admin.is_some() || self.node.is_some()
    }

    /// The socket of that node. When none is named: the only node that runs.
    ///
    /// # Errors
    /// When no node runs, or several do.
    pub fn socket(&self) -> Result<PathBuf, Failure> {
        match (&self.admin, &self.node) {
            (Some(path), _) => Ok(path.clone()),
            (None, Some(node)) => Ok(default_socket(node)),
            (None, None) => only(running(&folder()), &folder()),
        }
    }
}

/// An answer of the node, or a part of one, as its type.
///
/// # Errors
/// When the answer has another form: the node is of another version.
pub fn typed<T: DeserializeOwned>(answer: Value) -> Result<T, Failure> {
    serde_json::from_value(answer)
        .map_err(|error| Failure::failed(format!("the node's answer cannot be read: {error}")))
}

/// The sockets of all nodes that run where nodes put their sockets unless told otherwise.
pub fn all() -> Vec<PathBuf> {
    running(&folder())
}

/// Where nodes put their sockets unless told otherwise.
fn folder() -> PathBuf {
    default_socket("node")
        .parent()
        .map(Path::to_owned)
        .unwrap_or_default()
}

/// Sockets in `folder` at which someone listens; a crashed node leaves one at which no one does.
fn running(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sockets = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "sock"));
    let mut found: Vec<_> = sockets
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    found.sort_unstable();

    found
}

fn only(mut found: Vec<PathBuf>, folder: &Path) -> Result<PathBuf, Failure> {
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(
            Failure::unreachable(format!("no node is running in {}", folder.display()))
                .remedy("start one with `hermes run FILE`, or name its socket with --admin PATH"),
        ),
        count => {
            let names: Vec<_> = found
                .iter()
                .filter_map(|path| path.file_stem()?.to_str())
                .collect();
            let remedy = format!("choose one with --node: {}", names.join(", "));
            Err(Failure::invalid(format!("{count} nodes are running")).remedy(remedy))
        }
    }
}

/// Asks the node at `socket`; returns the status and the content as JSON (text becomes a JSON string).
///
/// # Errors
/// When the node cannot be reached.
pub async fn call(
    socket: &Path,
    method: Method,
    path: &str,
    body: &str,
) -> Result<(u16, Value), Failure> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let mut asked = pin!(hermes_observe::admin::call(socket, method, path, body));
    let answer = match timeout(PATIENCE, asked.as_mut()).await {
        Ok(answer) => answer,
        Err(_) => {
            eprintln!("hermes: waiting for the node at {}", socket.display());
            asked.await
        }
    };

    let (status, body) = answer.map_err(|error| Failure::unreachable(error.to_string()))?;
    let text = || Value::String(String::from_utf8_lossy(&body).trim().to_owned());
    Ok((
        status.as_u16(),
        serde_json::from_slice(&body).unwrap_or_else(|_| text()),
    ))
}

/// Asks for something that a node always has.
///
/// # Errors
/// When the node cannot be reached or refuses.
pub async fn ask(socket: &Path, path: &str) -> Result<Value, Failure> {
    match call(socket, Method::GET, path, "").await? {
        (200, answer) => Ok(answer),
        (status, answer) => Err(Failure::failed(refusal(path, status, &answer))),
    }
}

/// Why a node refused, in one line.
pub fn refusal(path: &str, status: u16, answer: &Value) -> String {
    let reason = answer.get("error").unwrap_or(answer);
    let reason = reason
        .as_str()
        .map_or_else(|| reason.to_string(), str::to_owned);
    format!("the node answered {path} with {status}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_only_running_node_needs_no_name() {
        assert_eq!(
            only(vec!["/run/a.sock".into()], Path::new("/run")),
            Ok("/run/a.sock".into())
        );
    }

    #[test]
    fn several_nodes_are_listed() {
        let failure = only(
            vec!["/run/a.sock".into(), "/run/b.sock".into()],
            Path::new("/run"),
        )
        .unwrap_err();
        assert_eq!(
            failure.text(),
            "hermes: 2 nodes are running; choose one with --node: a, b\n"
        );
    }

    #[test]
    fn without_a_node_the_folder_is_named() {
        let failure = only(Vec::new(), Path::new("/run/hermes")).unwrap_err();
        assert!(failure.code == 3 && failure.text().contains("/run/hermes"));
    }

    #[test]
    fn a_socket_no_one_listens_at_is_no_running_node() {
        let folder = tempfile::tempdir().unwrap();
        let alive =
            std::os::unix::net::UnixListener::bind(folder.path().join("alive.sock")).unwrap();
        drop(std::os::unix::net::UnixListener::bind(folder.path().join("crashed.sock")).unwrap());
        assert_eq!(running(folder.path()), [folder.path().join("alive.sock")]);
        drop(alive);
    }

    #[test]
    fn a_refusal_shows_the_nodes_words() {
        assert_eq!(
            refusal("/log", 400, &json!({"error": "no filter"})),
            "the node answered /log with 400: no filter"
        );
        assert_eq!(
            refusal("/log", 404, &json!("not here")),
            "the node answered /log with 404: not here"
        );
    }
}
