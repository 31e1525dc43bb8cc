//! The systems: a proxy, and what decides in it or beside it.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::rules::{FEW, MANY, REGO, REGO_OF_DATA_API};
use super::{envoy, hermes};
use crate::peers::{Surroundings, ports};
use crate::process::Process;
use crate::traffic::{Entry, Kind};

/// How long a system may take until exchanges work: Envoy reads ten thousand policies.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Pause between two looks.
const STEP: Duration = Duration::from_millis(50);

/// What decides.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Decider {
    /// Hermes, and nothing.
    Hermes,
    /// Ten rules of Hermes.
    Native10,
    /// Ten thousand rules of Hermes.
    Native10000,
    /// As many whose conditions no index finds: each is looked at.
    Unindexed10000,
    /// A policy in Rego, in Hermes.
    Rego,
    /// OPA, asked by Hermes over its data API.
    HermesOpa,
    /// OPA's plugin, asked by Hermes over gRPC.
    HermesGrpc,
    /// Envoy, and nothing.
    Envoy,
    /// Ten policies of Envoy's RBAC.
    Rbac10,
    /// Ten thousand policies of Envoy's RBAC.
    Rbac10000,
    /// OPA's plugin, asked by Envoy over gRPC.
    EnvoyOpa,
}

impl Decider {
    /// All, in the order of the table.
    pub const ALL: [Self; 11] = [
        Self::Hermes,
        Self::Native10,
        Self::Native10000,
        Self::Unindexed10000,
        Self::Rego,
        Self::HermesOpa,
        Self::HermesGrpc,
        Self::Envoy,
        Self::Rbac10,
        Self::Rbac10000,
        Self::EnvoyOpa,
    ];

    /// The same proxy without a decision.
    pub fn bare(self) -> Self {
        match self {
            Self::Hermes
            | Self::Native10
            | Self::Native10000
            | Self::Unindexed10000
            | Self::Rego
            | Self::HermesOpa
            | Self::HermesGrpc => Self::Hermes,
            Self::Envoy | Self::Rbac10 | Self::Rbac10000 | Self::EnvoyOpa => Self::Envoy,
        }
    }

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Native10 => "native10",
            Self::Native10000 => "native10000",
            Self::Unindexed10000 => "unindexed10000",
            Self::Rego => "rego",
            Self::HermesOpa => "hermes-opa",
            Self::HermesGrpc => "hermes-grpc",
            Self::Envoy => "envoy",
            Self::Rbac10 => "rbac10",
            Self::Rbac10000 => "rbac10000",
            Self::EnvoyOpa => "envoy-opa",
        }
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A system that runs.
pub struct RunningDecider {
    /// Which.
    pub decider: Decider,
    /// Where its clients connect.
    pub entry: Entry,
    processes: Vec<Process>,
}

impl RunningDecider {
    /// Starts it, and waits until exchanges work.
    ///
    /// # Errors
    /// With the logs of what does not start.
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

