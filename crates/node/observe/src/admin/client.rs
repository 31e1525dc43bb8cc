//! Asking a running node.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::socket::{self, Servers};

/// Time for one question and its answer; longer than the node takes to give up.
#[doc(alias = "bound")]
const TIME: Duration = Duration::from_secs(65);

/// Bytes of an answer: more than all views of exchanges take.
#[doc(alias = "bound")]
const ANSWER_BYTES: usize = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// There is no such socket.
    #[error("no socket {}: is `hermes run` running? sockets found: {}", .socket.display(), listed(.found))]
    NoSocket {
        /// The socket that was asked for.
        socket: PathBuf,
        /// Sockets of nodes that were found near by.
        found: Vec<PathBuf>,
    },
    /// There is a socket, but no one serves it.
    #[error("no process answers at {}: `hermes run` has ended. sockets found: {}", .socket.display(), listed(.found))]
    Gone {
        /// The socket that was asked for.
        socket: PathBuf,
        /// Sockets of nodes that were found near by.
        found: Vec<PathBuf>,
    },
    /// The socket belongs to someone else.
    #[error("{} may not be used by this user: run as the user of `hermes run`", .0.display())]
    Denied(PathBuf),
    /// Someone else may serve there, and would receive messages that are only for the node.
    #[error("{} is not trusted: {reason}; run as the user of `hermes run`, or name another socket with --admin", .socket.display())]
    Foreign {
        /// The socket that was asked for.
        socket: PathBuf,
        /// Why.
        reason: String,
    },
    /// Connecting failed otherwise.
    #[error("cannot connect to {}: {error}", .socket.display())]
    Connect {
        /// The socket that was asked for.
        socket: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The node did not answer in time.
    #[error("the node at {} does not answer: it stands still, or its machine does", .0.display())]
    Timeout(PathBuf),
    /// The path or the answer is not HTTP.
    #[error("the answer cannot be read: {0}")]
    Protocol(String),
}

/// Paths for a message.
fn listed(found: &[PathBuf]) -> String {
    if found.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<_> = found
        .iter()
        .map(|path| path.display().to_string())
        .collect();

    shown.join(", ")
}

/// Asks the node behind `socket`, e.g. `GET /status`; the answer may be an error of the node's.
///
/// # Errors
/// When there is no answer.
pub async fn call(
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), AdminError> {
    let asked = timeout(TIME, ask(socket, method, path, body));
    asked
        .await
        .unwrap_or(Err(AdminError::Timeout(socket.to_owned())))
}

async fn ask(
    socket: &Path,
    method: Method,
    path: &str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), AdminError> {
    let broken = |error: &dyn std::fmt::Display| AdminError::Protocol(error.to_string());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, "localhost");
    let request = request
        .body(Full::new(body))
        .map_err(|error| broken(&error))?;
    let stream = connect_trusted(socket).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| broken(&error))?;

    let exchange = async {
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| broken(&error))?;
        let status = answer.status();
        let content = Limited::new(answer.into_body(), ANSWER_BYTES)
            .collect()
            .await;

        Ok((status, content.map_err(|error| broken(&error))?.to_bytes()))
    };

    tokio::pin!(exchange, connection);
    let mut open = true;
    loop {
        tokio::select! {
            answer = &mut exchange => return answer,
            // The connection may end before the answer is taken from it; its errors show in the exchange.
            _ = &mut connection, if open => open = false,
        }
    }
}

/// Connects to a socket that only this user, root or the user of its folder can serve, and checks who does.
///
/// # Errors
/// There is no such socket, or someone else serves it.
pub async fn connect_trusted(socket: &Path) -> Result<UnixStream, AdminError> {
    let foreign = |reason: String| AdminError::Foreign {
        socket: socket.to_owned(),
        reason,
    };
    let servers = match Servers::of(socket) {
        Ok(servers) => servers,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(connect_error(socket, error));
        }
        Err(error) => return Err(foreign(error.to_string())),
    };

    let stream = UnixStream::connect(socket)
        .await
        .map_err(|error| connect_error(socket, error))?;
    match stream.peer_cred() {
        Ok(server) if servers.include(server.uid()) => Ok(stream),
        Ok(server) => Err(foreign(format!(
            "a process of user {} serves it",
            server.uid()
        ))),
        Err(error) => Err(foreign(format!("the serving user is unknown: {error}"))),
    }
}

fn connect_error(socket: &Path, error: io::Error) -> AdminError {
    let owned = socket.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound => AdminError::NoSocket {
            found: socket::found(socket),
            socket: owned,
        },
        io::ErrorKind::ConnectionRefused => {
            let mut found = socket::found(socket);
            found.retain(|other| other != socket);
            AdminError::Gone {
                found,
                socket: owned,
            }
        }
        io::ErrorKind::PermissionDenied => AdminError::Denied(owned),
        _ => AdminError::Connect {
            socket: owned,
            error,
        },
    }
}
