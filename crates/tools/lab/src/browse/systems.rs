//! The nodes between browsers and server.

use std::fmt;
use std::path::{Path, PathBuf};

use super::addresses::{NETWORKS, SECOND_HOP, hop_address};
use crate::pki::{PROXY, Pki};

/// A system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BrowseSystem {
    /// No proxy, HTTP/1.1 over up to six connections.
    Direct,
    /// No proxy, HTTP/2 over TLS.
    DirectHttp2,
    /// No proxy, HTTP/1.1 from a server whose machine uses BBR.
    DirectBbr,
    /// A node at the client and one behind the link, with their defaults over HTTP/3.
    HermesDefaults,
    /// The same with BBR over HTTP/3, towards the server and back.
    HermesBbr,
    /// The same over HTTP/2, between machines that use BBR.
    HermesOne,
    /// The same with a further node before the server.
    HermesTwo,
    /// One hop, and a cache at the client.
    HermesOneCache,
    /// Two hops, and a cache at the client.
    HermesTwoCache,
}

/// Where the programs are.
pub(super) struct BrowsePrograms {
    pub hermes: PathBuf,
    pub chromium: PathBuf,
}

/// Where a node at a client listens.
pub(super) const ENTRY: &str = "127.0.0.1:3128";
const PORT: u16 = 8443;

impl BrowseSystem {
    /// All systems, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Direct,
        Self::DirectHttp2,
        Self::DirectBbr,
        Self::HermesDefaults,
        Self::HermesBbr,
        Self::HermesOne,
        Self::HermesTwo,
        Self::HermesOneCache,
        Self::HermesTwoCache,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::DirectHttp2 => "direct-http2",
            Self::DirectBbr => "direct-bbr",
            Self::HermesDefaults => "hermes-defaults",
            Self::HermesBbr => "hermes-bbr",
            Self::HermesOne => "hermes-one",
            Self::HermesTwo => "hermes-two",
            Self::HermesOneCache => "hermes-one-cache",
            Self::HermesTwoCache => "hermes-two-cache",
        }
    }

    /// Nodes behind the link.
    pub(super) fn hops(self) -> u8 {
        match self {
            Self::Direct | Self::DirectHttp2 | Self::DirectBbr => 0,
            Self::HermesDefaults | Self::HermesBbr | Self::HermesOne | Self::HermesOneCache => 1,
            Self::HermesTwo | Self::HermesTwoCache => 2,
        }
    }

    pub(super) fn has_cache(self) -> bool {
        matches!(self, Self::HermesOneCache | Self::HermesTwoCache)
    }

    /// The configuration of the node at this client.
    pub(super) fn at_client(self, client: u8, folder: &Path) -> String {
        let cache = match self.has_cache() {
            true => ", through: [near]",
            false => "",
        };
        let to = format!("{}:{PORT}", hop_address(client));
        let hop = upstream(&to, folder, self.link());
        node(
            &format!("client{client}"),
            &format!(
                "listeners: {{ web: {{ http: \"{ENTRY}\" }} }}\n\
                 functions: {{ near: {{ cache: {{ object: 16MiB }} }} }}\n\
                 routes: [ {{ to: hop{cache} }} ]\nupstreams: {{ hop: {hop} }}\n"
            ),
        )
    }

    /// The configuration of the node behind the link.
    pub(super) fn at_first_hop(self, folder: &Path) -> String {
        let listener = listener("0.0.0.0", folder, self.link());
        let rest = match self.hops() {
            2 => {
                let next = upstream(&format!("{SECOND_HOP}:{PORT}"), folder, BetweenHops::Http3);
                format!("routes: [ {{ to: next }} ]\nupstreams: {{ next: {next} }}\n")
            }
            _ => ends(),
        };
        node("first", &format!("{listener}{rest}"))
    }

    /// The configuration of the node before the server.
    pub(super) fn at_second_hop(self, folder: &Path) -> String {
        let listener = listener(SECOND_HOP, folder, BetweenHops::Http3);
        node("second", &format!("{listener}{}", ends()))
    }

    /// The connection over the link.
    fn link(self) -> BetweenHops {
        match self {
            Self::HermesDefaults => BetweenHops::Http3,
            Self::HermesBbr => BetweenHops::Http3Bbr,
            _ => BetweenHops::Http2,
        }
    }

    /// The congestion control of TCP of a machine: that of Linux, but where a system has chosen another one for the link.
    pub(super) fn congestion(self, at: BrowseMachine) -> &'static str {
        let is_chosen = match self {
            Self::Direct | Self::DirectHttp2 | Self::HermesDefaults | Self::HermesBbr => false,
            Self::DirectBbr => at == BrowseMachine::Server,
            _ => at == BrowseMachine::BesideLink,
        };
        if is_chosen { "bbr" } else { "cubic" }
    }
}

/// The place of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrowseMachine {
    /// A client, or the first hop.
    BesideLink,
    Server,
}

impl fmt::Display for BrowseSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A connection between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BetweenHops {
    Http2,
    Http3,
    /// With BBR in both directions.
    Http3Bbr,
}

impl BetweenHops {
    fn version(self) -> u8 {
        match self {
            Self::Http2 => 2,
            Self::Http3 | Self::Http3Bbr => 3,
        }
    }

    /// The key of both ends.
    fn congestion(self) -> &'static str {
        match self {
            Self::Http2 | Self::Http3 => "",
            Self::Http3Bbr => "congestion: bbr, ",
        }
    }
}

fn upstream(to: &str, folder: &Path, link: BetweenHops) -> String {
    let ca = Pki::open(folder).ca();
    let version = link.version();
    let congestion = link.congestion();
    format!(
        "{{ endpoints: [\"{to}\"], http: {version}, {congestion}tls: {{ ca_file: {}, server_name: {PROXY} }} }}",
        ca.display()
    )
}

fn listener(address: &str, folder: &Path, link: BetweenHops) -> String {
    let pki = Pki::open(folder);
    let congestion = link.congestion();
    format!(
        "listeners: {{ web: {{ http: \"{address}:{PORT}\", public: true, {congestion}tls: {{ cert_file: {}, key_file: {} }} }} }}\n",
        pki.cert(PROXY).display(),
        pki.key(PROXY).display()
    )
}

/// The end of a chain of nodes.
fn ends() -> String {
    format!("routes: [ {{ terminate: true }} ]\negress: {{ allow: [{NETWORKS}] }}\n")
}

fn node(name: &str, yaml: &str) -> String {
    format!(
        "version: 1\nadmin: {{ socket: {name}.sock }}\nlog: {{ level: warn, access: off }}\nworkers: 1\n{yaml}"
    )
}
