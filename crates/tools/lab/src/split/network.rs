//! A client, a router with one system, and a server, each in a namespace.

use std::fs;
use std::net::SocketAddr;

use anyhow::Result;

use super::systems::{SplitPlace, SplitPrograms, SplitSystem};
use crate::origin;
use crate::pki::Pki;
use crate::process::Process;
use crate::topology::{Namespace, Plug, Topology};

const CLIENT: &str = "10.78.1.2";
const ROUTER: &str = "10.78.1.1";
const ROUTER_FAR: &str = "10.78.2.1";
const SERVER: &str = "10.78.2.2";
const PORT: u16 = 8000;

/// A port of the server where no one listens.
const CLOSED: u16 = 9;

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
    topology: Topology,
    _folder: tempfile::TempDir,
}

impl SplitNetwork {
    /// Lays the networks and starts the system in them; it may not be ready yet.
    ///
    /// # Errors
    /// When the networks cannot be laid, or a program is missing.
    pub(super) fn lay(system: SplitSystem, programs: &SplitPrograms) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("hermes-lab").tempdir()?;
        Pki::create(folder.path())?;
        let topology = laid(system)?;
        let server = Some(topology.namespace("server")?);
        let (origin, addresses) = origin::start_in(server, SERVER.parse()?, folder.path())?;

        let listens = SocketAddr::new(ROUTER.parse()?, PORT);
        let file = folder.path().join(system.name());
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
            topology,
            _folder: folder,
        })
    }

    /// The namespace of the client.
    pub(super) fn client(&self) -> Result<&Namespace> {
        self.topology.namespace("client")
    }
}

fn laid(system: SplitSystem) -> Result<Topology> {
    let mut topology = Topology::new();
    for name in ["client", "router", "server"] {
        topology.add(name)?;
    }
    for (one, near, other, far) in [
        ("client", CLIENT, "router", ROUTER),
        ("router", ROUTER_FAR, "server", SERVER),
    ] {
        let near = format!("{near}/24");
        let far = format!("{far}/24");
        let plug = |namespace, address| Plug { namespace, address };
        topology.cable(plug(one, &near), plug(other, &far))?;
    }
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
    Ok(topology)
}
