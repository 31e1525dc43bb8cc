//! What holds for the whole node where no entry says otherwise.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::route::Timeouts;
use super::scalar::{ByteSize, Duration, FilePath, ListenAddress, OneOrMany};
use super::{Limits, UpstreamLimits};

/// What holds for the whole node where no entry says otherwise.
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
    /// What this node needs to take requests into custody. It is read when the node starts.
    #[serde(default)]
    pub custody: Option<NodeCustody>,
    /// Decide on paths as they are written alone, also where servers that drop `;` and what follows it, decode `%2F` and `%5C` or decode
    /// twice would read them otherwise. Default: false; where the rules say otherwise about such a reading, the request is refused.
    #[serde(default)]
    pub insecure_paths: bool,
}

/// What a node needs to take requests into custody, and to give them to its neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeCustody {
    /// The node's key. Where there is no such file, the node makes it; `hermes custody-key` prints the public key that neighbours are
    /// to be told.
    pub key_file: FilePath,
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

/// A folder for what is in custody.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustodySpool {
    /// The folder. It is made if there is none; one process uses it.
    pub folder: FilePath,
    /// Bytes of all its files; what comes beyond that is kept in memory. No user has more than half of what others leave. Default: 1GiB.
    #[serde(default)]
    pub limit: Option<ByteSize>,
}

/// A neighbour in custody.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustodyNeighbour {
    /// Its public key, in Base64.
    pub key: String,
    /// The address of its `udp` listener with `ingress: custody`. Default: none, it begins.
    #[serde(default)]
    pub address: Option<ListenAddress>,
}

/// The node's own certificate and the authorities that it believes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeTls {
    /// PEM authorities of upstreams' certificates. Default: the system's.
    #[serde(default)]
    pub ca_file: Option<FilePath>,
    /// Lists of revoked certificates (CRL), PEM or DER, at least one of every authority in `ca_file` and `client_ca_file` that issues
    /// any. Wherever these authorities are used. Default: none, nothing is asked about revocation.
    #[serde(default)]
    pub crl_file: Option<OneOrMany<FilePath>>,
    /// PEM certificate chain, leaf first: shown to upstreams, and by listeners with `tls: true`.
    #[serde(default)]
    pub cert_file: Option<FilePath>,
    /// PEM private key of that certificate. Must not be readable by others.
    #[serde(default)]
    pub key_file: Option<FilePath>,
    /// PEM authorities whose client certificates are accepted by listeners with `tls: true`. Default: none, certificates are not asked for.
    #[serde(default)]
    pub client_ca_file: Option<FilePath>,
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
