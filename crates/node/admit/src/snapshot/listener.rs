//! The rules of one listener for its clients, compiled for use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hermes_acme::Certificates;
use hermes_config::model::{
    AcmeChallenge, Auth, AuthMode, DataSource, Datagrams, Document, FieldCase, HttpVersion,
    Listener, ListenerCongestion, ListenerKind, OneOrMany, Oversize, ServerTls, Upstream,
};
use hermes_config::{Problem, child};
use hermes_http::MinRate;
use hermes_http::server::Options;
use hermes_identity::Authenticator;
use hermes_net::quic::Congestion;
use hermes_net::tls::{self, Clients, TlsFileError, TlsServerOptions, TlsSource, TrustDomain};
use hermes_net::{PeerAddress, StreamInfo, quic, read_at_most};
use hermes_observe::{ListenerTelemetry, Telemetry};
use hermes_packet::Bounds;
use hermes_proto::uri_template::UriTemplate;

use hermes_plug::target::Forms;
use hermes_plug::{Ingress, Plugs};
use hermes_rules::judge::{is_identified, listener_user};
use hermes_rules::{UserAliases, Whom};
use hermes_upstream::{ATTACHMENT_KEEPALIVE, server_problem, tls_source};

use crate::client_address::ClientAddressRule;
use crate::fixed_target::FixedTarget;
use crate::original_target::OriginalTarget;
use crate::snapshot::limit_log::LimitLog;
use crate::snapshot::split_tunnels;

/// Connections (UDP: sessions) of one worker at once.
#[doc(alias("bound", "limits.connections"))]
const CONNECTIONS: usize = 10_000;

/// Connections of one stranger's address at once, over all workers.
#[doc(alias("bound", "limits.per_source"))]
const PER_SOURCE: usize = 1_000;

/// Sources of strangers that are needed to fill a worker, where it takes fewer connections too.
#[doc(alias("bound", "limits.per_source"))]
const SOURCES: usize = 10;

/// Sources of strangers that are needed to take all descriptors.
#[doc(alias("bound", "limits.per_source"))]
const DESCRIPTORS: usize = 8;

/// Connections that a source may always have: those that a browser opens, and some more.
#[doc(alias("bound", "limits.per_source"))]
const FEWEST_OF_SOURCE: usize = 16;

/// Users who are needed to fill a worker: they are known, and can be asked.
#[doc(alias("bound", "limits.connections_per_user"))]
const USERS: usize = 4;

/// Bytes a second that strangers must send and read, as slow clients hold streams: a modem of 1990
/// manages ten times as much.
#[doc(alias("bound", "limits.min_rate"))]
const MIN_RATE: u64 = 240;

/// How far strangers may fall behind that rate: a tunnel under a hill.
#[doc(alias("bound", "limits.rate_window"))]
const RATE_WINDOW: Duration = Duration::from_secs(20);

/// CONNECT-UDP sessions of one user at once: each costs a socket, and a resolver that opens one for
/// each question needs thousands.
#[doc(alias("bound", "limits.sessions_per_user"))]
const SESSIONS_PER_USER: usize = 4096;

/// Bytes of datagrams that wait for a tunnel: as in Envoy deployments for video.
#[doc(alias("bound", "datagrams.hold_bytes"))]
const HOLD_BYTES: usize = 160 * 1024;

/// Age of datagrams that wait for a tunnel: the connect time-out.
#[doc(alias("bound", "datagrams.hold_time"))]
const HOLD_TIME: Duration = Duration::from_secs(5);

/// How long an attachment may be without exchanges: a year stands for ever. PINGs say whether the other side is there.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Which connections count against the bound of their source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// None.
    Never,
    /// Those whose client is not known yet; this many at most.
    UntilKnown(usize),
    /// All, as long as they are open; this many at most.
    Always(usize),
}

/// The bounds of one user at a listener, over all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserBounds {
    /// Connections, of a user whom a password or token makes known.
    pub connections: usize,
    /// Exchanges.
    pub exchanges: usize,
    /// CONNECT-UDP sessions.
    pub sessions: usize,
}

