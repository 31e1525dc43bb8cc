//! The document itself and what belongs to the node as a whole.

use std::num::NonZeroUsize;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scalar::{
    CertificateName, Duration, FieldPattern, FilePath, ListenAddress, OneOrMany, TargetMatch,
    UserPattern,
};
use super::{
    Authorize, DataSource, DecisionLog, Defaults, Egress, FlowLog, Listener, Memory, Metrics,
    PlugSettings, PlugUse, Policy, Route, Trace, Upstream,
};

/// One node's configuration.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Version of this format; always 1.
    #[schemars(extend("const" = 1))]
    pub version: u32,
    /// Where the JSON Schema of this format lies; for editors, ignored by Hermes.
    #[serde(rename = "$schema", default)]
    pub schema: Option<String>,
    /// Name of this node, used in `Via`, `Proxy-Status` and logs; in it `{host}` is the machine's name, and `{file}` that of the file.
    /// Default: the file's name without its extension.
    #[serde(default)]
    pub node: Option<String>,
    /// Further files, relative to this one. Their maps are added by key and their lists at the end; nothing may be
    /// said twice.
    #[serde(default)]
    pub include: Vec<FilePath>,
    /// Worker threads. Default: one per processor.
    #[serde(default)]
    pub workers: Option<NonZeroUsize>,
    /// Whether the file, its includes and the files they name are watched, and read again when they change. Default: false.
    #[serde(default)]
    pub watch: bool,
    /// How long exchanges may go on once the node was told to stop. Default: 30s.
    #[serde(default)]
    pub drain: Option<Duration>,
    /// Where this node stands: upstreams prefer their endpoints in the same zone. Default: nowhere.
    #[serde(default)]
    pub zone: Option<String>,
    /// Defaults for entries that do not have the key: time-outs, TLS and limits.
    #[serde(default)]
    pub defaults: Defaults,
    /// Where the administrator asks.
    #[serde(default)]
    pub admin: Admin,
    /// The log: its content, and its file.
    #[serde(default)]
    pub log: Log,
    /// Recordings of QUIC connections, to look for a fault. Default: nothing.
    #[serde(default)]
    pub debug: Debug,
    /// Which exchanges are traced, and where spans are sent.
    #[serde(default)]
    pub trace: Trace,
    /// Bounds of the metrics.
    #[serde(default)]
    pub metrics: Metrics,
    /// Bounds on memory for contents with slower readers than senders.
    #[serde(default)]
    pub memory: Memory,
    /// The user of exchanges at listeners without authentication, and the token shown to the next
    /// proxy.
    #[serde(default)]
    pub identity: Option<NodeIdentity>,
    /// Overlay fields. Default: user, service, namespace, ipaddress, x-hermes-*.
    #[serde(default = "default_fields")]
    pub fields: Vec<FieldPattern>,
    /// Fields about the source of a request, which clients may not write: they are removed from
    /// clients' requests, unless the listener `accepts` them. Default: x-forwarded-*, x-real-ip,
    /// client-cert and the fields of other proxies.
    #[serde(default = "default_provenance")]
    pub provenance: Vec<FieldPattern>,
    /// Users who are found under several names, in certificates and tokens for example: the name that rules, fields and records
    /// have for each, and the others.
    #[serde(default)]
    pub users: IndexMap<String, Vec<String>>,
    /// Users under one name, written `group:NAME` wherever users are named: users, and patterns with one star.
    #[serde(default)]
    pub groups: IndexMap<String, Vec<UserPattern>>,
    /// Targets under one name, written `service:NAME` wherever targets are matched.
    #[serde(default)]
    pub services: IndexMap<String, Vec<TargetMatch>>,
    /// Where exchanges enter, by name.
    #[serde(default)]
    pub listeners: IndexMap<String, Listener>,
    /// Who may do what: rules for every exchange. Default: every exchange with a route is allowed.
    #[serde(default)]
    pub policy: Option<Policy>,
    /// Authorisation servers that are asked before the route is chosen, in this order.
    #[serde(default)]
    pub authorize: Vec<Authorize>,
    /// Functions on the way of exchanges, by the names that `through` of routes gives them: each is a part of the program, such as
    /// `allow`, with its settings.
    #[serde(default)]
    pub functions: IndexMap<String, PlugUse>,
    /// The routes: the first one that matches an exchange decides.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Groups of endpoints that routes send to, by name.
    #[serde(default)]
    pub upstreams: IndexMap<String, Upstream>,
    /// Peer proxies, known by their certificate, by name.
    #[serde(default)]
    pub peers: IndexMap<String, Peer>,
    /// Which addresses a request may choose.
    #[serde(default)]
    pub egress: Egress,
    /// Settings for parts of the program, by their names. Default: each part's own.
    #[serde(default)]
    pub plugs: IndexMap<String, PlugSettings>,
}

