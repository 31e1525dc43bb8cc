//! The state of nodes at one moment.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::admin;
use crate::failure::Failure;

/// Time for the answers of one node: a screen that waits longer looks dead.
#[doc(alias = "bound")]
const ANSWER: Duration = Duration::from_secs(3);

/// The answer of a node, or the reason for its absence.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Its name; before it was reached, that of its socket.
    pub node: String,
    /// When it said so.
    pub at: Instant,
    /// `GET /status`, `/usage` and `/exchanges` in one object.
    pub said: Result<Value, Failure>,
}

/// Asks every node.
pub async fn samples(sockets: &[PathBuf]) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(sockets.len());
    for socket in sockets {
        samples.push(sample(socket).await);
    }
    samples
}

async fn sample(socket: &Path) -> Sample {
    let said = async {
        let status = admin::ask(socket, "/status").await?;
        let usage = admin::ask(socket, "/usage").await?;
        let exchanges = admin::ask(socket, "/exchanges").await?;
        Ok(json!({ "status": status, "usage": usage, "exchanges": exchanges["exchanges"] }))
    };

    let late = || Failure::unreachable(format!("{} does not answer", socket.display()));
    let said: Result<Value, Failure> = timeout(ANSWER, said).await.unwrap_or_else(|_| Err(late()));
    let of_file = || {
        socket
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default()
    };

    let node = said
        .as_ref()
        .ok()
        .and_then(|said| said["status"]["node"].as_str())
        .map_or_else(of_file, str::to_owned);

    Sample {
        node,
        at: Instant::now(),
        said,
    }
}

/// Why none of them can be shown; `None` if one can.
pub fn unreachable(samples: &[Sample]) -> Option<Failure> {
    let failures: Vec<_> = samples
        .iter()
        .filter_map(|sample| sample.said.as_ref().err())
        .collect();
    if failures.len() == samples.len() {
        failures.first().map(|failure| (*failure).clone())
    } else {
        None
    }
}