/// The rules of one listener. Its socket lives elsewhere and outlives them.
pub struct ListenerRules {
    /// Its name.
    pub name: Arc<str>,
    /// Its configuration.
    pub config: Listener,
    /// Who may use it.
    pub authenticator: Authenticator,
    /// Its handshakes.
    pub tls: ListenerTls,
    /// The HTTP that it speaks.
    pub http: ListenerHttp,
    /// The user of traffic without authentication.
    pub user: Option<String>,
    /// Other names of users.
    pub aliases: Arc<UserAliases>,
    /// Its metrics.
    pub telemetry: Arc<ListenerTelemetry>,
    /// Makes exchanges of its connections, if it is a `tcp` or `socks` listener.
    pub ingress: Arc<dyn Ingress>,
    /// Logs reached bounds, not too often.
    pub(super) limit_log: LimitLog,
    /// How clients behind proxies are known.
    pub client_address: Option<ClientAddressRule>,
}

/// The handshakes of a listener.
#[derive(Default)]
pub struct ListenerTls {
    /// TLS, if the listener speaks it.
    pub server: Option<Arc<rustls::ServerConfig>>,
    /// The authorities of client certificates.
    clients: Option<Clients>,
    /// QUIC, if the listener speaks HTTP/3.
    pub quic: Option<quic::ServerOptions>,
}

/// The HTTP of a listener.
pub struct ListenerHttp {
    /// Its versions.
    pub versions: Vec<HttpVersion>,
    /// Bounds of its connections.
    pub options: Options,
    /// Templates of CONNECT-UDP beside the default one.
    udp_templates: Vec<UriTemplate>,
    /// Templates of connect-tcp beside the default one.
    tcp_templates: Vec<UriTemplate>,
}

