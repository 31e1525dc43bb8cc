//! `Node`: a proxy, or a user's device.

use hermes_api::{Hash, Name};
use hermes_config::model::{HostPort, ListenAddress, Listener};
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use super::SliceName;

/// A proxy of the overlay, or a device of a user that wants other listeners than all devices have.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// The address of its machine that other nodes and devices connect to. Default: none, they do not connect.
    #[serde(default)]
    pub listen: Option<ListenAddress>,
    /// Addresses by which others reach it: `hub.example.org:8443`. Needed with `listen`.
    #[serde(default)]
    pub reach: Vec<HostPort>,
    /// Nodes that it keeps connections to, so that they can send to it where no one can connect to it: behind NAT or a firewall.
    /// Default: none.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub attach: Vec<Name>,
    /// Whether devices enter the overlay here. Default: false.
    #[serde(default)]
    pub ingress: bool,
    /// The user of a device. Default: none, it is a proxy.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub user: Option<Name>,
    /// Tenants that may lead their ways through this node of the overlay's operator, and dial servers from it. Default: none.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub tenants: Vec<Name>,
    /// Slices that a user's device reaches by IP, through a TUN device each; that needs `CAP_NET_ADMIN`. Default: none.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub slices: Vec<SliceName>,
    /// Where it stands; endpoints in the same zone are preferred. Default: nowhere.
    #[serde(default)]
    pub zone: Option<String>,
    /// SHA-256 of the programs that it may run, in place of those of the overlay. Default: those of the overlay.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub binaries: Vec<Hash>,
    /// Listeners of its own, by name, beside the one for `listen`. Default: none; of a device, `web: { http: 127.0.0.1:8080 }`.
    #[serde(default)]
    #[schemars(with = "IndexMap<String, Listener>")]
    pub listeners: IndexMap<String, Json>,
    /// Settings for its parts, as in `plugs` of a node's document; `key_file: ${secret:NAME}` is the file of a Secret. Default: none.
    #[serde(default)]
    pub plugs: Option<IndexMap<String, Json>>,
}

impl NodeSpec {
    /// Whether it is a user's device.
    pub fn is_device(&self) -> bool {
        self.user.is_some()
    }

    /// Whether exchanges enter the overlay here.
    pub fn is_entry(&self) -> bool {
        self.ingress || !self.listeners.is_empty()
    }
}
