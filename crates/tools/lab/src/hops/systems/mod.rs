//! The chains that are measured.

mod envoy;
mod hermes;
mod masque;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::network::{Network, origin_address};
use super::plan::{HopSystem, Point, Way};
use crate::origin::Addresses;
use crate::peers::Programs;
use crate::pki::Pki;
use crate::process::Process;
use crate::traffic::{self, Client, Kind};

/// How long a system may take until datagrams come back on every chain.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Pause between two looks.
const STEP: Duration = Duration::from_millis(20);
/// Threads of every proxy that lets one choose.
const THREADS: usize = 2;
/// When a silent UDP session ends, so that those of one measurement are gone soon.
const UDP_IDLE: &str = "2s";

/// The network, the programs and the files that systems are started with.
pub struct Around<'a> {
    /// Where they run.
    pub network: &'a Network,
    /// The origin's ports.
    pub origin: Addresses,
    /// Certificates.
    pub pki: &'a Pki,
    /// For configurations and logs.
    pub folder: &'a Path,
    /// The programs.
    pub programs: &'a Programs,
}

/// A system that runs.
pub struct Running {
    /// Which.
    pub system: HopSystem,
    /// The proxy beside the client, then those of the row.
    pub processes: Vec<Process>,
    entries: Vec<HopEntry>,
}

/// Where a chain begins.
#[derive(Debug, Clone)]
pub struct HopEntry {
    way: Way,
    hops: u8,
    /// Where datagrams enter.
    pub udp: SocketAddr,
    /// Where requests enter.
    pub http: SocketAddr,
    /// The target of its exchanges.
    pub host: String,
}

impl Running {
    /// Starts its processes.
    ///
    /// # Errors
    /// When a program cannot be started.
    pub fn launch(system: HopSystem, around: &Around<'_>) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(system.name())
            .tempdir_in(around.folder)?
            .keep();
        let (processes, entries) = match system {
            HopSystem::Direct => (Vec::new(), vec![direct(around)]),
            HopSystem::Hermes => hermes::start(around, &folder)?,
            HopSystem::Envoy => envoy::start(around, &folder)?,
            HopSystem::MasqueGo => masque::start(around, &folder)?,
        };

        Ok(Self {
            system,
            processes,
            entries,
        })
    }

    /// Waits until datagrams come back on every chain. Must be called where the client runs.
    ///
    /// # Errors
    /// With the logs, when they do not.
    pub async fn ready(&mut self, client: &Client) -> Result<()> {
        let begin = tokio::time::Instant::now();
        for entry in &self.entries {
            let entered = traffic::Entry {
                kind: Kind::Udp,
                address: entry.udp,
                asks: false,
            };
            while let Err(error) = client.once(&entered).await {
                for process in &mut self.processes {
                    process.check()?;
                }
                if begin.elapsed() > START_LIMIT {
                    let logs: String = self.processes.iter().map(Process::log).collect();
                    let chain = format!(
                        "{}: {} over {} hops",
                        self.system,
                        entry.way.name(),
                        entry.hops
                    );

                    return Err(error.context(format!("{chain} does not work:\n{logs}")));
                }

                tokio::time::sleep(STEP).await;
            }
        }

        Ok(())
    }

    /// A proxy of Hermes beside the client, for the chain of a point alone, that writes down its QUIC connections in the
    /// folder `qlog` of `folder`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn traced(
        &self,
        point: Point,
        around: &Around<'_>,
        folder: &Path,
    ) -> Result<(Process, HopEntry)> {
        hermes::traced(
            around,
            self.entry(point).context("there is no such chain")?,
            folder,
        )
    }

    /// Where the chain of a point begins.
    pub fn entry(&self, point: Point) -> Option<&HopEntry> {
        self.entries
            .iter()
            .find(|entry| entry.hops == point.hops && entry.way == point.way)
    }

    /// Processor time of each process so far.
    pub fn processor_times(&self) -> Vec<Duration> {
        self.processes.iter().map(Process::processor_time).collect()
    }
}

/// The processes and chains of a system.
type StartedChains = Result<(Vec<Process>, Vec<HopEntry>)>;

fn direct(around: &Around<'_>) -> HopEntry {
    let to = |port: SocketAddr| SocketAddr::from((origin_address(0), port.port()));
    let udp = to(around.origin.udp);
    let http = to(around.origin.http);

    HopEntry {
        way: Way::Direct,
        hops: 0,
        udp,
        http,
        host: "web.lab".to_owned(),
    }
}

/// A file of a folder as text.
fn write(folder: &Path, name: &str, text: String) -> Result<std::path::PathBuf> {
    let file = folder.join(name);
    std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    Ok(file)
}
