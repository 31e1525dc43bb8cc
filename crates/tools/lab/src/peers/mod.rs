//! The systems that are compared, each one process or two between the client and the origin.

mod caddy;
mod direct;
pub(crate) mod envoy;
mod h2o;
mod haproxy;
mod hermes;
mod name;
mod nginx;
mod null;
pub(crate) mod ports;
mod programs;
mod surroundings;

pub use name::Name;
pub use programs::Programs;
pub use surroundings::Surroundings;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::Process;
use crate::traffic::{Client, Entry, Kind, Link};

/// How long a system may take until exchanges of every kind work.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Pause between two looks.
const STEP: Duration = Duration::from_millis(20);
/// A running system.
pub struct System {
    /// Which.
    pub name: Name,
    /// The proxies: none, or the one beside the client and the one beside the origin.
    pub processes: Vec<Process>,
    entries: Vec<(Link, Entry)>,
}

impl System {
    /// Starts it and waits until exchanges of every kind work.
    ///
    /// # Errors
    /// With the log of a proxy that does not start.
    pub async fn start(name: Name, around: &Surroundings) -> Result<Self> {
        let mut system = Self::launch(name, around)?;
        system
            .ready(&around.client)
            .await
            .with_context(|| name.text().to_owned())?;
        Ok(system)
    }

    /// Starts its processes and does not wait.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn launch(name: Name, around: &Surroundings) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(name.text())
            .tempdir_in(&around.folder)?
            .keep();
        let (processes, entries) = match name {
            Name::Direct => direct::start(around),
            Name::Null => null::start(around, &folder),
            Name::Hermes => hermes::start(around, &folder),
            Name::Envoy => envoy::start(around, &folder),
            Name::Nginx => nginx::start(around, &folder),
            Name::Haproxy => haproxy::start(around, &folder),
            Name::H2o => h2o::start(around, &folder),
            Name::Caddy => caddy::start(around, &folder),
        }?;

        Ok(Self {
            name,
            processes,
            entries,
        })
    }

    /// The entry of exchanges of this kind over this link; `None` if the system cannot carry them.
    pub fn entry(&self, kind: Kind, link: Link) -> Option<&Entry> {
        self.entries
            .iter()
            .find(|(over, entry)| *over == link && entry.kind == kind)
            .map(|(_, entry)| entry)
    }

    /// Processor time of its processes so far.
    pub fn processor_time(&self) -> Duration {
        self.processes.iter().map(Process::processor_time).sum()
    }

    /// Memory of its processes, in bytes.
    pub fn memory(&self) -> u64 {
        self.processes.iter().map(Process::memory).sum()
    }

    /// Resident memory of its processes in bytes, shared pages included.
    pub fn resident(&self) -> u64 {
        self.processes.iter().map(Process::resident).sum()
    }

    async fn ready(&mut self, client: &Client) -> Result<()> {
        let begin = tokio::time::Instant::now();
        for (link, entry) in &self.entries {
            while let Err(error) = client.once(entry).await {
                for process in &mut self.processes {
                    process.check()?;
                }
                if begin.elapsed() > START_LIMIT {
                    let logs: String = self.processes.iter().map(Process::log).collect();
                    return Err(error.context(format!(
                        "{} over {} does not work:\n{logs}",
                        entry.kind.name(),
                        link.name()
                    )));
                }

                tokio::time::sleep(STEP).await;
            }
        }

        Ok(())
    }
}
