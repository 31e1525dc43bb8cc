//! The process between clients and origin.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::net::TcpStream;

use super::clients::PaceWay;
use crate::peers::ports;
use crate::process::Process;

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PaceSystem {
    /// Clients that ask again on their own, at random times that double.
    Alone,
    /// Clients that bound their own rate besides.
    Window,
    /// Hermes with `pace`.
    Hermes,
    /// Hermes with the adaptive token bucket.
    HermesAtb,
    /// Hermes with the assisted one.
    HermesAatb,
    /// Envoy, which asks again at the times that 429 says.
    Envoy,
}

/// Where the programs are.
pub(super) struct PacePrograms {
    pub hermes: PathBuf,
    pub envoy: PathBuf,
}

/// How long a process may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

impl PaceSystem {
    /// All systems, in the order of the table.
    pub const ALL: [Self; 6] = [
        Self::Alone,
        Self::Window,
        Self::Hermes,
        Self::HermesAtb,
        Self::HermesAatb,
        Self::Envoy,
    ];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Window => "window",
            Self::Hermes => "hermes",
            Self::HermesAtb => "hermes-atb",
            Self::HermesAatb => "hermes-aatb",
            Self::Envoy => "envoy",
        }
    }

    /// The systems that can be measured here; the others are named.
    pub(super) fn installed(programs: &PacePrograms) -> Vec<Self> {
        let is_there = |system: &Self| *system != Self::Envoy || programs.has_envoy();
        let (there, missing): (Vec<_>, Vec<_>) = Self::ALL.into_iter().partition(is_there);
        for system in missing {
            eprintln!("hermes-lab: {system} is not installed, and not measured");
        }
        there
    }

    fn mode(self) -> &'static str {
        match self {
            Self::HermesAtb => "atb",
            Self::HermesAatb => "aatb",
            _ => "learned",
        }
    }
}

impl PacePrograms {
    fn has_envoy(&self) -> bool {
        if self.envoy.components().count() > 1 {
            return self.envoy.is_file();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(&self.envoy).is_file())
    }
}

impl fmt::Display for PaceSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A system that is ready.
pub(super) struct RunningPace {
    pub way: PaceWay,
    _process: Option<Process>,
}

impl RunningPace {
    /// Starts a system.
    ///
    /// # Errors
    /// When its program is missing, or does not listen.
    pub(super) async fn start(
        system: PaceSystem,
        programs: &PacePrograms,
        folder: &Path,
        origin: SocketAddr,
    ) -> Result<Self> {
        let alone = |way| Self {
            way,
            _process: None,
        };
        let address = ports::free()?;
        // Envoy reads JSON where it is not called so.
        let file = folder.join(format!("{system}.yaml"));
        let path = file.to_string_lossy().into_owned();
        let (way, program, words) = match system {
            PaceSystem::Alone => return Ok(alone(PaceWay::Alone)),
            PaceSystem::Window => return Ok(alone(PaceWay::Window)),
            PaceSystem::Envoy => {
                fs::write(&file, envoy(address, origin))?;
                let words = ["-c", &path, "--log-level", "error", "--disable-hot-restart"];
                let words = words.map(str::to_owned).to_vec();
                (PaceWay::Front(address), &programs.envoy, words)
            }
            _ => {
                fs::write(&file, hermes(address, system.mode()))?;
                let words = vec!["run".to_owned(), path];
                (PaceWay::Proxy(address), &programs.hermes, words)
            }
        };
        let mut process = Process::start_in(None, system.name(), folder, program, &words)?;
        let step = Duration::from_millis(10);
        for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
            process.check()?;
            if TcpStream::connect(address).await.is_ok() {
                return Ok(Self {
                    way,
                    _process: Some(process),
                });
            }
            tokio::time::sleep(step).await;
        }
        bail!("{system} does not listen:\n{}", process.log())
    }
}

fn hermes(address: SocketAddr, mode: &str) -> String {
    format!(
        "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\n\
         listeners: {{ web: {{ http: \"{address}\" }} }}\negress: {{ allow: [127.0.0.0/8] }}\n\
         routes: [{{ terminate: true, through: [{{ pace: {{ mode: {mode}, wait: 300s }} }}] }}]\n"
    )
}

fn envoy(address: SocketAddr, origin: SocketAddr) -> String {
    let at = |address: SocketAddr| {
        format!(
            "{{ socket_address: {{ address: {}, port_value: {} }} }}",
            address.ip(),
            address.port()
        )
    };
    format!(
        "static_resources:\n  listeners:\n  - address: {}\n    filter_chains:\n    - filters:\n      \
         - name: envoy.filters.network.http_connection_manager\n        typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager\n          \
         stat_prefix: s\n          http_filters: [ {{ name: envoy.filters.http.router, typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }} }} ]\n          \
         route_config: {{ virtual_hosts: [ {{ name: s, domains: [\"*\"], routes: [ {{ match: {{ prefix: / }}, route: {{ cluster: s, timeout: 0s, retry_policy: {{ \
         retry_on: retriable-status-codes, retriable_status_codes: [429], num_retries: 100, \
         rate_limited_retry_back_off: {{ reset_headers: [ {{ name: retry-after, format: SECONDS }} ], max_interval: 300s }} }} }} }} ] }} ] }}\n  \
         clusters:\n  - name: s\n    load_assignment: {{ cluster_name: s, endpoints: [ {{ lb_endpoints: [ {{ endpoint: {{ address: {} }} }} ] }} ] }}\n    \
         circuit_breakers: {{ thresholds: [ {{ max_retries: 10000, max_pending_requests: 10000 }} ] }}\n",
        at(address),
        at(origin)
    )
}
