//! The systems: no proxy, a reverse proxy, and a node with chains of functions.

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use crate::peers::ports;
use crate::process::Process;
use crate::socks::client::SocksWay;
use crate::topology::Namespace;

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FunctionsSystem {
    /// No proxy.
    Direct,
    /// nginx as a reverse proxy.
    Nginx,
    /// Hermes with a port for this server, as a reverse proxy has.
    Hermes,
    /// Hermes, spoken to by SOCKS5.
    Hermes5,
    /// Hermes, spoken to by SOCKS6.
    Hermes6,
    /// The same, with a chain of one function.
    Chain1,
    /// Two functions.
    Chain2,
    /// Three functions.
    Chain3,
    /// Four functions.
    Chain4,
    /// One function that is a process outside, microsocks.
    Outside,
}

/// The chain: each longer one has the shorter one in it. Nothing of it refuses or holds back the load.
const CHAIN: [(&str, &str); 4] = [
    ("allow-ports", "{ allow: { ports: [1-65535] } }"),
    ("http-only", "{ sniff: { is: [http] } }"),
    ("no-faster", "{ limit: { per_second: 100GiB } }"),
    ("record", "{ tap: { folder: taps } }"),
];

impl FunctionsSystem {
    /// All systems, in the order of the table.
    pub const ALL: [Self; 10] = [
        Self::Direct,
        Self::Nginx,
        Self::Hermes,
        Self::Hermes5,
        Self::Hermes6,
        Self::Chain1,
        Self::Chain2,
        Self::Chain3,
        Self::Chain4,
        Self::Outside,
    ];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Hermes => "hermes",
            Self::Hermes5 => "hermes5",
            Self::Hermes6 => "hermes6",
            Self::Chain1 => "chain1",
            Self::Chain2 => "chain2",
            Self::Chain3 => "chain3",
            Self::Chain4 => "chain4",
            Self::Outside => "outside",
        }
    }

    /// Functions on the way.
    fn functions(self) -> usize {
        match self {
            Self::Chain1 => 1,
            Self::Chain2 => 2,
            Self::Chain3 => 3,
            Self::Chain4 => 4,
            _ => 0,
        }
    }

    fn way(self, listens: SocketAddr) -> SocksWay {
        match self {
            Self::Direct | Self::Nginx | Self::Hermes => SocksWay::Direct,
            Self::Hermes5 => SocksWay::Socks5(listens),
            _ => SocksWay::Socks6(listens),
        }
    }
}

impl fmt::Display for FunctionsSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How long a proxy may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Where a system runs.
#[derive(Clone, Copy)]
pub(super) struct FunctionsPlace<'a> {
    /// The program of Hermes.
    pub hermes: &'a Path,
    pub namespace: Option<&'a Namespace>,
    /// The address of the machine with the proxy.
    pub address: IpAddr,
    /// The server, as the proxy reaches it.
    pub server: SocketAddr,
    pub folder: &'a Path,
}

/// A system that was started.
pub(super) struct RunningFunctions {
    pub system: FunctionsSystem,
    /// None without a proxy; the last one is the one that clients connect to.
    processes: Vec<Process>,
    pub way: SocksWay,
    /// The address that clients ask for, or connect to.
    pub target: SocketAddr,
    listens: SocketAddr,
}

impl RunningFunctions {
    /// Starts a system; it may not be ready yet.
    ///
    /// # Errors
    /// When a program is missing.
    pub(super) fn launch(system: FunctionsSystem, place: FunctionsPlace<'_>) -> Result<Self> {
        let folder = place.folder.join(system.name());
        fs::create_dir_all(folder.join("taps"))?;
        let listens = SocketAddr::new(place.address, ports::free()?.port());
        let start = |name: &str, program: &Path, words: &[&str]| {
            Process::start_in(place.namespace, name, &folder, program, words)
        };

        let mut processes = Vec::new();
        match system {
            FunctionsSystem::Direct => {}
            FunctionsSystem::Nginx => {
                let file = written(&folder, "nginx.conf", nginx(&folder, listens, place.server))?;
                let home = folder.to_string_lossy();
                let words = ["-p", &home, "-e", "stderr", "-c", &file];
                processes.push(start("nginx", Path::new("nginx"), &words)?);
            }
            _ => {
                let outside = ports::free()?.port();
                if system == FunctionsSystem::Outside {
                    let port = outside.to_string();
                    let words = ["-i", "127.0.0.1", "-p", &port];
                    processes.push(start("microsocks", Path::new("microsocks"), &words)?);
                }
                let text = hermes(system, listens, place, outside);
                let file = written(&folder, "hermes.yaml", text)?;
                processes.push(start("hermes", place.hermes, &["run", &file])?);
            }
        }

        let target = match system {
            FunctionsSystem::Nginx | FunctionsSystem::Hermes => listens,
            _ => place.server,
        };
        Ok(Self {
            system,
            processes,
            way: system.way(listens),
            target,
            listens,
        })
    }

