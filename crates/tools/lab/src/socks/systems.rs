//! The proxies, each a process with its defaults and without passwords.

use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};

use super::client::SocksWay;
use crate::peers::ports;
use crate::process::Process;
use crate::topology::Namespace;

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SocksSystem {
    /// No proxy.
    Direct,
    /// Hermes, spoken to by SOCKS5.
    Hermes,
    /// Hermes, spoken to by SOCKS6.
    Hermes6,
    /// dante's server, of Debian.
    Dante,
    /// sing-box.
    SingBox,
    /// microsocks, of Debian.
    Microsocks,
}

impl SocksSystem {
    /// All systems, in the order of the table.
    pub const ALL: [Self; 6] = [
        Self::Direct,
        Self::Hermes,
        Self::Hermes6,
        Self::Dante,
        Self::SingBox,
        Self::Microsocks,
    ];

    /// Its name in tables and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Hermes => "hermes",
            Self::Hermes6 => "hermes6",
            Self::Dante => "dante",
            Self::SingBox => "sing-box",
            Self::Microsocks => "microsocks",
        }
    }
}

impl fmt::Display for SocksSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Where the programs are that are no packages of Debian.
pub(super) struct SocksPrograms {
    pub hermes: PathBuf,
    pub sing_box: PathBuf,
}

/// How long a proxy may take to listen.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Where a proxy runs, and where it listens.
pub(super) struct SocksPlace<'a> {
    pub namespace: Option<&'a Namespace>,
    pub address: SocketAddr,
    pub folder: &'a Path,
    /// Connections open with their first bytes.
    pub is_fast: bool,
}

/// A system that is ready.
pub(super) struct RunningSocks {
    pub system: SocksSystem,
    /// `None` where there is no proxy.
    pub process: Option<Process>,
    pub way: SocksWay,
}

impl RunningSocks {
    /// Starts a system on this machine.
    ///
    /// # Errors
    /// When its program is missing, or does not listen.
    pub(super) fn start(
        system: SocksSystem,
        programs: &SocksPrograms,
        folder: &Path,
    ) -> Result<Self> {
        let place = SocksPlace {
            namespace: None,
            address: ports::free()?,
            folder,
            is_fast: false,
        };
        let mut running = Self::launch(system, programs, &place)?;
        running.wait(|| TcpStream::connect(place.address).is_ok())?;
        Ok(running)
    }

    /// Starts a system somewhere; it may not be ready yet.
    ///
    /// # Errors
    /// When its program is missing.
    pub(super) fn launch(
        system: SocksSystem,
        programs: &SocksPrograms,
        place: &SocksPlace<'_>,
    ) -> Result<Self> {
        let SocksPlace {
            namespace,
            address,
            folder,
            is_fast,
        } = place;
        let ip = address.ip();
        let port = address.port();
        let file = folder.join(system.name());
        let written = |text: String| fs::write(&file, text);
        let start = |program: &Path, words: &[&str]| {
            Process::start_in(*namespace, system.name(), folder, program, words).map(Some)
        };
        let path = file.to_string_lossy();

        let process = match system {
            SocksSystem::Direct => None,
            SocksSystem::Hermes | SocksSystem::Hermes6 => {
                written(hermes(*address, *is_fast))?;
                start(&programs.hermes, &["run", &path])?
            }
            SocksSystem::Dante => {
                written(dante(ip, port))?;
                let pid = format!("{path}.pid");
                start(Path::new("danted"), &["-f", &path, "-p", &pid])?
            }
            SocksSystem::SingBox => {
                written(sing_box(ip, port))?;
                start(&programs.sing_box, &["run", "-c", &path])?
            }
            SocksSystem::Microsocks => {
                let ip = ip.to_string();
                let port = port.to_string();
                start(Path::new("microsocks"), &["-i", &ip, "-p", &port])?
            }
        };
        let way = match system {
            SocksSystem::Direct => SocksWay::Direct,
            SocksSystem::Hermes6 if *is_fast => SocksWay::Socks6Fast(*address),
            SocksSystem::Hermes6 => SocksWay::Socks6(*address),
            _ => SocksWay::Socks5(*address),
        };
        Ok(Self {
            system,
            process,
            way,
        })
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// When it has ended, or takes too long.
    pub(super) fn wait(&mut self, is_ready: impl Fn() -> bool) -> Result<()> {
        let Some(process) = &mut self.process else {
            return Ok(());
        };
        let step = Duration::from_millis(10);
        for _ in 0..START_LIMIT.as_millis() / step.as_millis() {
            process.check()?;
            if is_ready() {
                return Ok(());
            }
            std::thread::sleep(step);
        }
        bail!("{} does not listen:\n{}", self.system, process.log())
    }
}

fn hermes(address: SocketAddr, is_fast: bool) -> String {
    format!(
        "version: 1\nadmin: {{ socket: hermes.sock }}\nlog: {{ level: warn, access: off }}\n\
         listeners: {{ s: {{ socks: \"{address}\", experimental: true, fast_open: {is_fast}, public: true, limits: {{ per_source: 100000 }} }} }}\n\
         egress: {{ allow: [0.0.0.0/0, 127.0.0.0/8, 10.0.0.0/8] }}\nroutes: [{{ terminate: true }}]\n"
    )
}

fn dante(ip: IpAddr, port: u16) -> String {
    // The address by which connections leave has to be named; loopback has its own.
    let external = match ip == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        true => "lo".to_owned(),
        false => "server".to_owned(),
    };
    format!(
        "logoutput: stderr\nerrorlog: stderr\ninternal: {ip} port = {port}\nexternal: {external}\n\
         socksmethod: none\nclientmethod: none\nuser.unprivileged: daemon\n\
         client pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}\nsocks pass {{ from: 0.0.0.0/0 to: 0.0.0.0/0 }}\n"
    )
}

fn sing_box(ip: IpAddr, port: u16) -> String {
    format!(
        "{{\"log\":{{\"disabled\":true}},\"inbounds\":[{{\"type\":\"socks\",\"listen\":\"{ip}\",\"listen_port\":{port}}}],\"outbounds\":[{{\"type\":\"direct\"}}]}}"
    )
}
