//! The controller and the nodes, as processes that are started, killed and started again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::super::says::Says;
use crate::output::note;

/// Time for a process to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Lines of a log that are shown when something failed.
const LAST_LINES: usize = 15;

/// The processes, by their names.
pub struct Members {
    folder: PathBuf,
    running: BTreeMap<&'static str, Child>,
}

impl Members {
    /// None so far; all of them keep their state in this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            running: BTreeMap::new(),
        }
    }

    /// The folder for the state of this one.
    pub fn state(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts this program with these arguments, and its state in a folder of its own.
    pub fn start(&mut self, name: &'static str, arguments: &[&str]) -> Result<(), String> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log(name))
            .says(name)?;
        let mut command = self.command(arguments)?;
        // They end with this process however it ends: their standard input closes then.
        command.arg("--until-eof").stdin(Stdio::piped());
        command.arg("--state").arg(self.state(name));
        let process = command.stderr(log).spawn().says(name)?;
        self.running.insert(name, process);
        Ok(())
    }

    /// This program with these arguments; nothing of it touches the state of the user's own overlay.
    pub fn command(&self, arguments: &[&str]) -> Result<Command, String> {
        let program = std::env::current_exe().says("this program's own file")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("XDG_RUNTIME_DIR", &self.folder)
            .env("XDG_STATE_HOME", &self.folder)
            .env_remove("HERMES_CONTROLLER_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Kills this one without a chance to tidy up.
    pub async fn kill(&mut self, name: &str) -> Result<(), String> {
        let process = self.running.get_mut(name).ok_or("it does not run")?;
        process.kill().await.says(name)?;
        self.running.remove(name);
        Ok(())
    }

    /// Waits until this one has ended by itself; its exit code.
    pub async fn ended(&mut self, name: &str) -> Result<i32, String> {
        let process = self.running.get_mut(name).ok_or("it does not run")?;
        let ended = timeout(PATIENCE, process.wait()).await;
        let status = ended
            .map_err(|_| format!("{name} does not end"))?
            .says(name)?;
        self.running.remove(name);
        Ok(status.code().unwrap_or(-1))
    }

    /// Shows the end of each log.
    pub fn last_words(&self) {
        for name in self.running.keys() {
            let log = std::fs::read_to_string(self.log(name)).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            note(format_args!("\n{name} logged last:"));
            for line in lines.iter().skip(lines.len().saturating_sub(LAST_LINES)) {
                note(format_args!("  {line}"));
            }
        }
    }

    /// Tells all of them to stop, and waits for that.
    pub async fn stop(&mut self) {
        for process in self.running.values() {
            let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            if let Some(pid) = pid {
                // One that has already ended needs no signal.
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        for (name, process) in &mut self.running {
            if timeout(PATIENCE, process.wait()).await.is_err() {
                note(format_args!("{name} does not end and is killed"));
                drop(process.kill().await);
            }
        }
    }

    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }
}
