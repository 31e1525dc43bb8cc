//! The four nodes as processes of their own, started as anybody would start them.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::{interval, timeout};

use crate::admin;
use crate::output::note;

use super::place::{NODES, Place};
use super::says::Says;

/// Time for all nodes to be ready, and for all of them to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// How often a node is asked whether it is ready.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Lines of its log that are shown of a node when something failed.
const LAST_LINES: usize = 20;

/// The nodes' processes.
pub struct Children(Vec<Node>);

/// A node's process.
pub struct Node {
    name: &'static str,
    socket: PathBuf,
    process: Child,
    log: NodeLog,
}

/// The last lines that a node logged.
type NodeLog = Arc<Mutex<VecDeque<String>>>;

impl Children {
    /// Starts them all. They end with this process however it ends: their standard input closes then.
    pub fn start(place: &Place) -> Result<Self, String> {
        let node = |name: &&'static str| {
            let spawn = |command: &mut Command| command.spawn();
            Node::start(name, &place.configuration(name), place.admin(name), spawn)
        };
        NODES.iter().map(node).collect::<Result<_, _>>().map(Self)
    }

    /// Those that were started one by one.
    pub fn of(nodes: Vec<Node>) -> Self {
        Self(nodes)
    }

    /// Waits until every node says that it is healthy.
    pub async fn ready(&mut self) -> Result<(), String> {
        let all = async {
            for node in &mut self.0 {
                node.ready().await?;
            }
            Ok(())
        };

        let late = || {
            Err(format!(
                "the nodes are not ready after {} s",
                PATIENCE.as_secs()
            ))
        };

        timeout(PATIENCE, all).await.unwrap_or_else(|_| late())
    }

    /// Shows what each of them logged last.
    pub fn last_words(&self) {
        for node in &self.0 {
            note(format_args!("\n{} logged last:", node.name));
            node.log
                .lock()
                .iter()
                .for_each(|line| note(format_args!("  {line}")));
        }
    }

    /// Tells all of them to stop and waits for that.
    pub async fn stop(&mut self) {
        for node in &self.0 {
            if let Some(pid) = node
                .process
                .id()
                .and_then(|id| Pid::from_raw(id.cast_signed()))
            {
                // One that has already ended needs no signal.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        for node in &mut self.0 {
            if timeout(PATIENCE, node.process.wait()).await.is_err() {
                note(format_args!("{} does not end and is killed", node.name));
                drop(node.process.kill().await);
            }
        }
    }
}

impl Node {
    /// Starts it on this configuration, with its admin socket there, by `spawn`.
    pub fn start(
        name: &'static str,
        configuration: &Path,
        socket: PathBuf,
        spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
    ) -> Result<Self, String> {
        let program = std::env::current_exe().says("this program's own file")?;
        let mut command = Command::new(&program);
        command.arg("run").arg(configuration).arg("--until-eof");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);

        let mut process = spawn(&mut command).says(name)?;
        let log = NodeLog::default();
        if let Some(lines) = process.stderr.take() {
            tokio::spawn(keep_last(lines, log.clone()));
        }
        Ok(Self {
            name,
            socket,
            process,
            log,
        })
    }

    async fn ready(&mut self) -> Result<(), String> {
        let mut ticks = interval(ASK_AGAIN);
        loop {
            ticks.tick().await;
            if let Ok(Some(status)) = self.process.try_wait() {
                return Err(format!("{} did not start: {status}", self.name));
            }

            if matches!(
                admin::call(&self.socket, Method::GET, "/healthz", "").await,
                Ok((200, _))
            ) {
                return Ok(());
            }
        }
    }
}

async fn keep_last(lines: ChildStderr, log: NodeLog) {
    let mut lines = BufReader::new(lines).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut log = log.lock();
        log.push_back(line);
        if log.len() > LAST_LINES {
            log.pop_front();
        }
    }
}
