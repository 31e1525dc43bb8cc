//! The brokers, each a process with its defaults but for its bounds.

use std::fmt;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::peers::ports;
use crate::process::Process;

/// A broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PushSystem {
    /// The relay of Hermes, spoken to by HTTP/1.1 in its native form.
    Hermes,
    /// NATS, of Debian, spoken to by its own protocol.
    Nats,
}

impl PushSystem {
    /// All brokers, in the order of the table.
    pub const ALL: [Self; 2] = [Self::Hermes, Self::Nats];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Nats => "nats",
        }
    }
}

impl fmt::Display for PushSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long a broker may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A broker that is ready.
pub(super) struct RunningBroker {
    pub system: PushSystem,
    pub process: Process,
    pub address: SocketAddr,
}

impl RunningBroker {
    /// Starts a broker.
    ///
    /// # Errors
    /// When its program is missing, or does not listen.
    pub(super) fn start(system: PushSystem, hermes: &Path, folder: &Path) -> Result<Self> {
        let address = ports::free()?;
        let file = folder.join(system.name());
        let path = file.to_string_lossy();
        let start =
            |program: &Path, words: &[&str]| Process::start(system.name(), folder, program, words);
        let process = match system {
            PushSystem::Hermes => {
                fs::write(&file, configuration(address))?;
                start(hermes, &["run", &path])?
            }
            PushSystem::Nats => {
                let port = address.port().to_string();
                start(Path::new("nats-server"), &["-a", "127.0.0.1", "-p", &port])?
            }
        };
        let mut running = Self {
            system,
            process,
            address,
        };
        running.wait()?;
        Ok(running)
    }

    fn wait(&mut self) -> Result<()> {
        let step = Duration::from_millis(10);
        for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
            self.process.check()?;
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            std::thread::sleep(step);
        }
        bail!("{} does not listen:\n{}", self.system, self.process.log())
    }
}

/// All clients come from one address, which may have many subscriptions here. A queue holds a few of the large messages, as NATS has
/// 64 MiB for each client.
fn configuration(address: SocketAddr) -> String {
    format!(
        "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\n\
         listeners: {{ web: {{ http: \"{address}\", gateway: true, limits: {{ per_source: 100000, connections: 100000 }} }} }}\n\
         routes: [{{ handle: {{ relay: {{ subscriptions: 100000, message: 2MiB, queue: 4MiB }} }} }}]\n"
    )
}
