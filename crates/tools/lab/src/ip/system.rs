//! The systems that carry packets between a client and a server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::hermes::{self, Carrier, Chain};
use super::network::{FAR_INNER, FAR_OUTER, IpNetwork, NEAR_INNER, inner};
use super::wireguard::{self, EndKeys, WireguardProgram};
use crate::origin::{self, Addresses};
use crate::peers::Programs;
use crate::pki::{PROXY, Pki};
use crate::process::Process;

/// How long a device may take to be there.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Pause between two looks.
const STEP: Duration = Duration::from_millis(10);

/// The device of connect-ip-go, on both sides.
const DEVICE: &str = "connectip";

/// The MTU that fits its first datagrams, whose size is a setting of ours.
const CONNECT_IP_MTU: u32 = 1380;

/// Where its proxy listens.
const CONNECT_IP_PORT: u16 = 4433;

/// A carrier of packets.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum IpSystem {
    /// Nothing: the cable itself.
    Veth,
    /// A program that copies packets between two TUN devices: the bound.
    Copier,
    /// WireGuard in user space, in Go.
    WireguardGo,
    /// WireGuard in user space, in Rust.
    Boringtun,
    /// WireGuard in Go at the client, and a node that ends it at the server.
    HermesWireguard,
    /// CONNECT-IP over HTTP/3, in Go.
    ConnectIpGo,
    /// Hermes over HTTP/2 without TLS.
    HermesH2Clear,
    /// Hermes over HTTP/2 under TLS.
    HermesH2,
    /// Hermes over HTTP/3, packets in QUIC datagrams.
    HermesH3,
    /// The same with two nodes behind the first.
    #[value(name = "hermes-h3-2")]
    #[serde(rename = "hermes-h3-2")]
    HermesH3Two,
    /// Hermes over HTTP/3 with three nodes behind the first.
    #[value(name = "hermes-h3-3")]
    #[serde(rename = "hermes-h3-3")]
    HermesH3Three,
    /// Hermes over HTTP/3 with four nodes behind the first.
    #[value(name = "hermes-h3-4")]
    #[serde(rename = "hermes-h3-4")]
    HermesH3Four,
    /// Hermes over HTTP/2 under TLS with two nodes behind the first.
    #[value(name = "hermes-h2-2")]
    #[serde(rename = "hermes-h2-2")]
    HermesH2Two,
    /// Hermes over HTTP/2 under TLS with three nodes behind the first.
    #[value(name = "hermes-h2-3")]
    #[serde(rename = "hermes-h2-3")]
    HermesH2Three,
    /// Hermes over HTTP/2 under TLS with four nodes behind the first.
    #[value(name = "hermes-h2-4")]
    #[serde(rename = "hermes-h2-4")]
    HermesH2Four,
    /// Hermes with super-packets over HTTP/2 without TLS.
    HermesSuperClear,
    /// Hermes with super-packets over HTTP/2 under TLS.
    HermesSuper,
    /// Hermes with super-packets over HTTP/3: TCP in its stream.
    #[value(name = "hermes-super-h3")]
    #[serde(rename = "hermes-super-h3")]
    HermesSuperH3,
    /// Super-packets over HTTP/2 under TLS with two nodes behind the first.
    #[value(name = "hermes-super-2")]
    #[serde(rename = "hermes-super-2")]
    HermesSuperTwo,
    /// Super-packets over HTTP/2 under TLS with three nodes behind the first.
    #[value(name = "hermes-super-3")]
    #[serde(rename = "hermes-super-3")]
    HermesSuperThree,
    /// Super-packets over HTTP/2 under TLS with four nodes behind the first.
    #[value(name = "hermes-super-4")]
    #[serde(rename = "hermes-super-4")]
    HermesSuperFour,
}

impl IpSystem {
    /// All, in the order of the table.
    pub const ALL: [Self; 21] = [
        Self::Veth,
        Self::Copier,
        Self::WireguardGo,
        Self::Boringtun,
        Self::HermesWireguard,
        Self::ConnectIpGo,
        Self::HermesH2Clear,
        Self::HermesH2,
        Self::HermesH3,
        Self::HermesH3Two,
        Self::HermesH3Three,
        Self::HermesH3Four,
        Self::HermesH2Two,
        Self::HermesH2Three,
        Self::HermesH2Four,
        Self::HermesSuperClear,
        Self::HermesSuper,
        Self::HermesSuperH3,
        Self::HermesSuperTwo,
        Self::HermesSuperThree,
        Self::HermesSuperFour,
    ];

