//! Defaults of the whole node.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_source::DataSource;
use super::route::Timeouts;
use super::scalar::{ByteSize, Duration, FilePath, ListenAddress, OneOrMany};
use super::{Limits, UpstreamLimits};

/// Defaults of the whole node, for entries that do not have the key.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    /// Time-outs of every exchange; under those of its upstream and its route.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// The node's own certificate and the authorities that it believes, wherever `tls: true` is said.
    #[serde(default)]
    pub tls: Option<NodeTls>,
    /// Bounds of every listener and upstream; under their own.
    #[serde(default)]
    pub limits: DefaultLimits,
    /// Settings of the node for taking requests into custody. They are read when the node starts.
    #[serde(default)]
    pub custody: Option<NodeCustody>,
    /// Decide on paths as they are written alone, although servers that drop `;` and the text
    /// behind it, decode `%2F` and `%5C` or decode twice would read them otherwise. Default: false;
    /// where the rules say otherwise about such a reading, the request is refused.
    #[serde(default)]
    pub insecure_paths: bool,
}

/// Settings of a node for taking requests into custody, and for passing them to its neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeCustody {
    /// The node's key. Where there is no such file, the node makes it; `hermes custody-key` prints the public key that neighbours are
    /// to be told.
    pub key_file: DataSource,
    /// How long an exchange without an end is kept. Default: 1h.
    #[serde(default)]
    pub keep_for: Option<Duration>,
    /// Where exchanges are kept on disk, so that the node goes on with them when it is started again. Default: nowhere, they are in
    /// memory.
    #[serde(default)]
    pub spool: Option<CustodySpool>,
    /// The nodes that it knows, by the names of the upstreams that stand for them.
    #[serde(default)]
    pub neighbours: IndexMap<String, CustodyNeighbour>,
}

/// A folder for contents in custody.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustodySpool {
    /// The folder. It is made if missing; one process uses it.
    pub folder: FilePath,
    /// Bytes of all its files; the rest is kept in memory. No user has more than half of the space
    /// that others leave. Default: 1GiB.
    #[serde(default)]
    pub limit: Option<ByteSize>,
}

/// A neighbour in custody.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustodyNeighbour {
    /// Its public key, in Base64.
    pub key: String,
    /// The address of its `udp` listener with `ingress: custody`. Default: none; the neighbour
    /// begins.
    #[serde(default)]
    pub address: Option<ListenAddress>,
}

/// The node's own certificate and the authorities that it believes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeTls {
    /// PEM authorities of upstreams' certificates. Default: the system's.
    #[serde(default)]
    pub ca_file: Option<DataSource>,
    /// Lists of revoked certificates (CRL), PEM or DER, at least one of every authority in
    /// `ca_file` and `client_ca_file` that issues any. Used with these authorities everywhere.
    /// Default: none, revocation is not checked.
    #[serde(default)]
    pub crl_file: Option<OneOrMany<DataSource>>,
    /// PEM certificate chain, leaf first: shown to upstreams, and by listeners with `tls: true`.
    #[serde(default)]
    pub cert_file: Option<DataSource>,
    /// PEM private key of that certificate. Must not be readable by others.
    #[serde(default)]
    pub key_file: Option<DataSource>,
    /// PEM authorities whose client certificates are accepted by listeners with `tls: true`. Default: none, certificates are not asked for.
    #[serde(default)]
    pub client_ca_file: Option<DataSource>,
}

/// Bounds by the side that they are on: some keys are in both, and mean something else.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DefaultLimits {
    /// Bounds of every listener.
    #[serde(default)]
    pub listeners: Limits,
    /// Bounds of every upstream.
    #[serde(default)]
    pub upstreams: UpstreamLimits,
}