impl ListenerRules {
    /// Whether the certificate that a client or peer showed when it connected, if it showed one, would be believed at `now`, Unix
    /// time in seconds, by these rules, which are of this revision. Asked at every exchange: the answer is kept with the connection
    /// until another revision, or until one of its certificates ends. So it does not matter whether the handshake verified them:
    /// it does not where a session was resumed.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn still_believes(
        &self,
        source: &StreamInfo,
        revision: u64,
        now: u64,
    ) -> Result<(), String> {
        let Some(chain) = source.tls.as_ref().and_then(|tls| tls.chain.as_deref()) else {
            return Ok(());
        };
        if chain.is_believed(revision, now) {
            return Ok(());
        }

        self.believes(source, now)?;
        chain.believed(revision, now);
        Ok(())
    }

    /// The same without regard to the kept answer.
    fn believes(&self, source: &StreamInfo, now: u64) -> Result<(), String> {
        // The link is this node's own; its upstream judges who is at the other end, and a change of that makes another link.
        if self.config.attach().is_some() {
            return Ok(());
        }
        let chain = source.tls.as_ref().and_then(|tls| tls.chain.as_deref());
        let (Some(clients), Some(chain)) = (&self.tls.clients, chain) else {
            return Err("certificates are not asked for any more".to_owned());
        };

        clients
            .believe(chain.certificates(), now)
            .map_err(|reason| format!("its certificate is not accepted any more: {reason}"))
    }

    /// The forms of requests that it takes.
    pub fn forms(&self) -> Forms<'_> {
        Forms {
            udp_templates: &self.http.udp_templates,
            tcp_templates: &self.http.tcp_templates,
            gateway: self.config.is_gateway(),
        }
    }

    /// Whether a stream of this listener may go on with HTTP. Without TLS it may; else ALPN must have settled on a version that is
    /// spoken here. A client without ALPN speaks HTTP/1.1.
    pub fn speaks(&self, info: &StreamInfo) -> bool {
        let Some(tls) = &info.tls else { return true };
        let version = if tls.alpn.as_deref() == Some(b"h2") {
            HttpVersion::H2
        } else {
            HttpVersion::H1
        };
        self.http.versions.contains(&version)
    }

    /// Connections (UDP: sessions) at once of one worker.
    pub fn connections(&self) -> usize {
        self.config.limits.connections.unwrap_or(CONNECTIONS)
    }

    /// UDP sessions at once of one source, over all workers.
    pub fn per_source(&self) -> usize {
        // A peer carries many users, and programs on this machine are no strangers.
        let default = if self.config.public && !self.http.options.link {
            self.of_source()
        } else {
            usize::MAX
        };
        self.config.limits.per_source.unwrap_or(default)
    }

    /// Which connections from `peer` count against its bound of connections at once, over all workers.
    pub fn counted(&self, peer: &PeerAddress) -> Counted {
        // Its clients are counted instead.
        let rule = self.client_address.as_ref();
        if rule.is_some_and(|rule| rule.is_of_proxy(peer)) {
            return Counted::Never;
        }
        if let Some(stated) = self.config.limits.per_source {
            return Counted::Always(stated);
        }
        let identifies = self.authenticator.asks() || self.tls.clients.is_some();
        match () {
            // A peer carries many users, and programs on this machine are no strangers.
            () if self.is_trusted(peer) => Counted::Never,
            () if identifies => Counted::UntilKnown(self.of_source()),
            () if self.config.public => Counted::Always(self.of_source()),
            () => Counted::Never,
        }
    }

    /// Connections of one source, where the configuration says nothing.
    fn of_source(&self) -> usize {
        let descriptors = hermes_net::descriptors::ceiling() / DESCRIPTORS;
        (self.connections() / SOURCES)
            .clamp(FEWEST_OF_SOURCE, PER_SOURCE)
            .min(descriptors)
            .max(1)
    }

    /// The bounds of one user, over all workers; `whom` names the user where that matters.
    pub fn user_bounds<'a>(&self, whom: impl FnOnce() -> Whom<'a>) -> UserBounds {
        let limits = &self.config.limits;
        let own = match limits.users.as_slice() {
            [] => None,
            users => {
                let whom = whom();
                users.iter().find(|own| whom.is_meant(&own.user))
            }
        };

        let connections = own
            .and_then(|own| own.connections_per_user)
            .or(limits.connections_per_user)
            .unwrap_or((self.connections() / USERS).max(FEWEST_OF_SOURCE));
        let exchanges = own.and_then(|own| own.per_user).or(limits.per_user);
        let sessions = own
            .and_then(|own| own.sessions_per_user)
            .or(limits.sessions_per_user);

        UserBounds {
            connections,
            exchanges: exchanges.unwrap_or(usize::MAX),
            sessions: sessions.unwrap_or_else(|| self.default_sessions()),
        }
    }

    /// As decisions see it.
    pub fn entrance(&self) -> hermes_rules::judge::Entrance<'_> {
        hermes_rules::judge::Entrance {
            name: &self.name,
            config: &self.config,
            user: self.user.as_deref(),
        }
    }

    /// Whether `insecure_trust` names the address.
    pub fn is_trusted(&self, peer: &PeerAddress) -> bool {
        peer.ip().is_some_and(|ip| {
            let ip = ip.to_canonical();
            self.config
                .insecure_trust()
                .iter()
                .any(|prefix| prefix.contains(&ip))
        })
    }

    /// Bounds of a connection of HTTP from `source`: those of a link for a peer, those of strangers for others at the same port.
    pub fn options_for(&self, source: &StreamInfo) -> Options {
        let mut options = self.http.options.clone();
        let certified = source
            .tls
            .as_ref()
            .is_some_and(|tls| tls.certificate.is_some());
        if options.link && !certified && !self.is_trusted(&source.peer) {
            options.link = false;
            options.min_rate = min_rate(&self.config, false);
        }

        options
    }

    /// CONNECT-UDP sessions of one user, where the configuration says nothing.
    fn default_sessions(&self) -> usize {
        match self.config.kind {
            ListenerKind::Http(_) | ListenerKind::Socks(_) | ListenerKind::Attach(_) => {
                SESSIONS_PER_USER
            }
            // Each captured network has bounds of its own.
            ListenerKind::Tcp(_)
            | ListenerKind::Udp(_)
            | ListenerKind::Tun(_)
            | ListenerKind::Capture(_) => usize::MAX,
        }
    }

    /// Notes that a source has reached its bound.
    pub fn source_refused(&self, peer: &PeerAddress) {
        tracing::debug!(listener = %self.name, %peer, "refused: limits.per_source is reached");
    }

    /// The handling of datagrams that are too large for QUIC datagrams: by `route`, else by the listener.
    pub fn oversize(&self, route: Option<&Datagrams>) -> Oversize {
        let stated = route.and_then(|route| route.oversize);
        stated
            .or_else(|| self.datagrams()?.oversize)
            .unwrap_or_default()
    }

    /// The settings for datagrams of a UDP port.
    fn datagrams(&self) -> Option<&Datagrams> {
        self.config.udp()?.datagrams.as_ref()
    }

    /// Bounds on datagrams that wait for a tunnel: those of `route`, else of the listener.
    pub fn datagram_bounds(&self, route: Option<&Datagrams>) -> Bounds {
        let own = self.datagrams();
        let bytes = route
            .and_then(|route| route.hold_bytes)
            .or(own.and_then(|own| own.hold_bytes));
        let age = route
            .and_then(|route| route.hold_time)
            .or(own.and_then(|own| own.hold_time));

        Bounds {
            bytes: bytes.map_or(HOLD_BYTES, |bytes| {
                usize::try_from(bytes.0).unwrap_or(HOLD_BYTES)
            }),
            age: age.map_or(HOLD_TIME, |age| age.0),
        }
    }
}

