//! The brokers, each a process with its defaults but for its bounds.

use std::fmt;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
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
    /// nchan, a module of nginx, of Debian: requests, and events of EventSource.
    Nchan,
    /// Centrifugo, of Go: requests of its API, and events of EventSource.
    Centrifugo,
}

impl PushSystem {
    /// Those that `./test` has: `./test peers` installs the others.
    pub const USUAL: [Self; 2] = [Self::Hermes, Self::Nats];

    /// Its name in tables and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Nats => "nats",
            Self::Nchan => "nchan",
            Self::Centrifugo => "centrifugo",
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
            PushSystem::Nchan => {
                fs::write(&file, nchan_configuration(address))?;
                let folder = folder.to_string_lossy();
                start(&nginx(), &["-p", &folder, "-c", &path, "-e", "stderr"])?
            }
            PushSystem::Centrifugo => {
                let file = file.with_extension("json");
                fs::write(&file, centrifugo_configuration(address))?;
                start(&centrifugo(), &["--config", &file.to_string_lossy()])?
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

fn nginx() -> PathBuf {
    std::env::var_os("HERMES_NGINX").map_or_else(|| "nginx".into(), PathBuf::from)
}

fn centrifugo() -> PathBuf {
    std::env::var_os("HERMES_CENTRIFUGO").map_or_else(|| "centrifugo".into(), PathBuf::from)
}

/// A message is for those who are there, as those of the others are; nchan keeps large ones for some seconds more, gigabytes of them.
fn nchan_configuration(address: SocketAddr) -> String {
    format!(
        "load_module /usr/lib/nginx/modules/ngx_nchan_module.so;\n\
         daemon off; worker_processes auto; worker_rlimit_nofile 20000; pid nginx.pid; error_log stderr error;\n\
         events {{ worker_connections 20000; }}\n\
         http {{\n\
         access_log off; keepalive_requests 1000000000; nchan_max_reserved_memory 4096m;\n\
         client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
         client_max_body_size 4m; client_body_buffer_size 2m;\n\
         server {{\n\
         listen {address};\n\
         location ~ ^/pub/(\\w+)$ {{ nchan_publisher; nchan_channel_id $1; nchan_message_buffer_length 0; }}\n\
         location ~ ^/sub/(\\w+)$ {{ nchan_subscriber eventsource; nchan_channel_id $1; nchan_subscriber_first_message newest; }}\n\
         }}\n\
         }}\n"
    )
}

/// Anyone may subscribe and publish, no sign of life is among the messages, and for a client waits as much as for one of NATS.
fn centrifugo_configuration(address: SocketAddr) -> String {
    let host = address.ip();
    let port = address.port();
    serde_json::json!({
        "http_server": { "address": host.to_string(), "port": port.to_string() },
        "http_api": { "insecure": true },
        "client": { "insecure": true, "ping_interval": "3600s", "pong_timeout": "60s", "queue_max_size": 64 << 20 },
        "uni_sse": { "enabled": true },
        "log": { "level": "error" },
    })
    .to_string()
}
