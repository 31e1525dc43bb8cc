//! Kinds of listeners: how exchanges enter, and the keys that only listeners of one kind have.

use std::sync::LazyLock;

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::SplitDns;
use super::answer::AltSvc;
use super::attach::Attach;
use super::capture::Capture;
use super::client_address::ClientAddress;
use super::host_capture::HostCapture;
use super::listener::{Auth, Forged, Limits, Listener, ServerTls, ServerTlsChoice};
use super::pac::Pac;
use super::plugs::PlugUse;
use super::proxy_protocol::ProxyProtocol;
use super::route::Datagrams;
use super::scalar::{FieldPattern, HostPort, ListenAddress, OneOrMany, Prefixes, one_or_many};
use super::templates::Templates;
use super::trace::Continue;
use super::tun::Tun;
use super::upstream::HttpVersion;

/// The name of the ingress of `socks` listeners.
pub const SOCKS: &str = "socks";

/// The name of the ingress of those that take SOCKS6 too.
pub const SOCKS_EXPERIMENTAL: &str = "socks_experimental";

/// The same, as listeners would name them.
static SOCKS_INGRESS: LazyLock<PlugUse> = LazyLock::new(|| socks_ingress(SOCKS));
static EXPERIMENTAL_INGRESS: LazyLock<PlugUse> =
    LazyLock::new(|| socks_ingress(SOCKS_EXPERIMENTAL));

fn socks_ingress(name: &str) -> PlugUse {
    PlugUse {
        name: name.to_owned(),
        settings: None,
    }
}

/// Where exchanges enter. Each kind is known by the one key that it must have.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a listener has one of `http`, `socks`, `tcp`, `udp`, `attach`, `tun` and `capture`"
)]
pub enum ListenerKind {
    /// Requests.
    Http(Box<HttpListener>),
    /// Connections and datagrams of clients that speak SOCKS.
    Socks(SocksListener),
    /// Connections.
    Tcp(TcpListener),
    /// Datagrams.
    Udp(UdpListener),
    /// Requests over connections that this node opens.
    Attach(AttachListener),
    /// IP packets.
    Tun(TunListener),
    /// Traffic of programs that know nothing of it.
    Capture(CaptureListener),
}

/// A listener for HTTP.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct HttpListener {
    /// HTTP/1.1 and HTTP/2 (by prior knowledge, or by ALPN under TLS) on this address; under TLS also HTTP/3, on the UDP port of
    /// the same number.
    #[serde(rename = "http")]
    pub address: ListenAddress,
    /// TLS on an `http` listener: its files, or `true` for those of `defaults.tls`, which are here once the document is loaded.
    #[serde(default)]
    #[schemars(with = "Option<ServerTlsChoice>")]
    pub tls: Option<ServerTls>,
    /// HTTP versions of an `http` listener with TLS. Default: [1, 2, 3]; without 3 on a Unix socket, behind a PROXY header, and
    /// where a `udp` listener has the port.
    #[serde(default)]
    pub versions: Option<OneOrMany<HttpVersion>>,
    /// Who may use an `http` listener. Default: no authentication, which only loopback and Unix sockets may do.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// Kinds and fields of its requests.
    #[serde(flatten)]
    pub requests: Requests,
    /// PROXY headers before its connections.
    #[serde(flatten)]
    pub introduction: ProxyHeaders,
    /// The field in which proxies before an `http` listener name their clients, and the proxies
    /// that are trusted in it. Default: a client is at the other end of its connection.
    #[serde(default)]
    pub client_address: Option<ClientAddress>,
    /// The `Alt-Svc` announcement of a `gateway` to clients over TCP: `false` for none, or the port
    /// at which they reach its HTTP/3 if that is another one. Default: the port of the listener.
    #[serde(default)]
    pub alt_svc: Option<AltSvc>,
    /// Serve `/proxy.pac` on an `http` listener: `true` sends the names that routes know here, `all` everything.
    #[serde(default)]
    pub pac: Option<Pac>,
    /// URI templates that an `http` listener serves beside the default ones.
    #[serde(default)]
    pub templates: Option<Templates>,
    /// Tell strangers too why a request failed, and where. Default: clients on this machine, peers, and clients of
    /// listeners that authenticate are told.
    #[serde(default)]
    pub explain: bool,
    /// Whether clients of HTTP/1.1 may end their side of the connection after a request and wait for the answer. Default: false; a client
    /// that closes looks the same, and its exchange ends.
    #[serde(default)]
    pub half_close: bool,
}

