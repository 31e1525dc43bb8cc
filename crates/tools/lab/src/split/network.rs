//! A client, a router with one system, and a server, each in a namespace.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Result;

use super::systems::{SplitPlace, SplitPrograms, SplitSystem};
use crate::emulator::wire::{End, Wire};
use crate::emulator::{Loss, Profile};
use crate::origin;
use crate::pki::Pki;
use crate::process::Process;
use crate::topology::{Namespace, Plug, Topology};

const CLIENT: &str = "10.78.1.2";
/// Addresses of the client, from the first on.
pub(super) const CLIENTS: [Ipv4Addr; 4] = [
    Ipv4Addr::new(10, 78, 1, 2),
    Ipv4Addr::new(10, 78, 1, 3),
    Ipv4Addr::new(10, 78, 1, 4),
    Ipv4Addr::new(10, 78, 1, 5),
];
const ROUTER: &str = "10.78.1.1";
const ROUTER_FAR: &str = "10.78.2.1";
const SERVER: &str = "10.78.2.2";
const PORT: u16 = 8000;

/// One way, on the lossy link and on the long one.
const NEAR_DELAY: Duration = Duration::from_millis(5);
const FAR_DELAY: Duration = Duration::from_millis(45);
/// Of the packets of the link near the client.
const NEAR_LOSS: f64 = 0.01;

/// A port of the server where no one listens.
const CLOSED: u16 = 9;

/// What is between client, router and server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SplitPath {
    /// Virtual cables, as fast as the machine.
    Cables,
    /// A link that loses packets near the client, and a long one behind the router: the reason to split a connection.
    LossyAndLong {
        /// Decides which packets are lost.
        seed: u64,
    },
}

/// The networks of one round, and all that runs in them.
pub(super) struct SplitNetwork {
    pub system: SplitSystem,
    /// `None` where the router passes packets on.
    pub process: Option<Process>,
    /// The address that clients connect to.
    pub target: SocketAddr,
    /// An address where no one listens.
    pub closed: SocketAddr,
    _origin: Process,
    _links: Vec<Wire>,
    topology: Topology,
    _folder: tempfile::TempDir,
}

impl SplitNetwork {
    /// Lays the networks and starts the system in them; it may not be ready yet.
    ///
    /// # Errors
    /// When the networks cannot be laid, or a program is missing.
    pub(super) fn lay(
        system: SplitSystem,
        programs: &SplitPrograms,
        path: SplitPath,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
        Pki::create(folder.path())?;
        let (topology, links) = laid(system, path)?;
        let server = Some(topology.namespace("server")?);
        let (origin, addresses) = origin::start_in(server, SERVER.parse()?, folder.path())?;

        let listens = SocketAddr::new(ROUTER.parse()?, PORT);
        // Envoy reads JSON where it is not called so.
        let file = folder.path().join(format!("{system}.yaml"));
        let client = topology.namespace("client")?.path();
        let place = SplitPlace {
            listens,
            server: addresses.tcp,
            client: &client,
            file: &file,
            folder: folder.path(),
        };
        let command = system.command(programs, &place);
        let process = command.map(|command| {
            fs::write(&file, &command.configuration)?;
            let router = Some(topology.namespace("router")?);
            let folder = folder.path();
            Process::start_in(
                router,
                system.name(),
                folder,
                &command.program,
                &command.words,
            )
        });
        Ok(Self {
            system,
            process: process.transpose()?,
            target: match system.is_forwarder() {
                true => listens,
                false => addresses.tcp,
            },
            closed: SocketAddr::new(SERVER.parse()?, CLOSED),
            _origin: origin,
            _links: links,
            topology,
            _folder: folder,
        })
    }

    /// The namespace of the client.
    pub(super) fn client(&self) -> Result<&Namespace> {
        self.topology.namespace("client")
    }

    /// Has the network devices take one segment at a time from now on, rather than many at once (TSO and GSO off).
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn end_offloads(&self) -> Result<()> {
        for (at, device) in DEVICES {
            let namespace = self.topology.namespace(at)?;
            namespace.ip(&format!("link set dev {device} gso_max_segs 1\n"))?;
        }
        Ok(())
    }

    /// Bounds what the server may send.
    ///
    /// # Errors
    /// The kernel has no token bucket filter (`sch_tbf`).
    pub(super) fn bound_rate(&self) -> Result<()> {
        let server = self.topology.namespace("server")?;
        let words = "tc qdisc add dev router root tbf rate 4gbit burst 1mb latency 20ms";
        server.run(&words.split(' ').collect::<Vec<_>>())?;
        Ok(())
    }

    /// Ends the bound.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn end_bound(&self) -> Result<()> {
        let server = self.topology.namespace("server")?;
        server.run(&["tc", "qdisc", "del", "dev", "router", "root"])?;
        Ok(())
    }
}

/// The devices of the cables, and where they are.
const DEVICES: [(&str, &str); 4] = [
    ("client", "router"),
    ("router", "client"),
    ("router", "server"),
    ("server", "router"),
];

fn laid(system: SplitSystem, path: SplitPath) -> Result<(Topology, Vec<Wire>)> {
    let mut topology = Topology::new();
    for name in ["client", "router", "server"] {
        topology.add(name)?;
    }
    let links = match path {
        SplitPath::Cables => {
            cables(&topology)?;
            Vec::new()
        }
        SplitPath::LossyAndLong { seed } => lossy_and_long(&topology, seed)?,
    };
    topology.route("server", "10.78.1.0/24", ROUTER_FAR)?;
    // A device of the node has the default route of the client's namespace.
    if system != SplitSystem::HermesStack {
        topology.route("client", "10.78.2.0/24", ROUTER)?;
    }
    // No packet goes past a system that is not ready, or that lets it.
    if system != SplitSystem::Direct {
        let router = topology.namespace("router")?;
        router.run(&["sysctl", "-q", "-w", "net.ipv4.ip_forward=0"])?;
    }
    Ok((topology, links))
}

/// The two ends of each link, with their addresses.
const LINKS: [[(&str, &str); 2]; 2] = [
    [("client", CLIENT), ("router", ROUTER)],
    [("router", ROUTER_FAR), ("server", SERVER)],
];

fn cables(topology: &Topology) -> Result<()> {
    for [(one, near), (other, far)] in LINKS {
        let near = format!("{near}/24");
        let far = format!("{far}/24");
        let plug = |namespace, address| Plug { namespace, address };
        topology.cable(plug(one, &near), plug(other, &far))?;
    }
    let client = topology.namespace("client")?;
    for address in &CLIENTS[1..] {
        client.ip(&format!("addr add {address}/24 dev router\n"))?;
    }
    Ok(())
}

fn lossy_and_long(topology: &Topology, seed: u64) -> Result<Vec<Wire>> {
    let near = Profile {
        delay: NEAR_DELAY,
        loss: Loss::Random(NEAR_LOSS),
        ..Profile::default()
    };
    let long = Profile {
        delay: FAR_DELAY,
        ..Profile::default()
    };
    let laid = LINKS.into_iter().zip([near, long]).map(|(ends, profile)| {
        let [(one, near), (other, far)] = ends;
        let addresses = [format!("{near}/24"), format!("{far}/24")];
        let end = |at, device, address| -> Result<End<'_>> {
            Ok(End {
                namespace: topology.namespace(at)?,
                device,
                address,
                profile: &profile,
            })
        };
        let [near, far] = &addresses;
        Wire::lay(end(one, other, near)?, end(other, one, far)?, seed)
    });
    laid.collect()
}
