//! Listeners: where exchanges enter, who may, and what they may say of themselves.

use indexmap::IndexMap;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::acme::Acme;
use super::answer::AltSvc;
use super::attach::Attach;
use super::client_address::ClientAddress;
use super::pac::Pac;
use super::proxy_protocol::ProxyProtocol;
use super::route::Datagrams;
use super::scalar::{
    ByteSize, Duration, FieldPattern, FilePath, HostPort, ListenAddress, OneOrMany, Prefixes,
    Template, UserMatch, one_or_many,
};
use super::templates::Templates;
use super::trace::Continue;
use super::tun::Tun;
use super::upstream::HttpVersion;

/// One listener; exactly one of `http`, `tcp`, `udp`, `attach` and `tun` is given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// HTTP/1.1 and HTTP/2 (by prior knowledge, or by ALPN under TLS) on this address; under TLS also HTTP/3, on the UDP port of
    /// the same number.
    #[serde(default)]
    pub http: Option<ListenAddress>,
    /// A TCP port whose connections become CONNECT exchanges for `target`.
    #[serde(default)]
    pub tcp: Option<ListenAddress>,
    /// A UDP port whose datagrams become CONNECT-UDP exchanges for `target`, one session per client address.
    #[serde(default)]
    pub udp: Option<ListenAddress>,
    /// Attach to a proxy, an upstream of this name, and take exchanges over the connections that this node opens to it.
    #[serde(default)]
    pub attach: Option<Attach>,
    /// Make a TUN device of this name, whose packets become a CONNECT-IP exchange.
    #[serde(default)]
    pub tun: Option<Tun>,
    /// What a `tcp` or `udp` listener's exchanges are for, as `host:port`.
    #[serde(default)]
    pub target: Option<HostPort>,
    /// What the connections of a `tcp` listener mean, says an ingress of this name, which is part of the program. Default: each is a
    /// CONNECT for `target`.
    #[serde(default)]
    pub ingress: Option<String>,
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
    /// Allow `auth: none` on an address that strangers can reach.
    #[serde(default)]
    pub public: bool,
    /// Accept requests in origin form, as a gateway (reverse proxy) does.
    #[serde(default)]
    pub gateway: bool,
    /// Whose traffic this is without authentication. Default: the node's `identity`.
    #[serde(default)]
    pub user: Option<String>,
    /// Overlay fields that clients of this listener may set; all others are removed.
    #[serde(default)]
    pub accepts: Vec<FieldPattern>,
    /// What becomes of a client's `traceparent`: `new` or `continue`.
    #[serde(default)]
    pub trace: Continue,
    /// Source prefixes that are believed like a peer that speaks for everybody, although the link is clear.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub insecure_trust: Vec<IpNet>,
    /// What happens to a `user` field that names another user than the authenticated one.
    #[serde(default)]
    pub forged: Forged,
    /// Fields set on every exchange that enters here (existing values are replaced).
    #[serde(default)]
    pub set: IndexMap<String, Template>,
    /// Fields appended to every exchange that enters here.
    #[serde(default)]
    pub append: IndexMap<String, Template>,
    /// Fields removed from every exchange that enters here.
    #[serde(default)]
    pub remove: Vec<FieldPattern>,
    /// Datagrams kept while the tunnel of a `udp` session opens.
    #[serde(default)]
    pub datagrams: Option<Datagrams>,
    /// `accept`: connections begin with a PROXY header, which says whose they are. Default: none.
    #[serde(default)]
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Prefixes that PROXY headers are taken from; connections from elsewhere are reset.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(with = "Prefixes")]
    pub proxy_protocol_from: Vec<IpNet>,
    /// The field in which proxies before an `http` listener tell of their clients, and whose word counts. Default: a client is at the
    /// other end of its connection.
    #[serde(default)]
    pub client_address: Option<ClientAddress>,
    /// What a `gateway` says of its HTTP/3 to clients over TCP: `false` for nothing, or the port at which they reach it where that is
    /// another one. Default: the port of the listener.
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
    /// Bounds on what strangers can cost here.
    #[serde(default)]
    pub limits: Limits,
}