/// A listener for SOCKS.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SocksListener {
    /// SOCKS4, SOCKS4a and SOCKS5 on this address: connections become CONNECT exchanges, associations of UDP CONNECT-UDP.
    #[serde(rename = "socks")]
    pub address: ListenAddress,
    /// Who may use the listener: `basic` alone, since SOCKS knows users and passwords. Default: no authentication, which only loopback
    /// and Unix sockets may do.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// Take SOCKS6 too, whose draft has expired: it may change, or go. Default: false.
    #[serde(default)]
    pub experimental: bool,
    /// Take the first bytes of clients with the packet that opens their connection (TCP Fast Open, RFC 7413), as they may come twice with it. The
    /// system has to allow it: `net.ipv4.tcp_fastopen=3`. Default: false.
    #[serde(default)]
    pub fast_open: bool,
    /// PROXY headers before its connections.
    #[serde(flatten)]
    pub introduction: ProxyHeaders,
}

/// A TCP port for connections to one target, or for an ingress.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TcpListener {
    /// A TCP port whose connections become CONNECT exchanges for `target`.
    #[serde(rename = "tcp")]
    pub address: ListenAddress,
    /// Hold the beginning of each connection until the target has answered, so that a client sees refusals, unreachable networks and silence as they
    /// are, where the kernel can; else clients are accepted first, and reset if the target refuses. Default: false.
    #[serde(default)]
    pub split: bool,
    /// The meaning of its connections.
    #[serde(flatten)]
    pub purpose: Purpose,
    /// PROXY headers before its connections.
    #[serde(flatten)]
    pub introduction: ProxyHeaders,
}

/// A UDP port for datagrams to one target, or for an ingress.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct UdpListener {
    /// A UDP port whose datagrams become CONNECT-UDP exchanges for `target`, one session per client address.
    #[serde(rename = "udp")]
    pub address: ListenAddress,
    /// The meaning of its datagrams.
    #[serde(flatten)]
    pub purpose: Purpose,
    /// Datagrams kept while the tunnel of a `udp` session opens.
    #[serde(default)]
    pub datagrams: Option<Datagrams>,
}

/// A listener that takes exchanges from a proxy to which this node connects.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct AttachListener {
    /// Attach to a proxy, an upstream of this name, and take exchanges over the connections that this node opens to it.
    pub attach: Attach,
    /// Kinds and fields of its requests.
    #[serde(flatten)]
    pub requests: Requests,
}

/// A listener that takes the packets of a device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct TunListener {
    /// Make a TUN device of this name; its packets become a CONNECT-IP exchange.
    pub tun: Tun,
}

/// A listener that takes the traffic of programs that know no proxy.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CaptureListener {
    /// Take connections, datagrams and questions for names of programs that know no proxy; each becomes an exchange for its original
    /// destination.
    pub capture: Box<Capture>,
}

/// The kinds of requests that a listener takes, and the fields that clients may set.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Requests {
    /// Accept requests in origin form, as a gateway (reverse proxy) does.
    #[serde(default)]
    pub gateway: bool,
    /// Overlay fields that clients of this listener may set; all others are removed.
    #[serde(default)]
    pub accepts: Vec<FieldPattern>,
    /// Source prefixes that are believed like a peer that speaks for everybody, although the link is clear.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub insecure_trust: Vec<IpNet>,
}

/// PROXY headers, with which load balancers introduce their clients.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ProxyHeaders {
    /// `accept`: connections begin with a PROXY header, which names their client. Default: none.
    #[serde(default)]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Prefixes that PROXY headers are taken from; connections from elsewhere are reset.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub proxy_protocol_from: Vec<IpNet>,
}

