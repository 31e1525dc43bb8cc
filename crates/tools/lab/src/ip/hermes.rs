//! Hermes: a node at each end, and others in between. Those behind the first all run in the server's namespace: what a hop costs is its
//! processor time, and the packets of a row of nodes share one cable anyway.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Result;

use super::network::{FAR_OUTER, IpNetwork, inner};
use super::wireguard::{self, EndKeys};
use crate::pki::{PROXY, Pki};
use crate::process::Process;

/// Where the first of the nodes behind the cable listens; the others have the ports after it.
const PORT: u16 = 8443;

/// The devices at both ends.
const NEAR_DEVICE: &str = "hermes0";
const FAR_DEVICE: &str = "hermes1";

/// The address of a client's WireGuard: the last node keeps the first of the pool for itself.
pub const BEHIND_WIREGUARD: Ipv4Addr = Ipv4Addr::new(10, 41, 0, 9);

/// The addresses inside; the last node has the first.
const POOL: &str = "10.41.0.0/24";

/// The address of the far device, where the measured server listens.
const FAR_INNER: &str = "10.41.0.1/32";

/// The protocol between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// HTTP/2 without TLS.
    H2Clear,
    /// HTTP/2 under TLS.
    H2,
    /// HTTP/3, with QUIC datagrams.
    H3,
}

/// A row of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    pub carrier: Carrier,
    /// Nodes behind the first: 1 is the one where tunnels end.
    pub hops: u16,
    /// Whether both ends agree on super-packets.
    pub super_packets: bool,
}

impl Chain {
    /// Starts the nodes, the last first. The tunnel opens by itself.
    ///
    /// # Errors
    /// When one cannot be started.
    pub fn start(self, network: &IpNetwork, hermes: &Path, folder: &Path) -> Result<Vec<Process>> {
        let pki_folder = folder.join("overlay");
        fs::create_dir(&pki_folder)?;
        let pki = Pki::create(&pki_folder)?;

        let mut nodes = Vec::new();
        for hop in (0..=self.hops).rev() {
            let name = format!("node{hop}");
            let namespace = match hop {
                0 => network.near()?,
                _ => network.far()?,
            };
            let file = folder.join(format!("{name}.yaml"));
            fs::write(&file, self.document(hop, &pki))?;
            let words = ["run".as_ref(), file.as_os_str()];
            nodes.push(Process::start_in(
                Some(namespace),
                &name,
                folder,
                hermes,
                &words,
            )?);
        }
        Ok(nodes)
    }

    /// The file of one node, the first being 0.
    fn document(self, hop: u16, pki: &Pki) -> String {
        let general = format!(
            "version: 1\nnode: node{hop}\nadmin: {{ socket: node{hop}.sock }}\nlog: {{ level: warn, access: off }}\n"
        );
        let tls = match self.carrier {
            Carrier::H2Clear => String::new(),
            Carrier::H2 | Carrier::H3 => format!(
                ", tls: {{ cert_file: {}, key_file: {} }}",
                pki.cert(PROXY).display(),
                pki.key(PROXY).display()
            ),
        };
        let super_packets = self.super_packets;
        let listeners = match hop {
            0 => format!(
                "identity: {{ user: lab }}\nlisteners: {{ vpn: {{ tun: {{ name: {NEAR_DEVICE}, super_packets: {super_packets}, routes: [{POOL}] }} }} }}\n"
            ),
            _ => format!(
                "listeners: {{ overlay: {{ http: \"{FAR_OUTER}:{}\", public: true{tls} }} }}\n",
                port(hop)
            ),
        };

        if hop == self.hops {
            return format!(
                "{general}{listeners}routes: [ {{ match: {{ kind: connect-ip }}, \
                 terminate: {{ tun: {FAR_DEVICE}, super_packets: {super_packets}, pool: [{POOL}], routes: [{POOL}] }} }} ]\n\
                 egress: {{ allow: [{FAR_INNER}] }}\n"
            );
        }
        let next = port(hop + 1);
        let ca = pki.ca();
        let ca = ca.display();
        let version = match self.carrier {
            Carrier::H2Clear => "http: 2".to_owned(),
            Carrier::H2 => format!("http: 2, tls: {{ ca_file: {ca}, server_name: {PROXY} }}"),
            Carrier::H3 => format!("http: 3, tls: {{ ca_file: {ca}, server_name: {PROXY} }}"),
        };
        format!(
            "{general}{listeners}routes: [ {{ match: {{ kind: connect-ip }}, to: next }} ]\n\
             upstreams: {{ next: {{ endpoints: [\"{FAR_OUTER}:{next}\"], {version} }} }}\n"
        )
    }
}

/// Starts a node that WireGuard brings packets to: where its tunnel ends, too.
///
/// # Errors
/// When it cannot be started.
pub fn behind_wireguard(
    keys: &EndKeys,
    network: &IpNetwork,
    hermes: &Path,
    folder: &Path,
) -> Result<Process> {
    let key = folder.join("wireguard.key");
    fs::write(&key, keys.far.to_text())?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;

    let wireguard = format!(
        "{{ listen: \"{FAR_OUTER}:{}\", private_key_file: {}, peer: {{ public_key: \"{}\" }} }}",
        wireguard::PORT,
        key.display(),
        keys.near.public()
    );
    let near = inner(BEHIND_WIREGUARD);
    let document = format!(
        "version: 1\nnode: far\nadmin: {{ socket: far.sock }}\nlog: {{ level: warn, access: off }}\n\
         listeners: {{ near: {{ user: lab, tun: {{ name: near, addresses: [{near}], wireguard: {wireguard} }} }} }}\n\
         routes: [ {{ match: {{ kind: connect-ip }}, \
         terminate: {{ tun: {FAR_DEVICE}, pool: [{POOL}], routes: [{POOL}] }} }} ]\n\
         egress: {{ allow: [{FAR_INNER}] }}\n"
    );
    let file = folder.join("far.yaml");
    fs::write(&file, document)?;
    let words = ["run".as_ref(), file.as_os_str()];
    Process::start_in(Some(network.far()?), "far", folder, hermes, &words)
}

fn port(hop: u16) -> u16 {
    PORT + hop
}