    /// Waits until it listens on this machine.
    ///
    /// # Errors
    /// When it has ended, or takes too long.
    pub(super) fn wait(&mut self) -> Result<()> {
        if self.processes.is_empty() {
            return Ok(());
        }
        let step = Duration::from_millis(10);
        for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
            self.check()?;
            if TcpStream::connect(self.listens).is_ok() {
                return Ok(());
            }
            std::thread::sleep(step);
        }
        bail!("{} does not listen", self.system)
    }

    /// Fails if a process has ended.
    ///
    /// # Errors
    /// With its log, when it has.
    pub(super) fn check(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::check)
    }

    /// Processor time of all its processes, with threads that have ended; `None` without a proxy.
    pub(super) fn processor_time(&self) -> Option<Duration> {
        let used = self.processes.iter().map(Process::processor_time_of_all);
        (!self.processes.is_empty()).then(|| used.sum())
    }
}

/// Writes a file of a folder, and gives its path.
fn written(folder: &Path, name: &str, text: String) -> Result<String> {
    let file: PathBuf = folder.join(name);
    fs::write(&file, text)?;
    Ok(file.to_string_lossy().into_owned())
}

fn hermes(
    system: FunctionsSystem,
    listens: SocketAddr,
    place: FunctionsPlace<'_>,
    outside: u16,
) -> String {
    let server = place.server;
    let listener = match system {
        FunctionsSystem::Hermes => format!("tcp: \"{listens}\", target: \"{server}\""),
        _ => format!("socks: \"{listens}\", experimental: true"),
    };
    let chain = &CHAIN[..system.functions()];
    let mut functions: Vec<_> = chain
        .iter()
        .map(|(name, settings)| format!("{name}: {settings}"))
        .collect();
    let mut names: Vec<_> = chain.iter().map(|(name, _)| *name).collect();
    if system == FunctionsSystem::Outside {
        functions.push(format!(
            "outside: {{ hop: {{ to: \"127.0.0.1:{outside}\", speak: socks5 }} }}"
        ));
        names.push("outside");
    }
    let functions = functions.join(", ");
    let names = names.join(", ");
    format!(
        "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\n\
         listeners: {{ s: {{ {listener}, public: true, limits: {{ per_source: 100000 }} }} }}\n\
         egress: {{ allow: [127.0.0.0/8, 10.0.0.0/8] }}\nfunctions: {{ {functions} }}\n\
         routes: [{{ terminate: true, through: [{names}] }}]\n"
    )
}

fn nginx(folder: &Path, listens: SocketAddr, server: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off;\npid {folder}/nginx.pid;\nworker_processes auto;\nevents {{ worker_connections 4096; }}\n\
         http {{\n  access_log off;\n  client_body_temp_path {folder}/body;\n  proxy_temp_path {folder}/proxy;\n  \
         fastcgi_temp_path {folder}/fastcgi;\n  uwsgi_temp_path {folder}/uwsgi;\n  scgi_temp_path {folder}/scgi;\n  \
         server {{ listen {listens} backlog=4096; location / {{ proxy_pass http://{server}; }} }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_as_many_functions_as_its_name_says() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let place = FunctionsPlace {
            hermes: Path::new("hermes"),
            namespace: None,
            address: address.ip(),
            server: address,
            folder: Path::new("/"),
        };
        for system in FunctionsSystem::ALL {
            let text = hermes(system, address, place, 1);
            let (_, through) = text.split_once("through: [").unwrap();
            let (names, _) = through.split_once(']').unwrap();
            let named = names.split(", ").filter(|name| !name.is_empty()).count();
            let wanted = match system {
                FunctionsSystem::Outside => 1,
                _ => system.functions(),
            };
            assert_eq!(named, wanted, "{text}");
        }
    }
}