/// Whether a client that shook hands is an authority that looks for its challenge: there is nothing more to say (RFC 8737 section 3).
pub fn is_challenge(info: &StreamInfo) -> bool {
    let alpn = info.tls.as_ref().and_then(|tls| tls.alpn.as_deref());
    alpn == Some(hermes_acme::ALPN)
}

/// Compiles listeners.
pub(super) struct Building<'a> {
    pub document: &'a Document,
    /// Those before.
    pub previous: Option<&'a HashMap<Arc<str>, Arc<ListenerRules>>>,
    pub telemetry: &'a Arc<Telemetry>,
    pub record: &'a quic::Record,
    /// Those that the node obtains itself.
    pub certificates: &'a Certificates,
    pub plugs: &'a Plugs,
}

impl Building<'_> {
    /// Makes all listeners of the document ready; those with mistakes are reported and left out.
    pub fn all(&self, problems: &mut Vec<Problem>) -> HashMap<Arc<str>, Arc<ListenerRules>> {
        let listeners = self.document.listeners.iter();
        let aliases = Arc::new(UserAliases::new(&self.document.users));
        let mut all = HashMap::new();
        for (name, config) in listeners {
            if let Some(rules) = self.one(name, config, &aliases, problems) {
                all.insert(rules.name.clone(), Arc::new(rules));
            }
            for (tunnel, config) in split_tunnels::listeners(config) {
                // The problems of the listener are known.
                let rules = self.one(name, &config, &aliases, &mut Vec::new());
                let key = split_tunnels::key(name, tunnel);
                all.extend(rules.map(|rules| (key.into(), Arc::new(rules))));
            }
        }
        all
    }

    /// The ingress of a listener's connections. A name that no plug has, or wrong settings, are reported with the others.
    fn ingress(&self, config: &Listener) -> Option<Arc<dyn Ingress>> {
        match config.ingress() {
            Some(named) => self.plugs.ingresses.named("ingress", named).ok(),
            None if config.host_capture().is_some() => Some(Arc::new(OriginalTarget)),
            None => Some(Arc::new(FixedTarget)),
        }
    }

    fn one(
        &self,
        name: &str,
        config: &Listener,
        aliases: &Arc<UserAliases>,
        problems: &mut Vec<Problem>,
    ) -> Option<ListenerRules> {
        let path = child("listeners", name);
        let known = self.previous.and_then(|previous| previous.get(name));
        let known = known.map(|known| &known.authenticator);
        let authenticator = Authenticator::build(config, &path, known);
        let versions = hermes_rules::versions(self.document, config);
        let tls = ListenerTls::read(config, &child(&path, "tls"), &versions, self.certificates);

        // Both are looked at before either fails: all mistakes are reported at once.
        let mut report = |found: Vec<Problem>| problems.extend(found);
        let authenticator = authenticator.map_err(&mut report);
        let tls = tls.map_err(report);
        let authenticator = authenticator.ok()?;
        let mut tls = tls.ok()?;

        let ingress = self.ingress(config)?;
        if versions.contains(&HttpVersion::H3) {
            let server = tls.server.as_ref();
            tls.quic = server
                .and_then(|server| quic_options(server, config, self.certificates, self.record));
        }
        let written = config.http().and_then(|http| http.templates.as_ref());
        let name: Arc<str> = name.into();
        let telemetry = self.telemetry.listener(&name);

        Some(ListenerRules {
            client_address: ClientAddressRule::of(config, &name, &telemetry),
            telemetry,
            name,
            authenticator,
            tls,
            http: ListenerHttp {
                versions,
                options: options_of(self.document, config),
                udp_templates: templates(written.and_then(|written| written.udp.as_ref())),
                tcp_templates: templates(written.and_then(|written| written.tcp.as_ref())),
            },
            user: listener_user(self.document, config),
            aliases: aliases.clone(),
            config: config.clone(),
            ingress,
            limit_log: LimitLog::default(),
        })
    }
}