    /// As tables and options say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Veth => "veth",
            Self::Copier => "copier",
            Self::WireguardGo => "wireguard-go",
            Self::Boringtun => "boringtun",
            Self::HermesWireguard => "hermes-wireguard",
            Self::ConnectIpGo => "connect-ip-go",
            Self::HermesH2Clear => "hermes-h2-clear",
            Self::HermesH2 => "hermes-h2",
            Self::HermesH3 => "hermes-h3",
            Self::HermesH3Two => "hermes-h3-2",
            Self::HermesH3Three => "hermes-h3-3",
            Self::HermesH3Four => "hermes-h3-4",
            Self::HermesH2Two => "hermes-h2-2",
            Self::HermesH2Three => "hermes-h2-3",
            Self::HermesH2Four => "hermes-h2-4",
            Self::HermesSuperClear => "hermes-super-clear",
            Self::HermesSuper => "hermes-super",
            Self::HermesSuperH3 => "hermes-super-h3",
            Self::HermesSuperTwo => "hermes-super-2",
            Self::HermesSuperThree => "hermes-super-3",
            Self::HermesSuperFour => "hermes-super-4",
        }
    }

    /// Whether Hermes is a part of it.
    pub fn has_hermes(self) -> bool {
        self == Self::HermesWireguard || self.chain().is_some()
    }

    /// The row of nodes that it is, if it is one.
    pub fn chain(self) -> Option<Chain> {
        let (carrier, hops) = match self {
            Self::Veth
            | Self::Copier
            | Self::WireguardGo
            | Self::Boringtun
            | Self::HermesWireguard
            | Self::ConnectIpGo => return None,
            Self::HermesH2Clear => (Carrier::H2Clear, 1),
            Self::HermesH2 => (Carrier::H2, 1),
            Self::HermesH3 => (Carrier::H3, 1),
            Self::HermesH3Two => (Carrier::H3, 2),
            Self::HermesH3Three => (Carrier::H3, 3),
            Self::HermesH3Four => (Carrier::H3, 4),
            Self::HermesH2Two => (Carrier::H2, 2),
            Self::HermesH2Three => (Carrier::H2, 3),
            Self::HermesH2Four => (Carrier::H2, 4),
            Self::HermesSuperClear => (Carrier::H2Clear, 1),
            Self::HermesSuper => (Carrier::H2, 1),
            Self::HermesSuperH3 => (Carrier::H3, 1),
            Self::HermesSuperTwo => (Carrier::H2, 2),
            Self::HermesSuperThree => (Carrier::H2, 3),
            Self::HermesSuperFour => (Carrier::H2, 4),
        };
        Some(Chain {
            carrier,
            hops,
            super_packets: self.name().starts_with("hermes-super"),
        })
    }
}

impl fmt::Display for IpSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A system that runs, in a network of its own.
#[derive(Debug)]
pub struct RunningIp {
    /// Which.
    pub system: IpSystem,
    /// Its network.
    pub network: IpNetwork,
    /// The origin, as the client reaches it through the tunnel.
    pub origin: Addresses,
    tunnel: Vec<Process>,
    _origin: Process,
}

impl RunningIp {
    /// Starts it, over a cable of this `rate` in Mbit/s, if there is one. Must be called on the main thread, as all that starts processes.
    ///
    /// # Errors
    /// With the logs of its processes, when one does not start.
    pub fn start(
        system: IpSystem,
        programs: &Programs,
        folder: &Path,
        rate: Option<u32>,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(system.name())
            .tempdir_in(folder)?
            .keep();
        let network = IpNetwork::lay()?;
        if let Some(rate) = rate {
            network.shape(rate)?;
        }
        let tunnel = launch(system, &network, programs, &folder)?;

        // It needs certificates of its own folder, whatever the tunnel has.
        Pki::create(&folder)?;
        let anywhere = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let (process, origin) = origin::start_in(Some(network.far()?), anywhere, &folder)?;
        let host = match system {
            IpSystem::Veth => FAR_OUTER,
            _ => FAR_INNER,
        };

        Ok(Self {
            system,
            network,
            origin: seen(origin, host),
            tunnel,
            _origin: process,
        })
    }

    /// Processor time of its processes so far. The kernel's own work for devices is not in it.
    pub fn processor_time(&self) -> Duration {
        self.tunnel.iter().map(Process::processor_time).sum()
    }