/// TLS of a listener, as it is written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "only its schema is used: `true` is gone when the document is loaded"
)]
enum ServerTlsChoice {
    /// `true`: TLS with the files of `defaults.tls`; `false`: none.
    Switch(bool),
    /// TLS with files of its own.
    Files(ServerTls),
}

/// Certificate and key of a listener.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// PEM certificate chain, leaf first. Needed but with `acme`.
    #[serde(default)]
    pub cert_file: Option<FilePath>,
    /// PEM private key. Must not be readable by others.
    #[serde(default)]
    pub key_file: Option<FilePath>,
    /// A certificate that the node obtains and renews itself, in place of files.
    #[serde(default)]
    pub acme: Option<Box<Acme>>,
    /// PEM authorities whose client certificates are accepted (mTLS).
    #[serde(default)]
    pub client_ca_file: Option<FilePath>,
    /// Lists of revoked client certificates (CRL), PEM or DER, at least one of every authority that issues any. Default: none,
    /// nothing is asked about revocation.
    #[serde(default)]
    pub crl_file: Option<OneOrMany<FilePath>>,
    /// Take requests of returning HTTP/3 clients before their handshake has ended (0-RTT); those that are not safe are answered
    /// with 425. Anyone who sees them on the way can send them again. Default: false.
    #[serde(default)]
    pub early_data: bool,
}

impl ServerTls {
    /// The file of the certificate that is shown, which the operator or the node itself writes.
    pub fn certificate_file(&self) -> Option<FilePath> {
        let obtained = || Some(FilePath(self.acme.as_deref()?.certificate_file()));
        self.cert_file.clone().or_else(obtained)
    }
}

impl Listener {
    /// Whether its clients may show no credentials, although it knows some.
    pub fn takes_anonymous(&self) -> bool {
        matches!(&self.auth, Some(Auth::Methods(methods)) if methods.optional)
    }

    /// Whether it is for other nodes or for clients of an origin, rather than for programs that use a proxy: it is a gateway, believes what
    /// neighbours say of users, or takes none without a certificate.
    pub fn is_for_nodes(&self) -> bool {
        let only_mtls = match &self.auth {
            Some(Auth::Word(mode)) => *mode == AuthMode::Mtls,
            Some(Auth::Methods(methods)) => {
                methods.mtls && methods.basic.is_none() && methods.bearer.is_none()
            }
            None => false,
        };
        self.gateway || only_mtls || !self.insecure_trust.is_empty()
    }
}

/// Who may use a listener: a word, or one or more methods to show who one is (any of them suffices).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Auth {
    /// `none` or `mtls`.
    Word(AuthMode),
    /// Methods to authenticate.
    Methods(AuthMethods),
}

/// Methods to authenticate; any of them suffices.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthMethods {
    /// User and password, checked against a file of bcrypt hashes.
    #[serde(default)]
    pub basic: Option<Basic>,
    /// A JSON Web Token, checked against a key set.
    #[serde(default)]
    pub bearer: Option<Bearer>,
    /// `true`: a client certificate.
    #[serde(default)]
    pub mtls: bool,
    /// Whether clients may show nothing: the policy decides about them, and those that it denies are asked who they are. What is shown
    /// must be right. Default: false.
    #[serde(default)]
    pub optional: bool,
}

/// Authentication in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuthMode {
    /// No authentication.
    None,
    /// A client certificate is required.
    Mtls,
}

/// Basic authentication (RFC 7617).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Basic {
    /// Lines of `user:$2b$...` (bcrypt), as `htpasswd -B` writes them.
    pub file: FilePath,
    /// Realm shown to the client. Default: hermes.
    #[serde(default)]
    pub realm: Option<String>,
}