        let mut running = Self {
            decider,
            processes: launch(decider, entry.address, around, &folder)?,
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

/// Starts the processes of a system.
fn launch(
    decider: Decider,
    address: SocketAddr,
    around: &Surroundings,
    folder: &Path,
) -> Result<Vec<Process>> {
    let node = |decides: &hermes::NodeDecision<'_>| start_hermes(address, around, folder, decides);
    let envoy = |decides: &envoy::EnvoyDecision| start_envoy(address, around, folder, decides);

    match decider {
        Decider::Hermes => Ok(vec![node(&hermes::NodeDecision::Nothing)?]),
        Decider::Native10 => Ok(vec![node(&hermes::NodeDecision::Rules(FEW))?]),
        Decider::Native10000 => Ok(vec![node(&hermes::NodeDecision::Rules(MANY))?]),
        Decider::Unindexed10000 => Ok(vec![node(&hermes::NodeDecision::Unindexed(MANY))?]),
        Decider::Rego => {
            fs::write(folder.join("policy.rego"), REGO)?;
            Ok(vec![node(&hermes::NodeDecision::Rego("policy.rego"))?])
        }
        Decider::HermesOpa => {
            let opa = ports::free()?;
            fs::write(folder.join("policy.rego"), REGO_OF_DATA_API)?;
            let server = start_opa(opa, around, folder)?;
            Ok(vec![server, node(&hermes::NodeDecision::Opa(opa))?])
        }
        Decider::HermesGrpc => {
            let opa = ports::free()?;
            fs::write(folder.join("policy.rego"), REGO)?;
            let server = start_plugin(opa, around, folder)?;
            Ok(vec![server, node(&hermes::NodeDecision::Grpc(opa))?])
        }
        Decider::Envoy => Ok(vec![envoy(&envoy::EnvoyDecision::Nothing)?]),
        Decider::Rbac10 => Ok(vec![envoy(&envoy::EnvoyDecision::Rbac(FEW))?]),
        Decider::Rbac10000 => Ok(vec![envoy(&envoy::EnvoyDecision::Rbac(MANY))?]),
        Decider::EnvoyOpa => {
            let opa = ports::free()?;
            fs::write(folder.join("policy.rego"), REGO)?;
            let server = start_plugin(opa, around, folder)?;
            Ok(vec![server, envoy(&envoy::EnvoyDecision::Opa(opa))?])
        }
    }
}

fn start_hermes(
    address: SocketAddr,
    around: &Surroundings,
    folder: &Path,
    decides: &hermes::NodeDecision<'_>,
) -> Result<Process> {
    let file = folder.join("node.yaml");
    fs::write(&file, hermes::document(address, &around.origin, decides))?;
    let arguments = ["run".as_ref(), file.as_os_str()];
    Process::start("node", folder, &around.programs.hermes, &arguments)
}

fn start_envoy(
    address: SocketAddr,
    around: &Surroundings,
    folder: &Path,
    decides: &envoy::EnvoyDecision,
) -> Result<Process> {
    let file = folder.join("envoy.json");
    fs::write(&file, envoy::document(address, &around.origin, decides))?;
    let arguments = [
        "--concurrency".as_ref(),
        "1".as_ref(),
        "--disable-hot-restart".as_ref(),
        "--log-level".as_ref(),
        "error".as_ref(),
        "-c".as_ref(),
        file.as_os_str(),
    ];
    Process::start("envoy", folder, &around.programs.envoy, &arguments)
}

/// OPA's server, with its data API.
fn start_opa(address: SocketAddr, around: &Surroundings, folder: &Path) -> Result<Process> {
    let address = address.to_string();
    let policy = folder.join("policy.rego");
    let arguments = [
        "run".as_ref(),
        "--server".as_ref(),
        "--log-level".as_ref(),
        "error".as_ref(),
        "--addr".as_ref(),
        address.as_ref(),
        policy.as_os_str(),
    ];
    Process::start("opa", folder, &around.programs.opa, &arguments)
}

/// OPA with its plugin for Envoy.
fn start_plugin(address: SocketAddr, around: &Surroundings, folder: &Path) -> Result<Process> {
    let api = ports::free()?.to_string();
    let listens = format!("plugins.envoy_ext_authz_grpc.addr={address}");
    let policy = folder.join("policy.rego");
    let arguments = [
        "run".as_ref(),
        "--server".as_ref(),
        "--disable-telemetry".as_ref(),
        "--log-level".as_ref(),
        "error".as_ref(),
        "--addr".as_ref(),
        api.as_ref(),
        "--set".as_ref(),
        listens.as_ref(),
        "--set".as_ref(),
        "plugins.envoy_ext_authz_grpc.path=envoy/authz/allow".as_ref(),
        policy.as_os_str(),
    ];
    Process::start("opa-envoy", folder, &around.programs.opa_envoy, &arguments)
}
