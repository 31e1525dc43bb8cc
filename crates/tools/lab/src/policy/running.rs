//! A running system.

use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{Instant, sleep};

use super::decider::Decider;
use super::launch::Launch;
use crate::peers::{Surroundings, ports};
use crate::process::Process;
use crate::traffic::{Entry, Kind};

/// How long a system may take until exchanges work: Envoy reads ten thousand policies.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Pause between two attempts.
const STEP: Duration = Duration::from_millis(50);

/// A running system.
pub struct RunningDecider {
    /// The system.
    pub decider: Decider,
    /// The address of its proxy.
    pub entry: Entry,
    processes: Vec<Process>,
}

impl RunningDecider {
    /// Starts it, and waits until exchanges work.
    ///
    /// # Errors
    /// With the logs of its processes, when one does not start.
    pub async fn start(decider: Decider, around: &Surroundings) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(decider.name())
            .tempdir_in(&around.folder)?
            .keep();
        let entry = Entry {
            kind: Kind::Http,
            address: ports::free()?,
            asks: true,
        };

        let launch = Launch {
            address: entry.address,
            around,
            folder: &folder,
        };
        let mut running = Self {
            decider,
            processes: launch.start(decider)?,
            entry,
        };
        running
            .ready(around)
            .await
            .with_context(|| decider.to_string())?;

        Ok(running)
    }

    /// Processor time of its processes so far.
    pub fn processor_time(&self) -> Duration {
        self.processes.iter().map(Process::processor_time).sum()
    }

    async fn ready(&mut self, around: &Surroundings) -> Result<()> {
        let begin = Instant::now();
        while let Err(error) = around.client.once(&self.entry).await {
            for process in &mut self.processes {
                process.check()?;
            }
            if begin.elapsed() > START_LIMIT {
                let logs: String = self.processes.iter().map(Process::log).collect();
                return Err(error.context(format!("does not work:\n{logs}")));
            }
            sleep(STEP).await;
        }

        around.client.tunnel(&self.entry).await.map(drop)
    }
}