impl ListenerTls {
    /// Reads the files.
    fn read(
        config: &Listener,
        path: &str,
        versions: &[HttpVersion],
        certificates: &Certificates,
    ) -> Result<Self, Vec<Problem>> {
        let Some(tls) = config.tls() else {
            return Ok(Self::default());
        };

        // First, since the server's own verifier does not keep the lists of revoked certificates.
        let clients = tls
            .client_ca_file
            .as_ref()
            .map(|authorities| {
                let authorities = tls_source(authorities);
                Clients::read(authorities, &trust_domains(tls), &revocation_lists(tls))
            })
            .transpose();
        // It reads the same files: their problems are reported there.
        let unreadable = unreadable(path, tls);
        if !unreadable.is_empty() {
            return Err(unreadable);
        }
        let server = server_tls(tls, config, versions, certificates);
        let server = server.map_err(|error| {
            let problem = |error| server_problem(path, error);
            error.map(problem).into_iter().collect::<Vec<_>>()
        })?;
        let clients = clients.map_err(|error| vec![server_problem(path, error)])?;

        Ok(Self {
            server: Some(server),
            clients,
            quic: None,
        })
    }
}

/// The valid templates; `lint` has reported the others.
fn templates(texts: Option<&OneOrMany<String>>) -> Vec<UriTemplate> {
    texts
        .into_iter()
        .flatten()
        .filter_map(|text| UriTemplate::parse(text).ok())
        .collect()
}

fn server_tls(
    tls: &ServerTls,
    config: &Listener,
    versions: &[HttpVersion],
    certificates: &Certificates,
) -> Result<Arc<rustls::ServerConfig>, Option<TlsFileError>> {
    let alpn = application_protocols(tls, versions);
    let shown = tls.certificate();
    // `lint` has said that there is none.
    let (Some(certificate), Some(key)) = (&shown, tls.key_file.as_ref().or(shown.as_ref())) else {
        return Err(None);
    };
    let options = TlsServerOptions {
        certificate: tls_source(certificate),
        key: tls_source(key),
        client_authorities: tls.client_ca_file.as_ref().map(tls_source),
        client_domains: &trust_domains(tls),
        client_revocation_lists: &revocation_lists(tls),
        client_required: requires_certificate(config.auth()),
        alpn: &alpn,
    };

    // A problem with the folder of obtained certificates was reported.
    let made = made(tls, options, certificates).ok_or(None)?;
    made.map_err(Some)
}