    /// The output of its processes.
    pub fn logs(&self) -> String {
        self.tunnel.iter().map(Process::log).collect()
    }
}

/// The origin at the address that the client knows.
fn seen(origin: Addresses, host: Ipv4Addr) -> Addresses {
    let at = |bound: SocketAddr| SocketAddr::from((host, bound.port()));
    Addresses {
        http: at(origin.http),
        tls: at(origin.tls),
        tcp: at(origin.tcp),
        udp: at(origin.udp),
    }
}

/// Starts the processes of a system.
fn launch(
    system: IpSystem,
    network: &IpNetwork,
    programs: &Programs,
    folder: &Path,
) -> Result<Vec<Process>> {
    if let Some(chain) = system.chain() {
        return chain.start(network, &programs.hermes, folder);
    }
    match system {
        IpSystem::Copier => copier(network, folder),
        IpSystem::WireguardGo => wireguard::start(&wireguard_go(programs, "wgo"), network, folder),
        IpSystem::HermesWireguard => {
            let keys = EndKeys::generate()?;
            let far = hermes::behind_wireguard(&keys, network, &programs.hermes, folder)?;
            let program = wireguard_go(programs, "wgh");
            let near = wireguard::start_near(
                &program,
                &keys,
                network.near()?,
                hermes::BEHIND_WIREGUARD,
                folder,
            )?;
            Ok(vec![far, near])
        }
        IpSystem::Boringtun => {
            let program = WireguardProgram {
                program: &programs.boringtun,
                arguments: &["--foreground", "--disable-drop-privileges"],
                prefix: "btn",
            };
            wireguard::start(&program, network, folder)
        }
        IpSystem::ConnectIpGo => connect_ip_go(network, &programs.connect_ip_go, folder),
        // The cable needs nothing; Hermes was started above.
        _ => Ok(Vec::new()),
    }
}

fn wireguard_go<'a>(programs: &'a Programs, prefix: &'a str) -> WireguardProgram<'a> {
    WireguardProgram {
        program: &programs.wireguard_go,
        arguments: &["--foreground"],
        prefix,
    }
}

fn copier(network: &IpNetwork, folder: &Path) -> Result<Vec<Process>> {
    let program = std::env::current_exe()?;
    let words = [
        "copier".to_owned(),
        "--near".to_owned(),
        network.near()?.path(),
        "--far".to_owned(),
        network.far()?.path(),
    ];
    Ok(vec![Process::start("copier", folder, &program, &words)?])
}

/// Its proxy, then its client. Each makes a device, which is up once the tunnel is open.
fn connect_ip_go(network: &IpNetwork, program: &Path, folder: &Path) -> Result<Vec<Process>> {
    let pki_folder = folder.join("connect-ip");
    std::fs::create_dir(&pki_folder)?;
    let pki = Pki::create(&pki_folder)?;
    let proxy = format!("{FAR_OUTER}:{CONNECT_IP_PORT}");

    let words = [
        PathBuf::from("tun-server"),
        pki.cert(PROXY),
        pki.key(PROXY),
        PathBuf::from(&proxy),
        PathBuf::from(DEVICE),
    ];
    let mut server = Process::start_in(Some(network.far()?), "server", folder, program, &words)?;
    // It prints its port once it listens.
    let begin = Instant::now();
    while server.log().is_empty() && begin.elapsed() < START_LIMIT {
        server.check()?;
        std::thread::sleep(STEP);
    }

    let words = [
        PathBuf::from("tun-client"),
        pki.ca(),
        PathBuf::from(&proxy),
        PathBuf::from(PROXY),
        PathBuf::from(DEVICE),
    ];
    let client = Process::start_in(Some(network.near()?), "client", folder, program, &words)?;
    let mut processes = vec![client, server];

    for (namespace, address) in [(network.near()?, NEAR_INNER), (network.far()?, FAR_INNER)] {
        let begin = Instant::now();
        while namespace
            .run(&["ip", "link", "show", "dev", DEVICE])
            .is_err()
        {
            for process in &mut processes {
                process.check()?;
            }
            anyhow::ensure!(begin.elapsed() < START_LIMIT, "the device is not made");
            std::thread::sleep(STEP);
        }
        namespace
            .attach(DEVICE, &inner(address).to_string())
            .context("the device of connect-ip-go")?;
        let mtu = CONNECT_IP_MTU.to_string();
        namespace.run(&["ip", "link", "set", "dev", DEVICE, "mtu", &mtu])?;
    }
    Ok(processes)
}
