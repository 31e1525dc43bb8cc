//! Answers of a node to its administrators, over its socket or within its process. JSON has the names of their fields for keys.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use hermes_acme::Progress;
use hermes_admit::captures::SeenCapture;
use hermes_admit::devices::{MissingDevice, SeenDevice};
use hermes_admit::joins::JoinView;
use hermes_admit::memory_limits::{HolderView, MemoryView};
use hermes_config::{Change, Problem};
use hermes_listen::changes::ListenerChanges;
use hermes_listen::table::ListenerView;
use hermes_observe::validity::CertificateView;
use hermes_plug::NeighbourView;
use hermes_upstream::{AttachmentView, HopStatus, UpstreamStatus};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a node is.
#[derive(Debug, Serialize)]
pub struct NodeStatus {
    /// The process and its configuration.
    #[serde(flatten)]
    pub process: ProcessStatus,
    /// Where exchanges come from and go to.
    #[serde(flatten)]
    pub traffic: TrafficStatus,
    /// Its use of the machine.
    #[serde(flatten)]
    pub machine: MachineStatus,
}

/// A process and its configuration.
#[derive(Debug, Serialize)]
pub struct ProcessStatus {
    /// The node's name.
    pub node: String,
    /// Of the program.
    pub version: &'static str,
    /// Of the process.
    pub pid: u32,
    /// Since it was started.
    pub uptime_seconds: u64,
    /// The configuration in force.
    pub config: ConfigStatus,
    /// The return to an earlier configuration unless this one is confirmed; `None`: it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<Unconfirmed>,
    /// The configuration that was not confirmed, if the node has returned from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_up: Option<GivenUp>,
    /// The filter of the log.
    pub log: String,
    /// Threads that carry exchanges.
    pub workers: usize,
}

/// A document in force that is not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unconfirmed {
    /// Time that is left to confirm it.
    pub left_seconds: u64,
    /// The revision whose document the node returns to; `None`: there is none, and the node stops.
    pub returns_to: Option<u64>,
    /// The obstacle to a return, now or after a restart in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The configuration in force.
#[derive(Debug, Serialize)]
pub struct ConfigStatus {
    /// The file that a reload reads; `None`: documents are handed in.
    pub file: Option<PathBuf>,
    /// Number of the snapshot.
    pub revision: u64,
    /// Number of its routes.
    pub routes: usize,
}

/// A document that the node has returned from.
#[derive(Debug, Serialize)]
pub struct GivenUp {
    /// The snapshot that was made of it.
    pub revision: u64,
}

/// Where exchanges come from and go to.
#[derive(Debug, Serialize)]
pub struct TrafficStatus {
    /// Where exchanges enter.
    pub listeners: Vec<ListenerView>,
    /// Where they are sent.
    pub upstreams: Vec<UpstreamStatus>,
    /// Upstreams that go via others, and those.
    pub hops: Vec<HopStatus>,
    /// Certificates and lists of revoked ones.
    pub certificates: Vec<CertificateView>,
    /// Certificates that the node obtains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acme: Vec<Progress>,
    /// Nodes that are attached here.
    pub attached: Vec<AttachmentView>,
    /// Where this node is attached.
    pub attachments: Vec<JoinView>,
    /// TUN devices.
    pub devices: Vec<SeenDevice>,
    /// Devices that could not be opened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_devices: Vec<MissingDevice>,
    /// The neighbours of plugs that carry requests, under the names of the plugs.
    #[serde(flatten)]
    pub neighbours: BTreeMap<String, Vec<NeighbourView>>,
    /// The status of plugs, by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub plugs: Map<String, Value>,
    /// Exchanges under way.
    pub exchanges: LiveExchanges,
}

/// Exchanges under way.
#[derive(Debug, Serialize)]
pub struct LiveExchanges {
    /// Their number.
    pub live: usize,
}

/// The use that a node makes of its machine.
#[derive(Debug, Serialize)]
pub struct MachineStatus {
    /// The captured networks: those of programs, and those of pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub captures: Vec<SeenCapture>,
    /// The servers that resolve names.
    pub dns: NameServers,
    /// Datagrams of sockets that other processes have too, once there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_sockets: Option<SharedSockets>,
    /// Memory for contents whose readers are slow.
    pub memory: MemoryView,
    /// The connections that hold most of it.
    pub holders: Vec<HolderView>,
    /// Whether the node ends.
    pub draining: bool,
}

/// The servers that resolve names for a node.
#[derive(Debug, Serialize)]
pub struct NameServers {
    /// Their addresses.
    pub servers: Vec<IpAddr>,
}

/// Datagrams of sockets that other processes have too.
#[derive(Debug, Serialize)]
pub struct SharedSockets {
    /// Given to the process that they are for.
    pub forwarded: u64,
    /// Lost, as it was busy.
    pub dropped: u64,
}

/// Why a node is not ready.
#[derive(Debug, Serialize)]
pub struct NotReady {
    /// Devices that could not be opened.
    pub missing_devices: Vec<MissingDevice>,
    /// Devices that are being opened.
    pub pending_devices: Vec<String>,
    /// Whether the node ends.
    pub draining: bool,
}

/// The document in force, without its secrets.
#[derive(Debug, Serialize, Deserialize)]
pub struct DocumentView {
    /// The node's name.
    pub node: String,
    /// Number of the snapshot that was made of it.
    pub revision: u64,
    /// The file that it was read from, absolute; `None`: it was handed in.
    pub file: Option<PathBuf>,
    /// With the keys of a file.
    pub document: Value,
    /// As a file could have it.
    pub text: String,
}

/// How the document in force differs from another.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// Whether both are the same.
    pub same: bool,
    /// The differences, by the paths of keys.
    pub changes: Vec<Change>,
    /// The effect of a reload of the other one.
    pub reload: ReloadPreview,
    /// Mistakes in the other one.
    pub problems: Vec<Problem>,
}

/// The effect of a reload.
#[derive(Debug, Serialize)]
pub struct ReloadPreview {
    /// Listeners that it would open, keep and close.
    pub listeners: ListenerChanges,
    /// Keys that would be in force only after a restart.
    pub needs_restart: Vec<String>,
}
