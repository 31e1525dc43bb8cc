//! The operator, who types the commands of this program.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use super::super::says::{Says, expect};
use super::members::Members;

/// How often the operator looks whether something has happened.
const LOOK: Duration = Duration::from_millis(10);

/// Time for something to happen.
const PATIENCE: Duration = Duration::from_secs(15);

/// The answer to a command.
pub struct Answered {
    /// Its exit code.
    pub code: i32,
    /// Its answer, where it is JSON.
    pub value: Value,
    /// Its words to people.
    pub words: String,
}

/// Runs a command for operators at the controller with this socket.
pub async fn command(
    members: &Members,
    socket: &Path,
    arguments: &[&str],
) -> Result<Answered, String> {
    let mut command = members.command(arguments)?;
    command.arg("--json").arg("--controller").arg(socket);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = command.output().await.says("this program")?;
    Ok(Answered {
        code: output.status.code().unwrap_or(-1),
        value: serde_json::from_slice(&output.stdout).unwrap_or_default(),
        words: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

/// The same, of a command that has to succeed.
pub async fn done(members: &Members, socket: &Path, arguments: &[&str]) -> Result<Value, String> {
    let answered = command(members, socket, arguments).await?;
    expect(answered.code == 0, || {
        let command = arguments.first().copied().unwrap_or_default();
        format!("hermes {command}: {} {}", answered.words, answered.value)
    })?;
    Ok(answered.value)
}

/// Waits until this member has what it should have; how long that took.
pub async fn in_step(members: &Members, socket: &Path, name: &str) -> Result<Duration, String> {
    until(async || {
        let nodes = command(members, socket, &["nodes"]).await?.value;
        let nodes = nodes.as_array().cloned().unwrap_or_default();
        let found = nodes.iter().find(|node| node["node"] == name);
        Ok(found.is_some_and(|node| node["attends"] == true && node["state"] == "in step"))
    })
    .await
    .map_err(|reason| format!("{name}: {reason}"))
}

/// Waits until this is so; how long that took.
pub async fn until(
    mut holds: impl AsyncFnMut() -> Result<bool, String>,
) -> Result<Duration, String> {
    let began = Instant::now();
    while !holds().await? {
        expect(began.elapsed() < PATIENCE, || {
            format!("not so after {} s", PATIENCE.as_secs())
        })?;
        sleep(LOOK).await;
    }
    Ok(began.elapsed())
}
