//! The brokers, each a process with its defaults but for its bounds.

use std::fmt;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::side::{Side, apart};
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
    pub const fn name(self) -> &'static str {
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

/// Where a broker listens, and by which protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct BrokerAddress {
    pub system: PushSystem,
    pub address: SocketAddr,
}

/// A broker that is ready.
pub(super) struct RunningBroker {
    pub at: BrokerAddress,
    pub process: Process,
}

impl RunningBroker {
    /// Starts a broker.
    ///
    /// # Errors
    /// When its program is missing, or does not listen.
    pub(super) fn start(system: PushSystem, hermes: &Path, folder: &Path) -> Result<Self> {
        let at = BrokerAddress {
            system,
            address: ports::free()?,
        };
        Self::start_at(at, Side::HERE, hermes, folder)
    }

    /// Starts a broker at this address of a side.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(super) fn start_at(
        at: BrokerAddress,
        side: Side<'_>,
        hermes: &Path,
        folder: &Path,
    ) -> Result<Self> {
        let BrokerAddress { system, address } = at;
        let file = folder.join(system.name());
        let path = file.to_string_lossy();
        let start = |program: &Path, words: &[&str]| {
            Process::start_in(side.namespace, system.name(), folder, program, words)
        };
        let process = match system {
            PushSystem::Hermes => {
                fs::write(&file, configuration(address))?;
                start(hermes, &["run", &path])?
            }
            PushSystem::Nats => {
                let port = address.port().to_string();
                let host = address.ip().to_string();
                start(Path::new("nats-server"), &["-a", &host, "-p", &port])?
            }
        };
        let mut running = Self { at, process };
        listens(&mut running.process, side, address)?;
        Ok(running)
    }
}

/// Waits until a program of this side listens there.
///
/// # Errors
/// It ends, or does not.
pub(super) fn listens(process: &mut Process, side: Side<'_>, address: SocketAddr) -> Result<()> {
    let step = Duration::from_millis(10);
    for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
        process.check()?;
        let is_there = apart(|| {
            side.enter()?;
            Ok(TcpStream::connect(address).is_ok())
        })?;
        if is_there {
            return Ok(());
        }
        std::thread::sleep(step);
    }
    bail!("{} does not listen:\n{}", process.name(), process.log())
}

/// All clients come from one address, which may have many subscriptions here. A queue holds a few of the large messages, as NATS has
/// 64 MiB for each client.
fn configuration(address: SocketAddr) -> String {
    let is_public = !address.ip().is_loopback();
    format!(
        "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\n\
         listeners: {{ web: {{ http: \"{address}\", gateway: true, public: {is_public}, limits: {{ per_source: 100000, connections: 100000 }} }} }}\n\
         routes: [{{ handle: {{ relay: {{ subscriptions: 100000, message: 2MiB, queue: 4MiB }} }} }}]\n"
    )
}
