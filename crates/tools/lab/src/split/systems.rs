//! The process on the router, with its defaults and without logs.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SplitSystem {
    /// The router passes packets on.
    Direct,
    /// Hermes captures by TPROXY, and accepts clients first.
    Hermes,
    /// Hermes holds the beginning of each connection until the server has answered.
    HermesSplit,
    /// Hermes captures by a device, as that of `hermes exec --capture`: its own stack answers the client.
    HermesStack,
    /// HAProxy, of Debian, as a forwarder of TCP to the server.
    Haproxy,
    /// nginx, of Debian, the same.
    Nginx,
    /// Envoy, the same.
    Envoy,
}

/// Where the programs are that are no packages of Debian.
pub(super) struct SplitPrograms {
    pub hermes: PathBuf,
    pub envoy: PathBuf,
}

/// The module by which nginx forwards TCP.
const NGINX_STREAM: &str = "/usr/lib/nginx/modules/ngx_stream_module.so";

/// The words of a configuration, and the command that reads it.
pub(super) struct SplitCommand {
    pub program: PathBuf,
    pub words: Vec<String>,
    pub configuration: String,
}

/// The addresses that a configuration names.
pub(super) struct SplitPlace<'a> {
    /// Where a forwarder listens.
    pub listens: SocketAddr,
    /// The server.
    pub server: SocketAddr,
    /// The namespace of the client.
    pub client: &'a str,
    /// The file that the configuration will be in, and its folder.
    pub file: &'a Path,
    pub folder: &'a Path,
}

impl SplitSystem {
    /// All systems, in the order of the table.
    pub const ALL: [Self; 7] = [
        Self::Direct,
        Self::Hermes,
        Self::HermesSplit,
        Self::HermesStack,
        Self::Haproxy,
        Self::Nginx,
        Self::Envoy,
    ];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hermes => "hermes",
            Self::HermesSplit => "hermes-split",
            Self::HermesStack => "hermes-stack",
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
            Self::Envoy => "envoy",
        }
    }

    /// Whether clients name the forwarder rather than the server.
    pub(super) fn is_forwarder(self) -> bool {
        matches!(self, Self::Haproxy | Self::Nginx | Self::Envoy)
    }

    pub(super) fn is_installed(self, programs: &SplitPrograms) -> bool {
        match self {
            Self::Direct | Self::Hermes | Self::HermesSplit | Self::HermesStack => true,
            Self::Haproxy => is_found(Path::new("haproxy")),
            Self::Nginx => is_found(Path::new("nginx")) && Path::new(NGINX_STREAM).exists(),
            Self::Envoy => is_found(&programs.envoy),
        }
    }

    /// The command that runs it; `None` where there is no process.
    pub(super) fn command(
        self,
        programs: &SplitPrograms,
        place: &SplitPlace<'_>,
    ) -> Option<SplitCommand> {
        let file = place.file.to_string_lossy().into_owned();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let (program, words, configuration) = match self {
            Self::Direct => return None,
            Self::Hermes | Self::HermesSplit | Self::HermesStack => (
                programs.hermes.clone(),
                words(&["run", &file]),
                self.hermes(place),
            ),
            Self::Haproxy => (
                "haproxy".into(),
                words(&["-q", "-db", "-f", &file]),
                haproxy(place),
            ),
            Self::Nginx => {
                let folder = place.folder.to_string_lossy();
                let all = ["-p", &folder, "-e", "stderr", "-c", &file];
                ("nginx".into(), words(&all), nginx(place))
            }
            Self::Envoy => {
                let all = ["-c", &file, "--log-level", "error", "--disable-hot-restart"];
                (programs.envoy.clone(), words(&all), envoy(place))
            }
        };
        Some(SplitCommand {
            program,
            words,
            configuration,
        })
    }

    fn hermes(self, place: &SplitPlace<'_>) -> String {
        let capture = match self {
            Self::HermesStack => format!("network: {}", place.client),
            Self::HermesSplit => "host: { interfaces: client, split: true }".to_owned(),
            _ => "host: { interfaces: client }".to_owned(),
        };
        let server = place.server.ip();
        format!(
            "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\n\
             listeners: {{ s: {{ capture: {{ {capture} }}, limits: {{ per_source: 100000 }} }} }}\n\
             egress: {{ allow: [{server}/32] }}\nroutes: [{{ terminate: true }}]\n"
        )
    }
}

impl fmt::Display for SplitSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn is_found(program: &Path) -> bool {
    if program.components().count() > 1 {
        return program.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn haproxy(place: &SplitPlace<'_>) -> String {
    format!(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         listen l\n  bind {} backlog 4096\n  server s {}\n",
        place.listens, place.server
    )
}

fn nginx(place: &SplitPlace<'_>) -> String {
    format!(
        "load_module {NGINX_STREAM};\ndaemon off;\npid {}/nginx.pid;\nworker_processes auto;\nworker_rlimit_nofile 65536;\n\
         events {{ worker_connections 32768; }}\n\
         stream {{ server {{ listen {} backlog=4096 reuseport; proxy_pass {}; }} }}\n",
        place.folder.display(),
        place.listens,
        place.server
    )
}

fn envoy(place: &SplitPlace<'_>) -> String {
    let address = |at: SocketAddr| {
        format!(
            "{{ socket_address: {{ address: {}, port_value: {} }} }}",
            at.ip(),
            at.port()
        )
    };
    format!(
        "static_resources:\n  listeners:\n  - address: {}\n    filter_chains:\n    - filters:\n      - name: envoy.filters.network.tcp_proxy\n        \
         typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: s, cluster: s }}\n  \
         clusters:\n  - name: s\n    load_assignment: {{ cluster_name: s, endpoints: [ {{ lb_endpoints: [ {{ endpoint: {{ address: {} }} }} ] }} ] }}\n    \
         circuit_breakers: {{ thresholds: [ {{ max_connections: 100000, max_pending_requests: 100000 }} ] }}\n",
        address(place.listens),
        address(place.server)
    )
}
