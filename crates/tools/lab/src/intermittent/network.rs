//! Four nodes in a row, in namespaces of their own, with the links between them.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::bound::SLOT;
use super::download::PlannedDownload;
use super::server;
use super::{Carriage, LINKS, Protection, RATE};
use crate::emulator::wire::{End, Wire};
use crate::emulator::{Profile, Rate, Turn};
use crate::pki::{ORIGIN, PROXY, Pki};
use crate::process::Process;
use crate::topology::{Namespace, Topology};

/// Bytes that may wait at a link: 80 ms of its rate.
const QUEUE: usize = 100_000;

/// The delay of a packet from one node to the next, besides the time that its bytes take at the rate.
const DELAY: Duration = Duration::from_micros(200);

/// Where nodes take requests in custody, and over connections.
const CUSTODY: u16 = 4500;
const LINK: u16 = 8443;
const QUIC: u16 = 8444;

/// Where the first node takes those of the client, to be passed on in each way.
const BY_CUSTODY: u16 = 8001;
const BY_TCP: u16 = 8002;
const BY_QUIC: u16 = 8003;

/// The longest time after which TCP tries again, in milliseconds, where it is impatient: the shortest that the kernel allows.
const PATIENCE: u32 = 1000;

/// How long a node may take to start.
const START_LIMIT: Duration = Duration::from_secs(20);

/// The network, as long as it lives.
pub struct NodeRow {
    /// Files of this network.
    pub folder: PathBuf,
    topology: Topology,
    _wires: Vec<Wire>,
    _nodes: Vec<Process>,
    _origin: server::Origin,
}

impl NodeRow {
    /// Lays the network and starts the nodes. The turns of its links begin at `start`.
    ///
    /// # Errors
    /// When the system does not allow it, or a node does not start.
    pub fn lay(
        hermes: &Path,
        folder: &Path,
        download: PlannedDownload,
        start: Instant,
    ) -> Result<Self> {
        let turns = download.turns();
        let seed = download.seed;
        let is_impatient = download.way == Carriage::Impatient;
        let mut topology = Topology::new();
        for index in 0..=LINKS {
            topology.add(&name(index))?;
            if is_impatient {
                hurry(topology.namespace(&name(index))?)?;
            }
        }
        let pki = Pki::create(folder)?;

        let mut wires = Vec::new();
        for link in 0..LINKS {
            let turn = Turn {
                order: turns.clone(),
                link,
                slot: SLOT,
            };
            wires.push(lay_link(&topology, turn, seed, start)?);
        }
        lay_routes(&topology)?;
        let last = topology.namespace(&name(LINKS))?;
        let origin = server::serve(last, pki.server()?, download.bytes)?;
        let nodes = start_nodes(hermes, folder, &pki, &topology)?;

        Ok(Self {
            folder: folder.to_owned(),
            topology,
            _wires: wires,
            _nodes: nodes,
            _origin: origin,
        })
    }

    /// Where the client runs.
    ///
    /// # Errors
    /// Never: it is there.
    pub fn client(&self) -> Result<&Namespace> {
        self.topology.namespace(&name(0))
    }

    /// Host and port of the origin, as the client names it.
    pub fn origin(&self, way: Carriage, protection: Protection) -> String {
        let at = near_origin(LINKS);
        match (way, protection) {
            (Carriage::Direct, Protection::Hop) => format!("{at}:{}", server::PORT),
            (Carriage::Direct, Protection::EndToEnd) => format!("{at}:{}", server::SECURE_PORT),
            (_, Protection::Hop) => "files.lab".to_owned(),
            (_, Protection::EndToEnd) => format!("{ORIGIN}:{}", server::SECURE_PORT),
        }
    }

    /// The authority of the origin's certificate.
    pub fn authority(&self) -> PathBuf {
        Pki::open(&self.folder).ca()
    }

    /// The proxy that the client uses.
    pub fn proxy(&self, way: Carriage) -> Option<String> {
        let port = match way {
            Carriage::Custody => BY_CUSTODY,
            Carriage::Tcp | Carriage::Impatient => BY_TCP,
            Carriage::Quic => BY_QUIC,
            Carriage::Direct => return None,
        };
        Some(format!("http://127.0.0.1:{port}"))
    }
}

fn name(index: usize) -> String {
    format!("node{index}")
}

/// The address of the client's side of the link before this node, and of the origin's side.
fn near_client(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, node as u8, 1)
}

fn near_origin(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 79, node as u8, 2)
}

fn lay_link(topology: &Topology, turn: Turn, seed: u64, start: Instant) -> Result<Wire> {
    let link = turn.link;
    let profile = Profile {
        delay: DELAY,
        rate: Some(Rate {
            bits_per_second: (RATE * 8.0) as u64,
            queue_bytes: QUEUE,
        }),
        turn: Some(turn),
        ..Profile::default()
    };

    let behind = link + 1;
    let one = (
        name(link),
        name(behind),
        format!("{}/24", near_client(behind)),
    );
    let other = (
        name(behind),
        name(link),
        format!("{}/24", near_origin(behind)),
    );
    let end = |(namespace, device, address): &(String, String, String)| -> Result<_> {
        Ok((
            topology.namespace(namespace)?,
            device.clone(),
            address.clone(),
        ))
    };
    let one = end(&one)?;
    let other = end(&other)?;
    Wire::lay_since(
        End {
            namespace: one.0,
            device: &one.1,
            address: &one.2,
            profile: &profile,
        },
        End {
            namespace: other.0,
            device: &other.1,
            address: &other.2,
            profile: &profile,
        },
        seed,
        start,
    )
}

