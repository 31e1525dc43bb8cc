//! Upstreams: groups of endpoints, and how to reach them.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::data_source::DataSource;
use super::proxy_protocol::ProxyProtocolVersion;
use super::retry::{Hedge, Retry};
use super::route::Timeouts;
use super::scalar::{Duration, EndpointAddress, FilePath, OneOrMany, Template};
use super::templates::UpstreamTemplates;
use super::{Credentials, Eject, Hash, Health, Keepalive, RequestField, UpstreamLimits};

/// A group of endpoints that do the same work.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upstream {
    /// The endpoints: `host:port`, `[v6]:port`, `unix:/path`, or a map with a weight.
    #[serde(default)]
    pub endpoints: Vec<Endpoint>,
    /// Instead of endpoints: the nodes that are attached here under this name, such as `alice` or `{target.host}`.
    #[serde(default)]
    pub attached: Option<Template>,
    /// HTTP versions, the preferred one first. Default: [2, 1] under TLS, where ALPN chooses; 1 without. 3 needs TLS. Without TLS,
    /// [2, 1] lets tunnels of bulk have connections of their own.
    #[serde(default)]
    pub http: Option<OneOrMany<HttpVersion>>,
    /// These endpoints are proxies that speak SOCKS of this version and no HTTP: 5, or
    /// `{ version: 6, experimental: true }`. They carry tunnels: of other upstreams by `via`, and those of exchanges by `to`. Default: they speak
    /// HTTP.
    #[serde(default)]
    pub socks: Option<SocksChoice>,
    /// TLS to the endpoints: `true`, or details. Default: none.
    #[serde(default)]
    pub tls: Option<TlsChoice>,
    /// Send safe requests to known servers before the handshake of a new connection has ended (0-RTT). For `http: 3`. Anyone who
    /// recorded them can repeat them. Default: false.
    #[serde(default)]
    pub early_data: bool,
    /// How an endpoint is chosen. Default: round_robin.
    #[serde(default)]
    pub balance: Balance,
    /// The key of `balance: ring_hash`.
    #[serde(default)]
    pub hash: Option<Hash>,
    /// Active checks of the endpoints. Default: none.
    #[serde(default)]
    pub health: Option<Health>,
    /// Ejection of endpoints that fail exchange after exchange. Default: none.
    #[serde(default)]
    pub eject: Option<Eject>,
    /// Time in which the share of an endpoint that came back grows from a tenth to all of its weight. Default: at once.
    #[serde(default)]
    pub slow_start: Option<Duration>,
    /// Bounds on open exchanges and connections. Default: no bounds.
    #[serde(default)]
    pub limits: UpstreamLimits,
    /// HTTP/2 links that each worker keeps open to each healthy endpoint, whether they are used or not. Default: 0.
    #[serde(default)]
    #[schemars(range(max = 8))]
    pub warm: u8,
    /// PING on HTTP/2 links. Default: none, but on links to other proxies every 4s, with a time-out of 5s.
    #[serde(default)]
    pub keepalive: Option<Keepalive>,
    /// The congestion control of its connections. Default: `cubic` over QUIC, and the system's over
    /// TCP.
    #[serde(default)]
    pub congestion: Option<CongestionControl>,
    /// Connections over TCP may use several networks of both ends at once, and go on where one is lost (Multipath TCP, RFC 8684). Where the
    /// system or the endpoint has none, they are ordinary ones. Default: false.
    #[serde(default)]
    pub multipath: bool,
    /// Addresses of this machine, one of a family, from which connections and datagrams leave.
    /// Default: by the routes of the machine.
    #[serde(default)]
    pub local_address: OneOrMany<String>,
    /// Interface of this machine by which they leave. Default: by the routes of the machine.
    #[serde(default)]
    pub interface: Option<String>,
    /// Another upstream, an HTTP proxy, that these endpoints are reached through, by CONNECT.
    #[serde(default)]
    pub via: Option<String>,
    /// Begin every connection with a PROXY header of this version: 1 or 2. It names the client of a
    /// tunnel that ends here; on connections that carry HTTP, it names no client. Default: none.
    #[serde(default)]
    pub proxy_protocol: Option<ProxyProtocolVersion>,
    /// URI templates of these next proxies, where they are not the default ones.
    #[serde(default)]
    pub templates: Option<UpstreamTemplates>,
    /// User and password for every request to these endpoints: for a proxy in
    /// `Proxy-Authorization`, for an origin in `Authorization`. Default: none.
    #[serde(default)]
    pub credentials: Option<Credentials>,
    /// Fields of every request to these endpoints, which replace others of the same name: a text,
    /// `{ file: PATH }` or `{ inline: VALUE }`. Default: none.
    #[serde(default)]
    pub fields: IndexMap<String, RequestField>,
    /// How names of fields leave over HTTP/1.1: `lower`, in small letters, or `preserve`, as they came over HTTP/1.1. Default: lower.
    #[serde(default)]
    pub field_case: FieldCase,
    /// Show the node's token to this next proxy. Default: only under TLS, or where every endpoint is local.
    #[serde(default)]
    pub send_token: Option<bool>,
    /// Time-outs of exchanges with these endpoints.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// When a failed attempt is followed by another. Default: only if it was certainly not
    /// processed.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// A second attempt beside a slow one. Default: none.
    #[serde(default)]
    pub hedge: Option<Hedge>,
}