/// The purpose of connections or datagrams at a port: exchanges for a target, unless an ingress
/// decides.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Purpose {
    /// The target of a `tcp` or `udp` listener's exchanges, as `host:port`.
    #[serde(default)]
    pub target: Option<HostPort>,
    /// The ingress that interprets the connections of a `tcp` listener, by its name in the program;
    /// `{ NAME: {..} }` with settings. Default: each is a CONNECT for `target`.
    #[serde(default)]
    pub ingress: Option<PlugUse>,
}

impl ListenerKind {
    /// The key that a listener of this kind must have.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Socks(_) => "socks",
            Self::Tcp(_) => "tcp",
            Self::Udp(_) => "udp",
            Self::Attach(_) => "attach",
            Self::Tun(_) => "tun",
            Self::Capture(_) => "capture",
        }
    }

    /// The address of its socket; `None` where it has no socket of its own.
    pub fn address(&self) -> Option<&ListenAddress> {
        match self {
            Self::Http(http) => Some(&http.address),
            Self::Socks(socks) => Some(&socks.address),
            Self::Tcp(tcp) => Some(&tcp.address),
            Self::Udp(udp) => Some(&udp.address),
            Self::Attach(_) | Self::Tun(_) | Self::Capture(_) => None,
        }
    }
}

impl From<ListenerKind> for Listener {
    /// A listener that says no more than its kind.
    fn from(kind: ListenerKind) -> Self {
        Self {
            kind,
            public: false,
            multipath: false,
            congestion: None,
            user: None,
            trace: Continue::default(),
            forged: Forged::default(),
            set: IndexMap::new(),
            append: IndexMap::new(),
            remove: Vec::new(),
            limits: Limits::default(),
        }
    }
}

impl Listener {
    /// The listener, if it is for HTTP.
    pub fn http(&self) -> Option<&HttpListener> {
        match &self.kind {
            ListenerKind::Http(http) => Some(http),
            _ => None,
        }
    }

    /// The listener, if it is for SOCKS.
    pub fn socks(&self) -> Option<&SocksListener> {
        match &self.kind {
            ListenerKind::Socks(socks) => Some(socks),
            _ => None,
        }
    }