/// The files that cannot be opened: TLS stops at the first of them.
fn unreadable(path: &str, tls: &ServerTls) -> Vec<Problem> {
    let problem = |(key, source): (&str, &DataSource)| {
        let error = std::fs::File::open(&source.file()?.0).err()?;
        Some(Problem::new(child(path, key), format!("{source}: {error}")))
    };
    tls.sources().filter_map(problem).collect()
}

fn trust_domains(tls: &ServerTls) -> Vec<TrustDomain<'_>> {
    let domains = tls.client_domains.iter();
    let domains = domains.map(|(name, authorities)| TrustDomain {
        name,
        authorities: tls_source(authorities),
    });
    domains.collect()
}

fn revocation_lists(tls: &ServerTls) -> Vec<TlsSource<'_>> {
    tls.crl_file.iter().flatten().map(tls_source).collect()
}

/// HTTP/3 with the same TLS. The keys of its port come from the private key, so that they outlive the process.
fn quic_options(
    tls: &Arc<rustls::ServerConfig>,
    config: &Listener,
    certificates: &Certificates,
    record: &quic::Record,
) -> Option<quic::ServerOptions> {
    let files = config.tls()?;
    let secret = match &files.acme {
        // Its key changes with each renewal.
        Some(acme) => certificates.find(acme)?.secret().map(String::into_bytes),
        None => files.key_file.as_ref()?.either(
            |file| read_at_most(file, tls::FILE_BYTES).ok(),
            |text| Some(text.as_bytes().to_vec()),
        ),
    };
    let keys = secret.map_or_else(quic::Keys::random, |secret| quic::Keys::derive(&secret));

    let usual = quic::ServerOptions::new(tls.clone(), keys);
    // A number that the handshake allows cannot be lowered later.
    let streams = options(config).streams;
    Some(quic::ServerOptions {
        early_data: files.early_data,
        streams,
        congestion: match config.congestion {
            Some(ListenerCongestion::Bbr) => Congestion::Bbr,
            Some(ListenerCongestion::Cubic) | None => Congestion::Cubic,
        },
        record: record.clone(),
        ..usual
    })
}

/// The configuration of TLS, with a certificate from files or from an authority; `None` if there is no folder for the latter.
fn made(
    tls: &ServerTls,
    options: TlsServerOptions<'_>,
    certificates: &Certificates,
) -> Option<Result<Arc<rustls::ServerConfig>, TlsFileError>> {
    Some(match &tls.acme {
        None => tls::server(options),
        Some(acme) => tls::server_by(certificates.find(acme)?, options),
    })
}

/// The protocols that a client can agree to, over TCP.
fn application_protocols(tls: &ServerTls, versions: &[HttpVersion]) -> Vec<&'static [u8]> {
    let spoken = [
        (HttpVersion::H2, b"h2".as_slice()),
        (HttpVersion::H1, b"http/1.1"),
    ];
    let versions = spoken
        .into_iter()
        .filter(|(version, _)| versions.contains(version))
        .map(|(_, id)| id);
    let asked = tls.acme.as_deref();
    let by_handshake = asked.filter(|acme| acme.challenge == AcmeChallenge::TlsAlpn01);

    versions
        .chain(by_handshake.map(|_| hermes_acme::ALPN))
        .collect()
}

/// A certificate is the only way in.
fn requires_certificate(auth: Option<&Auth>) -> bool {
    match auth {
        None | Some(Auth::Word(AuthMode::None)) => false,
        Some(Auth::Word(AuthMode::Mtls)) => true,
        Some(Auth::Methods(ways)) => ways.mtls && ways.basic.is_none() && ways.bearer.is_none(),
    }
}

