//! The controller under measurement: a process of its own, with its state in memory.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::operator::Operator;
use crate::process::Process;

/// A controller.
pub(super) struct ControllerProcess {
    program: PathBuf,
    folder: TempDir,
    /// Its port for agents.
    pub(super) port: u16,
    process: Option<Process>,
}

impl ControllerProcess {
    /// Starts one, and waits until it answers. On the main thread only.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(program: &Path, address: SocketAddr) -> Result<Self> {
        let mut controller = Self {
            program: program.to_owned(),
            folder: memory_folder()?,
            port: address.port(),
            process: None,
        };
        controller.run()?;
        Ok(controller)
    }

    /// Starts its process. On the main thread only.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn run(&mut self) -> Result<()> {
        let state = self.folder.path().join("state");
        let arguments = [
            "controller".to_owned(),
            "--listen".to_owned(),
            format!("0.0.0.0:{}", self.port),
            "--url".to_owned(),
            format!("https://127.0.0.1:{}", self.port),
            "--state".to_owned(),
            state.display().to_string(),
            "--log".to_owned(),
            "error".to_owned(),
        ];
        let folder = self.folder.path();
        self.process = Some(Process::start(
            "controller",
            folder,
            &self.program,
            &arguments,
        )?);
        self.operator().wait().with_context(|| self.log())
    }

    /// Ends its process as a crash would.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    /// Its operator.
    pub(super) fn operator(&self) -> Operator {
        Operator {
            socket: self.folder.path().join("state/controller.sock"),
        }
    }

    /// Bytes of memory that it has resident.
    pub(super) fn resident(&self) -> f64 {
        let process = self.process.as_ref();
        process.map_or(0, Process::resident) as f64
    }

    /// Processor time that it has used.
    pub(super) fn processor_time(&self) -> Duration {
        let process = self.process.as_ref();
        // Threads that wait for the store come and go.
        process
            .map(Process::processor_time_of_all)
            .unwrap_or_default()
    }

    fn log(&self) -> String {
        self.process.as_ref().map(Process::log).unwrap_or_default()
    }
}

/// A folder that no disk has, where the system has such a place: a disk's time is not the control plane's.
///
/// # Errors
/// It cannot be made.
pub(super) fn memory_folder() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let made = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    made.context("a folder for the state")
}