/// Every node reaches the networks beyond its neighbours.
fn lay_routes(topology: &Topology) -> Result<()> {
    for node in 0..=LINKS {
        for network in 1..=LINKS {
            let prefix = format!("10.79.{network}.0/24");
            // Its own networks are those of the links before it and behind it.
            if network > node + 1 {
                topology.route(&name(node), &prefix, &near_origin(node + 1).to_string())?;
            } else if network < node {
                topology.route(&name(node), &prefix, &near_client(node).to_string())?;
            }
        }
    }
    Ok(())
}

/// Lets TCP retry after a second at most.
fn hurry(namespace: &Namespace) -> Result<()> {
    let script = format!("echo {PATIENCE} > /proc/sys/net/ipv4/tcp_rto_max_ms");
    let status = namespace.command("sh").args(["-c", &script]).status()?;
    ensure!(status.success(), "this kernel has no tcp_rto_max_ms");
    Ok(())
}

fn start_nodes(
    hermes: &Path,
    folder: &Path,
    pki: &Pki,
    topology: &Topology,
) -> Result<Vec<Process>> {
    let keys: Vec<_> = (0..=LINKS)
        .map(|node| key(hermes, folder, node))
        .collect::<Result<_>>()?;
    let mut nodes = Vec::new();
    for node in (0..=LINKS).rev() {
        let file = folder.join(format!("{}.yaml", name(node)));
        fs::write(&file, document(node, &keys, pki))?;
        let words = ["run".as_ref(), file.as_os_str()];
        let namespace = topology.namespace(&name(node))?;
        let process = Process::start_in(Some(namespace), &name(node), folder, hermes, &words)?;
        nodes.push(process);
    }

    let begun = Instant::now();
    for node in &mut nodes {
        while !node.log().contains("is ready") {
            node.check()?;
            if begun.elapsed() > START_LIMIT {
                bail!("a node does not start:\n{}", node.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(nodes)
}

/// Makes the key of a node; its public part.
fn key(hermes: &Path, folder: &Path, node: usize) -> Result<String> {
    let file = folder.join(format!("{}.key", name(node)));
    let output = Command::new(hermes).arg("custody-key").arg(&file).output();
    let output = output.with_context(|| hermes.display().to_string())?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn document(node: usize, keys: &[String], pki: &Pki) -> String {
    let own = name(node);
    let mut neighbours = String::new();
    let mut upstreams = String::new();
    if let Some(next) = keys.get(node + 1) {
        let at = near_origin(node + 1);
        neighbours += &format!("      next: {{ key: \"{next}\", address: \"{at}:{CUSTODY}\" }}\n");
        upstreams = format!(
            "upstreams:\n  next: {{ endpoints: [\"{at}:{LINK}\"], tls: {{ ca_file: {ca}, server_name: {PROXY} }} }}\n  \
             quic: {{ endpoints: [\"{at}:{QUIC}\"], http: 3, tls: {{ ca_file: {ca}, server_name: {PROXY} }} }}\n",
            ca = pki.ca().display()
        );
    }
    if node > 0 {
        neighbours += &format!("      before: {{ key: \"{}\" }}\n", keys[node - 1]);
    }

    let routes = if node == LINKS {
        format!(
            "routes:\n  - {{ match: {{ target: {ORIGIN} }}, terminate: \"127.0.0.1:{}\" }}\n  - {{ terminate: \"127.0.0.1:{}\" }}\n",
            server::SECURE_PORT,
            server::PORT
        )
    } else {
        "routes:\n  \
         - { match: { listener: custody }, to: next, retry: { custody: true }, tunnel: { answer: early }, through: [cache] }\n  \
         - { match: { listener: quic }, to: quic, tunnel: { answer: early } }\n  \
         - { to: next, tunnel: { answer: early } }\n"
            .to_owned()
    };
    let listeners = listeners(node, pki);

    format!(
        "version: 1\nnode: {own}\nworkers: 1\nadmin: {{ socket: {own}.sock }}\nlog: {{ level: warn, access: off }}\n\
         defaults:\n  custody:\n    key_file: {own}.key\n    neighbours:\n{neighbours}\
         listeners:\n{listeners}{routes}{upstreams}"
    )
}

fn listeners(node: usize, pki: &Pki) -> String {
    if node == 0 {
        return format!(
            "  custody: {{ http: \"127.0.0.1:{BY_CUSTODY}\" }}\n  tcp: {{ http: \"127.0.0.1:{BY_TCP}\" }}\n  \
             quic: {{ http: \"127.0.0.1:{BY_QUIC}\" }}\n"
        );
    }
    let tls = format!(
        "{{ cert_file: {}, key_file: {} }}",
        pki.cert(PROXY).display(),
        pki.key(PROXY).display()
    );
    format!(
        "  custody: {{ udp: \"0.0.0.0:{CUSTODY}\", ingress: custody, public: true }}\n  \
         tcp: {{ http: \"0.0.0.0:{LINK}\", public: true, tls: {tls} }}\n  \
         quic: {{ http: \"0.0.0.0:{QUIC}\", public: true, tls: {tls} }}\n"
    )
}