fn options_of(document: &Document, config: &Listener) -> Options {
    let mut options = options(config);
    // Which upstream a request goes to is not known before it is read.
    let preserves = |upstream: &Upstream| upstream.field_case == FieldCase::Preserve;
    options.head.keeps_spelling = document.upstreams.values().any(preserves);
    options
}

fn options(config: &Listener) -> Options {
    let mut options = Options::default();
    let limits = &config.limits;
    if let Some(bytes) = limits.head_bytes {
        options.head.head_bytes = usize::try_from(bytes.0).unwrap_or(usize::MAX);
    }

    if let Some(bytes) = limits.trailer_bytes {
        options.head.trailer_bytes = usize::try_from(bytes.0).unwrap_or(usize::MAX);
    }

    options.head.fields = limits.fields.unwrap_or(options.head.fields);
    options.head_time = limits.head_time.map_or(options.head_time, |time| time.0);
    options.idle_time = limits.idle_time.map_or(options.idle_time, |time| time.0);

    // This node opened the connection itself, so bounds against strangers do not apply.
    if config.attach().is_some() {
        (options.link, options.idle_time) = (true, NEVER);
        options.keepalive = Some(ATTACHMENT_KEEPALIVE);
        options.streams = limits.streams.unwrap_or(options.streams);
        return options;
    }

    options.link = config.tls().is_some_and(|tls| tls.client_ca_file.is_some())
        || !config.insecure_trust().is_empty();
    options.streams = limits.streams.unwrap_or(options.streams);
    options.half_close = config.http().is_some_and(|http| http.half_close);
    options.min_rate = min_rate(config, options.link);

    options
}

/// How fast clients must be: strangers by default, links and programs on this machine only if the configuration says so.
fn min_rate(config: &Listener, link: bool) -> Option<MinRate> {
    let default = ((config.public || is_identified(config)) && !link).then_some(MIN_RATE);
    let rate = config
        .limits
        .min_rate
        .map_or(default, |rate| Some(rate.0))
        .filter(|rate| *rate > 0)?;

    Some(MinRate {
        rate,
        window: config
            .limits
            .rate_window
            .map_or(RATE_WINDOW, |window| window.0),
    })
}

#[cfg(test)]
mod tests {
    use hermes_config::model::{ByteSize, Limits};
    use serde_json::{Value, json};

    use super::*;

    fn listener(public: bool, limits: Limits) -> Listener {
        Listener {
            limits,
            ..http(json!({ "public": public }))
        }
    }

    fn http(mut keys: Value) -> Listener {
        keys["http"] = json!("127.0.0.1:0");
        serde_json::from_value(keys).unwrap()
    }

    #[test]
    fn strangers_are_held_to_a_rate_and_links_and_programs_here_are_not() {
        let strangers = Some(MinRate {
            rate: MIN_RATE,
            window: RATE_WINDOW,
        });
        assert_eq!(
            options(&listener(true, Limits::default())).min_rate,
            strangers
        );
        assert_eq!(options(&listener(false, Limits::default())).min_rate, None);
        let trusted = http(json!({ "public": true, "insecure_trust": "10.0.0.0/8" }));
        assert_eq!(options(&trusted).min_rate, None);
        let asked = http(json!({ "auth": { "mtls": true } }));
        assert_eq!(
            options(&asked).min_rate,
            strangers,
            "a client that is asked is a stranger until then"
        );
    }

    #[test]
    fn a_stated_rate_counts_everywhere_and_zero_is_no_bound() {
        let stated = |rate| Limits {
            min_rate: Some(ByteSize(rate)),
            ..Limits::default()
        };
        assert_eq!(
            options(&listener(false, stated(9))).min_rate,
            Some(MinRate {
                rate: 9,
                window: RATE_WINDOW
            })
        );
        assert_eq!(options(&listener(true, stated(0))).min_rate, None);
    }
}
