//! The place of an experiment: its programs, its files, and the nodes that it starts.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::options::Options;
use crate::peers::Programs;
use crate::process::Process;
use crate::topology::Namespace;

/// The place of an experiment.
pub(super) struct PaperBench<'a> {
    /// Rounds, and their length.
    pub options: &'a Options,
    /// Hermes.
    pub programs: Programs,
    /// The folder of all files, removed with the bench.
    pub folder: TempDir,
}

impl PaperBench<'_> {
    /// The folder of all files.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a node, in a network or on this machine.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn node(
        &self,
        namespace: Option<&Namespace>,
        name: &str,
        yaml: &str,
    ) -> Result<Process> {
        let file = self.write(name, yaml)?;
        let words = ["run".as_ref(), file.as_os_str()];
        let hermes = &self.programs.hermes;
        Process::start_in(namespace, name, self.folder(), hermes, &words)
    }

    /// Writes the file of a node anew.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(&self, name: &str, yaml: &str) -> Result<PathBuf> {
        let file = self.folder().join(format!("{name}.yaml"));
        let general = format!(
            "version: 1\nnode: {name}\nworkers: 2\nadmin: {{ socket: {name}.sock }}\nlog: {{ level: warn, access: off }}\n"
        );
        std::fs::write(&file, general + yaml)?;
        Ok(file)
    }

    /// Has a node read its file again.
    ///
    /// # Errors
    /// When it does not take the file.
    pub(super) fn reload(&self, name: &str, yaml: &str) -> Result<()> {
        self.write(name, yaml)?;
        let socket = self.folder().join(format!("{name}.sock"));
        let output = std::process::Command::new(&self.programs.hermes)
            .args(["reload", "--admin"])
            .arg(socket)
            .output()?;
        ensure!(
            output.status.success(),
            "{name} does not take its file: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