/// Bearer authentication (RFC 6750) by JSON Web Tokens.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
    /// JSON Web Key Set with the issuer's public keys.
    pub jwks_file: FilePath,
    /// Required `iss`.
    pub issuer: String,
    /// Required `aud`.
    pub audience: String,
    /// Claim that names the user. Default: sub.
    #[serde(default)]
    pub user_claim: Option<String>,
    /// Claim that names the groups of the user, for `claim-group:NAME`: a list of texts, or one. Default: groups.
    #[serde(default)]
    pub groups_claim: Option<String>,
}

impl Bearer {
    /// The claim that names the groups of the user.
    pub fn groups_claim(&self) -> &str {
        self.groups_claim.as_deref().unwrap_or("groups")
    }
}

/// What happens to a `user` field that contradicts the authenticated identity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Forged {
    /// The field is removed and the exchange goes on under its true identity.
    #[default]
    Remove,
    /// The exchange is refused with 403.
    Refuse,
}

/// Bounds of one listener. Each has a default; the operator's guide gives the reasons.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of one request head. Default: 64KiB.
    #[serde(default)]
    pub head_bytes: Option<ByteSize>,
    /// Bytes of the trailers of one request. Default: 16KiB.
    #[serde(default)]
    pub trailer_bytes: Option<ByteSize>,
    /// Field lines of one request head. Default: 128.
    #[serde(default)]
    pub fields: Option<usize>,
    /// Time until a request head is complete. Default: 10s.
    #[serde(default)]
    pub head_time: Option<Duration>,
    /// Time a connection may be idle between exchanges. Default: 60s.
    #[serde(default)]
    pub idle_time: Option<Duration>,
    /// Bytes a second that a client must send of a request's content, and read of a response, on average while it is waited
    /// for; 0B is no bound. Default: 240B for strangers, on a `public` listener or one with `auth`, else no bound.
    #[serde(default)]
    pub min_rate: Option<ByteSize>,
    /// How far a client may fall behind `min_rate`. Default: 20s.
    #[serde(default)]
    pub rate_window: Option<Duration>,
    /// Connections (`udp`: sessions) at once, per worker. Default: 10000.
    #[serde(default)]
    pub connections: Option<usize>,
    /// Connections (`udp`: sessions) at once of one source, an IPv4 address or an IPv6 /64, over all workers.
    /// Default: a tenth of `connections`, 1000 at most: of strangers on a `public` listener, and where clients are asked who they
    /// are, of clients that have not shown it yet; else no bound.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub per_source: Option<usize>,
    /// Connections at once of one user, known by a password or token, over all workers; requests on more are answered
    /// with 429. Default: a quarter of `connections`.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub connections_per_user: Option<usize>,
    /// Exchanges (tunnels and `udp` sessions included) at once of one user, over all workers; more are answered with 429.
    /// Default: no bound.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub per_user: Option<usize>,
    /// CONNECT-UDP sessions at once of one user, over all workers; more are answered with 429. Default: 4096 on an `http`
    /// listener, else no bound.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub sessions_per_user: Option<usize>,
    /// Other bounds of some users. Default: none.
    #[serde(default)]
    pub users: Vec<UserLimits>,
    /// Streams at once on one connection of HTTP/2 or HTTP/3. Default: 1000.
    #[serde(default)]
    pub streams: Option<u32>,
}

/// Bounds of some users at one listener. The first entry that names a user counts for this one; what it does not say is as for all users.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserLimits {
    /// The users: names, `*@example.com`, `group:admins` or `~regex`.
    pub user: OneOrMany<UserMatch>,
    /// Connections at once of one of them, over all workers.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub connections_per_user: Option<usize>,
    /// Exchanges at once of one of them, over all workers.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub per_user: Option<usize>,
    /// CONNECT-UDP sessions at once of one of them, over all workers.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub sessions_per_user: Option<usize>,
}