/// The overlay fields of a document without the key.
pub fn default_fields() -> Vec<FieldPattern> {
    ["user", "service", "namespace", "ipaddress", "x-hermes-*"]
        .into_iter()
        .filter_map(|name| name.parse().ok())
        .collect()
}

/// The provenance fields of a document without the key: those that proxies, gateways and content
/// networks write about a client's address, certificate, user and original URL, and that origins
/// trust.
pub fn default_provenance() -> Vec<FieldPattern> {
    [
        "x-forwarded-*",
        "x-real-ip",
        "x-client-ip",
        "x-client-cert*",
        "x-client-dn",
        "x-client-verify",
        "x-cluster-client-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-original-uri",
        "x-original-url",
        "x-originating-ip",
        "x-remote-addr",
        "x-remote-ip",
        "x-remote-user",
        "x-rewrite-url",
        "x-ssl-cert",
        "x-ssl-client*",
        "x-tls-client*",
        "x-auth-request-*",
        "x-authenticated-*",
        "x-amzn-mtls-*",
        "x-arr-clientcert",
        "x-azure-clientip",
        "x-azure-socketip",
        "x-envoy-external-address",
        "x-envoy-internal",
        "x-envoy-original-*",
        "cf-connecting-*",
        "client-cert",
        "client-cert-*",
        "client-ip",
        "fastly-client-ip",
        "fly-client-ip",
        "remote-user",
        "ssl-cert",
        "ssl-client*",
        "true-client-ip",
    ]
    .into_iter()
    .filter_map(|name| name.parse().ok())
    .collect()
}

/// Administration: a Unix socket, and metrics over TCP if asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Unix socket of the admin interface. Default: `hermes/NODE.sock` in the user's run-time folder.
    #[serde(default)]
    pub socket: Option<FilePath>,
    /// TCP address that serves Prometheus metrics and nothing else. Default: none.
    #[serde(default)]
    pub metrics: Option<ListenAddress>,
}

/// Logging.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Filter such as `info` or `hermes_node=debug,info`. Default: info. Can be changed at run time.
    #[serde(default)]
    pub level: Option<String>,
    /// File that the log is added to; begun anew when it was moved. Default: standard error.
    #[serde(default)]
    pub file: Option<FilePath>,
    /// Where access records go, one JSON object a line. Default: stdout.
    #[serde(default)]
    pub access: Access,
    /// Where decisions of the policy and of authorisation go. Default: nowhere.
    #[serde(default)]
    pub decisions: Option<DecisionLog>,
    /// The flows of IP packets that are followed, if their tunnels end at a device of this node.
    /// Default: none.
    #[serde(default)]
    pub flows: Option<FlowLog>,
}

/// Recordings of QUIC connections. Both slow them down, and TLS secrets let their reader decrypt
/// recorded traffic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Debug {
    /// Folder that gets a qlog file of each of the first 1000 connections, readable for their owner only.
    #[serde(default)]
    pub qlog: Option<FilePath>,
    /// File that the TLS secrets of QUIC connections are added to, readable for its owner only.
    #[serde(default)]
    pub tls_secrets: Option<FilePath>,
    /// Let the system dump the process when it crashes, and other processes of its user read its memory; both then see keys and
    /// passwords. Default: false.
    #[serde(default)]
    pub core_dumps: bool,
}

/// Where access records go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
    /// Nowhere.
    Off,
    /// This file, appended to.
    File(FilePath),
}

/// The user of this node's own traffic.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeIdentity {
    /// The user; becomes the `user` field of exchanges from listeners without authentication.
    pub user: String,
    /// Token sent as `Proxy-Authorization: Bearer` to the next proxy only. Must not be readable by others.
    #[serde(default)]
    pub token_file: Option<DataSource>,
}

/// A proxy that may name the users of its exchanges.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Names in its certificate, any of: URI, DNS or e-mail subject alternative name, or common name; or the SPIFFE IDs of a family,
    /// as `spiffe://example.org/user/{user}/*`.
    #[serde(default)]
    pub certificate: OneOrMany<CertificateName>,
    /// Its name as a neighbour in custody, in `defaults.custody.neighbours`. Default: none.
    #[serde(default)]
    pub neighbour: Option<String>,
    /// Users that it may speak for: a name, `*`, `*@example.com`, `team-*` or `group:admins`, or the `{user}` of its certificate.
    #[serde(default)]
    pub speaks_for: Vec<UserPattern>,
    /// The SPIFFE trust domain of its users, where it is of another operator's overlay. A user whom it names is known here as
    /// `alice@DOMAIN`, `speaks_for` is about these names, and an exchange without a user is refused. Default: it is of this overlay.
    #[serde(default)]
    pub domain: Option<String>,
    /// The overlay fields, fields about the source and of traces that are taken from it; others are removed. Its `user` always counts.
    /// Default: all, and of a peer with `domain` none.
    #[serde(default)]
    pub accepts: Option<Vec<FieldPattern>>,
}
