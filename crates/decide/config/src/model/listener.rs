//! Listeners: where exchanges enter, who may use them, and what clients may claim.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::acme::Acme;
use super::data_source::DataSource;
use super::listener_kind::{ListenerKind, one_mapping};
use super::scalar::{ByteSize, Duration, FieldPattern, OneOrMany, Template, UserMatch};
use super::trace::Continue;

/// One listener: its kind, and the keys of all kinds.
///
/// In a document the keys of both stand in one mapping. The loader refuses those of another kind, with their places.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[schemars(transform = one_mapping)]
pub struct Listener {
    /// Where exchanges enter, and the keys of this kind alone.
    #[serde(flatten)]
    pub kind: ListenerKind,
    /// Allow `auth: none` on an address that strangers can reach.
    #[serde(default)]
    pub public: bool,
    /// Clients may connect over several networks at once, and go on where one is lost (Multipath TCP, RFC 8684). For `http`, `tcp` and
    /// `socks` at an IP address. Default: false.
    #[serde(default)]
    pub multipath: bool,
    /// How connections of clients bound what is on its way to them. For `http`, `tcp` and `socks`. Default: `cubic` over QUIC, and the
    /// system's over TCP.
    #[serde(default)]
    pub congestion: Option<ListenerCongestion>,
    /// The user of unauthenticated exchanges. Default: the node's `identity`.
    #[serde(default)]
    pub user: Option<String>,
    /// The handling of a client's `traceparent`: `new` or `continue`.
    #[serde(default)]
    pub trace: Continue,
    /// The handling of a `user` field that names another user than the authenticated one.
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
    /// Bounds on the costs that strangers can cause here.
    #[serde(default)]
    pub limits: Limits,
}

/// How connections of clients bound their bytes in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListenerCongestion {
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR: by the path's rate and round trip, whatever the path loses on its own. Over TCP that of the system, where it has one.
    Bbr,
}

impl ListenerCongestion {
    /// Its name, which is also that in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// TLS of a listener, as it is written.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    reason = "only its schema is used: `true` is gone when the document is loaded"
)]
pub(super) enum ServerTlsChoice {
    /// `true`: TLS with the files of `defaults.tls`; `false`: none.
    Switch(bool),
    /// TLS with files of its own.
    Files(Box<ServerTls>),
}

/// Certificate and key of a listener.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// PEM certificate chain, leaf first. Needed but with `acme`.
    #[serde(default)]
    pub cert_file: Option<DataSource>,
    /// PEM private key. Must not be readable by others.
    #[serde(default)]
    pub key_file: Option<DataSource>,
    /// A certificate that the node obtains and renews itself, in place of files.
    #[serde(default)]
    pub acme: Option<Box<Acme>>,
    /// PEM authorities whose client certificates are accepted (mTLS).
    #[serde(default)]
    pub client_ca_file: Option<DataSource>,
    /// PEM authorities of other SPIFFE trust domains, by domain: a certificate with an ID in one of them has to come from its
    /// authorities, which are believed about that domain alone. Default: none.
    #[serde(default)]
    pub client_domains: IndexMap<String, DataSource>,
    /// Lists of revoked client certificates (CRL), PEM or DER, at least one of every authority that
    /// issues any. Default: none, revocation is not checked.
    #[serde(default)]
    pub crl_file: Option<OneOrMany<DataSource>>,
    /// Take requests of returning HTTP/3 clients before their handshake has ended (0-RTT); those that are not safe are answered
    /// with 425. Anyone who sees them on the way can send them again. Default: false.
    #[serde(default)]
    pub early_data: bool,
}

impl ServerTls {
    /// The certificate that is shown, which the operator or the node itself writes.
    pub fn certificate(&self) -> Option<DataSource> {
        let obtained = || Some(self.acme.as_deref()?.certificate_file().into());
        self.cert_file.clone().or_else(obtained)
    }
}

impl Listener {
    /// Whether its clients may show no credentials, although it knows some.
    pub fn takes_anonymous(&self) -> bool {
        matches!(self.auth(), Some(Auth::Methods(methods)) if methods.optional)
    }

    /// Whether it is for other nodes or for clients of an origin, rather than for programs that use
    /// a proxy: it is a gateway, trusts the `user` fields of peers, or requires certificates.
    pub fn is_for_nodes(&self) -> bool {
        let only_mtls = match self.auth() {
            Some(Auth::Word(mode)) => *mode == AuthMode::Mtls,
            Some(Auth::Methods(methods)) => {
                methods.mtls && methods.basic.is_none() && methods.bearer.is_none()
            }
            None => false,
        };
        self.is_gateway() || only_mtls || !self.insecure_trust().is_empty()
    }
}

/// Who may use a listener: a word, or one or more methods of authentication (any of them suffices).
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
    /// Whether clients may show no credentials: the policy decides about them, and those that it
    /// denies are asked to authenticate. Credentials that are shown must be right. Default: false.
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
    pub file: DataSource,
    /// Realm shown to the client. Default: hermes.
    #[serde(default)]
    pub realm: Option<String>,
}

/// Bearer authentication (RFC 6750) by JSON Web Tokens.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bearer {
    /// JSON Web Key Set with the issuer's public keys.
    pub jwks_file: DataSource,
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

/// The handling of a `user` field that contradicts the authenticated identity.
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

/// Bounds of some users at one listener. The first entry that names a user counts for this one;
/// other keys are as for all users.
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