    /// As a TCP port.
    pub fn tcp(&self) -> Option<&TcpListener> {
        match &self.kind {
            ListenerKind::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// As a UDP port.
    pub fn udp(&self) -> Option<&UdpListener> {
        match &self.kind {
            ListenerKind::Udp(udp) => Some(udp),
            _ => None,
        }
    }

    /// The proxy that it attaches to.
    pub fn attach(&self) -> Option<&Attach> {
        match &self.kind {
            ListenerKind::Attach(listener) => Some(&listener.attach),
            _ => None,
        }
    }

    /// Its device.
    pub fn tun(&self) -> Option<&Tun> {
        match &self.kind {
            ListenerKind::Tun(listener) => Some(&listener.tun),
            _ => None,
        }
    }

    /// Whose traffic it captures, if it does.
    pub fn capture(&self) -> Option<&Capture> {
        match &self.kind {
            ListenerKind::Capture(listener) => Some(&*listener.capture),
            _ => None,
        }
    }

    /// The traffic of the machine that it captures, if it does.
    pub fn host_capture(&self) -> Option<&HostCapture> {
        self.capture()?.host.as_deref()
    }

    /// Its answers to questions for names, if it gives any.
    pub fn dns(&self) -> Option<&SplitDns> {
        match &self.kind {
            // Captured packets of the machine have their addresses from its own resolvers.
            ListenerKind::Capture(listener) if listener.capture.host.is_some() => None,
            ListenerKind::Capture(listener) => Some(listener.capture.dns()),
            _ => self.tun()?.dns(),
        }
    }

    /// The rules for its requests, where requests enter.
    pub fn requests(&self) -> Option<&Requests> {
        match &self.kind {
            ListenerKind::Http(http) => Some(&http.requests),
            ListenerKind::Attach(listener) => Some(&listener.requests),
            ListenerKind::Socks(_)
            | ListenerKind::Tcp(_)
            | ListenerKind::Udp(_)
            | ListenerKind::Tun(_)
            | ListenerKind::Capture(_) => None,
        }
    }

    /// The PROXY headers before its connections, where connections enter.
    pub fn introduction(&self) -> Option<&ProxyHeaders> {
        match &self.kind {
            ListenerKind::Http(http) => Some(&http.introduction),
            ListenerKind::Tcp(tcp) => Some(&tcp.introduction),
            ListenerKind::Socks(socks) => Some(&socks.introduction),
            ListenerKind::Udp(_)
            | ListenerKind::Attach(_)
            | ListenerKind::Tun(_)
            | ListenerKind::Capture(_) => None,
        }
    }

    /// The purpose of its port.
    pub fn purpose(&self) -> Option<&Purpose> {
        match &self.kind {
            ListenerKind::Tcp(tcp) => Some(&tcp.purpose),
            ListenerKind::Udp(udp) => Some(&udp.purpose),
            ListenerKind::Http(_)
            | ListenerKind::Socks(_)
            | ListenerKind::Attach(_)
            | ListenerKind::Tun(_)
            | ListenerKind::Capture(_) => None,
        }
    }

    /// The target of its port.
    pub fn target(&self) -> Option<&HostPort> {
        self.purpose()?.target.as_ref()
    }

    /// The ingress of its port.
    pub fn ingress(&self) -> Option<&PlugUse> {
        match &self.kind {
            ListenerKind::Socks(socks) if socks.experimental => Some(&EXPERIMENTAL_INGRESS),
            ListenerKind::Socks(_) => Some(&SOCKS_INGRESS),
            _ => self.purpose()?.ingress.as_ref(),
        }
    }

    /// Whether clients may open connections with their first bytes.
    pub fn takes_fast_open(&self) -> bool {
        matches!(&self.kind, ListenerKind::Socks(socks) if socks.fast_open)
    }

    /// How its clients are authenticated; of other kinds than `http` and `socks`, no client is.
    pub fn auth(&self) -> Option<&Auth> {
        match &self.kind {
            ListenerKind::Http(http) => http.auth.as_ref(),
            ListenerKind::Socks(socks) => socks.auth.as_ref(),
            _ => None,
        }
    }

    /// Its certificate; only `http` listeners have one.
    pub fn tls(&self) -> Option<&ServerTls> {
        self.http()?.tls.as_ref()
    }

    /// Whether its connections begin with a PROXY header.
    pub fn is_introduced(&self) -> bool {
        self.introduction()
            .is_some_and(|headers| headers.proxy_protocol.is_some())
    }

    /// Whether requests in origin form are taken.
    pub fn is_gateway(&self) -> bool {
        self.requests().is_some_and(|requests| requests.gateway)
    }

    /// Overlay fields that its clients may set.
    pub fn accepts(&self) -> &[FieldPattern] {
        self.requests().map_or(&[], |requests| &requests.accepts)
    }

    /// Prefixes that are believed like a peer that speaks for everybody.
    pub fn insecure_trust(&self) -> &[IpNet] {
        self.requests()
            .map_or(&[], |requests| &requests.insecure_trust)
    }
}

/// The keys of one kind, as its type has them.
pub(crate) struct KindKeys {
    /// The key that it must have.
    pub(crate) key: String,
    /// All of them, with their schemas.
    pub(crate) properties: Map<String, Json>,
}

/// The kinds among the alternatives of a schema.
pub(crate) fn kinds_in(alternatives: Option<&Json>) -> impl Iterator<Item = KindKeys> {
    let alternatives = alternatives.and_then(Json::as_array).into_iter().flatten();
    alternatives.filter_map(|kind| {
        let key = kind.get("required")?.get(0)?.as_str()?;
        let properties = kind.get("properties")?.as_object()?;
        Some(KindKeys {
            key: key.to_owned(),
            properties: properties.clone(),
        })
    })
}

/// The schema of one mapping that may have the keys of every kind: whether they fit together is found with a better message.
pub(super) fn one_mapping(schema: &mut Schema) {
    let alternatives = schema.remove("anyOf");
    let mut properties = Map::new();
    for kind in kinds_in(alternatives.as_ref()) {
        for (key, property) in kind.properties {
            properties.entry(key).or_insert(property);
        }
    }

    let common = schema.remove("properties");
    if let Some(Json::Object(common)) = common {
        properties.extend(common);
    }
    schema.insert("properties".to_owned(), properties.into());
    schema.insert("additionalProperties".to_owned(), false.into());
}