impl Upstream {
    /// The files that hold its password and the values of its fields.
    pub fn secrets(&self) -> impl Iterator<Item = &FilePath> {
        let password = self.credentials.as_ref();
        let password = password.and_then(|credentials| credentials.password_file.file());
        let fields = self.fields.values().filter_map(RequestField::file);
        password.into_iter().chain(fields)
    }
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
pub enum Endpoint {
    /// An address of weight 1.
    Address(EndpointAddress),
    /// An address with a weight.
    Weighted {
        /// The address.
        address: EndpointAddress,
        /// Share of exchanges relative to the other endpoints, 1 to 1000. Default: 1.
        #[serde(default)]
        #[schemars(range(min = 1, max = 1000))]
        weight: Option<u16>,
        /// Where it stands; endpoints in the node's own zone are preferred.
        #[serde(default)]
        zone: Option<String>,
        /// Name sent as SNI and looked for in its certificate. Default: as `tls` of the upstream says.
        #[serde(default)]
        server_name: Option<String>,
    },
}

impl Endpoint {
    /// The endpoint's address.
    pub fn address(&self) -> &EndpointAddress {
        match self {
            Self::Address(address) | Self::Weighted { address, .. } => address,
        }
    }

    /// The endpoint's weight.
    pub fn weight(&self) -> u16 {
        match self {
            Self::Address(_) => 1,
            Self::Weighted { weight, .. } => weight.unwrap_or(1),
        }
    }

    /// Where the endpoint stands.
    pub fn zone(&self) -> Option<&str> {
        match self {
            Self::Address(_) => None,
            Self::Weighted { zone, .. } => zone.as_deref(),
        }
    }

    /// The name in the endpoint's certificate, where it has one of its own.
    pub fn server_name(&self) -> Option<&str> {
        match self {
            Self::Address(_) => None,
            Self::Weighted { server_name, .. } => server_name.as_deref(),
        }
    }
}

/// How a connection bounds its bytes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// Not by losses: a fixed window, for tunnels with contents that have a control of their own,
    /// on dedicated paths. For `http: 3` only.
    Off,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR: by the path's rate and round trip, whatever the path loses on its own. Over TCP that of the system, where it has one.
    Bbr,
}

impl CongestionControl {
    /// Its name, which is also that in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// How names of fields are spelled over HTTP/1.1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FieldCase {
    /// In small letters, as over HTTP/2 and HTTP/3.
    #[default]
    Lower,
    /// As they came over HTTP/1.1.
    Preserve,
}

