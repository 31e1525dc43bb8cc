//! The requests of an operator to a controller, over its socket.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// How long a request may take; one that changes 10,000 nodes waits for all.
const LIMIT: Duration = Duration::from_secs(120);

/// How long a controller may take to answer for the first time.
const START_LIMIT: Duration = Duration::from_secs(60);

/// A pause between two questions of one who waits.
const PAUSE: Duration = Duration::from_millis(20);

/// The one who asks.
#[derive(Debug, Clone)]
pub(super) struct Operator {
    /// The controller's socket.
    pub(super) socket: PathBuf,
}

/// Members, as a controller counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// Those that attend and have what they should have.
    pub(super) in_step: usize,
    pub(super) members: usize,
}

impl Operator {
    /// The answer to a question.
    ///
    /// # Errors
    /// The controller is away, or refuses.
    pub(super) fn get(&self, path: &str) -> Result<Value> {
        self.ask("GET", path, "")
    }

    /// The answer to a request.
    ///
    /// # Errors
    /// The controller is away, or refuses.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: controller\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + body).as_bytes())?;

        // Each connection carries one request: its end is the end of the answer.
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, content) = answer.split_once("\r\n\r\n").context("no answer came")?;
        ensure!(
            head.starts_with("HTTP/1.1 200"),
            "{method} {path}: {content}"
        );
        Ok(serde_json::from_str(content)?)
    }

    /// Waits until the controller answers.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn wait(&self) -> Result<()> {
        let begin = Instant::now();
        loop {
            match self.get("/about") {
                Ok(_) => return Ok(()),
                Err(error) => ensure!(begin.elapsed() < START_LIMIT, error),
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// A token for a device of this user, or for the node of this name.
    ///
    /// # Errors
    /// The controller refuses.
    pub(super) fn token(&self, user: Option<&str>, name: Option<&str>) -> Result<String> {
        let asked = json!({ "user": user, "name": name, "lifetime_seconds": 3600 });
        let made = self.post("/tokens", &asked)?;
        let token = made["token"].as_str().context("no token came")?;
        Ok(token.to_owned())
    }

    /// Adds resources in the place of those with their names; returns the revision.
    ///
    /// # Errors
    /// The controller refuses.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let begin = Instant::now();
        let asked =
            json!({ "files": [{ "name": "lab.yaml", "text": text }], "how": { "author": "lab" } });
        loop {
            match self.post("/apply", &asked) {
                Ok(changed) => {
                    return Ok(changed["revision"].as_str().unwrap_or_default().to_owned());
                }
                // The change before has its last words yet.
                Err(error) if error.to_string().contains("still spreads") => {
                    ensure!(begin.elapsed() < LIMIT, error);
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until a change is in force at every node that attends.
    ///
    /// # Errors
    /// It was stopped.
    pub(super) fn in_force(&self, revision: &str) -> Result<()> {
        let outcome = self.get(&format!("/outcome?{revision}"))?;
        ensure!(outcome["stopped"].is_null(), "{outcome}");
        Ok(())
    }

    /// The members.
    ///
    /// # Errors
    /// The controller is away.
    pub(super) fn counted(&self) -> Result<Counted> {
        let nodes = self.get("/nodes")?;
        let nodes = nodes.as_array().context("no list of nodes")?;
        let in_step = nodes
            .iter()
            .filter(|node| node["attends"] == true && node["state"] == "in step");
        Ok(Counted {
            in_step: in_step.count(),
            members: nodes.len(),
        })
    }

    /// Waits until so many members are in step; `every` is the pause between two looks.
    ///
    /// # Errors
    /// They are not, after this time.
    pub(super) fn await_steps(&self, count: usize, every: Duration, limit: Duration) -> Result<()> {
        let begin = Instant::now();
        loop {
            // A controller that is just starting is away.
            let counted = match self.counted() {
                Ok(counted) => counted,
                Err(error) => {
                    let kind = error
                        .downcast_ref::<std::io::Error>()
                        .map(std::io::Error::kind);
                    let is_away = matches!(
                        kind,
                        Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused)
                    );
                    ensure!(is_away && begin.elapsed() < limit, error);
                    Counted {
                        in_step: 0,
                        members: 0,
                    }
                }
            };
            if counted.in_step >= count {
                return Ok(());
            }
            ensure!(
                begin.elapsed() < limit,
                "{} of {count} members are in step after {limit:?}",
                counted.in_step
            );
            std::thread::sleep(every);
        }
    }
}