/// The SOCKS that is spoken to a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "write 5, or { version: 6, experimental: true }"
)]
pub enum SocksChoice {
    /// Of this version.
    Version(SocksVersion),
    /// With details.
    Details {
        /// Of this version.
        version: SocksVersion,
        /// SOCKS6 is a draft that has expired: it may change, or go.
        #[serde(default)]
        experimental: bool,
        /// Open connections to the proxy with the request, if that is at one address (TCP Fast Open, RFC 7413): it may come twice, and the
        /// connection of its target then, too. Default: false.
        #[serde(default)]
        fast_open: bool,
    },
}

impl SocksChoice {
    /// Whether connections open with their first bytes.
    #[must_use]
    pub const fn opens_fast(self) -> bool {
        matches!(
            self,
            Self::Details {
                fast_open: true,
                ..
            }
        )
    }

    /// The version.
    #[must_use]
    pub const fn version(self) -> SocksVersion {
        match self {
            Self::Version(version) | Self::Details { version, .. } => version,
        }
    }

    /// Whether experiments are asked for.
    #[must_use]
    pub const fn is_experimental(self) -> bool {
        matches!(
            self,
            Self::Details {
                experimental: true,
                ..
            }
        )
    }
}

/// A version of SOCKS to a proxy, written as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum SocksVersion {
    /// SOCKS5 (RFC 1928).
    V5,
    /// SOCKS6 (draft-olteanu-intarea-socks-6-11).
    V6,
}

impl TryFrom<u8> for SocksVersion {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            5 => Ok(Self::V5),
            6 => Ok(Self::V6),
            other => Err(format!("version {other} of SOCKS is not 5 or 6")),
        }
    }
}

impl From<SocksVersion> for u8 {
    fn from(version: SocksVersion) -> Self {
        match version {
            SocksVersion::V5 => 5,
            SocksVersion::V6 => 6,
        }
    }
}

impl JsonSchema for SocksVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SocksVersion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "enum": [5, 6], "description": "A version of SOCKS to a proxy: 5 or 6." })
    }
}

/// An HTTP version, written as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "u8", into = "u8")]
pub enum HttpVersion {
    /// HTTP/1.1.
    H1,
    /// HTTP/2.
    H2,
    /// HTTP/3.
    H3,
}

impl HttpVersion {
    /// As it is written.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::H1 => 1,
            Self::H2 => 2,
            Self::H3 => 3,
        }
    }
}

impl TryFrom<u8> for HttpVersion {
    type Error = String;

    fn try_from(number: u8) -> Result<Self, String> {
        match number {
            1 => Ok(Self::H1),
            2 => Ok(Self::H2),
            3 => Ok(Self::H3),
            other => Err(format!("HTTP version {other} is not 1, 2 or 3")),
        }
    }
}

impl From<HttpVersion> for u8 {
    fn from(version: HttpVersion) -> Self {
        version.number()
    }
}

impl JsonSchema for HttpVersion {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HttpVersion".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "integer", "enum": [1, 2, 3], "description": "An HTTP version: 1, 2 or 3." })
    }
}

/// TLS to an upstream.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum TlsChoice {
    /// `true`: TLS with the system's authorities; `false`: none.
    Switch(bool),
    /// TLS with details.
    Details(ClientTls),
}

/// Details of TLS to an upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// PEM authorities that the endpoints' certificates must come from. Default: the system's.
    #[serde(default)]
    pub ca_file: Option<DataSource>,
    /// Lists of revoked server certificates (CRL), PEM or DER, at least one of every authority that
    /// issues any. Default: none, revocation is not checked.
    #[serde(default)]
    pub crl_file: Option<OneOrMany<DataSource>>,
    /// PEM client certificate chain, shown when asked for.
    #[serde(default)]
    pub cert_file: Option<DataSource>,
    /// PEM private key of the client certificate. Must not be readable by others.
    #[serde(default)]
    pub key_file: Option<DataSource>,
    /// Name sent as SNI and looked for in the certificate. Default: the endpoint's host.
    #[serde(default)]
    pub server_name: Option<String>,
    /// Accept any certificate. For experiments only.
    #[serde(default)]
    pub insecure_skip_verify: bool,
}

/// How an endpoint is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The less busy of two chosen at random, by weight.
    LeastRequest,
    /// The same one for the same `hash`, by weight.
    RingHash,
}
